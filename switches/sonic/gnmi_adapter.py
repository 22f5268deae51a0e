"""The adapter to a SONiC switch through its gNMI server.

A change is one SetRequest, which the switch checks, applies and saves as one transaction.

Source: sonic-net/sonic-gnmi, ``sonic_data_client/mixed_db_client.go`` (read at 5ec1c20, 2026-08). A path is
origin ``sonic-db``, then database, ``localhost`` (or ``asic0``), table, key, field. Get reads any database of
the switch, with type ALL; Set takes CONFIG_DB only, and is one transaction: one patch, checked against YANG,
applied by the generic configuration updater and saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec

from switches.adapter import Waiting, check_apply_allowed, check_undo_allowed, recorded, set_by_others
from switches.base import Capabilities, QueueWatermark, StagedChange, Wanted
from switches.device import Device, options_of
from switches.errors import CapabilityError, unreadable
from switches.lossless import LosslessReading
from switches.sonic.adapter import Look, Plan, SonicBase, check_rows
from switches.sonic.databases import FIELD, PREFIX, PROFILE, Config, Hardware, Setting, bindings_of, matched
from switches.sonic.lossless import BUFFERS, CONFIG
from switches.sonic.lossless import Tables as LosslessTables
from switches.sonic.wred_profile import mark_fields
from switches.transport.gnmi import GnmiOptions, GnmiSession
from switches.transport.gnmi_messages import GnmiPath
from switches.units import Rounded

ORIGIN = "sonic-db"
PORT = 8080  # what the switch's own start script takes where CONFIG_DB names none
_CONFIG, _ASIC, _COUNTERS, _APPLICATION = "CONFIG_DB", "ASIC_DB", "COUNTERS_DB", "APPL_DB"
_QUEUES, _PROFILES = PREFIX.rstrip("|"), PROFILE.rstrip("|")
_QUEUE_OBJECTS, _WRED_OBJECTS = "SAI_OBJECT_TYPE_QUEUE", "SAI_OBJECT_TYPE_WRED"
_BOUND = "SAI_QUEUE_ATTR_WRED_PROFILE_ID"

Table = dict[str, dict[str, str]]


class Tables:
    """The tables of the switch, or of one of its ASICs (``namespace``)."""

    def __init__(self, device: Device, session: GnmiSession, namespace: str) -> None:
        self._device = device
        self._session = session
        self._namespace = namespace

    def config(self, wanted: Wanted | None = None) -> Config:
        """CONFIG_DB; ``wanted`` as in ``bindings_of``, and raises as that."""
        queues = {PREFIX + key: row for key, row in self._table(_CONFIG, _QUEUES).items()}
        return Config(queues, self._table(_CONFIG, _PROFILES), bindings_of(self._device, queues, wanted))

    def queue_objects(self, *, of_chassis: bool) -> dict[str, str]:
        """The object of each queue, by its name such as ``Ethernet0:3``; empty where counters are off."""
        name = "COUNTERS_VOQ_NAME_MAP" if of_chassis else "COUNTERS_QUEUE_NAME_MAP"
        found = self._get(_COUNTERS, name)
        with self._readable(name):
            return _row(found)

    def wred_of_queues(self) -> dict[str, str]:
        """The WRED object of each queue's object."""
        rows = self._table(_ASIC, f"ASIC_STATE:{_QUEUE_OBJECTS}")
        return {
            key.removeprefix(f"{_QUEUE_OBJECTS}:"): row[_BOUND] for key, row in rows.items() if _BOUND in row
        }

    def wred_objects(self) -> Table:
        rows = self._table(_ASIC, f"ASIC_STATE:{_WRED_OBJECTS}")
        return {key.removeprefix(f"{_WRED_OBJECTS}:"): row for key, row in rows.items()}

    def lossless(self) -> tuple[LosslessTables, LosslessTables]:
        """The tables of CONFIG_DB and APPL_DB that ``sonic_ports`` reads."""
        config = {name: self._table(_CONFIG, name) for name in CONFIG}
        buffers = {
            name: {
                key.replace(":", "|"): row for key, row in self._table(_APPLICATION, f"{name}_TABLE").items()
            }
            for name in BUFFERS
        }
        return config, buffers

    def set(self, config: Config, wanted: Setting, *, without: list[str] | None = None) -> None:
        """Turns ``config`` into ``wanted`` in one SetRequest, ``without`` these profiles; none where nothing
        differs.

        A field that is there is replaced and one that is not is added: a patch tells the two apart.
        """
        delete = [self._path(_PROFILES, name) for name in without or []]
        replace: list[tuple[GnmiPath, Any]] = []
        update: list[tuple[GnmiPath, Any]] = []
        new = {name: row for name, row in wanted.profiles.items() if name not in config.profiles}
        if new and not config.profiles:
            update.append((self._path(_PROFILES), new))
        else:
            update += [(self._path(_PROFILES, name), row) for name, row in new.items()]
        for name, row in wanted.profiles.items():
            if name in config.profiles:
                self._edit((_PROFILES, name), config.profiles[name], row, delete, replace, update)
        for key, bound in wanted.bound.items():
            has = {name: value for name, value in config.queues.get(key, {}).items() if name == FIELD}
            fields = {} if bound is None else {FIELD: bound}
            self._edit((_QUEUES, key.removeprefix(PREFIX)), has, fields, delete, replace, update)
        if delete or replace or update:
            self._session.set(delete=delete, replace=replace, update=update)

    def wait_for_turn(self, config: Config) -> None:
        """Replaces a field of the device's by what it is: done once every Set before it is.

        The server ends no patch with its call, and waits 600 s for it (``ApplyPatchDb`` of
        ``sonic_service_client/dbus_client.go``, read at 00e8eef).
        """
        for binding in config.bindings:
            # Preferably none that such a patch may have changed meanwhile.
            for field, value in sorted(config.queues[binding.key].items(), key=lambda one: one[0] == FIELD):
                path = self._path(_QUEUES, binding.key.removeprefix(PREFIX), field)
                self._session.set(replace=[(path, value)])
                return

    def remove(self, profiles: list[str]) -> None:
        self._session.set(delete=[self._path(_PROFILES, name) for name in profiles])

    def _edit(
        self,
        where: tuple[str, str],
        has: Mapping[str, str],
        wanted: Mapping[str, str],
        delete: list[GnmiPath],
        replace: list[tuple[GnmiPath, Any]],
        update: list[tuple[GnmiPath, Any]],
    ) -> None:
        delete += [self._path(*where, field) for field in has if field not in wanted]
        for field, value in wanted.items():
            if field not in has:
                update.append((self._path(*where, field), value))
            elif has[field] != value:
                replace.append((self._path(*where, field), value))

    def _path(self, *elems: str) -> GnmiPath:
        return self._at(_CONFIG, *elems)

    def _at(self, database: str, *elems: str) -> GnmiPath:
        return GnmiPath.of(database, self._namespace, *elems, origin=ORIGIN)

    def _table(self, database: str, table: str) -> Table:
        found = self._get(database, table)
        with self._readable(table):
            return {key: _row(row) for key, row in found.items()}

    def _get(self, database: str, table: str) -> Mapping[str, Any]:
        """One table a call: NOT_FOUND, the answer for an empty table, would fail all of them."""
        values = self._session.get([self._at(database, table)])
        with self._readable(table):
            found: dict[str, Any] = {}
            for one in values:
                if not isinstance(one.value, dict):
                    raise ValueError("no rows")
                found |= one.value
            return found

    @contextmanager
    def _readable(self, table: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            rule = "a table is rows of fields by key, and a field a text"
            raise unreadable(self._device.where, error, rule, what=f"table {table}") from error


def _row(value: Any) -> dict[str, str]:
    """A row as in CONFIG_DB, without lists of values."""
    if not isinstance(value, Mapping):
        raise ValueError("a row without fields")
    return {str(name): text for name, text in value.items() if isinstance(text, str)}


class SonicGnmiOptions(GnmiOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``replace_only``: edits the profile of the queues, in the three fields that images before 2026 let a
    patch change. ``read_back``: the source of a reading. ``asic_rounding_bytes``: the largest difference of a
    threshold in hardware from the configured one. ``namespace``: which ASIC of several.
    """

    replace_only: bool = False
    read_back: Literal["asic", "config"] = "asic"
    asic_rounding_bytes: Annotated[int, msgspec.Meta(ge=0)] = 256
    namespace: str = "localhost"
    set_timeout_s: float = 60.0  # a patch is sorted and checked against YANG: tens of seconds on a small CPU


class SonicGnmiAdapter(SonicBase):
    kind = "sonic-gnmi"
    unseen_remedy = "check orchagent's log; let read_back be config where gNMI shows no ASIC_DB"
    differs_remedy = (
        "check orchagent's log on the switch, or let asic_rounding_bytes be what hardware rounds by"
    )

    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], waiting: Waiting | None = None
    ) -> None:
        self._options = options_of(device, SonicGnmiOptions)
        super().__init__(
            device, clock_ns=clock_ns, own_profile=not self._options.replace_only, waiting=waiting
        )
        self._session = GnmiSession(device, self._options, default_port=PORT)
        self._tables = Tables(device, self._session, self._options.namespace)

    def capabilities(self) -> Capabilities:
        found = super().capabilities()
        if self._options.read_back == "asic":
            return found
        return replace(found, read_back="CONFIG_DB: what was asked, not what runs")

    def read_lossless(self) -> LosslessReading:
        return self._lossless(*self._tables.lossless())

    def apply(self, change: StagedChange) -> None:
        plan, config = recorded(change, Plan, self._device.where), self._tables.config()
        asked = self._asked(config)
        if change.made_in(asked):
            return
        check_apply_allowed(change, asked, self._device.where)
        check_rows(plan, config, self._device.where)
        hardware = self._hardware(asked.queues)
        spare = self._spare(config, hardware, asked, plan) if self._own_profile else []
        self._tables.set(config, plan.after, without=spare)

    def rollback(self, change: StagedChange) -> None:
        where, plan = self._device.where, recorded(change, Plan, self._device.where)
        with set_by_others():
            config = self._tables.config(change.its_queues())
            asked = self._asked(config)
            if change.changes and change.undone_in(asked):
                self._tables.wait_for_turn(config)  # a Set whose answer never came may be on its way
                config = self._tables.config(change.its_queues())
                asked = self._asked(config)
        if not change.undone_in(asked):
            check_undo_allowed(change, asked, where)
            left = plan.left_in(config, where)
            check_rows(left, config, where)
            self._tables.set(config, left.before)
        config = self._undone(self._look, change)
        unused = [name for name in plan.made if name in config.profiles and not config.referring(name)]
        if unused:
            self._tables.remove(unused)

    def close(self) -> None:
        self._session.close()

    @contextmanager
    def _connected(self) -> Iterator[Look]:
        yield self._look

    def _look(self, wanted: Wanted | None) -> tuple[Config, Hardware]:
        config = self._tables.config(wanted)
        return config, self._hardware(config.asked(self._device))

    def _plan(self, config: Config, rounded: Rounded) -> Plan:
        plan = super()._plan(config, rounded)
        return self._replacing(plan) if self._options.replace_only else plan

    def _hardware(self, asked: Sequence[QueueWatermark]) -> Hardware:
        if self._options.read_back == "config":
            return Hardware(tuple(asked), ())
        named: dict[str, str] = {}
        for of_chassis in sorted({"|" in queue.port for queue in asked}):
            named |= self._tables.queue_objects(of_chassis=of_chassis)
        objects = [named.get(f"{queue.port}:{queue.queue}") for queue in asked]
        known = {number: oid for number, oid in enumerate(objects) if oid is not None}
        bound = self._tables.wred_of_queues() if known else {}
        wred_of: Mapping[int, str | None] = {number: bound.get(oid) for number, oid in known.items()}
        return matched(asked, wred_of, self._tables.wred_objects(), self._options.asic_rounding_bytes)

    def _replacing(self, plan: Plan) -> Plan:
        """The plan with green's values replaced only; raises ``CapabilityError`` where more is needed."""
        profiles = {}
        for name, was in plan.before.profiles.items():
            becomes = plan.after.profiles[name]
            for field in ("wred_green_enable", "ecn"):
                if was.get(field) != becomes[field]:
                    raise CapabilityError(
                        f"{self._device.where} WRED_PROFILE|{name}",
                        f"{field} {was.get(field, 'not set')}",
                        "with replace_only, the profile marks green already",
                        "set it on the switch once, or drop replace_only where the image is of 2026 or later",
                    )
            profiles[name] = was | {field: becomes[field] for field in mark_fields(was)}
        return Plan(plan.before, Setting(plan.after.bound, profiles))

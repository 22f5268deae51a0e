"""Tables of a SONiC switch through its gNMI server, and setting CONFIG_DB.

Source: sonic-net/sonic-gnmi, ``sonic_data_client/mixed_db_client.go`` (read at 5ec1c20, 2026-08). A path is
origin ``sonic-db``, then database, ``localhost`` (or ``asic0``), table, key, field. Get reads any database of
the switch, with type ALL; Set takes CONFIG_DB only, and is one transaction: one patch, checked against YANG,
applied by the generic configuration updater and saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from switches.device import Device
from switches.errors import unreadable
from switches.sonic.databases import FIELD, PREFIX, PROFILE, Config, Setting, bindings_of
from switches.transport.gnmi import GnmiSession
from switches.transport.gnmi_messages import GnmiPath

ORIGIN = "sonic-db"
_CONFIG, _ASIC, _COUNTERS = "CONFIG_DB", "ASIC_DB", "COUNTERS_DB"
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

    def config(self) -> Config:
        """CONFIG_DB; raises as ``bindings_of``."""
        queues = {PREFIX + key: row for key, row in self._table(_CONFIG, _QUEUES).items()}
        return Config(queues, self._table(_CONFIG, _PROFILES), bindings_of(self._device, queues))

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

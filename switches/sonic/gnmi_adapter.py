"""The adapter to a SONiC switch through its gNMI server.

A change is one SetRequest, which the switch checks, applies and saves as one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from switches.adapter import check_apply_allowed, check_undo_allowed, recorded
from switches.base import Capabilities, QueueWatermark, StagedChange
from switches.device import Device, options_of
from switches.errors import CapabilityError
from switches.read_back import Waiting
from switches.sonic.adapter import Look, Plan, SonicBase, check_rows
from switches.sonic.databases import Config, Hardware, Setting, matched
from switches.sonic.gnmi_tables import Tables
from switches.sonic.wred_profile import mark_fields
from switches.transport.gnmi import GnmiOptions, GnmiSession
from switches.units import Rounded

PORT = 8080  # what the switch's own start script takes where CONFIG_DB names none


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
    """One switch at the device's ``address``. ``clock_ns`` gives wall-clock nanoseconds since 1970."""

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
        plan, config = recorded(change, Plan, self._device.where), self._tables.config()
        asked = self._asked(config)
        if not change.undone_in(asked):
            check_undo_allowed(change, asked, self._device.where)
            check_rows(plan, config, self._device.where)
            self._tables.set(config, plan.before)
        config = self._undone(self._look, change)
        unused = [name for name in plan.made if name in config.profiles and not config.referring(name)]
        if unused:
            self._tables.remove(unused)

    def close(self) -> None:
        self._session.close()

    @contextmanager
    def _connected(self) -> Iterator[Look]:
        yield self._look

    def _look(self) -> tuple[Config, Hardware]:
        config = self._tables.config()
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
            becomes, fields = plan.after.profiles[name], mark_fields(was)
            for field in ("wred_green_enable", "ecn"):
                if was.get(field) != becomes[field]:
                    raise CapabilityError(
                        f"{self._device.where} WRED_PROFILE|{name}",
                        f"{field} {was.get(field, 'not set')}",
                        "with replace_only, the profile marks green already",
                        "set it on the switch once, or drop replace_only where the image is of 2026 or later",
                    )
            profiles[name] = was | {
                field: becomes[field] for field in (fields.kmin, fields.kmax, fields.pmax)
            }
        return Plan(plan.before, Setting(plan.after.bound, profiles))

"""The adapter to a SONiC switch through its gNMI server; sets nothing but WRED_PROFILE and ``wred_profile``.

What a change does to CONFIG_DB is as over redis (``switches.sonic``); it gets there as one SetRequest, which
the switch checks, applies and saves as one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from switches.changes import check_nobody_else, left_alone, recorded, staged
from switches.device import Device, options_of
from switches.errors import CapabilityError, ReadBackError
from switches.read_back import Waiting
from switches.sonic.asic_db import Hardware, matched
from switches.sonic.config_db import Config, Setting
from switches.sonic.gnmi_tables import Tables
from switches.sonic.plan import Plan, check_rows, planned
from switches.sonic.wred_profile import UNITS, mark_fields, own_prefix
from switches.transport.gnmi import GnmiOptions, GnmiSession
from switches.units import to_device
from twin.watermark import Watermark

PORT = 8080  # what the switch's own start script takes where CONFIG_DB names none


class SonicGnmiOptions(GnmiOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``replace_only``: the profile that the queues are bound to is edited, in the three fields that images
    before 2026 let a patch change. ``read_back``: where a reading is from. ``asic_rounding_bytes``: by how
    much a threshold in hardware may differ from the one asked for. ``namespace``: which ASIC of several.
    """

    replace_only: bool = False
    read_back: Literal["asic", "config"] = "asic"
    asic_rounding_bytes: Annotated[int, msgspec.Meta(ge=0)] = 256
    namespace: str = "localhost"
    set_timeout_s: float = 60.0  # a patch is sorted and checked against YANG: tens of seconds on a small CPU


class SonicGnmiAdapter:
    """One switch at the device's ``address``. ``clock_ns`` gives wall-clock nanoseconds since 1970."""

    def __init__(
        self, device: Device, *, clock_ns: Callable[[], int], waiting: Waiting | None = None
    ) -> None:
        self.switch = device.name
        self._device = device
        self._clock_ns = clock_ns
        self._waiting = waiting or Waiting()
        self._options = options_of(device, SonicGnmiOptions)
        self._session = GnmiSession(device, self._options, default_port=PORT)
        self._tables = Tables(device, self._session, self._options.namespace)

    def capabilities(self) -> Capabilities:
        own = not self._options.replace_only
        from_asic = self._options.read_back == "asic"
        return Capabilities(
            kind="sonic-gnmi",
            writes=True,
            per="queue" if own else "profile",
            units=UNITS,
            atomic=own,
            undo="the queues are bound to their old profile" if own else "the profile is edited back",
            read_back="ASIC_DB" if from_asic else "CONFIG_DB: what was asked, not what runs",
        )

    def read(self) -> Reading:
        _, running = self._hardware(lambda asked, running: True, self._device.timeout_s)
        return running

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        rounded = to_device(watermark, UNITS)
        config, running = self._hardware(
            lambda asked, running: asked.queues == running.queues, self._device.timeout_s
        )
        asked = self._asked(config)
        if asked.queues != running.queues:
            raise self._not_running(running, f"hardware runs what CONFIG_DB asks for ({_shown(asked)})")
        plan = planned(self._device, config, rounded, own_profile=not self._options.replace_only)
        if self._options.replace_only:
            plan = self._replacing(plan)
        return staged(change_id, running, watermark, rounded, msgspec.to_builtins(plan))

    def apply(self, change: StagedChange) -> None:
        plan, config = recorded(change, Plan, self._device.where), self._tables.config()
        asked = self._asked(config)
        if change.made_in(asked):
            return
        check_nobody_else(change, asked, self._device.where)
        check_rows(plan, config, self._device.where)
        hardware = self._running(asked.queues)
        spare: list[str] = []
        if hardware.queues == asked.queues and not hardware.unconfirmed and not self._options.replace_only:
            # orchagent keeps a profile that is removed while a queue runs it, and then takes it no more.
            kept = [*plan.before.profiles, *plan.after.profiles]
            spare = config.spare(own_prefix(self._device.queues, self._device.ports), keeping=kept)
        self._tables.set(config, plan.after, without=spare)

    def verify(self, change: StagedChange) -> Reading:
        _, running = self._hardware(
            lambda asked, running: change.made_in(running) or not change.made_in(asked), self._device.settle_s
        )
        if not change.made_in(running):
            raise self._not_running(running, f"after applying, every queue must run {change.after}")
        return running

    def confirm(self, change: StagedChange) -> None:
        """SONiC reverts nothing by itself."""

    def rollback(self, change: StagedChange) -> None:
        plan, config = recorded(change, Plan, self._device.where), self._tables.config()
        asked = self._asked(config)
        if not change.undone_in(asked):
            left_alone(change, asked, self._device.where)
            check_rows(plan, config, self._device.where)
            self._tables.set(config, plan.before)
        config, running = self._hardware(
            lambda asked, running: change.undone_in(running) or not change.undone_in(asked),
            self._device.settle_s,
        )
        if not change.undone_in(running):
            raise self._not_running(running, "after rolling back, every queue must run what it did before")
        unused = [name for name in plan.made if name in config.profiles and not config.referring(name)]
        if unused:
            self._tables.remove(unused)

    def close(self) -> None:
        self._session.close()

    def _asked(self, config: Config) -> Reading:
        return Reading.of(self.switch, config.asked(self._device), self._clock_ns())

    def _hardware(
        self, enough: Callable[[Reading, Reading], bool], patience_s: float
    ) -> tuple[Config, Reading]:
        """CONFIG_DB and what runs, as soon as ``enough`` of both, at the latest after ``patience_s``.

        Raises ``ReadBackError`` where what runs cannot be known by then.
        """
        for _ in self._waiting.until(patience_s):
            config = self._tables.config()
            asked = self._asked(config)
            hardware = self._running(asked.queues)
            running = Reading.of(self.switch, hardware.queues, self._clock_ns())
            if not hardware.unconfirmed and enough(asked, running):
                break
        if hardware.unconfirmed:
            queue = hardware.unconfirmed[0]
            raise ReadBackError(
                f"{self._device.where} {queue.port} queue {queue.queue}",
                f"{queue.watermark} in CONFIG_DB, and no such values in ASIC_DB",
                "what a queue runs is told by ASIC_DB",
                "look at orchagent's log; let read_back be config where gNMI shows no ASIC_DB",
            )
        return config, running

    def _running(self, asked: Sequence[QueueWatermark]) -> Hardware:
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
        """The plan with only green's values replaced; raises ``CapabilityError`` where more is needed."""
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

    def _not_running(self, running: Reading, rule: str) -> ReadBackError:
        return ReadBackError(
            self._device.where,
            _shown(running),
            rule,
            "look at orchagent's log on the switch, or let asic_rounding_bytes be what hardware rounds by",
        )


def _shown(reading: Reading) -> str:
    return str(reading.watermark) if reading.watermark is not None else "queues that differ, or do not mark"

"""What the two SONiC adapters share; they differ in how they reach CONFIG_DB and ASIC_DB.

CONFIG_DB is what is asked for, ASIC_DB what runs. A change is one transaction that sets WRED_PROFILE and
``wred_profile`` of QUEUE only, whole or not at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ClassVar, NamedTuple, TypeAlias

import msgspec

from switches.adapter import DeviceAdapter
from switches.base import Capabilities, Reading, StagedChange
from switches.changes import staged
from switches.device import Device
from switches.errors import ReadBackError
from switches.read_back import Waiting
from switches.sonic.asic_db import Hardware
from switches.sonic.config_db import Config
from switches.sonic.plan import Plan, planned
from switches.sonic.wred_profile import UNITS, own_prefix
from switches.units import Rounded, to_device
from twin.watermark import Watermark

Look: TypeAlias = "Callable[[], tuple[Config, Hardware]]"


class Found(NamedTuple):
    """CONFIG_DB, what it asks for, and what runs."""

    config: Config
    asked: Reading
    running: Reading


class SonicBase(DeviceAdapter):
    """One SONiC switch; ``own_profile``: its queues get a profile of their own, named after its values."""

    kind: ClassVar[str]
    unseen_remedy: ClassVar[str]
    differs_remedy: ClassVar[str]

    def __init__(
        self,
        device: Device,
        *,
        clock_ns: Callable[[], int],
        own_profile: bool,
        waiting: Waiting | None = None,
    ) -> None:
        super().__init__(device, clock_ns)
        self._own_profile = own_profile
        self._polling = waiting or Waiting()

    @abstractmethod
    def _connected(self) -> AbstractContextManager[Look]:
        """A connection, as a call that reads CONFIG_DB and the hardware over it."""

    def capabilities(self) -> Capabilities:
        own = self._own_profile
        return Capabilities(
            kind=self.kind,
            writes=True,
            per="queue" if own else "profile",
            units=UNITS,
            atomic=own,
            undo="the queues are bound to their old profile" if own else "the profile is edited back",
            read_back="ASIC_DB",
        )

    def read(self) -> Reading:
        with self._connected() as look:
            return self._found(look, lambda asked, running: True, self._device.timeout_s).running

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        rounded = to_device(watermark, UNITS)
        with self._connected() as look:
            now = self._found(
                look, lambda asked, running: asked.queues == running.queues, self._device.timeout_s
            )
        if now.asked.queues != now.running.queues:
            raise self._differs(now, "hardware runs what CONFIG_DB asks for before it is changed")
        plan = self._plan(now.config, rounded)
        return staged(change_id, now.running, watermark, rounded, msgspec.to_builtins(plan))

    def verify(self, change: StagedChange) -> Reading:
        with self._connected() as look:
            now = self._found(
                look,
                lambda asked, running: change.made_in(running) or not change.made_in(asked),
                self._device.settle_s,
            )
        if not change.made_in(now.running):
            raise self._differs(now, f"after applying, every queue must run {change.after}")
        return now.running

    def confirm(self, change: StagedChange) -> None:
        """SONiC reverts nothing by itself."""

    def _plan(self, config: Config, rounded: Rounded) -> Plan:
        return planned(self._device, config, rounded, own_profile=self._own_profile)

    def _undone(self, look: Look, change: StagedChange) -> Config:
        """CONFIG_DB once hardware runs what it did before; raises ``ReadBackError``."""
        now = self._found(
            look,
            lambda asked, running: change.undone_in(running) or not change.undone_in(asked),
            self._device.settle_s,
        )
        if not change.undone_in(now.running):
            raise self._differs(now, "after rolling back, every queue must run what it did before")
        return now.config

    def _asked(self, config: Config) -> Reading:
        return self._reading(config.asked(self._device))

    def _spare(self, config: Config, hardware: Hardware, asked: Reading, plan: Plan) -> list[str]:
        """Own profiles that can go: no queue uses them, in CONFIG_DB nor in hardware."""
        if hardware.queues != asked.queues or hardware.unconfirmed:
            # orchagent keeps a profile that is removed while a queue runs it, and then takes it no more.
            return []
        kept = [*plan.before.profiles, *plan.after.profiles]
        return config.spare(own_prefix(self._device.queues, self._device.ports), keeping=kept)

    def _found(self, look: Look, enough: Callable[[Reading, Reading], bool], patience_s: float) -> Found:
        """Reads until ``enough`` of what is asked and what runs, at the latest after ``patience_s``.

        Raises ``ReadBackError`` where what runs is unknown by then.
        """
        for _ in self._polling.until(patience_s):
            config, hardware = look()
            asked, running = self._asked(config), self._reading(hardware.queues)
            if not hardware.unconfirmed and enough(asked, running):
                break
        if hardware.unconfirmed:
            queue = hardware.unconfirmed[0]
            raise ReadBackError(
                f"{self._device.where} {queue.port} queue {queue.queue}",
                f"{queue.watermark} in CONFIG_DB, and no such values in ASIC_DB",
                "what a queue runs is read from ASIC_DB",
                self.unseen_remedy,
            )
        return Found(config, asked, running)

    def _differs(self, now: Found, rule: str) -> ReadBackError:
        wanted = {(queue.port, queue.queue): queue.watermark for queue in now.asked.queues}
        other = [queue for queue in now.running.queues if queue.watermark != wanted[queue.port, queue.queue]]
        if not other:
            return ReadBackError(
                self._device.where,
                f"{now.running.watermark or 'queues that differ'}, as CONFIG_DB asks",
                rule,
                "find out who else sets this switch",
            )
        first = other[0]
        return ReadBackError(
            self._device.where,
            f"{first.watermark or 'no marking'} on {first.port} queue {first.queue}"
            + (f" and {len(other) - 1} more" if len(other) > 1 else "")
            + f" where CONFIG_DB asks for {wanted[first.port, first.queue] or 'no marking'}",
            rule,
            self.differs_remedy,
        )

"""The adapter to a SONiC switch through its redis; must set nothing but WRED_PROFILE and ``wred_profile``.

CONFIG_DB is what is asked for and ASIC_DB what runs: a reading tells the second. A change is one transaction:
it is in CONFIG_DB whole or not at all. Nothing is saved for the next start of the switch.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from switches.changes import check_nobody_else, left_alone, recorded, staged
from switches.device import Device, options_of
from switches.errors import ReadBackError
from switches.read_back import Waiting
from switches.sonic.asic_db import read_hardware
from switches.sonic.config_db import PROFILE, Config, queue_setting, read_config, watched
from switches.sonic.plan import Plan, check_rows, planned
from switches.sonic.redis import Databases, SonicOptions, check_address, connected
from switches.sonic.wred_profile import UNITS, own_prefix
from switches.units import to_device
from twin.watermark import Watermark


class SonicAdapter:
    """One switch, whose redis is at the device's ``address`` (a host, or ``unix:`` and a path).

    ``clock_ns`` gives wall-clock nanoseconds since 1970.
    """

    def __init__(self, device: Device, *, clock_ns: Callable[[], int]) -> None:
        check_address(device)
        self.switch = device.name
        self._device = device
        self._options = options_of(device, SonicOptions)
        self._clock_ns = clock_ns

    def capabilities(self) -> Capabilities:
        own = self._options.own_profile
        return Capabilities(
            kind="sonic",
            writes=True,
            per="queue" if own else "profile",
            units=UNITS,
            atomic=own,
            undo="the queues are bound to their old profile" if own else "the profile is edited back",
            read_back="ASIC_DB",
        )

    def read(self) -> Reading:
        with connected(self._device, self._options) as databases:
            _, _, running = self._hardware(databases, lambda asked, running: True, self._device.timeout_s)
        return running

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        rounded = to_device(watermark, UNITS)
        with connected(self._device, self._options) as databases:
            config, asked, running = self._hardware(
                databases, lambda asked, running: asked.queues == running.queues, self._device.timeout_s
            )
            if asked.queues != running.queues:
                raise self._not_running(asked, running)
        plan = planned(self._device, config, rounded, own_profile=self._options.own_profile)
        return staged(change_id, running, watermark, rounded, msgspec.to_builtins(plan))

    def apply(self, change: StagedChange) -> None:
        where, plan = self._device.where, recorded(change, Plan, self._device.where)
        with (
            connected(self._device, self._options) as databases,
            databases.config.pipeline(transaction=True) as transaction,
        ):
            transaction.watch(*watched(plan.before), *watched(plan.after))
            config = read_config(databases.config, self._device)
            asked = self._asked(config.asked(self._device))
            if change.made_in(asked):
                return
            check_nobody_else(change, asked, where)
            check_rows(plan, config, where)
            hardware = read_hardware(databases, asked.queues, self._options.asic_rounding_bytes)
            transaction.multi()
            queue_setting(transaction, config, plan.after)
            if hardware.queues == asked.queues and not hardware.unconfirmed:
                # orchagent keeps a profile that is removed while a queue runs it, and then takes it no more.
                kept = [*plan.before.profiles, *plan.after.profiles]
                for name in config.spare(own_prefix(self._device.queues, self._device.ports), keeping=kept):
                    transaction.delete(PROFILE + name)
            transaction.execute()

    def verify(self, change: StagedChange) -> Reading:
        with connected(self._device, self._options) as databases:
            _, asked, running = self._hardware(
                databases,
                lambda asked, running: change.made_in(running) or not change.made_in(asked),
                self._device.settle_s,
            )
        if not change.made_in(running):
            raise self._not_running(asked, running, f"after applying, every queue must run {change.after}")
        return running

    def confirm(self, change: StagedChange) -> None:
        """SONiC reverts nothing by itself."""

    def rollback(self, change: StagedChange) -> None:
        where, plan = self._device.where, recorded(change, Plan, self._device.where)
        with connected(self._device, self._options) as databases:
            with databases.config.pipeline(transaction=True) as transaction:
                transaction.watch(*watched(plan.before), *watched(plan.after))
                config = read_config(databases.config, self._device)
                asked = self._asked(config.asked(self._device))
                if not change.undone_in(asked):
                    left_alone(change, asked, where)
                    check_rows(plan, config, where)
                    transaction.multi()
                    queue_setting(transaction, config, plan.before)
                    transaction.execute()
            _, asked, running = self._hardware(
                databases,
                lambda asked, running: change.undone_in(running) or not change.undone_in(asked),
                self._device.settle_s,
            )
            if not change.undone_in(running):
                raise self._not_running(
                    asked, running, "after rolling back, every queue must run what it did before"
                )
            self._remove(databases, plan)

    def close(self) -> None:
        """Nothing stays open between calls."""

    def _asked(self, queues: tuple[QueueWatermark, ...]) -> Reading:
        return Reading.of(self.switch, queues, self._clock_ns())

    def _hardware(
        self, databases: Databases, enough: Callable[[Reading, Reading], bool], patience_s: float
    ) -> tuple[Config, Reading, Reading]:
        """CONFIG_DB, what it asks for and what runs: as soon as these two are ``enough``, at the latest
        after ``patience_s``.

        Raises ``ReadBackError`` where what runs cannot be known by then.
        """
        for _ in Waiting().until(patience_s):
            config = read_config(databases.config, self._device)
            asked = self._asked(config.asked(self._device))
            hardware = read_hardware(databases, asked.queues, self._options.asic_rounding_bytes)
            running = Reading.of(self.switch, hardware.queues, self._clock_ns())
            if not hardware.unconfirmed and enough(asked, running):
                break
        if hardware.unconfirmed:
            queue = hardware.unconfirmed[0]
            raise ReadBackError(
                f"{self._device.where} {queue.port} queue {queue.queue}",
                f"{queue.watermark} in CONFIG_DB, and no such values in ASIC_DB",
                "what a queue runs is told by ASIC_DB",
                "look at orchagent's log on the switch; it rejects rows it cannot use",
            )
        return config, asked, running

    def _not_running(
        self,
        asked: Reading,
        running: Reading,
        rule: str = "hardware runs what CONFIG_DB asks for before it is changed",
    ) -> ReadBackError:
        wanted = {(queue.port, queue.queue): queue.watermark for queue in asked.queues}
        other = [queue for queue in running.queues if queue.watermark != wanted[queue.port, queue.queue]]
        if not other:
            return ReadBackError(
                self._device.where,
                f"{running.watermark or 'queues that differ'}, as CONFIG_DB asks",
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
            "look at orchagent's log on the switch",
        )

    def _remove(self, databases: Databases, plan: Plan) -> None:
        """Removes the profiles that the change made and that no queue is bound to any more."""
        with databases.config.pipeline(transaction=True) as transaction:
            transaction.watch(*watched(plan.before), *watched(plan.after))
            config = read_config(databases.config, self._device)
            unused = [name for name in plan.made if name in config.profiles and not config.referring(name)]
            if unused:
                transaction.multi()
                for name in unused:
                    transaction.delete(PROFILE + name)
                transaction.execute()

"""The adapter to a SONiC switch through its redis. Nothing is saved for the next start of the switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from switches.adapter import check_apply_allowed, check_undo_allowed, recorded, set_by_others
from switches.base import QueueWatermark, StagedChange, Wanted
from switches.device import Device, options_of
from switches.lossless import LosslessReading
from switches.sonic.adapter import Look, Plan, SonicBase, check_rows
from switches.sonic.databases import (
    PROFILE,
    Config,
    Hardware,
    queue_setting,
    read_config,
    read_hardware,
    watched,
)
from switches.sonic.lossless import BUFFERS, CONFIG
from switches.sonic.redis import Databases, SonicOptions, check_address, connected, tables_of


class SonicAdapter(SonicBase):
    """One switch, whose redis is at the device's ``address`` (a host, or ``unix:`` and a path)."""

    kind = "sonic"
    unseen_remedy = "check orchagent's log on the switch; it rejects rows it cannot use"
    differs_remedy = "check orchagent's log on the switch"

    def __init__(self, device: Device, *, clock_ns: Callable[[], int]) -> None:
        check_address(device)
        self._options = options_of(device, SonicOptions)
        super().__init__(device, clock_ns=clock_ns, own_profile=self._options.own_profile)

    def read_lossless(self) -> LosslessReading:
        with connected(self._device, self._options) as databases:
            config = tables_of(databases.config, [f"{name}|" for name in CONFIG])
            buffers = tables_of(databases.application, [f"{name}_TABLE:" for name in BUFFERS])
        return self._lossless(config, buffers)

    def apply(self, change: StagedChange) -> None:
        where, plan = self._device.where, recorded(change, Plan, self._device.where)
        with (
            connected(self._device, self._options) as databases,
            databases.config.pipeline(transaction=True) as transaction,
        ):
            transaction.watch(*watched(plan.before), *watched(plan.after))
            config = read_config(databases.config, self._device)
            asked = self._asked(config)
            if change.made_in(asked):
                return
            check_apply_allowed(change, asked, where)
            check_rows(plan, config, where)
            hardware = self._hardware(databases, asked.queues)
            transaction.multi()
            queue_setting(transaction, config, plan.after)
            for name in self._spare(config, hardware, asked, plan):
                transaction.delete(PROFILE + name)
            transaction.execute()

    def rollback(self, change: StagedChange) -> None:
        where, plan = self._device.where, recorded(change, Plan, self._device.where)
        with connected(self._device, self._options) as databases:
            with databases.config.pipeline(transaction=True) as transaction:
                transaction.watch(*watched(plan.before), *watched(plan.after))
                with set_by_others():
                    config = read_config(databases.config, self._device, change.its_queues())
                    asked = self._asked(config)
                if not change.undone_in(asked):
                    check_undo_allowed(change, asked, where)
                    left = plan.left_in(config, where)
                    check_rows(left, config, where)
                    transaction.multi()
                    queue_setting(transaction, config, left.before)
                    transaction.execute()
            self._undone(lambda wanted: self._look(databases, wanted), change)
            self._remove(databases, plan, change)

    def close(self) -> None:
        """Nothing to do: no connection stays open between calls."""

    @contextmanager
    def _connected(self) -> Iterator[Look]:
        with connected(self._device, self._options) as databases:
            yield lambda wanted: self._look(databases, wanted)

    def _look(self, databases: Databases, wanted: Wanted | None) -> tuple[Config, Hardware]:
        config = read_config(databases.config, self._device, wanted)
        return config, self._hardware(databases, config.asked(self._device))

    def _hardware(self, databases: Databases, asked: Sequence[QueueWatermark]) -> Hardware:
        return read_hardware(databases, asked, self._options.asic_rounding_bytes)

    def _remove(self, databases: Databases, plan: Plan, change: StagedChange) -> None:
        """Removes the new profiles of the change that no queue is bound to any more."""
        with databases.config.pipeline(transaction=True) as transaction:
            transaction.watch(*watched(plan.before), *watched(plan.after))
            config = read_config(databases.config, self._device, change.its_queues())
            unused = [name for name in plan.made if name in config.profiles and not config.referring(name)]
            if unused:
                transaction.multi()
                for name in unused:
                    transaction.delete(PROFILE + name)
                transaction.execute()

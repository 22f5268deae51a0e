"""Another ECMP hash for a switch: read, checked, and set by a rollout of its own."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from rollout.plan import RolloutPlan
from service.rollouts.manager import Rollouts
from service.rollouts.rollout import Rollout, limits_of
from service.rollouts.watch import Watcher
from service.switches.fleet import Fleet
from settings.errors import UnprocessableError
from settings.model import Settings
from switches.errors import CapabilityError
from switches.hashing.values import HashReading

ANSWER_WITHIN_S = 1.0
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Rehash:
    """Use from one event loop only."""

    settings: Settings
    fleet: Fleet
    rollouts: Rollouts
    watcher: Watcher

    async def read(self, switch: str) -> HashReading:
        """What a switch hashes by now. Raises ``SwitchError``, and ``UnprocessableError`` where there is no
        adapter for that on its platform.
        """
        return await _answered(self.fleet.read_hash(switch))

    async def start(self, switch: str, value: str, by: str) -> Rollout:
        """Starts a rollout to that switch alone; returns once it has ended, or after a second.

        It is staged first, so that a value which the switch does not have is refused at once. Raises as
        ``read`` and ``Rollouts.start``.
        """
        self.rollouts.check_journal_read()
        rollout_id = f"hash-{math.floor(self.rollouts.now_s() * 1e3)}"
        await _answered(self.fleet.hash_step(switch, lambda adapter: adapter.stage(value, rollout_id)))
        telemetry, before = self.settings.telemetry, await self.watcher.lately((switch,))
        limits = limits_of(self.settings.rollout, window_s=telemetry.period_s * telemetry.n_periods)
        # Reports of this switch may have no depths, and throughput tells of another hash all the same.
        without_depths = before.throughput_bytes_per_s is not None and before.queue_mean_bytes is None
        plan = RolloutPlan(
            id=rollout_id,
            recommendation="",
            targets={},
            stages=((switch,),),
            limits=msgspec.structs.replace(limits, needs_queue=not without_depths),
            before=(before,),
            written=(switch,) if self.fleet.writes(switch) else (),
            hashes={switch: value},
        )
        rollout = await self.rollouts.start(plan, by)
        await self.rollouts.ended(rollout, within_s=ANSWER_WITHIN_S)
        return rollout


async def _answered(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except CapabilityError as error:
        raise UnprocessableError(error.where, error.received, error.rule, error.remedy) from error

"""The plan of a rollout: stages of the topology, targets within a step, and what is known beforehand."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, count
from typing import Any, cast

import pytest

from rollout.plan import Figures, Limits, RolloutPlan
from service.ingest.counter_owner import CounterOwner
from service.ingest.window_owner import WindowOwner
from service.rollouts.rollout import limits_of, plan_of
from service.rollouts.watch import LATELY_NS, Watcher
from service.tuning.entry import Entry
from service.tuning.gate import Cleared
from service.tuning.round import RoundResult, leaves_of, run_round
from settings.model import RolloutSettings
from telemetry.counters.model import CounterIncrease, Counters
from telemetry.state import NetworkState
from telemetry.topology import topology_from_json
from tests.unit.service.tuning.rounds import INCUMBENT, ask, state
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers

NEW = Watermark(50_000, 200_000, 0.05)


class Eyes:
    """Telemetry of a hundred bytes a switch; of the switches in ``blind`` there is none."""

    def __init__(self, *blind: str) -> None:
        self._blind = frozenset(blind)

    async def lately_each(self, groups: Sequence[Sequence[str]]) -> list[Figures]:
        return [self._lately(switches) for switches in accumulate(map(tuple, groups))]

    def _lately(self, switches: Sequence[str]) -> Figures:
        if self._blind.intersection(switches):
            return Figures()
        return Figures(queue_mean_bytes=100.0 * len(switches), drops_per_s=1.0)


class Counts:
    """Counters of one port a switch that dropped a packet in a second; ``asked`` counts by switch."""

    def __init__(self) -> None:
        self.asked = Counter[str]()

    async def newest_ns(self, switches: Sequence[str]) -> int:
        return LATELY_NS

    async def increase(self, switches: Sequence[str], since_ns: int, until_ns: int) -> CounterIncrease:
        self.asked.update(switches)
        grown = Counters(dropped_packets=1)
        return CounterIncrease(counters=grown, covered_s=1.0, ports=1)


class OneState:
    async def state(self) -> NetworkState:
        return state()


@pytest.fixture(scope="module")
def result() -> RoundResult:
    return run_round(
        state(),
        ask(0.0),
        lambda _: INCUMBENT,
        workers=InProcessWorkers(),
        clock_s=count(0.0, 0.5).__next__,
    )


def planned(
    result: RoundResult,
    runs: Mapping[str, Watermark],
    *blind: str,
    max_step: float = math.inf,
    written: Sequence[str] = ("leaf1",),
    watcher: Watcher | None = None,
    **settings: Any,
) -> RolloutPlan:
    return asyncio.run(
        plan_of(
            "x-2",
            Entry.of("x", 0, result, wall_s=1.0, cleared=Cleared(NEW)),
            RolloutSettings(**settings),
            watcher or cast("Watcher", Eyes(*blind)),
            runs=runs,
            written=written,
            max_step=max_step,
        )
    )


def test_a_leaf_goes_first_and_the_others_in_batches(result: RoundResult) -> None:
    runs = dict.fromkeys(["core", "leaf1", "spine1", "spine2"], INCUMBENT)
    plan = planned(result, runs, batch_size=2)
    assert plan.stages == (("leaf1",), ("core", "spine1"), ("spine2",))
    assert (plan.id, plan.recommendation, plan.written) == ("x-2", "x", ("leaf1",))
    assert plan.targets == dict.fromkeys(runs, NEW)
    named = planned(result, runs, canary=("spine2",), written=("leaf1", "spine2"))
    assert named.stages[0] == ("spine2",)


def test_the_canary_is_a_switch_that_is_set(result: RoundResult) -> None:
    # Of a dry run on one leaf telemetry says nothing about the devices that follow.
    runs = dict.fromkeys(["core", "leaf1", "spine1", "spine2"], INCUMBENT)
    for canary in ((), ("leaf1",)):
        plan = planned(result, runs, canary=canary, written=("spine1", "spine2"))
        assert plan.stages[0] == ("spine1",)
    assert planned(result, runs, written=()).stages[0] == ("leaf1",)
    assert planned(result, runs, canary=("spine2",), written=()).stages[0] == ("spine2",)


def test_each_stage_is_compared_with_what_all_set_by_then_were(result: RoundResult) -> None:
    plan = planned(result, dict.fromkeys(["leaf1", "spine1", "spine2"], INCUMBENT), batch_size=1)
    assert [one.queue_mean_bytes for one in plan.before] == [100.0, 200.0, 300.0]
    answer = result.recommendation
    ratio = answer.winner_prediction.queue_mean_bytes / answer.incumbent_prediction.queue_mean_bytes
    assert [one.queue_mean_bytes for one in plan.predicted] == pytest.approx(
        [100 * ratio * n for n in (1, 2, 3)]
    )
    assert all(one.drops_per_s is None for one in plan.predicted)


def test_planning_asks_for_the_counters_of_each_switch_once_however_many_stages(result: RoundResult) -> None:
    counts = Counts()
    watcher = Watcher(cast("WindowOwner", OneState()), cast("CounterOwner", counts), silence_s=15.0)
    runs = dict.fromkeys(["core", "leaf1", "spine1", "spine2"], INCUMBENT)
    plan = planned(result, runs, watcher=watcher, batch_size=1)
    assert [one.drops_per_s for one in plan.before] == [1.0, 2.0, 3.0, 4.0]
    assert counts.asked == dict.fromkeys(runs, 1)


def test_what_is_not_measured_is_not_predicted(result: RoundResult) -> None:
    plan = planned(result, dict.fromkeys(["leaf1", "spine1"], INCUMBENT), "spine1")
    assert plan.before[1] == plan.predicted[1] == Figures()
    assert plan.before[0] != Figures()


def test_no_switch_goes_further_than_a_step(result: RoundResult) -> None:
    near, far = INCUMBENT, Watermark(4_000_000, 16_000_000, 0.9)
    plan = planned(result, {"leaf1": near, "spine1": far}, max_step=2.0)
    assert plan.targets["leaf1"].kmin_bytes == near.kmin_bytes // 2
    assert plan.targets["spine1"].kmin_bytes == far.kmin_bytes // 2
    assert NEW.pmax < plan.targets["spine1"].pmax < far.pmax


def test_limits_are_the_settings() -> None:
    settings = RolloutSettings(
        soak_s=1, batch_soak_s=2, patience_s=3, pause_share_limit=0.4, pfc_frames_limit=5, drops_limit=6,
        queue_limit=7, throughput_limit=0.8,
    )  # fmt: skip
    assert limits_of(settings) == Limits(
        soak_s=1,
        batch_soak_s=2,
        patience_s=3,
        unseen_s=18,
        pause_share=0.4,
        pfc_frames_per_s=5,
        drops_per_s=6,
        queue_factor=7,
        throughput_share=0.8,
        from_empty=True,
    )
    assert limits_of(RolloutSettings()) == Limits(from_empty=True)
    limits = limits_of(settings, window_s=10.0, max_step=2.0)
    assert (limits.unseen_s, limits.max_step) == (38, 2.0)


def test_leaves_are_the_switches_with_hosts() -> None:
    topology = topology_from_json(
        {
            "hosts": [{"name": "h1", "ip": "10.0.0.1"}, {"name": "h2", "ip": "10.0.0.2"}],
            "switches": [{"name": name} for name in ("spine1", "leaf2", "leaf1")],
            "links": [
                {"a": a, "b": b, "b_port": f"to-{a}", "rate_gbps": 100, "delay_us": 1}
                | ({"a_port": f"to-{b}"} if a.startswith("leaf") else {})
                for a, b in (("h1", "leaf2"), ("h2", "leaf1"), ("leaf1", "spine1"), ("leaf2", "spine1"))
            ],
        }
    )
    assert leaves_of(topology) == ("leaf1", "leaf2")

"""Which times of a rollout show its switches as they were, and as they were set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from rollout.plan import Limits, RolloutPlan
from rollout.state import Phase, RolloutState
from service.history.query import NS_PER_S, Times, times_of
from twin.watermark import Watermark

MARK = Watermark(1_000, 2_000, 0.1)
NAMES = ("leaf1", "leaf2", "leaf3")
BEGAN = [(100, Phase.PROPOSED), (101, Phase.APPROVED), (102, Phase.CANARY)]


def rollout(*phases: tuple[float, Phase], stage: int = 1) -> RolloutState:
    every = (*((float(at_s), phase) for at_s, phase in BEGAN), *phases)
    plan = RolloutPlan(
        id="r",
        recommendation="a",
        targets=dict.fromkeys(NAMES, MARK),
        stages=(NAMES[:1], NAMES[1:]),
        limits=Limits(),
    )
    return RolloutState(
        plan=plan,
        phase=every[-1][1],
        since_s=every[-1][0],
        proposed_s=100.0,
        members={},
        stage=stage,
        phases=every,
    )


def times(state: RolloutState, now_s: float = 1_000.0) -> Times:
    return times_of(state, span_s=60.0, window_s=10.0, now_ns=round(now_s * NS_PER_S))


def after(state: RolloutState, now_s: float = 1_000.0) -> tuple[float, float] | None:
    found = times(state, now_s).after
    return None if found is None else (found[0] / NS_PER_S, found[1] / NS_PER_S)


WATCHED = ((103.0, Phase.SOAK), (163.0, Phase.FLEET), (164.0, Phase.SOAK))


def test_before_is_what_lies_before_it_was_proposed() -> None:
    assert times(rollout()).before == (40 * NS_PER_S, 100 * NS_PER_S)


def test_after_begins_a_window_after_the_last_switch_was_set() -> None:
    done = rollout(*WATCHED, (180.0, Phase.DONE))
    assert after(done) == (174.0, 234.0)
    assert times(done).set_ns == 164 * NS_PER_S
    assert times(done).switches == NAMES
    assert after(done, now_s=200.0) == (174.0, 200.0)
    assert after(done, now_s=174.0) is None


def test_where_nothing_was_watched_it_was_set_when_it_was_done() -> None:
    assert after(rollout((103.0, Phase.FLEET), (104.0, Phase.DONE))) == (114.0, 174.0)
    assert after(rollout((103.0, Phase.SOAK), (113.0, Phase.FLEET), (114.0, Phase.DONE))) == (124.0, 184.0)


def test_while_switches_are_being_set_there_is_no_after() -> None:
    assert after(rollout(stage=0)) is None
    assert after(rollout(*WATCHED[:2])) is None


def test_while_the_canary_is_watched_it_is_of_the_canary() -> None:
    watched = rollout(*WATCHED[:1], stage=0)
    assert after(watched) == (113.0, 173.0)
    assert times(watched).switches == NAMES[:1]


@pytest.mark.parametrize(
    ("host_stage", "reached"), [(0, NAMES), (2, NAMES[:1])], ids=["hosts first", "switches first"]
)
def test_what_hosts_run_shows_on_all_switches_and_hosts_are_none_of_them(
    host_stage: int, reached: tuple[str, ...]
) -> None:
    def with_hosts(state: RolloutState) -> RolloutState:
        stages = [*state.plan.stages]
        stages.insert(host_stage, ("h1",))
        plan = structs.replace(state.plan, stages=tuple(stages), nics={"h1": {"rpg_ai_rate": 5}})
        return replace(state, plan=plan)

    assert times(with_hosts(rollout(*WATCHED[:1], stage=0))).switches == reached
    assert times(with_hosts(rollout(*WATCHED, (180.0, Phase.DONE)))).switches == NAMES


@pytest.mark.parametrize("ended", [(), ((135.0, Phase.ROLLED_BACK),)])
def test_what_was_taken_back_is_looked_at_until_then(ended: tuple[tuple[float, Phase], ...]) -> None:
    back = rollout(*WATCHED[:1], (130.0, Phase.ROLLING_BACK), *ended, stage=0)
    assert after(back) == (113.0, 130.0)
    assert times(back).switches == NAMES[:1]


def test_what_was_taken_back_long_after_is_looked_at_as_one_that_was_not() -> None:
    late = rollout(*WATCHED, (180.0, Phase.DONE), (900.0, Phase.ROLLING_BACK), (901.0, Phase.ROLLED_BACK))
    assert after(late) == (174.0, 234.0)
    assert times(late).switches == NAMES


def test_one_that_was_taken_back_before_anything_was_set_has_no_after() -> None:
    assert after(rollout((103.0, Phase.ROLLING_BACK), (104.0, Phase.ROLLED_BACK), stage=0)) is None

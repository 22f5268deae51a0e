"""What is set is read once more before anything rests on it: edits, reboots and switches that are away."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from rollout.state import Checked, Event, Failed, Phase, Progress, RolloutState, encode
from service.rollouts import runner
from switches.errors import ReadBackError
from tests.unit.rollout.rollouts import NEW, OLD, plan
from tests.unit.service.rollouts.world import (
    ALL_NEW,
    ALL_OLD,
    FOREIGN,
    QUICK,
    World,
    away,
    until,
    world,
)
from twin.watermark import Watermark

pytestmark = pytest.mark.anyio

SOAKING = plan(patience_s=3_000.0)
ENDLESS = plan(soak_s=1e9)
by_others = pytest.mark.parametrize("by_others", [FOREIGN, OLD], ids=["edited", "started anew"])


def assert_taken_back(here: World, state: RolloutState, runs: Watermark) -> None:
    """All of it, but for what somebody else has set on the canary."""
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD | {"a": runs})
    assert (state.why or "").startswith("check failed: ")
    alone = Progress.LEFT_ALONE if runs == FOREIGN else Progress.RESTORED
    assert state.members["a"].progress is alone


@by_others
async def test_a_canary_that_lost_its_change_in_the_soak_sets_nothing_more(
    here: World, by_others: Watermark
) -> None:
    since = here.eyes.since

    async def and_somebody_sets_it(*asked: Any) -> Any:
        here.switches["a"].running = by_others
        return await since(*asked)

    here.eyes.since = and_somebody_sets_it  # type: ignore[method-assign]
    assert_taken_back(here, await here.rolled_out(SOAKING), by_others)
    assert "apply" not in here.switches["b"].calls + here.switches["c"].calls


@by_others
async def test_a_reading_for_another_reason_ends_a_soak_at_once(here: World, by_others: Watermark) -> None:
    rollout = await here.rollouts.start(ENDLESS, "ada")
    await until(lambda: rollout.state.phase is Phase.SOAK)
    await here.fleet.refresh()
    assert rollout.state.phase is Phase.SOAK
    here.switches["a"].running = by_others
    await here.fleet.refresh()
    assert_taken_back(here, await here.ended(rollout), by_others)
    assert "apply" not in here.switches["b"].calls


async def test_such_a_reading_is_not_lost_where_the_journal_is_full(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STALLED_S", 0.01)
    rollout = await here.rollouts.start(ENDLESS, "ada")
    await until(lambda: rollout.state.phase is Phase.SOAK)
    here.journal.broken, here.switches["a"].running = True, FOREIGN
    await here.fleet.refresh()
    await until(lambda: rollout.stalled)
    here.journal.broken = False
    assert_taken_back(here, await here.ended(rollout), FOREIGN)


@by_others
async def test_a_switch_that_is_set_by_others_while_the_next_stage_is_set_is_no_success(
    here: World, by_others: Watermark
) -> None:
    here.switches["b"].gate.clear()
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: "apply" in here.switches["b"].calls)
    here.switches["a"].running = by_others
    here.switches["b"].gate.set()
    assert_taken_back(here, await here.ended(rollout), by_others)


@by_others
async def test_a_thaw_sets_nothing_on_the_strength_of_what_was_read_before(
    here: World, by_others: Watermark
) -> None:
    since = here.eyes.since

    async def and_it_is_frozen(*asked: Any) -> Any:
        if not here.rollouts.freeze.frozen:
            await here.rollouts.set_freeze(True, "eve")
        return await since(*asked)

    here.eyes.since = and_it_is_frozen  # type: ignore[method-assign]
    rollout = await here.rollouts.start(SOAKING, "ada")
    await until(lambda: rollout.state.phase is Phase.FLEET)
    here.eyes.since = since  # type: ignore[method-assign]
    here.switches["a"].running = by_others
    await here.rollouts.set_freeze(False, "eve")
    assert_taken_back(here, await here.ended(rollout), by_others)
    assert "apply" not in here.switches["b"].calls


@pytest.mark.parametrize("frozen", [True, False])
async def test_a_freeze_that_one_rollout_has_not_heard_of_is_told_to_it(
    here: World, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database went away between the freeze and what is written of it for each rollout."""
    monkeypatch.setattr(runner, "STALLED_S", 0.01)
    if not frozen:
        await here.rollouts.set_freeze(True, "eve")
        await here.rollouts.set_freeze(False, "eve")
    here.switches["a"].gate.clear()
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: "apply" in here.switches["a"].calls)
    if not frozen:
        await here.rollouts.set_freeze(True, "eve")
    here.journal.refuse_from = "Frozen" if frozen else "Thawed"
    await asyncio.gather(here.rollouts.set_freeze(frozen, "eve"), return_exceptions=True)
    here.journal.broken, here.journal.refuse_from = False, None
    await until(lambda: rollout.state.frozen is frozen)
    here.switches["a"].gate.set()
    if frozen:
        await until(lambda: rollout.state.phase is Phase.FLEET)
        assert here.runs == ALL_OLD | {"a": NEW}
        await here.rollouts.set_freeze(False, "eve")
    assert (await here.ended(rollout)).phase is Phase.DONE


async def test_a_switch_that_cannot_be_read_once_more_is_tried_again(here: World) -> None:
    here.switches["a"].gate.clear()
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: "apply" in here.switches["a"].calls)
    calls = here.switches["a"].calls
    confirm = here.switches["a"].confirm

    def and_it_goes_away(change: Any) -> None:
        confirm(change)
        here.switches["a"].meets["verify"] = [away("a")] * 3

    here.switches["a"].confirm = and_it_goes_away  # type: ignore[method-assign]
    here.switches["a"].gate.set()
    state = await here.ended(rollout)
    assert (state.phase, here.runs) == (Phase.DONE, ALL_NEW)
    failed = [event for event in here.heard if isinstance(event, Failed)]
    assert [(event.switch, event.step) for event in failed] == [("a", "check")] * 3
    assert calls.count("apply") == 1
    assert [event.switches for event in here.heard if isinstance(event, Checked)] == [
        ("a",),
        ("a", "b", "c"),
    ]


async def test_a_switch_that_stays_away_takes_all_back(here: World) -> None:
    confirm = here.switches["b"].confirm

    def and_it_goes_away(change: Any) -> None:
        confirm(change)
        here.switches["b"].meets["verify"] = [away("b")] * 1_000

    here.switches["b"].confirm = and_it_goes_away  # type: ignore[method-assign]
    state = await here.rolled_out(plan(soak_s=0.0, patience_s=30.0))
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)
    assert (state.why or "").startswith("check failed: b: received no answer")


async def test_switches_that_are_away_in_turn_are_not_away_for_long(here: World) -> None:
    for name, turn in (("b", 0), ("c", 1)):
        verify, looks = here.switches[name].verify, count()

        def in_turn(change: Any, verify: Any = verify, looks: Any = looks, of: Any = (name, turn)) -> Any:
            look = next(looks)
            if 0 < look < 40 and look % 2 == of[1]:
                raise away(of[0])
            return verify(change)

        here.switches[name].verify = in_turn  # type: ignore[method-assign]
    state = await here.rolled_out(plan(soak_s=0.0, patience_s=30.0))
    assert (state.phase, here.runs) == (Phase.DONE, ALL_NEW)


async def test_one_that_differs_is_not_waited_for_by_one_that_does_not_answer(here: World) -> None:
    slow = here.switches["c"]
    confirm = slow.confirm

    def and_somebody_sets_b(change: Any) -> None:
        confirm(change)
        here.switches["b"].meets["verify"] = [ReadBackError("b", "old", "new", "look")]
        slow.reading.clear()

    slow.confirm = and_somebody_sets_b  # type: ignore[method-assign]
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: rollout.state.phase is Phase.ROLLING_BACK)
    slow.reading.set()
    assert ((await here.ended(rollout)).phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)


async def test_a_dry_run_reads_nothing_once_more(here: World) -> None:
    for switch in here.switches.values():
        switch.writes = False
    assert (await here.rolled_out(plan(written=()))).phase is Phase.DONE
    assert not any(isinstance(event, Checked) for event in here.heard)
    assert {calls.count("verify") for calls in (one.calls for one in here.switches.values())} == {1}


@by_others
async def test_wherever_a_service_ended_the_next_one_reads_before_it_sets_more(by_others: Watermark) -> None:
    async def journaled() -> list[Event]:
        here = world()
        await here.rolled_out(SOAKING)
        await here.stop()
        return here.heard

    events = await journaled()
    is_set = next(n for n, event in enumerate(events, 1) if type(event).__name__ == "Confirmed")
    assert isinstance(events[-1], Checked)
    for length in range(is_set, len(events)):
        left = events[:length]
        applied = {event.switch for event in left if type(event).__name__ == "Applied"}
        here = world(**dict.fromkeys(applied, NEW) | {"a": by_others})
        for event in left:
            await here.journal.append("r", event.at_s, encode(event))
        await here.rollouts.resume()
        assert_taken_back(here, await here.ended(here.rollouts.get("r")), by_others)
        fresh = {name for name in "bc" if "apply" in here.switches[name].calls}
        touched = {event.switch for event in left if type(event).__name__ == "Applying"}
        assert fresh <= touched, "a switch was set on the strength of a reading of before"
        await here.stop()

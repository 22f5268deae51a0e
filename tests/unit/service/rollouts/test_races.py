"""What meets in the middle of a rollout: freezes, rollbacks, callers that leave, clocks that are set."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from rollout import machine
from rollout.plan import Figures
from rollout.state import (
    Applying,
    Approved,
    Event,
    Failed,
    Frozen,
    Measured,
    Phase,
    Progress,
    Proposed,
    Staged,
    encode,
)
from service.rollouts import manager, runner
from service.rollouts.rollout import Freeze, Rollout
from settings.errors import UnavailableError
from tests.unit.rollout.rollouts import NEW, OLD, change_of, plan
from tests.unit.service.rollouts.world import (
    ALL_OLD,
    FOREIGN,
    PATIENCE_S,
    QUICK,
    T0,
    Eyes,
    Notes,
    Switch,
    World,
    away,
    until,
    world,
)
from twin.watermark import Watermark

pytestmark = pytest.mark.anyio


async def held(here: World, name: str) -> threading.Event:
    """Somebody reads that switch until the event is set; steps on it wait."""
    begun, gate = threading.Event(), threading.Event()

    def reading(_: Any) -> None:
        begun.set()
        assert gate.wait(PATIENCE_S)

    task = asyncio.create_task(here.fleet.step(name, reading))
    await until(begun.is_set)
    assert not task.done()
    return gate


async def setting_the_first(here: World) -> Rollout:
    """A rollout whose first switch is being set until its gate opens."""
    here.switches["a"].gate.clear()
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: "apply" in here.switches["a"].calls)
    return rollout


@pytest.mark.parametrize("stops", ["freeze", "rollback"])
async def test_a_set_that_has_not_begun_when_switches_are_frozen_does_not_begin(
    here: World, stops: str
) -> None:
    here.switches["b"].gate.clear()
    rollout = await here.rollouts.start(plan(("b",), ("a",), soak_s=0.0), "ada")
    await until(lambda: rollout.state.phase is Phase.CANARY)
    gate = await held(here, "a")
    here.switches["b"].gate.set()
    await until(lambda: rollout.state.members["a"].progress is Progress.APPLYING)
    if stops == "freeze":
        await here.rollouts.set_freeze(True, "eve")
    else:
        await here.rollouts.roll_back("r", "eve")
    gate.set()
    await here.rests(rollout)
    assert "apply" not in here.switches["a"].calls
    assert here.runs["a"] == OLD
    if stops == "freeze":
        await here.rollouts.set_freeze(False, "eve")
        assert (await here.ended(rollout)).phase is Phase.DONE
    else:
        assert (await here.ended(rollout)).phase is Phase.ROLLED_BACK


async def test_a_service_killed_while_it_froze_sets_nothing_when_it_is_back(here: World) -> None:
    events = [Proposed(at_s=T0, plan=QUICK), Approved(at_s=T0, by="ada")]
    for event in events:
        await here.journal.append("r", event.at_s, encode(event))
    await here.journal.append("freeze", T0, b'{"frozen":true,"by":"eve"}')
    await here.rollouts.resume()
    rollout = here.rollouts.get("r")
    await here.rests(rollout)
    assert rollout.state.frozen
    assert (here.runs, rollout.state.phase) == (ALL_OLD, Phase.APPROVED)
    await here.rollouts.set_freeze(False, "eve")
    assert (await here.ended(rollout)).phase is Phase.DONE


async def test_a_freeze_that_cannot_be_written_down_holds_all_the_same(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STALLED_S", 0.01)
    rollout = await setting_the_first(here)
    here.journal.broken = True
    with pytest.raises(UnavailableError, match="the freeze holds, but is not saved"):
        await here.rollouts.set_freeze(True, "eve")
    assert here.rollouts.freeze.frozen
    here.journal.broken = False
    here.switches["a"].gate.set()
    await until(lambda: rollout.state.phase is Phase.FLEET)
    await here.rests(rollout)
    assert {here.runs["b"], here.runs["c"]} == {OLD}
    await here.rollouts.set_freeze(False, "eve")
    assert (await here.ended(rollout)).phase is Phase.DONE


async def test_a_thaw_takes_back_no_freeze_that_was_asked_for_while_it_was_written_down(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await here.rollouts.set_freeze(True, "ada")
    append = here.journal.append

    async def frozen_meanwhile(subject: str, at_s: float, document: bytes) -> None:
        monkeypatch.undo()
        await append(subject, at_s, document)
        here.journal.broken = True
        with pytest.raises(UnavailableError, match="the freeze holds, but is not saved"):
            await here.rollouts.set_freeze(True, "eve")

    monkeypatch.setattr(here.journal, "append", frozen_meanwhile)
    freeze = await here.rollouts.set_freeze(False, "ada")
    assert (freeze.frozen, freeze.by) == (True, "eve")


async def test_a_freeze_holds_though_one_before_it_was_written_down_late(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, gates = here.journal.append, [asyncio.Event() for _ in range(3)]
    waiting = iter(gates)

    async def slow(subject: str, at_s: float, document: bytes) -> None:
        await next(waiting).wait()
        await append(subject, at_s, document)

    monkeypatch.setattr(here.journal, "append", slow)
    asked = ((True, "ada"), (False, "bob"), (True, "eve"))
    first, thaw, last = [asyncio.create_task(here.rollouts.set_freeze(*one)) for one in asked]
    await until(lambda: here.rollouts.freeze.by == "eve")
    gates[0].set()
    await first
    gates[1].set()
    freeze = await thaw
    assert (freeze.frozen, freeze.by) == (True, "eve")
    gates[2].set()
    assert (await last).frozen


async def test_a_thaw_that_is_written_down_is_answered_though_a_rollout_cannot_be_told(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STALLED_S", 0.01)
    rollout = await setting_the_first(here)
    await here.rollouts.set_freeze(True, "eve")
    here.switches["a"].gate.set()
    await here.rests(rollout)
    here.journal.refuse_from = "Thawed"
    assert not (await here.rollouts.set_freeze(False, "eve")).frozen
    here.journal.refuse_from, here.journal.broken = None, False
    assert (await here.ended(rollout)).phase is Phase.DONE


async def test_what_is_set_is_confirmed_before_all_others_are_set() -> None:
    here = World({name: Switch(name) for name in "abc"}, Notes(), Eyes(), at_once=1)
    here.switches["b"].gate.clear()
    rollout = await here.rollouts.start(plan(("a", "b", "c"), soak_s=0.0), "ada")
    await until(lambda: "confirm" in here.switches["a"].calls)
    assert "apply" not in here.switches["c"].calls
    here.switches["b"].gate.set()
    assert (await here.ended(rollout)).phase is Phase.DONE
    await here.stop()


async def test_a_freeze_asked_for_before_the_journal_could_be_read_outlasts_what_it_says(here: World) -> None:
    await here.journal.append("freeze", T0, b'{"frozen":false,"by":"ada"}')
    here.journal.known, here.journal.broken = False, True
    with pytest.raises(UnavailableError, match="the freeze holds, but is not saved"):
        await here.rollouts.set_freeze(True, "eve")
    here.journal.broken = False
    await here.rollouts.resume()
    assert (here.rollouts.freeze.frozen, here.rollouts.freeze.by) == (True, "eve")
    assert here.rollouts.freeze.unknown is None


async def test_before_the_journal_is_read_it_is_unknown_whether_switches_are_frozen(here: World) -> None:
    here.journal.known = False
    freeze = here.rollouts.freeze
    assert (freeze.frozen, freeze.by, freeze.at_s) == (True, None, None)
    assert "could not be read" in (freeze.unknown or "")
    with pytest.raises(UnavailableError, match="the journal could not be read yet"):
        await here.rollouts.start(QUICK, "ada")
    await here.rollouts.resume()  # of an empty one: the first start
    assert here.rollouts.freeze == Freeze()
    assert (await here.rolled_out(QUICK)).phase is Phase.DONE


async def test_a_caller_that_leaves_leaves_no_rollout_half_begun(here: World) -> None:
    asking = asyncio.create_task(here.rollouts.start(QUICK, "ada"))
    await until(lambda: len(here.rollouts) == 1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    rollout = here.rollouts.get("r")
    await until(lambda: rollout.driver is not None)
    assert (await here.ended(rollout)).phase is Phase.DONE
    asking = asyncio.create_task(here.rollouts.roll_back("r", "ada"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: rollout.state.phase is Phase.ROLLED_BACK)
    assert here.runs == ALL_OLD
    assert here.journal.events() == rollout.events


async def test_whoever_listens_cannot_stop_a_rollout(here: World) -> None:
    def told(*_: Any) -> None:
        raise ZeroDivisionError

    here.event = told  # type: ignore[method-assign]
    assert (await here.rolled_out(QUICK)).phase is Phase.DONE
    assert here.rollouts.get("r").stalled is None


async def test_what_comes_after_the_end_is_refused_in_a_sentence() -> None:
    here = world()
    await here.rolled_out(QUICK)
    await here.stop()
    with pytest.raises(UnavailableError, match="service"):
        await here.rollouts.roll_back("r", "ada")


async def test_the_journal_is_let_go_only_when_nothing_is_on_its_way_to_a_switch(here: World) -> None:
    await setting_the_first(here)
    closed: list[bool] = []
    close = here.journal.close

    def noted() -> None:
        closed.append(here.runs["a"] == NEW)
        close()

    here.journal.close = noted  # type: ignore[method-assign]
    stopping = asyncio.create_task(here.rollouts.stop(0.01))
    await asyncio.sleep(0.1)
    here.switches["a"].gate.set()
    await stopping
    assert closed == [True]


@pytest.mark.parametrize("set_by_s", [-86_400.0, 86_400.0])
async def test_a_clock_that_is_set_meanwhile_moves_no_wait(here: World, set_by_s: float) -> None:
    here.switches["b"].meets["apply"] = [away("b"), away("b")]
    rollout = await here.rollouts.start(plan(soak_s=50.0, patience_s=5_000.0), "ada")
    await until(lambda: rollout.state.phase is Phase.SOAK)
    begun_s = rollout.state.since_s
    here.wall_ahead_s = set_by_s
    state = await here.ended(rollout)
    assert state.phase is Phase.DONE
    soaked = next(at_s for at_s, phase in state.phases if phase is Phase.FLEET) - begun_s
    assert 50.0 <= soaked < 1_000.0
    # The next rollout's times are those of the clock as it is now.
    later = await here.rollouts.start(plan(soak_s=0.0, rollout_id="r2"), "ada")
    assert abs(later.state.proposed_s - begun_s - set_by_s) < 10_000
    await here.ended(later)


async def test_a_frozen_rollout_waits_and_does_not_spin(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    wanted = runner.wanted

    def counted(state: Any, now_s: float, under_way: Any) -> Any:
        asked.append(now_s)
        return wanted(state, now_s, under_way)

    monkeypatch.setattr(runner, "wanted", counted)
    here.switches["a"].meets["apply"] = [away("a")]
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: any(isinstance(event, Failed) for event in here.heard))
    await here.rollouts.set_freeze(True, "eve")
    await here.rests(rollout)
    asked.clear()
    await asyncio.sleep(0.5)
    assert len(asked) <= 2
    await here.rollouts.set_freeze(False, "eve")
    assert (await here.ended(rollout)).phase is Phase.DONE


async def test_a_long_soak_and_a_switch_long_away_fill_neither_journal_nor_memory(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LONGEST_RETRY_S", 0.001)
    rollout = await here.rollouts.start(plan(soak_s=1e9), "ada")
    await until(lambda: sum(isinstance(event, Measured) for event in here.heard) > 30)
    assert rollout.state.measured is not None
    here.switches["a"].meets["undo"] = [away("a") for _ in range(12)]
    await here.rollouts.roll_back("r", "ada")
    assert (await here.ended(rollout)).phase is Phase.ROLLED_BACK
    assert sum(isinstance(event, Failed) for event in here.heard) == 12
    for kept in (here.journal.events(), rollout.events):
        assert sum(isinstance(event, Measured) for event in kept) <= 2
        assert sum(isinstance(event, Failed) for event in kept) == 1


async def test_undoing_counts_as_setting(here: World) -> None:
    await here.rolled_out(QUICK)
    set_s = here.rollouts.last_set_s
    await here.ended(await here.rollouts.roll_back("r", "ada"))
    undone_s = here.rollouts.last_set_s
    assert undone_s is not None
    assert set_s is not None
    assert undone_s > set_s


async def test_asking_twice_for_a_rollback_is_asking_once(here: World) -> None:
    await here.rolled_out(QUICK)
    for _ in range(3):
        await here.ended(await here.rollouts.roll_back("r", "ada"))
    assert [type(event).__name__ for event in here.journal.events()].count("RollbackAsked") == 1


async def test_a_dry_run_since_then_is_nothing_to_take_back_first(here: World) -> None:
    await here.rolled_out(QUICK)
    await here.rolled_out(plan(soak_s=0.0, rollout_id="r2", written=()))
    for one in here.switches.values():
        one.running = NEW
    assert (await here.ended(await here.rollouts.roll_back("r", "ada"))).phase is Phase.ROLLED_BACK


async def test_what_was_set_by_others_between_approval_and_staging_is_not_overwritten(here: World) -> None:
    await here.rolled_out(QUICK)
    here.switches["b"].running = FOREIGN  # nobody has read it yet
    state = await here.rolled_out(plan(soak_s=0.0, rollout_id="r2"))
    assert (state.phase, state.touched) == (Phase.ROLLED_BACK, ())
    assert "it was set elsewhere" in (state.why or "")
    assert here.runs["b"] == FOREIGN
    await here.fleet.refresh()
    assert here.fleet.drifted("b")


async def test_a_step_is_measured_from_what_the_switch_is_read_to_run(here: World) -> None:
    state = await here.rolled_out(plan(soak_s=0.0, max_step=2.0))  # OLD to NEW is a factor of 8
    assert (state.phase, state.touched, here.runs) == (Phase.ROLLED_BACK, (), ALL_OLD)
    assert "factor" in (state.why or "")


async def test_a_switch_that_does_not_answer_is_not_adopted(here: World) -> None:
    await here.rolled_out(QUICK)
    await here.fleet.refresh()
    here.switches["b"].meets["read"] = [away("b")]
    with pytest.raises(UnavailableError, match="'b'"):
        await here.rollouts.adopt("b", "ada")
    assert here.fleet.set_to("b") == NEW
    here.switches["b"].running = FOREIGN
    here.journal.broken = True
    with pytest.raises(UnavailableError):
        await here.rollouts.adopt("b", "ada")
    assert here.fleet.set_to("b") == NEW  # as the journal has it
    here.journal.broken = False
    assert await here.rollouts.adopt("b", "ada") == FOREIGN


async def test_what_is_forgotten_leaves_the_journal_and_what_it_set_stays_known() -> None:
    first = world()
    second = world()
    await first.rolled_out(plan(("c",), soak_s=0.0, rollout_id="first"))
    for number in range(30):
        mark = Watermark(1_000 + number, 90_000, 0.1)
        one = plan(("a",), soak_s=0.0, rollout_id=f"r{number}")
        await first.rolled_out(msgspec.structs.replace(one, targets={"a": mark}))
    entries = first.journal.read()
    assert len({entry.subject for entry in entries}) <= 13
    assert first.fleet.set_to("c") == NEW
    last = first.fleet.set_to("a")
    set_s = first.rollouts.last_set_s
    await first.stop()
    for entry in entries:
        await second.journal.append(entry.subject, entry.at_s, entry.document.encode())
    await second.rollouts.resume()
    assert (second.fleet.set_to("a"), second.fleet.set_to("c")) == (last, NEW)
    assert second.rollouts.last_set_s == set_s
    assert len(second.rollouts) == len(first.rollouts)
    await second.stop()


async def test_what_cannot_be_seen_is_silence(here: World) -> None:
    async def since(*_: Any) -> Figures:
        raise ZeroDivisionError

    here.eyes.since = since  # type: ignore[method-assign]
    state = await here.rolled_out(plan())
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)
    assert "ZeroDivisionError" in (state.why or "")


async def test_a_soak_whose_telemetry_stays_incomplete_ends(here: World) -> None:
    here.eyes.figures = [Figures(drops_per_s=0.0)]
    state = await here.rolled_out(plan())
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)
    assert "queue_mean_bytes" in (state.why or "")


@pytest.mark.parametrize("waits", ["frozen", "soaks"])
async def test_a_rollout_that_waited_for_long_goes_on_where_its_service_was_not_away(
    here: World, waits: str
) -> None:
    soak_s = 3 * manager.TOO_LATE_S
    of = plan(("a",), soak_s=soak_s if waits == "soaks" else 0.0)
    long_ago_s = T0 - 2 * manager.TOO_LATE_S
    events: list[Event] = [Proposed(at_s=long_ago_s, plan=of), Approved(at_s=long_ago_s, by="ada")]
    if waits == "frozen":
        events += [Frozen(at_s=long_ago_s, by="eve")]
        await here.journal.append("freeze", long_ago_s, b'{"frozen":true,"by":"eve"}')
    for event in events:
        await here.journal.append("r", event.at_s, encode(event))
    await here.rollouts.resume()
    assert here.rollouts.get("r").state.why is None


@pytest.mark.parametrize("refused", ["Resumed", "RollbackAsked"])
async def test_what_a_database_that_goes_again_keeps_from_going_on_goes_on_once_it_is_back(
    here: World, refused: str
) -> None:
    limits = QUICK.limits
    long_ago_s = T0 - 2 * manager.TOO_LATE_S - limits.patience_s - limits.unseen_s
    here.switches["a"].running = NEW
    events: list[Event] = [Proposed(at_s=long_ago_s, plan=QUICK), Approved(at_s=long_ago_s, by="ada")]
    events += [Staged(at_s=long_ago_s, switch=name, change=change_of(name)) for name in "abc"]
    events += [Applying(at_s=long_ago_s, switch="a")]
    for event in events:
        await here.journal.append("r", event.at_s, encode(event))
    here.journal.refuse_from = refused
    with pytest.raises(UnavailableError):
        await here.rollouts.resume()
    assert [type(event) for event in here.rollouts.get("r").events[: len(events)]] == list(map(type, events))
    here.journal.refuse_from, here.journal.broken = None, False
    await here.rollouts.resume()
    rollout = here.rollouts.get("r")
    assert sum(isinstance(event, Proposed) for event in rollout.events) == 1
    state = await here.ended(rollout)
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)


@pytest.mark.parametrize("touched", [False, True])
async def test_a_service_that_was_away_for_long_takes_back_what_it_had_begun(
    here: World, touched: bool
) -> None:
    limits = QUICK.limits
    long_ago_s = T0 - 2 * manager.TOO_LATE_S - limits.patience_s - limits.unseen_s
    events: list[Event] = [Proposed(at_s=long_ago_s, plan=QUICK), Approved(at_s=long_ago_s, by="ada")]
    if touched:
        here.switches["a"].running = NEW
        names = "abc"
        events += [Staged(at_s=long_ago_s, switch=name, change=change_of(name)) for name in names]
        events += [Applying(at_s=long_ago_s, switch="a")]
    for event in events:
        await here.journal.append("r", event.at_s, encode(event))
    await here.rollouts.resume()
    state = await here.ended(here.rollouts.get("r"))
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)
    assert "away for 2.0 h" in (state.why or "")

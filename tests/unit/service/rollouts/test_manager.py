"""The shell around the machine: all of it is journaled first, and whatever happens, the rollout ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from rollout.machine import not_undone, replay
from rollout.plan import Figures
from rollout.state import (
    Applied,
    Applying,
    Approved,
    Event,
    Failed,
    LeftAlone,
    Phase,
    Progress,
    Proposed,
    Undone,
    encode,
)
from service.rollouts import runner
from settings.errors import ConflictError, NotFoundError, SettingsError, UnavailableError
from switches.base import Capabilities, StagedChange
from switches.errors import ReadBackError
from tests.unit.rollout.rollouts import NEW, OLD, plan
from tests.unit.service.rollouts.world import (
    ALL_NEW,
    ALL_OLD,
    FOREIGN,
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


async def test_a_rollout_sets_the_canary_soaks_and_sets_the_others(here: World) -> None:
    state = await here.rolled_out(plan())
    assert (state.phase, state.approved_by, state.touched[0]) == (Phase.DONE, "ada", "a")
    assert here.runs == ALL_NEW
    assert [phase for _, phase in state.phases][2:] == [
        Phase.CANARY,
        Phase.SOAK,
        Phase.FLEET,
        Phase.DONE,
    ]
    assert set(here.timed) == {
        (name, step) for name in "abc" for step in ("stage", "apply", "verify", "confirm", "check")
    }
    assert here.rollouts.active == 0
    assert here.rollouts.newest(5) == [here.rollouts.get("r")]
    assert here.rollouts.newest(5, before="r") == []
    with pytest.raises(NotFoundError):
        here.rollouts.newest(5, before="s")


async def test_everything_told_is_in_the_journal_first(here: World) -> None:
    here.switches["c"].meets["verify"] = [ReadBackError("c", "old", "new", "look")]
    state = await here.rolled_out(QUICK)
    assert state.phase is Phase.ROLLED_BACK
    assert here.heard == here.journal.events() == here.rollouts.get("r").events
    assert here.before_its_entry == []
    assert here.runs == ALL_OLD


async def test_a_switch_is_written_down_as_about_to_be_set_before_it_is(here: World) -> None:
    here.journal.refuse_from = "Applying"
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: rollout.stalled)
    assert here.runs == ALL_OLD
    assert "apply" not in here.switches["a"].calls
    assert rollout.stalled is not None
    assert "make room" in rollout.stalled


@pytest.mark.parametrize("refused", ["Staged", "Applying", "Applied", "Verified", "Confirmed", "Checked"])
async def test_a_journal_that_fails_stops_all_and_goes_on_when_it_is_back(
    here: World, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STALLED_S", 0.01)
    here.journal.refuse_from = refused
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: rollout.stalled)
    written, refusals = len(here.journal.events()), here.journal.refusals
    await until(lambda: here.journal.refusals > refusals + 1)  # it tries again, in vain
    assert len(here.journal.events()) == written
    assert {here.runs["b"], here.runs["c"]} == {OLD}
    here.journal.broken, here.journal.refuse_from = False, None
    assert (await here.ended(rollout)).phase is Phase.DONE
    assert rollout.stalled is None
    assert here.runs == ALL_NEW


@pytest.mark.parametrize("refused", ["Proposed", "Approved"])
async def test_nothing_begins_where_its_beginning_cannot_be_written(here: World, refused: str) -> None:
    here.journal.refuse_from = refused
    with pytest.raises(UnavailableError):
        await here.rollouts.start(QUICK, "ada")
    assert (len(here.rollouts), here.rollouts.active, here.heard) == (0, 0, [])
    here.journal.broken, here.journal.refuse_from = False, None
    assert (await here.rolled_out(QUICK)).phase is Phase.DONE  # the same id, and none in its way


async def test_a_switch_that_is_away_for_a_while_is_tried_again(here: World) -> None:
    here.switches["b"].meets = {"stage": [away("b")], "apply": [away("b")] * 2, "verify": [away("b")]}
    assert (await here.rolled_out(QUICK)).phase is Phase.DONE
    assert sum(isinstance(event, Failed) for event in here.heard) == 4


async def test_a_change_that_the_device_took_back_before_it_was_confirmed_is_not_called_set() -> None:
    """Its timer ran out: confirming finds nothing to end, and says nothing of it."""

    class Impatient(Switch):
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities(), dead_man=True)

        def confirm(self, change: StagedChange) -> None:
            super().confirm(change)
            self.running = OLD

    here = World({"a": Switch("a"), "b": Impatient("b"), "c": Switch("c")}, Notes(), Eyes())
    state = await here.rolled_out(QUICK)
    assert state.phase is Phase.ROLLED_BACK
    assert "confirm failed" in str(state.why)
    assert here.runs == ALL_OLD
    await here.stop()


async def test_patience_ends(here: World) -> None:
    here.switches["b"].meets["apply"] = [away("b") for _ in range(1_000)]
    state = await here.rolled_out(plan(soak_s=0.0, patience_s=20.0))
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)
    assert state.why is not None
    assert state.why.startswith("apply failed")


async def test_an_adapter_that_breaks_its_contract_is_rolled_back_too(here: World) -> None:
    here.switches["b"].meets["verify"] = [ZeroDivisionError()]
    state = await here.rolled_out(QUICK)
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)
    assert "ZeroDivisionError" in (state.why or "")


@pytest.mark.parametrize("figures", [Figures(drops_per_s=5.0), Figures(pause_share=0.5)])
async def test_what_telemetry_sees_takes_the_canary_back(here: World, figures: Figures) -> None:
    here.eyes.figures = [figures]
    state = await here.rolled_out(plan())
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD)
    assert (state.why or "").startswith("a guard is breached")
    assert "apply" not in here.switches["b"].calls


async def test_silence_takes_the_canary_back(here: World) -> None:
    here.eyes.silence = "no INT report for 16 s"
    state = await here.rolled_out(plan())
    assert (state.phase, state.why, here.runs) == (Phase.ROLLED_BACK, here.eyes.silence, ALL_OLD)


async def test_what_somebody_else_has_set_is_left_alone_and_is_drift(here: World) -> None:
    await here.rolled_out(QUICK)
    here.switches["b"].running = FOREIGN
    state = await here.ended(await here.rollouts.roll_back("r", "ada"))
    assert state.phase is Phase.ROLLED_BACK
    assert here.runs == ALL_OLD | {"b": FOREIGN}
    assert any(isinstance(event, LeftAlone) for event in here.heard)
    await here.fleet.refresh()
    assert [name for name in "abc" if here.fleet.drifted(name)] == ["b"]


async def test_an_undo_that_never_succeeds_is_given_up_and_the_switch_is_free(here: World) -> None:
    await here.rolled_out(plan(soak_s=0.0, patience_s=1.0))
    here.switches["b"].meets["undo"] = [away("b")] * 100
    rollout = await here.rollouts.roll_back("r", "ada")
    await until(lambda: not_undone(rollout.state, here.rollouts.now_s()))
    again = plan(("b",), soak_s=0.0, rollout_id="r2")
    with pytest.raises(ConflictError, match=r"bring back b, .* or give it up"):
        await here.rollouts.start(again, "ada")
    await here.rollouts.give_up("r", "b", "ada", "its line card is dead")
    state = await here.ended(rollout)
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_OLD | {"b": NEW})
    one = state.members["b"]
    assert one.progress is Progress.GIVEN_UP
    assert one.detail.startswith("ada has given it up (its line card is dead): it was last read to run Kmin")
    assert "no answer" in one.detail
    assert replay(here.journal.events()) == state
    assert await here.rollouts.give_up("r", "b", "eve", "again") is rollout
    assert here.rollouts.get("r").state == state
    await here.fleet.refresh()
    assert (here.fleet.set_to("b"), here.fleet.drifted("b"), here.fleet.runs("b")) == (None, False, NEW)
    assert (await here.rolled_out(again)).phase is Phase.DONE


async def test_what_is_not_stuck_in_an_undo_is_not_given_up(here: World) -> None:
    async def refused(says: str, rollout_id: str = "r", member: str = "a") -> None:
        with pytest.raises((ConflictError, NotFoundError), match=says):
            await here.rollouts.give_up(rollout_id, member, "ada", "because")

    here.switches["a"].gate.clear()
    rollout = await here.rollouts.start(plan(soak_s=0.0), "ada")
    await until(lambda: rollout.state.members["a"].progress is Progress.APPLYING)
    await refused("a rollout in phase canary; .* roll it back first")
    await refused("not found", rollout_id="nothing")
    await refused("ecntwin rollouts r lists them", member="stranger")
    here.switches["a"].gate.set()
    await here.ended(rollout)
    here.switches["a"].meets["undo"] = [away("a")]
    await here.rollouts.roll_back("r", "ada")
    await until(lambda: rollout.state.members["a"].failing_since_s is not None)
    await refused(r"an undo that has failed for \d+ s; .* has failed for 30 s.* tried again by itself")
    await here.ended(rollout)
    await refused("a rollout in phase rolled back; .* leave it as it is")
    assert here.runs == ALL_OLD


async def test_a_change_under_way_is_no_drift(here: World) -> None:
    drifted: list[str] = []
    noted = here.fleet.note

    def note(reading: Any) -> None:
        noted(reading)
        drifted.extend(name for name in "abc" if here.fleet.drifted(name))

    here.fleet.note = note  # type: ignore[method-assign]
    await here.rolled_out(QUICK)
    await here.rolled_out(plan(soak_s=0.0, rollout_id="r2"))
    assert here.fleet.set_to("a") == NEW
    await here.ended(await here.rollouts.roll_back("r2", "ada"))
    await here.ended(await here.rollouts.roll_back("r", "ada"))
    await here.fleet.refresh()
    assert drifted == []
    assert not any(here.fleet.drifted(name) for name in "abc")
    assert here.fleet.set_to("a") == OLD


async def test_two_rollouts_on_the_same_switches_are_a_conflict_and_on_others_are_not(here: World) -> None:
    here.switches["a"].gate.clear()
    first = await here.rollouts.start(plan(("a",), ("b",), soak_s=0.0), "ada")
    with pytest.raises(ConflictError, match="rollout r is under way"):
        await here.rollouts.start(plan(("b",), soak_s=0.0, rollout_id="r2"), "eve")
    other = await here.rollouts.start(plan(("c",), soak_s=0.0, rollout_id="r3"), "eve")
    assert (await here.ended(other)).phase is Phase.DONE
    assert here.rollouts.active == 1
    here.switches["a"].gate.set()
    assert (await here.ended(first)).phase is Phase.DONE


async def test_of_two_that_begin_at_once_one_does(here: World) -> None:
    plans = (QUICK, plan(soak_s=0.0, rollout_id="r2"))
    begun = await asyncio.gather(*(here.rollouts.start(one, "ada") for one in plans), return_exceptions=True)
    assert sorted(isinstance(one, ConflictError) for one in begun) == [False, True]


async def test_a_rollout_does_not_take_the_place_of_one_with_its_id(here: World) -> None:
    first = await here.rollouts.start(plan(("a",), soak_s=0.0), "ada")
    with pytest.raises(ConflictError, match="one of that id has begun"):
        await here.rollouts.start(plan(("b",), soak_s=0.0), "eve")
    assert here.rollouts.get("r") is first
    assert (await here.ended(first)).phase is Phase.DONE


async def test_an_old_rollout_is_not_taken_back_while_a_later_one_stands(here: World) -> None:
    third = Watermark(1, 2, 0.5)
    await here.rolled_out(QUICK)
    later = plan(("a",), soak_s=0.0, rollout_id="r2")
    await here.rolled_out(msgspec.structs.replace(later, targets={"a": third}))
    with pytest.raises(ConflictError, match="roll back r2 first"):
        await here.rollouts.roll_back("r", "ada")
    assert here.runs == ALL_NEW | {"a": third}
    await here.ended(await here.rollouts.roll_back("r2", "ada"))
    assert here.runs == ALL_NEW
    await here.ended(await here.rollouts.roll_back("r", "ada"))
    assert here.runs == ALL_OLD
    with pytest.raises(NotFoundError):
        await here.rollouts.roll_back("r9", "ada")


async def test_a_rollback_in_the_middle_waits_for_the_step_under_way_and_undoes_it(here: World) -> None:
    here.switches["a"].gate.clear()
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: "apply" in here.switches["a"].calls)
    await here.rollouts.roll_back("r", "eve")
    assert rollout.state.phase is Phase.ROLLING_BACK
    assert "undo" not in here.switches["a"].calls
    here.switches["a"].gate.set()
    state = await here.ended(rollout)
    assert (state.phase, state.why, here.runs) == (Phase.ROLLED_BACK, "eve asked for it", ALL_OLD)


async def test_while_frozen_nothing_begins_nothing_is_set_and_undoing_goes_on(here: World) -> None:
    await here.rolled_out(plan(("c",), soak_s=0.0, rollout_id="r0"))
    here.switches["a"].gate.clear()
    rollout = await here.rollouts.start(plan(("a",), ("b",), soak_s=0.0), "ada")
    await until(lambda: "apply" in here.switches["a"].calls)
    freeze = await here.rollouts.set_freeze(True, "eve")
    assert (freeze.frozen, freeze.by) == (True, "eve")
    with pytest.raises(ConflictError, match="frozen by eve"):
        await here.rollouts.start(plan(("c",), rollout_id="r2"), "ada")
    here.switches["a"].gate.set()
    await until(lambda: rollout.state.phase is Phase.FLEET)
    await here.rests(rollout)
    assert "apply" not in here.switches["b"].calls
    await here.ended(await here.rollouts.roll_back("r0", "eve"))
    assert here.runs == {"a": NEW, "b": OLD, "c": OLD}
    await here.rollouts.set_freeze(False, "ada")
    assert (await here.ended(rollout)).phase is Phase.DONE
    assert here.runs == {"a": NEW, "b": NEW, "c": OLD}


async def test_where_pushing_was_turned_off_meanwhile_nothing_is_done_nor_said_to_be(here: World) -> None:
    await here.rolled_out(QUICK)
    here.switches["a"].writes = False
    rollout = await here.rollouts.roll_back("r", "ada")
    await until(lambda: any(isinstance(event, Failed) for event in here.heard))
    assert here.runs["a"] == NEW
    assert not rollout.state.phase.ended
    here.switches["a"].writes = True
    assert (await here.ended(rollout)).phase is Phase.ROLLED_BACK


async def test_a_dry_run_stays_one_where_pushing_was_turned_on_meanwhile(here: World) -> None:
    state = await here.rolled_out(plan(written=()))
    assert (state.phase, here.runs) == (Phase.DONE, ALL_OLD)
    for switch in here.switches.values():
        switch.running = NEW
    state = await here.ended(await here.rollouts.roll_back("r", "ada"))
    assert (state.phase, here.runs) == (Phase.ROLLED_BACK, ALL_NEW)


async def test_a_switch_that_is_not_known_is_retried_until_it_is_seen(here: World) -> None:
    rollout = await here.rollouts.start(QUICK, "ada")
    await here.ended(rollout)
    del here.fleet._adapters["b"]  # as in a service that restarted, and has not seen it yet
    await here.rollouts.roll_back("r", "ada")
    await until(lambda: rollout.state.members["b"].detail or rollout.stalled)
    assert rollout.stalled is None
    assert "switch 'b': not found" in rollout.state.members["b"].detail
    here.fleet.saw(["b"])
    assert (await here.ended(rollout)).phase is Phase.ROLLED_BACK
    assert here.runs == ALL_OLD


async def journaled(*, rolled_back: bool) -> list[Event]:
    """Everything that happens to a rollout that works, and where wanted to its rollback."""
    here = world()
    await here.rolled_out(QUICK)
    if rolled_back:
        await here.ended(await here.rollouts.roll_back("r", "ada"))
    await here.stop()
    return here.heard


def as_left(events: Sequence[Event], *, about_to: bool) -> dict[str, Watermark]:
    """What the switches run after these; ``about_to``: what was about to be done was done."""
    runs = dict(ALL_OLD)
    for event in events:
        if isinstance(event, Applied) or (about_to and isinstance(event, Applying)):
            runs[event.switch] = NEW
        elif isinstance(event, Undone):
            runs[event.switch] = OLD
    return runs


@pytest.mark.parametrize("about_to", [False, True])
@pytest.mark.parametrize("rolled_back", [False, True])
async def test_wherever_a_service_ends_the_next_one_ends_its_rollouts(
    rolled_back: bool, about_to: bool
) -> None:
    events = await journaled(rolled_back=rolled_back)
    asked = next((n for n, event in enumerate(events) if type(event).__name__ == "RollbackAsked"), None)
    for length in range(1, len(events) + 1):
        left = events[:length]
        here = world(**as_left(left, about_to=about_to))
        for event in left:
            await here.journal.append("r", event.at_s, encode(event))
        await here.rollouts.resume()
        if length == 1:  # proposed, and approved by nobody
            assert len(here.rollouts) == 0
        else:
            state = await here.ended(here.rollouts.get("r"))
            back = asked is not None and length > asked
            assert state.phase is (Phase.ROLLED_BACK if back else Phase.DONE), (length, state)
            assert here.runs == (ALL_OLD if back else ALL_NEW)
        await here.stop()


async def test_what_was_set_frozen_and_adopted_is_known_to_the_next_service() -> None:
    first = world()
    second = world()
    await first.rolled_out(QUICK)
    first.switches["b"].running = FOREIGN
    assert await first.rollouts.adopt("b", "ada") == FOREIGN
    await first.rollouts.set_freeze(True, "ada")
    saved = first.journal.read()
    await first.stop()
    for entry in saved:
        await second.journal.append(entry.subject, entry.at_s, entry.document.encode())
    await second.rollouts.resume()
    assert (second.rollouts.freeze.frozen, second.rollouts.freeze.by) == (True, "ada")
    assert {name: second.fleet.set_to(name) for name in "abc"} == {"a": NEW, "b": FOREIGN, "c": NEW}
    assert second.rollouts.last_set_s == first.rollouts.last_set_s is not None
    await second.fleet.refresh()
    assert second.fleet.drifted("a")  # it runs what it ran before
    await second.stop()


@pytest.mark.parametrize(
    ("subject", "document"),
    [
        ("r", b"not JSON"),
        ("r", b'{"type":"Teleported","at_s":1}'),
        ("freeze", b"{}"),
        ("adopted", b'{"switch":"a","watermark":{"kmin_bytes":9,"kmax_bytes":1,"pmax":2}}'),
    ],
)
async def test_a_journal_of_something_else_is_said_and_not_guessed_at(
    here: World, subject: str, document: bytes
) -> None:
    await here.journal.append(subject, 1.0, document)
    with pytest.raises(SettingsError, match="entry 1 of the journal"):
        await here.rollouts.resume()


async def test_a_proposal_that_nobody_approved_gives_way_to_the_next_of_its_id(here: World) -> None:
    for one in (plan(("a",), soak_s=0.0), plan(("b",), soak_s=0.0)):
        await here.journal.append("r", T0, encode(Proposed(at_s=T0, plan=one)))
    await here.journal.append("r", T0, encode(Approved(at_s=T0, by="ada")))
    await here.rollouts.resume()
    state = await here.ended(here.rollouts.get("r"))
    assert state.phase is Phase.DONE
    assert here.runs == ALL_OLD | {"b": NEW}


async def test_stopping_leaves_a_rollout_where_it_is() -> None:
    here = world()
    here.switches["a"].gate.clear()
    rollout = await here.rollouts.start(QUICK, "ada")
    await until(lambda: "apply" in here.switches["a"].calls)
    stopping = asyncio.create_task(here.stop())
    await asyncio.sleep(0)
    here.switches["a"].gate.set()
    await stopping
    # What was under way ended and was written down; nothing more began.
    assert rollout.state.members["a"].progress is Progress.APPLIED
    assert here.switches["b"].calls.count("apply") == 0


async def test_only_so_many_ended_rollouts_are_remembered(here: World) -> None:
    for number in range(14):
        await here.rolled_out(plan(("a",), soak_s=0.0, rollout_id=f"r{number}"))
    assert len(here.rollouts) <= 11
    with pytest.raises(NotFoundError, match="newest 10 rollouts"):
        here.rollouts.get("r0")

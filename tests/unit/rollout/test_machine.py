"""The rollout machine phase by phase, event by event: what it wants next, and where it ends."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from rollout.machine import (
    FIRST_RETRY_S,
    LONGEST_RETRY_S,
    advance,
    next_due_s,
    not_undone,
    replay,
    wanted,
    wanted_of,
)
from rollout.state import (
    Applied,
    Apply,
    Applying,
    Approved,
    Check,
    Checked,
    Confirm,
    Confirmed,
    Event,
    Frozen,
    GivenUp,
    LeftAlone,
    MemberAction,
    Phase,
    Progress,
    Proposed,
    Resumed,
    RollbackAsked,
    RolloutState,
    Stage,
    Staged,
    Step,
    Thawed,
    Undo,
    Undone,
    Verified,
    Verify,
    Watch,
    WentSilent,
    decode,
    encode,
)
from tests.unit.rollout.rollouts import (
    NEW,
    T0,
    after,
    all_set,
    approved,
    change_of,
    checked,
    done,
    failed,
    in_the_fleet,
    measured,
    plan,
    proposed,
    setting,
    soaking,
    staged,
)

LATER = T0 + 10_000
CHECK_A = Check((change_of("a"),))
RESUMED = Resumed(at_s=T0 + 60, checks=True)
ASKED = RollbackAsked(at_s=T0 + 60, by="ada")
SET_ALL: list[Event] = [
    Proposed(at_s=T0, plan=plan()),
    Approved(at_s=T0, by="ada", checks=True),
    *(Staged(at_s=T0 + 1, switch=name, change=change_of(name)) for name in "abc"),
    *setting("a"),
    measured(T0 + 12),
    checked("a"),
    *setting("b", T0 + 13),
    *setting("c", T0 + 13),
    checked("a", "b", "c"),
]


def undone(*names: str, at_s: float = T0 + 50) -> list[Event]:
    return [Undone(at_s=at_s, switch=name) for name in names]


def test_nothing_happens_before_it_is_approved() -> None:
    state = proposed()
    assert state.phase is Phase.PROPOSED
    assert wanted(state, LATER) == ()
    assert after(state, *setting("a")) == state


def test_every_switch_is_staged_before_any_is_set() -> None:
    state = approved()
    assert (state.phase, state.approved_by) == (Phase.APPROVED, "ada")
    assert wanted(state, LATER) == tuple(Stage(name, NEW) for name in "abc")
    state = after(state, *(Staged(at_s=T0, switch=name, change=change_of(name)) for name in "ac"))
    assert wanted(state, LATER) == (Stage("b", NEW),)
    assert state.touched == ()


def test_a_canary_is_set_step_by_step_and_alone() -> None:
    state, change = staged(), change_of("a")
    assert state.phase is Phase.CANARY
    assert wanted(state, LATER) == (Apply("a", change),)
    state = advance(state, Applying(at_s=T0, switch="a"))
    assert state.touched == ("a",)
    assert wanted(state, LATER) == (Apply("a", change),)  # nobody knows whether it was: it is made again
    state = advance(state, Applied(at_s=T0, switch="a"))
    assert wanted(state, LATER) == (Verify("a", change),)
    state = advance(state, Verified(at_s=T0, switch="a", runs=NEW))
    assert wanted(state, LATER) == (Confirm("a", change),)
    state = advance(state, Confirmed(at_s=T0 + 3, switch="a"))
    assert (state.phase, state.soak_from_s) == (Phase.SOAK, T0 + 3)
    assert wanted(state, LATER) == (Watch(("a",), T0 + 3),)


def test_a_quiet_soak_leads_to_the_fleet_and_that_to_the_end() -> None:
    state = soaking()
    state = after(state, measured(T0 + 11))
    assert state.phase is Phase.SOAK  # 9 of 10 s
    state = after(state, measured(T0 + 12), checked("a"))
    assert (state.phase, state.stage, state.current) == (Phase.FLEET, 1, ("b", "c"))
    assert wanted(state, LATER) == (Apply("b", change_of("b")), Apply("c", change_of("c")))
    state = after(state, *setting("c", T0 + 13))
    assert state.phase is Phase.FLEET
    state = after(state, *setting("b", T0 + 14), checked("a", "b", "c"))
    assert (state.phase, state.touched, state.why) == (Phase.DONE, ("a", "c", "b"), None)
    assert wanted(state, LATER) == ()
    assert [phase for _, phase in state.phases] == [
        Phase.PROPOSED,
        Phase.APPROVED,
        Phase.CANARY,
        Phase.SOAK,
        Phase.FLEET,
        Phase.DONE,
    ]


def test_a_soak_does_not_end_before_telemetry_has_seen_all_of_it() -> None:
    # What was told before is told again before it is judged, and the queue in any case.
    for missing in ("queue_mean_bytes", "drops_per_s", "pause_share"):
        state = after(soaking(), measured(T0 + 50, **{missing: None}))
        assert state.phase is Phase.SOAK
        assert after(state, measured(T0 + 51), checked("a")).phase is Phase.FLEET
    assert after(soaking(), measured(T0 + 50, pfc_frames_per_s=None), checked("a")).phase is Phase.FLEET


def test_a_soak_that_telemetry_never_shows_all_of_is_taken_back() -> None:
    state = after(soaking(), measured(T0 + 12 + 74, drops_per_s=None))
    assert state.phase is Phase.SOAK
    state = after(state, measured(T0 + 12 + 75, drops_per_s=None))
    assert (state.phase, state.why) == (
        Phase.ROLLING_BACK,
        "telemetry does not report drops_per_s since the change, 75 s after the soak",
    )


def test_without_a_soak_nothing_is_watched() -> None:
    state = after(staged(plan(soak_s=0.0)), *setting("a"), checked("a"))
    assert (state.phase, state.soak_from_s) == (Phase.FLEET, None)
    assert not any(isinstance(action, Watch) for action in wanted(state, LATER))
    assert advance(state, measured(T0 + 20, pause_share=1.0)) == state


def test_batches_soak_too_where_that_is_wanted_and_are_watched_while_they_are_set() -> None:
    of = plan(("a",), ("b",), ("c",), batch_soak_s=5.0)
    state = in_the_fleet(of)
    assert wanted(state, LATER) == (Apply("b", change_of("b")), Watch(("a", "b"), T0 + 2))
    state = after(state, *setting("b", T0 + 20))
    assert (state.phase, state.stage, state.soak_from_s) == (Phase.SOAK, 1, T0 + 20)
    assert wanted(state, LATER) == (Watch(("a", "b"), T0 + 20),)
    state = after(state, measured(T0 + 24))
    assert state.phase is Phase.SOAK
    state = after(state, measured(T0 + 25), checked("a", "b"))
    assert (state.phase, state.current) == (Phase.FLEET, ("c",))
    state = after(state, *setting("c", T0 + 30), measured(T0 + 35), checked("a", "b", "c"))
    assert state.phase is Phase.DONE


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("pause_share", 0.011),
        ("pfc_frames_per_s", 100.1),
        ("drops_per_s", 0.1),
        ("queue_mean_bytes", 210_001.0),
        ("throughput_bytes_per_s", 4.9e8),
    ],
)
def test_a_breached_guard_takes_the_canary_back(figure: str, value: float) -> None:
    state = after(soaking(), measured(T0 + 5, **{figure: value}))
    assert state.phase is Phase.ROLLING_BACK
    assert state.why is not None
    assert state.why.startswith("a guard is breached: ")
    assert state.measured is not None
    assert getattr(state.measured, figure) == value
    assert wanted(state, LATER) == (Undo("a", change_of("a")),)
    state = after(state, *undone("a"))
    assert (state.phase, state.members["a"].progress) == (Phase.ROLLED_BACK, Progress.RESTORED)
    assert state.members["b"].progress is Progress.STAGED  # never touched


def test_silence_in_a_soak_takes_it_back() -> None:
    state = after(soaking(), WentSilent(at_s=T0 + 5, sentence="no INT report for 16 s"))
    assert (state.phase, state.why) == (Phase.ROLLING_BACK, "no INT report for 16 s")


def test_silence_means_nothing_where_nobody_watches() -> None:
    said = WentSilent(at_s=T0 + 5, sentence="no INT report for 16 s")
    for state in (approved(), staged(), done()):
        assert advance(state, said) == state


@pytest.mark.parametrize("step", ["apply", "verify", "confirm"])
def test_what_may_pass_is_tried_again_ever_more_rarely_until_patience_ends(step: Step) -> None:
    ran = {"apply": 0, "verify": 2, "confirm": 3}[step]
    state, at_s, pauses = after(staged(), *setting("a")[:ran]), T0 + 10, []
    while True:
        if step == "apply":
            state = advance(state, Applying(at_s=at_s, switch="a"))  # which each try begins with
        state = advance(state, failed("a", step, at_s))
        if state.phase is not Phase.CANARY:
            break
        due_s = next_due_s(state, at_s)
        assert due_s is not None
        assert wanted(state, due_s - 0.01) == ()
        assert len(wanted(state, due_s)) == 1
        pauses.append(due_s - at_s)
        at_s = due_s
    assert pauses[:4] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S, 8 * FIRST_RETRY_S]
    assert max(pauses) <= LONGEST_RETRY_S
    assert 30.0 <= at_s - (T0 + 10) <= 30.0 + LONGEST_RETRY_S
    assert (state.phase, state.why) == (Phase.ROLLING_BACK, f"{step} failed: a is away")
    assert wanted(state, at_s) == (Undo("a", change_of("a")),)  # at once: patience is for setting


def test_a_try_that_works_ends_the_count() -> None:
    state = after(staged(), Applying(at_s=T0, switch="a"), failed("a", "apply", T0))
    assert (state.members["a"].attempts, state.members["a"].failing_since_s) == (1, T0)
    assert wanted(state, T0 + FIRST_RETRY_S) == (Apply("a", change_of("a")),)
    state = after(state, Applied(at_s=T0 + 29, switch="a"), failed("a", "verify", T0 + 31))
    assert state.phase is Phase.CANARY  # patience began anew
    assert state.members["a"].attempts == 1


def test_what_cannot_pass_turns_back_at_once() -> None:
    state = after(in_the_fleet(), *setting("b", T0 + 13), Applying(at_s=T0 + 14, switch="c"))
    state = advance(state, failed("c", "verify", T0 + 15, passing=False))
    assert (state.phase, state.why) == (Phase.ROLLING_BACK, "verify failed: c is away")
    assert [action.switch for action in wanted(state, LATER) if isinstance(action, Undo)] == ["c", "b", "a"]


def test_a_failure_to_stage_touches_nothing() -> None:
    state = advance(approved(), failed("b", "stage", T0 + 1, passing=False))
    assert (state.phase, state.touched) == (Phase.ROLLED_BACK, ())
    assert advance(state, Staged(at_s=T0 + 2, switch="a", change=change_of("a"))).phase is Phase.ROLLED_BACK


def test_an_undo_is_never_given_up() -> None:
    state = advance(soaking(), RollbackAsked(at_s=T0 + 3, by="ada"))
    for number in range(100):
        state = advance(state, failed("a", "undo", T0 + 100 * number, passing=number % 2 == 0))
        assert state.phase is Phase.ROLLING_BACK
    due_s = next_due_s(state, T0 + 9_900)
    assert due_s is not None
    assert due_s <= T0 + 9_900 + LONGEST_RETRY_S
    assert wanted(state, due_s) == (Undo("a", change_of("a")),)
    assert after(state, *undone("a")).phase is Phase.ROLLED_BACK


def test_what_somebody_else_has_set_since_is_left_alone() -> None:
    state = after(done(), RollbackAsked(at_s=T0 + 40, by="ada"), *undone("c"))
    state = advance(state, LeftAlone(at_s=T0 + 41, switch="b", sentence="it runs what nobody here set"))
    assert wanted(state, LATER) == (Undo("a", change_of("a")),)
    state = after(state, *undone("a"))
    assert state.phase is Phase.ROLLED_BACK
    assert {name: one.progress for name, one in state.members.items()} == {
        "a": Progress.RESTORED,
        "b": Progress.LEFT_ALONE,
        "c": Progress.RESTORED,
    }
    assert state.members["b"].detail == "it runs what nobody here set"


def given_up(name: str) -> GivenUp:
    return GivenUp(at_s=T0 + 99, switch=name, by="ada", sentence=f"ada has given {name} up")


def test_an_undo_is_given_up_and_those_of_the_others_go_on() -> None:
    back = after(done(), RollbackAsked(at_s=T0 + 40, by="ada"), failed("b", "undo", T0 + 41))
    assert (not_undone(back, T0 + 70), not_undone(back, T0 + 71)) == ((), ("b",))
    state = after(back, given_up("b"), *undone("c"))
    assert (state.members["b"].progress, state.members["b"].detail) == (
        Progress.GIVEN_UP,
        "ada has given b up",
    )
    assert (not_undone(state, LATER), next_due_s(state, T0 + 41)) == ((), None)
    for going_on in (state, after(state, RESUMED), after(state, failed("b", "undo", T0 + 100))):
        assert going_on.members["b"] == state.members["b"]
        assert wanted(going_on, LATER) == (Undo("a", change_of("a")),)
        assert after(going_on, *undone("a")).phase is Phase.ROLLED_BACK


def test_a_try_that_was_under_way_when_it_was_given_up_may_succeed() -> None:
    state = after(soaking(), RollbackAsked(at_s=T0 + 3, by="ada"), given_up("a"))
    assert (state.phase, state.members["a"].progress) == (Phase.ROLLED_BACK, Progress.GIVEN_UP)
    state = after(state, *undone("a"))
    assert (state.phase, state.members["a"].progress) == (Phase.ROLLED_BACK, Progress.RESTORED)


def test_only_an_undo_is_given_up() -> None:
    for state in (soaking(), done(), after(soaking(), RollbackAsked(at_s=T0 + 3, by="ada"), *undone("a"))):
        assert after(state, given_up("a"), given_up("b"), given_up("stranger")) == state


PHASES: list[tuple[str, Callable[[], RolloutState], tuple[str, ...]]] = [
    ("proposed", proposed, ()),
    ("approved", approved, ()),
    ("canary", staged, ()),
    ("canary, applying", lambda: after(staged(), Applying(at_s=T0, switch="a")), ("a",)),
    ("soak", soaking, ("a",)),
    ("fleet", in_the_fleet, ("a",)),
    ("fleet, half", lambda: after(in_the_fleet(), *setting("c", T0 + 13)), ("c", "a")),
    ("fleet, all", all_set, ("c", "b", "a")),
    ("done", done, ("c", "b", "a")),
]
each_phase = pytest.mark.parametrize(
    ("state", "touched"), [(make(), touched) for _, make, touched in PHASES], ids=[one[0] for one in PHASES]
)


@each_phase
def test_an_operator_may_take_it_back_in_any_phase(state: RolloutState, touched: tuple[str, ...]) -> None:
    state = advance(state, RollbackAsked(at_s=T0 + 40, by="ada"))
    assert state.why == "ada asked for it"
    assert tuple(action.switch for action in wanted(state, LATER)) == touched
    assert state.phase is (Phase.ROLLING_BACK if touched else Phase.ROLLED_BACK)
    state = after(state, *undone(*touched))
    assert state.phase is Phase.ROLLED_BACK
    assert advance(state, RollbackAsked(at_s=T0 + 60, by="eve")) == state


@each_phase
def test_a_service_that_starts_anew_goes_on_from_any_phase(
    state: RolloutState, touched: tuple[str, ...]
) -> None:
    at_s = T0 + 30
    again = advance(state, Resumed(at_s=at_s, checks=True))
    assert (again.phase, again.stage, again.touched) == (state.phase, state.stage, state.touched)
    actions = wanted(again, LATER)
    for action in wanted(state, LATER):
        expected = action if not isinstance(action, Watch) else Watch(action.switches, at_s)
        held_back = isinstance(action, Apply) and any(isinstance(one, Check) for one in actions)
        assert (expected in actions) != held_back


def test_after_a_crash_an_unconfirmed_change_is_made_again() -> None:
    # The device may have undone it by itself while nobody was there to confirm it.
    for happened in (setting("a")[:2], setting("a")[:3]):
        state = after(staged(), *happened, failed("a", "verify", T0), Resumed(at_s=T0 + 90))
        assert wanted(state, T0 + 90) == (Apply("a", change_of("a")),)
        assert (state.members["a"].attempts, state.members["a"].failing_since_s) == (0, None)


def test_after_a_crash_a_soak_begins_anew() -> None:
    for left in (soaking(), after(soaking(), measured(T0 + 12))):  # which was to be read once more
        state = after(left, RESUMED, checked("a"))
        state = after(state, measured(T0 + 69), checked("a"))
        assert state.phase is Phase.SOAK
        assert after(state, measured(T0 + 70), checked("a")).phase is Phase.FLEET


def test_a_rollback_goes_on_after_a_crash() -> None:
    state = after(done(), RollbackAsked(at_s=T0 + 40, by="ada"), *undone("c"), Resumed(at_s=T0 + 60))
    assert [action.switch for action in wanted(state, LATER) if isinstance(action, Undo)] == ["b", "a"]


def test_frozen_switches_are_not_set_and_what_is_set_is_still_seen_through() -> None:
    frozen = advance(staged(), Frozen(at_s=T0 + 1, by="ada"))
    assert wanted(frozen, LATER) == ()
    assert wanted(advance(approved(), Frozen(at_s=T0, by="ada")), LATER) == ()
    state = after(frozen, *setting("a")[:2])  # it was under way
    assert wanted(state, LATER) == (Verify("a", change_of("a")),)
    state = after(state, *setting("a")[2:], measured(T0 + 12))
    assert CHECK_A in wanted(state, LATER)  # to read sets nothing
    state = after(state, checked("a"))
    assert (state.phase, wanted(state, LATER)) == (Phase.FLEET, ())
    state = advance(state, Thawed(at_s=T0 + 100_000, by="ada"))
    assert wanted(state, LATER) == (CHECK_A,)  # what was read is from long ago
    assert len(wanted(advance(state, checked("a")), LATER)) == 2


@pytest.mark.parametrize(
    ("begun", "step"), [(approved(), "stage"), (after(staged(), Applying(at_s=T0, switch="a")), "apply")]
)
def test_time_spent_frozen_does_not_use_up_the_patience(begun: RolloutState, step: Step) -> None:
    frozen = after(begun, failed("a", step, T0 + 3), Frozen(at_s=T0 + 5, by="ada"))
    thawed = advance(frozen, Thawed(at_s=T0 + 605, by="ada", anew=True))
    assert wanted_of(thawed, "a", T0 + 605) is not None
    state = after(thawed, failed("a", step, T0 + 606), failed("a", step, T0 + 635))
    assert state.phase is begun.phase
    back = (Phase.ROLLING_BACK, Phase.ROLLED_BACK)
    assert advance(state, failed("a", step, T0 + 636)).phase in back
    of_before_that_rule = advance(frozen, Thawed(at_s=T0 + 605, by="ada"))
    assert advance(of_before_that_rule, failed("a", step, T0 + 606)).phase in back


def test_what_is_set_is_read_once_more_before_the_next_stage() -> None:
    state = after(soaking(), measured(T0 + 12))
    assert (state.phase, state.stage) == (Phase.SOAK, 0)
    assert wanted(state, LATER) == (CHECK_A, Watch(("a",), T0 + 2))
    assert after(state, measured(T0 + 13)) == state  # which it has shown already
    assert after(state, measured(T0 + 13, pause_share=0.5)).phase is Phase.ROLLING_BACK
    state = after(state, checked("a"))
    assert (state.phase, state.stage) == (Phase.FLEET, 1)
    assert wanted(state, LATER) == (Apply("b", change_of("b")), Apply("c", change_of("c")))


def test_all_that_is_set_is_read_once_more_before_it_is_done() -> None:
    state = all_set()
    assert (state.phase, wanted(state, LATER)) == (Phase.FLEET, (Check(tuple(map(change_of, "abc"))),))
    assert after(state, checked("a", "c"), checked("b")) == state  # of two moments
    state = advance(state, failed("b", "check", T0 + 14))
    assert wanted(state, T0 + 14) == ()  # all of them again, in a while
    assert after(state, checked("a", "b", "c", at_s=T0 + 15)).phase is Phase.DONE


@pytest.mark.parametrize("state", [after(soaking(), measured(T0 + 12)), soaking(), in_the_fleet(), all_set()])
def test_a_switch_that_no_longer_runs_what_was_set_takes_all_back_at_once(state: RolloutState) -> None:
    """Where it was to be read, or where somebody read it who was not asked to."""
    touched = state.touched
    state = advance(state, failed("a", "check", T0 + 12, passing=False))
    assert (state.phase, state.why, state.unread) == (
        Phase.ROLLING_BACK,
        "check failed: a is away",
        False,
    )
    assert {action.switch for action in wanted(state, LATER) if isinstance(action, Undo)} == set(touched)
    assert not any(isinstance(action, Check) for action in wanted(state, LATER))
    for of_no_more_use in (failed("a", "check", T0 + 13, passing=False), checked("a")):
        assert after(state, of_no_more_use) == state


def test_a_switch_that_cannot_be_read_once_more_is_tried_again_until_patience_ends() -> None:
    state, at_s = after(soaking(), measured(T0 + 12)), T0 + 12
    while (state := advance(state, failed("a", "check", at_s))).phase is Phase.SOAK:
        due_s = next_due_s(state, at_s)
        assert due_s is not None
        assert not any(isinstance(action, Check) for action in wanted(state, due_s - 0.01))
        assert CHECK_A in wanted(state, due_s)
        back = after(state, checked("a", at_s=due_s))
        assert (back.phase, back.members["a"].failing_since_s, back.members["a"].detail) == (
            Phase.FLEET,
            None,
            "",
        )
        at_s = due_s
    assert 30.0 <= at_s - (T0 + 12) <= 30.0 + LONGEST_RETRY_S
    assert (state.phase, state.why) == (Phase.ROLLING_BACK, "check failed: a is away")


def test_patience_is_for_failures_in_a_row() -> None:
    state = advance(all_set(), failed("b", "check", T0 + 14))
    state = after(state, failed("c", "check", T0 + 15), checked("b", at_s=T0 + 15))
    assert (state.members["b"].attempts, state.members["c"].attempts, state.unread) == (0, 1, True)
    assert advance(state, failed("b", "check", T0 + 44)).phase is Phase.FLEET
    assert advance(state, failed("c", "check", T0 + 45)).phase is Phase.ROLLING_BACK


def test_what_was_read_before_a_crash_is_read_again() -> None:
    state = after(in_the_fleet(), *setting("b", T0 + 13), Applying(at_s=T0 + 13, switch="c"), RESUMED)
    assert wanted(state, LATER) == (Check((change_of("a"), change_of("b"))),)
    state = after(state, checked("a", "b"))
    assert wanted(state, LATER) == (Apply("c", change_of("c")),)
    state = after(all_set(), RESUMED)
    assert wanted(state, LATER) == (Check(tuple(map(change_of, "abc"))),)
    assert after(state, checked("a", "b", "c")).phase is Phase.DONE


@pytest.mark.parametrize("length", range(2, len(SET_ALL) + 1))
@pytest.mark.parametrize("then", [[], [RESUMED], [ASKED], [Frozen(at_s=T0 + 60, by="eve")]])
def test_what_is_under_way_is_left_out_and_one_member_can_be_asked_for(
    length: int, then: list[Event]
) -> None:
    state = replay([*SET_ALL[:length], *then])
    assert state is not None
    for at_s in (T0 + 2, LATER):
        due = wanted(state, at_s)
        steps = {action.switch: action for action in due if isinstance(action, MemberAction)}
        for name in state.members:
            assert wanted_of(state, name, at_s) == steps.get(name)
        for one in due:
            key = one.switch if isinstance(one, MemberAction) else type(one)
            assert wanted(state, at_s, {key}) == tuple(other for other in due if other != one)


def test_what_is_not_written_is_not_read_once_more() -> None:
    state = after(all_set(plan(written=("b", "c"))), checked("b", "c"))
    assert state.phase is Phase.DONE


def test_a_dry_run_goes_straight_through() -> None:
    state = after(staged(plan(written=())), *setting("a"), *setting("b"), *setting("c"))
    assert state.phase is Phase.DONE


def as_before_the_rule(events: list[Event]) -> list[bytes]:
    """What a version without ``checks`` has written of these."""
    documents = [json.loads(encode(event)) for event in events if not isinstance(event, Checked)]
    return [json.dumps({key: one[key] for key in one if key != "checks"}).encode() for one in documents]


def test_a_journal_of_before_that_rule_tells_what_it_told() -> None:
    left = as_before_the_rule(SET_ALL)
    state = replay(map(decode, left))
    assert state is not None
    assert (state.phase, wanted(state, LATER)) == (Phase.DONE, ())
    # Started anew by such a version, in its soak, and ended by it.
    again = as_before_the_rule([*SET_ALL[:9], Resumed(at_s=T0 + 20), measured(T0 + 32), *SET_ALL[11:]])
    state = replay(map(decode, again))
    assert state is not None
    assert state.phase is Phase.DONE
    # Taken up by this one after any of its events: from then on the rule holds.
    for length in range(2, len(left)):
        state = replay(map(decode, [*left[:length], encode(RESUMED)]))
        assert state is not None
        is_set = [name for name, one in state.members.items() if one.progress is Progress.SET]
        checks = [action for action in wanted(state, LATER) if isinstance(action, Check)]
        assert checks == ([Check(tuple(map(change_of, is_set)))] if is_set else [])
        assert not (is_set and any(isinstance(action, Apply) for action in wanted(state, LATER)))


def test_frozen_or_not_an_undo_goes_on() -> None:
    state = after(soaking(), Frozen(at_s=T0 + 3, by="ada"), measured(T0 + 5, drops_per_s=9.0))
    assert wanted(state, LATER) == (Undo("a", change_of("a")),)


def test_a_step_that_ends_after_its_switch_was_restored_is_undone_again() -> None:
    state = after(staged(), Applying(at_s=T0, switch="a"), RollbackAsked(at_s=T0, by="ada"), *undone("a"))
    assert state.phase is Phase.ROLLED_BACK
    state = advance(state, Applied(at_s=T0 + 60, switch="a"))
    assert (state.phase, wanted(state, LATER)) == (Phase.ROLLING_BACK, (Undo("a", change_of("a")),))


def test_events_of_strangers_change_nothing() -> None:
    state = staged()
    for event in (
        *setting("stranger"),
        Staged(at_s=T0, switch="stranger", change=change_of("stranger")),
        failed("stranger", "apply", T0, passing=False),
        Applied(at_s=T0, switch="b"),  # it was never told to
        Approved(at_s=T0, by="eve"),
    ):
        assert advance(state, event) == state


def test_replaying_needs_a_beginning() -> None:
    assert replay([]) is None
    assert replay([Approved(at_s=T0, by="ada")]) is None
    told = [Approved(at_s=T0, by="early"), *SET_ALL[:2]]
    assert replay(decode(encode(event)) for event in told) == approved()

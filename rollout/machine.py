"""The rollout state machine: (state, event) → state, and state → next actions.

The next actions follow from the state alone, so after a crash the replayed journal gives them again; every
action may therefore run twice, and adapters allow for that. A state never forgets a member that was, or may
have been, set: the machine ends ``done`` with every member set (but for hosts that were left out before any
was), or ``rolled_back`` with every touched one restored, left alone where somebody else has set it since, or
given up where a person says so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from rollout.plan import Figures, Limits, breaches
from rollout.state import (
    Action,
    Applied,
    Apply,
    Applying,
    Approved,
    Check,
    Checked,
    Confirm,
    Confirmed,
    Event,
    Failed,
    Frozen,
    GivenUp,
    HashStaged,
    LeftAlone,
    Measured,
    MemberAction,
    MemberProgress,
    Phase,
    Progress,
    Proposed,
    Resumed,
    RollbackAsked,
    RolloutState,
    Stage,
    Staged,
    StagedNics,
    Thawed,
    Undo,
    Undone,
    Verified,
    Verify,
    Watch,
    WentSilent,
)
from twin.watermark import Watermark

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 15.0
_ROUNDING = 1e-9
_SETTING = (Phase.CANARY, Phase.FLEET)


def begin(event: Proposed) -> RolloutState:
    plan = event.plan
    return RolloutState(
        plan=plan,
        phase=Phase.PROPOSED,
        since_s=event.at_s,
        proposed_s=event.at_s,
        members={name: MemberProgress() for name in plan.members},
        phases=((event.at_s, Phase.PROPOSED),),
    )


def replay(events: Iterable[Event]) -> RolloutState | None:
    """None where the events do not begin with ``Proposed``."""
    state: RolloutState | None = None
    for event in events:
        if state is not None:
            state = advance(state, event)
        elif isinstance(event, Proposed):
            state = begin(event)
    return state


def advance(state: RolloutState, event: Event) -> RolloutState:
    """The next state. An event that has no meaning in the phase changes nothing."""
    return _settle(_take(state, event), event.at_s)


def wanted(
    state: RolloutState, now_s: float, under_way: Container[str | type[Action]] = ()
) -> tuple[Action, ...]:
    """The actions due now, in order; a failed step once its retry is due.

    Actions ``under_way``, by member or by kind, are left out and cost next to nothing, so that a rollout may
    have thousands of members.
    """
    steps = (wanted_of(state, name, now_s) for name in _acting(state) if name not in under_way)
    return (
        *(_checks(state, now_s) if Check not in under_way else ()),
        *(one for one in steps if one is not None),
        *(_watch(state) if Watch not in under_way else ()),
    )


def wanted_of(state: RolloutState, member: str, now_s: float) -> MemberAction | None:
    """The step of one member among those of ``wanted``; None without one."""
    one = state.members[member]
    if one.retry_at_s > now_s:
        return None
    if state.phase is Phase.APPROVED:
        due = one.progress is Progress.WAITING and not state.frozen
        return Stage(member, state.plan.target(member)) if due else None
    if one.change is None:
        return None
    if state.phase is Phase.ROLLING_BACK:
        return Undo(member, one.change) if one.progress.touched else None
    if not state.phase.forward or member not in state.current:
        return None
    match one.progress:
        case Progress.STAGED | Progress.APPLYING if not state.frozen and not state.unread:
            return Apply(member, one.change)
        case Progress.APPLIED:
            return Verify(member, one.change)
        case Progress.VERIFIED:
            return Confirm(member, one.change)
    return None


def reads_again(state: RolloutState) -> bool:
    """Whether all that is set so far is to be read again before more is set."""
    return state.unread and state.phase.forward


def next_due_s(state: RolloutState, now_s: float) -> float | None:
    """When the next retry after now is due; None without one."""
    if state.phase.ended:
        return None
    waiting = (one.retry_at_s for one in state.members.values() if one.failing_since_s is not None)
    return min((at_s for at_s in waiting if at_s > now_s), default=None)


def not_undone(state: RolloutState, now_s: float) -> tuple[str, ...]:
    """The members whose undo has failed for longer than the patience."""
    if state.phase is not Phase.ROLLING_BACK:
        return ()
    since_s = now_s - state.plan.limits.patience_s
    return tuple(
        name
        for name, one in state.members.items()
        if one.failing_since_s is not None and one.failing_since_s <= since_s
    )


def _acting(state: RolloutState) -> Iterable[str]:
    """The members that may have a step to do in this phase, in order."""
    if state.phase is Phase.ROLLING_BACK:
        return reversed(state.touched)
    if state.phase is Phase.APPROVED:
        return state.members
    return state.current if state.phase.forward else ()


def _checks(state: RolloutState, now_s: float) -> Iterable[Check]:
    so_far = [state.members[name] for name in _set_so_far(state)] if reads_again(state) else []
    if so_far and all(one.retry_at_s <= now_s for one in so_far):
        yield Check(tuple(one.change for one in so_far if one.change is not None))


def _watch(state: RolloutState) -> Iterable[Watch]:
    if watched(state):
        yield Watch(state.plan.watched(state.stage), state.soak_from_s or state.since_s)


def watched(state: RolloutState) -> bool:
    """Whether guards apply now: while a stage soaks, and while one that will is set after another has."""
    soaks = state.soak_from_s is not None and state.plan.soak_s(state.stage) > 0
    return soaks and state.phase.forward


def _take(state: RolloutState, event: Event) -> RolloutState:
    match event:
        case Approved(by=by, checks=checks) if state.phase is Phase.PROPOSED:
            return _enter(replace(state, approved_by=by, checks=checks), Phase.APPROVED, event.at_s)
        case Staged() | StagedNics() | HashStaged() if _is(state, event.switch, Progress.WAITING):
            name, change = event.switch, event.change
            return _with(state, name, MemberProgress(Progress.STAGED, change))
        case Applying(switch=name) if _has_change(state, name) and not _is(state, name, Progress.SET):
            touched = state.touched if name in state.touched else (*state.touched, name)
            again = replace(state.members[name], progress=Progress.APPLYING, runs=None)
            return _with(replace(state, touched=touched), name, again)  # a retry is no success yet
        case Applied(switch=name) if name in state.touched and not _is(state, name, Progress.SET):
            return _step(state, name, Progress.APPLIED)
        case Verified(switch=name, runs=runs) if _is(state, name, Progress.APPLIED):
            return _step(state, name, Progress.VERIFIED, runs)
        case Confirmed(switch=name) if _is(state, name, Progress.VERIFIED):
            return _step(state, name, Progress.SET, state.members[name].runs)
        case Checked(switches=names) if state.unread:
            return _checked(state, names)
        case Undone(switch=name) if _undoes(state, name):
            return _step(state, name, Progress.RESTORED)
        case LeftAlone(switch=name, sentence=said) if _undoes(state, name):
            return _step(state, name, Progress.LEFT_ALONE, detail=said)
        case GivenUp(switch=name, sentence=said) if (
            _undoes(state, name) and state.members[name].progress.touched
        ):
            return _step(state, name, Progress.GIVEN_UP, detail=said)
        case Failed(switch=name) if name in state.members and not state.phase.ended:
            return _failed(state, event)
        case Measured() if watched(state):
            return _measured(state, event)
        case WentSilent(sentence=said) if watched(state):
            return _turn_back(state, said, event.at_s)
        case RollbackAsked(by=by):
            return _turn_back(state, f"{by} asked for it", event.at_s)
        case Frozen():
            return replace(state, frozen=True)
        case Thawed(anew=anew):
            thawed = replace(state, frozen=False)
            return _read_again(_all_afresh(thawed) if anew else thawed)  # earlier readings are outdated
        case Resumed(checks=checks):
            return _resumed(replace(state, checks=checks), event.at_s)
    return state


def _settle(state: RolloutState, at_s: float) -> RolloutState:
    """Moves the rollout on as its members' progress allows."""
    # Backwards: the last of them mostly comes last, so that one look says no. A journal of thousands of
    # members' steps is replayed in no time.
    if state.phase is Phase.APPROVED and all(
        one.progress in (Progress.STAGED, Progress.LEFT_OUT)
        for one in reversed(tuple(state.members.values()))
    ):
        return _enter(state, Phase.CANARY, at_s)
    if state.phase in _SETTING and not state.stage_over and _all_set(state):
        if state.plan.soak_s(state.stage) > 0:
            return replace(_enter(state, Phase.SOAK, at_s), soak_from_s=at_s, measured=None)
        state = _end_stage(state)
    if state.phase.forward and state.stage_over and not state.unread:
        return _next_stage(state, at_s)
    if state.phase is Phase.ROLLING_BACK and not any(
        state.members[name].progress.touched for name in state.touched
    ):
        return _enter(state, Phase.ROLLED_BACK, at_s)
    if state.phase is Phase.ROLLED_BACK and any(
        state.members[name].progress.touched for name in state.touched
    ):
        return _enter(state, Phase.ROLLING_BACK, at_s)  # a step that was running has ended after all
    return state


def _undoes(state: RolloutState, name: str) -> bool:
    """Whether an undo of the member counts: a try that was under way may yet succeed once it is given up."""
    if state.phase is not Phase.ROLLING_BACK and not _is(state, name, Progress.GIVEN_UP):
        return False
    return name in state.touched


def _all_set(state: RolloutState) -> bool:
    over = (Progress.SET, Progress.LEFT_OUT)
    return all(state.members[name].progress in over for name in reversed(state.current))


def _end_stage(state: RolloutState) -> RolloutState:
    return _read_again(replace(state, stage_over=True))


def _read_again(state: RolloutState) -> RolloutState:
    """Reads again all that is set before setting more: it may have changed since."""
    return replace(state, unread=state.checks and state.phase.forward and bool(_set_so_far(state)))


def _set_so_far(state: RolloutState) -> list[str]:
    written = set(state.plan.written)
    names = state.plan.up_to(state.stage)
    return [name for name in names if name in written and _is(state, name, Progress.SET)]


def _checked(state: RolloutState, names: Iterable[str]) -> RolloutState:
    so_far = set(_set_so_far(state))
    fresh = {name: replace(_afresh(state.members[name]), detail="") for name in so_far.intersection(names)}
    return replace(state, members={**state.members, **fresh}, unread=not so_far.issubset(names))


def _next_stage(state: RolloutState, at_s: float) -> RolloutState:
    state = replace(state, stage_over=False)
    if state.stage + 1 == len(state.plan.stages):
        return _enter(state, Phase.DONE, at_s)
    return _settle(_enter(replace(state, stage=state.stage + 1), Phase.FLEET, at_s), at_s)


def _failed(state: RolloutState, event: Failed) -> RolloutState:
    """Retries a passing failure within the patience; any other turns back. An undo is never given up."""
    one = state.members[event.switch]
    turning_back = state.phase is Phase.ROLLING_BACK
    if (event.step == "undo") != turning_back or (event.step == "check" and one.progress is not Progress.SET):
        return state  # a failure of a step that is no longer due
    if one.progress is Progress.GIVEN_UP:
        return state  # of the try that was under way
    since_s = event.at_s if one.failing_since_s is None else one.failing_since_s
    wait_s = min(FIRST_RETRY_S * 2.0 ** min(one.attempts, 10), LONGEST_RETRY_S)
    failing = replace(
        one,
        failing_since_s=since_s,
        attempts=one.attempts + 1,
        retry_at_s=event.at_s + wait_s,
        detail=event.sentence,
    )
    state = _with(state, event.switch, failing)
    patient = event.passing and event.at_s - since_s < state.plan.limits.patience_s
    if turning_back or patient:
        return state
    if event.passing and _may_be_left_out(state, event.switch):
        return _with(state, event.switch, replace(_afresh(failing), progress=Progress.LEFT_OUT))
    return _turn_back(state, f"{event.step} failed: {event.sentence}", event.at_s)


def _may_be_left_out(state: RolloutState, name: str) -> bool:
    """Whether the rollout goes on without a host that cannot be reached while nothing is set yet.

    Of the hosts that are set first one is left at least: they show what the others are in for.
    """
    plan = state.plan
    if state.phase is not Phase.APPROVED or name not in plan.nics:
        return False
    out = {name, *(one for one in plan.nics if state.members[one].progress is Progress.LEFT_OUT)}
    first = next(set(stage) for stage in plan.stages if not plan.nics.keys().isdisjoint(stage))
    return len(out) <= plan.limits.missing_share * len(plan.nics) + _ROUNDING and not first <= out


def _measured(state: RolloutState, event: Measured) -> RolloutState:
    seen, plan = event.figures, state.plan
    state = replace(state, measured=seen)
    before, predicted = plan.known(plan.before, state.stage), plan.known(plan.predicted, state.stage)
    worse = list(breaches(seen, before, predicted, plan.limits))
    if worse:
        return _turn_back(state, "a guard is breached: " + "; ".join(worse), event.at_s)
    over_s = event.at_s - (state.soak_from_s or state.since_s) - plan.soak_s(state.stage)
    if state.phase is not Phase.SOAK or state.stage_over or over_s < 0:
        return state
    unseen = [name for name in _needed(before, plan.limits) if getattr(seen, name) is None]
    if not unseen:
        return _end_stage(state)
    if over_s >= plan.limits.unseen_s:
        why = f"telemetry does not report {', '.join(unseen)} since the change, {over_s:.0f} s after the soak"
        return _turn_back(state, why, event.at_s)
    return state


def _needed(before: Figures, limits: Limits) -> Iterable[str]:
    """The figures that a soak needs: those reported before, and for a change of queues the queue."""
    for name in before.__struct_fields__:
        always = limits.needs_queue and name == "queue_mean_bytes"
        if always or getattr(before, name) is not None:
            yield name


def _turn_back(state: RolloutState, why: str, at_s: float) -> RolloutState:
    if state.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK):
        return state
    back = replace(_all_afresh(state), unread=False, stage_over=False, why=why)
    return _enter(back, Phase.ROLLING_BACK, at_s)


def _resumed(state: RolloutState, at_s: float) -> RolloutState:
    """Patience and soak begin again; the device may have undone what was applied and not confirmed, and
    others may have set what was set.
    """
    members = {}
    for name, one in state.members.items():
        unsure = one.progress in (Progress.APPLIED, Progress.VERIFIED)
        progress = Progress.APPLYING if unsure else one.progress
        detail = one.detail if progress in (Progress.LEFT_OUT, Progress.GIVEN_UP) else ""
        members[name] = replace(_afresh(one), progress=progress, detail=detail)
    soak = None if state.soak_from_s is None else at_s
    over = state.stage_over and state.phase is not Phase.SOAK
    return _read_again(replace(state, members=members, soak_from_s=soak, stage_over=over))


def _afresh(one: MemberProgress) -> MemberProgress:
    """Without failures so far: its patience begins anew."""
    return replace(one, failing_since_s=None, attempts=0, retry_at_s=0.0)


def _all_afresh(state: RolloutState) -> RolloutState:
    return replace(state, members={name: _afresh(one) for name, one in state.members.items()})


def _enter(state: RolloutState, phase: Phase, at_s: float) -> RolloutState:
    return replace(state, phase=phase, since_s=at_s, phases=(*state.phases, (at_s, phase)))


def _is(state: RolloutState, name: str, progress: Progress) -> bool:
    return name in state.members and state.members[name].progress is progress


def _has_change(state: RolloutState, name: str) -> bool:
    return name in state.members and state.members[name].change is not None


def _step(
    state: RolloutState, name: str, progress: Progress, runs: Watermark | None = None, detail: str = ""
) -> RolloutState:
    change = state.members[name].change
    return _with(state, name, MemberProgress(progress, change, runs, detail=detail))


def _with(state: RolloutState, name: str, one: MemberProgress) -> RolloutState:
    return replace(state, members={**state.members, name: one})

"""One step on one switch, and the event that tells how it went; must not decide what follows."""

from __future__ import annotations

import logging
from collections.abc import Callable

from service.fleet import Fleet, OvertakenError
from switches.base import Reading, StagedChange, SwitchAdapter
from switches.errors import ConcurrentEditError, ReadBackError, SwitchError, UnreachableError
from switches.rollout.events import (
    Applied,
    Confirmed,
    Event,
    Failed,
    LeftAlone,
    Staged,
    Step,
    Undone,
    Verified,
)
from switches.rollout.plan import RolloutPlan
from switches.rollout.state import Apply, Confirm, Stage, SwitchAction, Undo, Verify
from twin.search.push_gate import within_step
from twin.watermark import Watermark

STEP_SLACK = 1e-6  # a step of exactly the limit is within it

_log = logging.getLogger("ecntwin.rollouts")

_STEPS: dict[type[SwitchAction], Step] = {
    Stage: "stage",
    Apply: "apply",
    Verify: "verify",
    Confirm: "confirm",
    Undo: "undo",
}


def step_of(action: SwitchAction) -> Step:
    """What the step is called in events and metrics."""
    return _STEPS[type(action)]


async def event_of(
    action: SwitchAction,
    fleet: Fleet,
    plan: RolloutPlan,
    *,
    still: Callable[[], bool],
    wall_s: Callable[[], float],
) -> Event | None:
    """Does it, and says how it went; never raises ``SwitchError``.

    None where it was not ``still`` wanted when the switch was free for it: nothing was done. Where the
    rollout set, or is to set, a device, and pushing has been turned off since, nothing is done either, least
    of all recorded as done.
    """
    name, step = action.switch, step_of(action)

    def failed(reason: str, sentence: str, *, passing: bool) -> Failed:
        return Failed(
            at_s=wall_s(), switch=name, step=step, reason=reason, sentence=sentence, passing=passing
        )

    try:
        if name in plan.written and not fleet.writes(name):
            return failed("disabled", f"switch {name!r} is no longer written from here", passing=True)
        return await _done(action, fleet, plan, still, wall_s)
    except OvertakenError:
        return None
    except ConcurrentEditError as error:
        if isinstance(action, Undo):
            return LeftAlone(at_s=wall_s(), switch=name, sentence=str(error))
        return failed(error.reason, str(error), passing=False)
    except SwitchError as error:
        return failed(error.reason, str(error), passing=isinstance(error, UnreachableError))
    except Exception as error:
        _log.exception("the adapter of switch %s failed in a way it should not", name)
        sentence = f"the adapter of switch {name!r} failed ({type(error).__name__}); see the service's log"
        return failed("mistake", sentence, passing=False)


def differing(change: StagedChange, reading: Reading, at_s: float) -> Failed:
    """A switch that is set was read, by whomever, to run something else."""
    error = ReadBackError(
        f"switch {change.switch!r}",
        str(reading.usual or "queues that differ, or do not mark"),
        f"what a rollout has set ({change.after}) runs until the rollout has ended",
        "look whether somebody else sets this switch too, or whether it has started anew",
    )
    return Failed(
        at_s=at_s, switch=change.switch, step="check", reason=error.reason, sentence=str(error), passing=False
    )


async def _done(
    action: SwitchAction,
    fleet: Fleet,
    plan: RolloutPlan,
    still: Callable[[], bool],
    wall_s: Callable[[], float],
) -> Event:
    name = action.switch
    match action:
        case Stage(target=target):
            change = await fleet.step(name, lambda adapter: adapter.stage(target, plan.id), still=still)
            if name in plan.written:
                _check_nobody_else(change, fleet.set_to(name))
                _check_step(change, plan.limits.max_step)
            return Staged(at_s=wall_s(), switch=name, change=change)
        case Apply(change=change):
            await fleet.step(name, lambda adapter: adapter.apply(change), still=still)
            return Applied(at_s=wall_s(), switch=name)
        case Verify(change=change):
            reading = await fleet.step(name, lambda adapter: adapter.verify(change), still=still)
            if fleet.writes(name):
                fleet.note(reading)
            return Verified(at_s=wall_s(), switch=name, runs=reading.usual or change.after)
        case Confirm(change=change):
            await fleet.step(name, lambda adapter: _confirm(adapter, change), still=still)
            return Confirmed(at_s=wall_s(), switch=name)
        case Undo(change=change):

            def undo(adapter: SwitchAdapter) -> None:
                adapter.rollback(change)

            await fleet.step(name, undo, still=still)
            await fleet.refresh([name])
            return Undone(at_s=wall_s(), switch=name)


def _confirm(adapter: SwitchAdapter, change: StagedChange) -> None:
    adapter.confirm(change)
    if adapter.capabilities().dead_man:
        # Where the device's own timer ran out before, it has taken the change back: there was nothing to end.
        adapter.verify(change)


def _check_nobody_else(change: StagedChange, wanted: Watermark | None) -> None:
    """A reading may be old when a change is approved; staging knows what runs."""
    if wanted is not None and change.ran != wanted:
        raise ConcurrentEditError(
            f"switch {change.switch!r}",
            str(change.ran or "queues that differ"),
            f"it runs what was last set here ({wanted}) before it is set again; somebody else has set it",
            f"look at /v1/switches/{change.switch}, and POST its /adopt if that is as it should be",
        )


def _check_step(change: StagedChange, max_step: float | None) -> None:
    """No queue is moved further than a step, whatever the plan took it to run."""
    if max_step is None:
        return
    for queue in change.before:
        if queue.watermark is None:
            continue
        if within_step(queue.watermark, change.asked, max_step * (1 + STEP_SLACK)) != change.asked:
            raise SwitchError(
                f"switch {change.switch!r} {queue.port} queue {queue.queue}",
                f"a change from {queue.watermark} to {change.asked}",
                f"one change moves no value by more than the factor {max_step:g} (tuning.max_step)",
                "wait for the next round, which knows what it runs; where its queues differ, set them alike",
            )

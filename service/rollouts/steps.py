"""Runs one step on one switch, and returns the event of its outcome."""

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
    return _STEPS[type(action)]


async def event_of(
    action: SwitchAction,
    fleet: Fleet,
    plan: RolloutPlan,
    *,
    still: Callable[[], bool],
    wall_s: Callable[[], float],
) -> Event | None:
    """Runs the step; never raises ``SwitchError``.

    None where it was not ``still`` wanted once the switch was free: nothing was done. Where pushing has been
    turned off since the plan was made, it fails without touching a device.
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
        _log.exception("the adapter of switch %s failed unexpectedly", name)
        sentence = f"the adapter of switch {name!r} failed ({type(error).__name__}); see the service's log"
        return failed("mistake", sentence, passing=False)


def differing(change: StagedChange, reading: Reading, at_s: float) -> Failed:
    """The failure of a switch that was set and now runs something else."""
    error = ReadBackError(
        f"switch {change.switch!r}",
        str(reading.usual or "queues that differ, or do not mark"),
        f"what a rollout has set ({change.after}) runs until the rollout has ended",
        "check whether something else sets this switch, or whether it has restarted",
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
                _check_not_changed_elsewhere(change, fleet.set_to(name))
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
        # If the device's own timer has run out, it has reverted the change.
        adapter.verify(change)


def _check_not_changed_elsewhere(change: StagedChange, wanted: Watermark | None) -> None:
    """Staging reads what runs; the reading an approval is based on may be older."""
    if wanted is not None and change.ran != wanted:
        raise ConcurrentEditError(
            f"switch {change.switch!r}",
            str(change.ran or "queues that differ"),
            f"it must run what was last set from here ({wanted}); it was set elsewhere",
            f"look at /v1/switches/{change.switch}, and POST its /adopt if that is as it should be",
        )


def _check_step(change: StagedChange, max_step: float | None) -> None:
    """No queue may change by more than one step, whatever the plan assumed it runs."""
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

"""One step on one switch, and the event that tells how it went; must not decide what follows."""

from __future__ import annotations

import logging
from collections.abc import Callable

from api.fleet import Fleet
from switches.base import SwitchAdapter
from switches.errors import ConcurrentEditError, SwitchError, UnreachableError
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
from switches.rollout.machine import Apply, Confirm, Stage, SwitchAction, Undo, Verify

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
    action: SwitchAction, fleet: Fleet, change_id: str, *, must_write: bool, wall_s: Callable[[], float]
) -> Event:
    """Does it, and says how it went; never raises ``SwitchError``.

    ``must_write``: the rollout set, or is to set, a device. Where pushing has been turned off since, nothing
    is done, least of all recorded as done.
    """
    name, step = action.switch, step_of(action)

    def failed(reason: str, sentence: str, *, passing: bool) -> Failed:
        return Failed(
            at_s=wall_s(), switch=name, step=step, reason=reason, sentence=sentence, passing=passing
        )

    try:
        if must_write and not fleet.writes(name):
            return failed("disabled", f"switch {name!r} is no longer written from here", passing=True)
        return await _done(action, fleet, change_id, wall_s)
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


async def _done(action: SwitchAction, fleet: Fleet, change_id: str, wall_s: Callable[[], float]) -> Event:
    name = action.switch
    match action:
        case Stage(target=target):
            change = await fleet.step(name, lambda adapter: adapter.stage(target, change_id))
            return Staged(at_s=wall_s(), switch=name, change=change)
        case Apply(change=change):
            await fleet.step(name, lambda adapter: adapter.apply(change))
            return Applied(at_s=wall_s(), switch=name)
        case Verify(change=change):
            reading = await fleet.step(name, lambda adapter: adapter.verify(change))
            if fleet.writes(name):
                fleet.note(reading)
            return Verified(at_s=wall_s(), switch=name, runs=reading.usual or change.after)
        case Confirm(change=change):
            await fleet.step(name, lambda adapter: adapter.confirm(change))
            return Confirmed(at_s=wall_s(), switch=name)
        case Undo(change=change):

            def undo(adapter: SwitchAdapter) -> None:
                adapter.rollback(change)

            await fleet.step(name, undo)
            await fleet.refresh([name])
            return Undone(at_s=wall_s(), switch=name)

"""What is known of switches from rollouts: what each was last set to, and when one was; must not set any."""

from __future__ import annotations

import msgspec

from service.fleet import Fleet
from switches.rollout.events import Applying, Event, ToSwitch, Undone
from switches.rollout.state import Phase, Progress, RolloutState
from twin.watermark import Watermark


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is still to be known of rollouts whose entries are removed from the journal."""

    set_to: dict[str, Watermark]
    last_set_s: float | None


class Known:
    """``fleet`` is told what each switch should run. ``last_set_s`` is seconds since 1970; None for never."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.last_set_s: float | None = None

    def to_keep(self) -> bytes:
        """All of it, as JSON for the journal."""
        return msgspec.json.encode(_Kept(set_to=dict(self._fleet.all_set_to), last_set_s=self.last_set_s))

    def take_up(self, document: str) -> None:
        """What ``to_keep`` gave; raises ``msgspec.ValidationError``."""
        kept = msgspec.json.decode(document, type=_Kept)
        self._fleet.all_were_set(kept.set_to)
        self.last_set_s = _later(self.last_set_s, kept.last_set_s)

    def note(self, state: RolloutState, event: Event) -> None:
        """What a switch should run by now, and when one was last set."""
        if not isinstance(event, ToSwitch) or event.switch not in state.plan.written:
            return
        name = event.switch
        if isinstance(event, Applying | Undone):
            self.last_set_s = _later(self.last_set_s, event.at_s)
        one = state.switches[name]
        if one.change is None:
            return
        if one.progress is Progress.SET and state.phase is not Phase.ROLLING_BACK:
            self._fleet.was_set(name, one.change.after)
        elif one.progress is Progress.RESTORED:
            self._fleet.was_set(name, one.change.ran)
        elif one.progress is Progress.LEFT_ALONE:
            self._fleet.was_set(name, one.change.ran or one.change.after)  # which it does not run: drift
        elif one.progress.touched:
            self._fleet.was_set(name, None)  # until it is done: half of a change is no drift


def _later(one_s: float | None, other_s: float | None) -> float | None:
    return max((at_s for at_s in (one_s, other_s) if at_s is not None), default=None)

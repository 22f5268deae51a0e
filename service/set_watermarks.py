"""What each switch was last set to from here, and when any was."""

from __future__ import annotations

import msgspec

from switches.rollout.events import Applying, Event, ToSwitch, Undone
from switches.rollout.state import Phase, Progress, RolloutState
from twin.watermark import Watermark


class _Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal keeps of rollouts whose own entries are removed."""

    set_to: dict[str, Watermark]
    last_set_s: float | None


class SetWatermarks:
    """``last_set_s`` is seconds since 1970; None for never.

    A switch has no entry where nothing was set on it, or a change is half done: then it cannot drift.
    """

    def __init__(self) -> None:
        self._set_to: dict[str, Watermark] = {}
        self.last_set_s: float | None = None

    def get(self, switch: str) -> Watermark | None:
        """What it should run; None where nothing is known."""
        return self._set_to.get(switch)

    def put(self, switch: str, watermark: Watermark | None) -> None:
        """From now on it should run this; None: whatever it runs is right."""
        if watermark is None:
            self._set_to.pop(switch, None)
        else:
            self._set_to[switch] = watermark

    def follow(self, state: RolloutState, event: Event) -> None:
        """Updates the switch of a rollout's event, where devices are written."""
        if not isinstance(event, ToSwitch) or event.switch not in state.plan.written:
            return
        if isinstance(event, Applying | Undone):
            self._was_set_at(event.at_s)
        name, one = event.switch, state.switches[event.switch]
        if one.change is None:
            return
        if one.progress is Progress.SET and state.phase is not Phase.ROLLING_BACK:
            self.put(name, one.change.after)
        elif one.progress is Progress.RESTORED:
            self.put(name, one.change.ran)
        elif one.progress is Progress.LEFT_ALONE:
            self.put(name, one.change.ran or one.change.after)  # it runs neither: shown as drift
        elif one.progress.touched:
            self.put(name, None)

    def to_json(self) -> bytes:
        """All of it, for the journal."""
        return msgspec.json.encode(_Snapshot(set_to=self._set_to, last_set_s=self.last_set_s))

    def restore(self, document: str) -> None:
        """Reads what ``to_json`` wrote; raises ``msgspec.ValidationError``."""
        snapshot = msgspec.json.decode(document, type=_Snapshot)
        self._set_to = dict(snapshot.set_to)
        self._was_set_at(snapshot.last_set_s)

    def _was_set_at(self, at_s: float | None) -> None:
        if at_s is not None:
            self.last_set_s = at_s if self.last_set_s is None else max(self.last_set_s, at_s)

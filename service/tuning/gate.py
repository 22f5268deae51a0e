"""Drives the guard, a pure machine, with what happens in the service: what may be pushed, what holds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twin.search.push_gate import (
    GuardSettings,
    GuardState,
    Hold,
    HoldReason,
    Issue,
    QueueMeasured,
    QueuePredicted,
    Recommended,
    TelemetryArrived,
    WatermarkChanged,
    advance,
    cooling_down,
    within_step,
)
from twin.search.recommendation import Recommendation
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Cleared:
    """What an approval would set (None: nothing), and why nothing may be written to a device yet."""

    staged: Watermark | None
    holds: tuple[str, ...] = ()


NOTHING_STAGED = Cleared(None)


class Clearance:
    """``clock_s`` is monotonic seconds."""

    def __init__(self, settings: GuardSettings, *, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._state = GuardState()

    def round_ended(
        self, answer: Recommendation, measured_queue_bytes: float | None, *, age_s: float
    ) -> Cleared:
        """Compares prediction and measurement of the same window, then asks whether the answer may be pushed.

        ``age_s`` is how old the newest report is.
        """
        now_s = self._clock_s()
        self._tell(TelemetryArrived(now_s - age_s))
        if measured_queue_bytes is not None:
            self._tell(QueuePredicted(answer.incumbent_prediction.queue_mean_bytes))
            self._tell(QueueMeasured(measured_queue_bytes))
        if not answer.changes:
            return NOTHING_STAGED
        gain = answer.improvement.score_gain
        opinion = answer.second_opinion
        apart = opinion.disagreement_ratio if opinion is not None and opinion.decided else None
        ended = Recommended(now_s, answer.watermark, answer.incumbent, gain, apart)
        self._state, actions = advance(self._state, ended, self._settings)
        issued = next((action.watermark for action in actions if isinstance(action, Issue)), None)
        staged = issued or within_step(answer.incumbent, answer.watermark, self._settings.max_step)
        holds = tuple(action for action in actions if isinstance(action, Hold))
        if any(hold.reason is HoldReason.NO_CHANGE for hold in holds):
            return NOTHING_STAGED
        return Cleared(staged, tuple(hold.sentence for hold in holds))

    def watermark_changed(self, *, age_s: float = 0.0) -> None:
        """A device was set, so long ago; the next change waits until that has had time to show."""
        self._tell(WatermarkChanged(self._clock_s() - age_s))

    def cooling(self) -> str | None:
        """A sentence while the last change has not had time to show."""
        hold = cooling_down(self._state, self._clock_s(), self._settings)
        return None if hold is None else hold.sentence

    def _tell(self, event: TelemetryArrived | QueuePredicted | QueueMeasured | WatermarkChanged) -> None:
        self._state, _ = advance(self._state, event, self._settings)

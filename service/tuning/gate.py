"""Push gate of the service: remembers the last change, residual and window, and judges each round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twin.search.push_gate import GateSettings, holds, next_step
from twin.search.recommendation import Recommendation
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Cleared:
    """The watermark an approval would set (None: nothing), and the reasons why it may not be written yet."""

    staged: Watermark | None
    holds: tuple[str, ...] = ()


NOTHING_STAGED = Cleared(None)


class PushGate:
    """Judges whether a round's answer may be pushed yet; ``clock_s`` is monotonic seconds."""

    def __init__(self, settings: GateSettings, *, clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._clock_s = clock_s
        self._changed_at_s: float | None = None
        self._residual: float | None = None
        self._behind_share = 0.0

    def round_ended(
        self,
        answer: Recommendation,
        residual: float | None,
        *,
        age_s: float,
        behind_share: float = 0.0,
        waits: bool = False,
    ) -> Cleared:
        """Notes the round's residual (``push_gate.residual_ratio``; None: nothing measured), then judges the
        answer.

        ``age_s`` is the age of the newest report, ``behind_share`` as in ``push_gate.holds``; ``waits``:
        there are NICs to set, whatever the watermark.
        A residual stands until the next comparison, also over a change. That the last change cools down is
        not among the holds: it passes by itself (``cooling_left_s``).
        """
        if residual is not None:
            self._residual = residual
        self._behind_share = behind_share
        staged = next_step(self._settings, answer.incumbent, answer.watermark) if answer.changes else None
        if staged is None and not waits:
            return NOTHING_STAGED
        opinion = answer.second_opinion
        found = holds(
            self._settings,
            report_age_s=age_s,
            residual=self._residual,
            disagreement=opinion.disagreement_ratio if opinion is not None and opinion.decided else None,
            behind_share=behind_share,
        )
        return Cleared(staged, found)

    def held(self, *, age_s: float) -> tuple[str, ...]:
        """Why nothing may be written now, engines apart (``push_gate.holds``)."""
        return holds(
            self._settings,
            report_age_s=age_s,
            residual=self._residual,
            disagreement=None,
            behind_share=self._behind_share,
        )

    def watermark_changed(self, *, age_s: float = 0.0) -> None:
        """A device was set ``age_s`` seconds ago; the next change waits until that had time to show."""
        self._changed_at_s = self._clock_s() - age_s

    def cooling_left_s(self) -> float:
        """Seconds until the last change has had time to show; 0 if it has, or if there was none."""
        if self._changed_at_s is None:
            return 0.0
        return max(self._changed_at_s + self._settings.cool_down_s - self._clock_s(), 0.0)

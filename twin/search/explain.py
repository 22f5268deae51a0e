"""The sentence that explains a recommendation, and the relative changes it quotes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from twin.prediction import Prediction
from twin.search.disagreement import differ_text
from twin.search.recommendation import SecondOpinion, Verdict, VerdictKind
from twin.search.score import LEAST_LOSS_BYTES, LEAST_PAUSE_S
from twin.units import bytes_text, change_text, duration_text, percent_text
from twin.watermark import Watermark

_CLASS_WORDS = {"mouse": "mice", "elephant": "elephant", "potential_elephant": "potential-elephant"}


def relative_changes(incumbent: Prediction, winner: Prediction) -> Mapping[str, float]:
    """New ÷ old − 1 of each figure both have and the incumbent has above 0."""
    pairs = {
        "queue_mean": (incumbent.queue_mean_bytes, winner.queue_mean_bytes),
        "queue_p99": (incumbent.queue_p99_bytes, winner.queue_p99_bytes),
        "goodput": (incumbent.goodput_bytes_per_s, winner.goodput_bytes_per_s),
        "elephant_slowdown": (
            incumbent.slowdown_figure("elephant", "mean"),
            winner.slowdown_figure("elephant", "mean"),
        ),
        "mice_p99_slowdown": (
            incumbent.slowdown_figure("mice", "p99"),
            winner.slowdown_figure("mice", "p99"),
        ),
        "loss": (incumbent.loss_bytes, winner.loss_bytes),
        "pause": (incumbent.pfc_pause_s, winner.pfc_pause_s),
    }
    return {
        name: after / before - 1
        for name, (before, after) in pairs.items()
        if math.isfinite(before) and math.isfinite(after) and before > 0
    }


def watermark_text(watermark: Watermark) -> str:
    """Such as ``Kmin 120 KB, Kmax 480 KB, Pmax 10 %``."""
    kmin, kmax = bytes_text(watermark.kmin_bytes), bytes_text(watermark.kmax_bytes)
    return f"Kmin {kmin}, Kmax {kmax}, Pmax {percent_text(watermark.pmax)}"


def why(
    verdict: Verdict,
    watermark: Watermark,
    incumbent_prediction: Prediction,
    winner_prediction: Prediction,
    *,
    dominant_class: str,
    lambda_: float,
    pfc: bool,
    opinion: SecondOpinion | None = None,
) -> str:
    """One sentence: the watermark, its effects against the incumbent, the second opinion, the traffic."""
    traffic = f"{_CLASS_WORDS.get(dominant_class, dominant_class)}-dominated traffic, λ {lambda_:g}"
    if verdict.kind is not VerdictKind.CHANGE:
        queue = bytes_text(incumbent_prediction.queue_mean_bytes)
        now = f"now predicted: mean queue {queue}, {_harm(incumbent_prediction, pfc)}"
        said = f"{_inside(verdict.sentence)}; {now}{_said(opinion, changes=False)}"
        return f"Keep {watermark_text(watermark)}: {said}; {traffic}."
    effects = [_queue(incumbent_prediction, winner_prediction)]
    relative = relative_changes(incumbent_prediction, winner_prediction)
    if "elephant_slowdown" in relative:
        effects.append(_speed("elephants", relative["elephant_slowdown"]))
    else:
        effects.append(f"goodput {change_text(relative.get('goodput', 0.0))}")
    if "mice_p99_slowdown" in relative:
        effects.append(_speed("p99 mice", relative["mice_p99_slowdown"]))
    effects.append(_harm_change(incumbent_prediction, winner_prediction, pfc))
    return f"{watermark_text(watermark)}: {', '.join(effects)}{_said(opinion, changes=True)}; {traffic}."


def _said(opinion: SecondOpinion | None, *, changes: bool) -> str:
    if opinion is None:
        return ""
    if not opinion.decided:
        return f"; no second opinion, {opinion.engine} could not run the incumbent"
    apart = differ_text(opinion.disagreement)
    if opinion.disagrees:
        return f"; {opinion.engine} disagrees, by {apart}"
    verb = "checked" if not changes else "chosen" if opinion.changed_pick else "confirmed"
    return f"; {verb} by {opinion.engine}, within {apart}"


def _queue(incumbent: Prediction, winner: Prediction) -> str:
    before, after = incumbent.queue_mean_bytes, winner.queue_mean_bytes
    if before <= 0:
        return f"mean queue {bytes_text(after)}"
    change = after / before - 1
    if abs(change) < 0.005:
        return f"mean queue stays at {bytes_text(after)}"
    verb = "falls" if change < 0 else "rises"
    return f"mean queue {verb} from {bytes_text(before)} to {bytes_text(after)} ({change_text(change)})"


def _speed(who: str, relative_slowdown: float) -> str:
    whole = round(100 * abs(relative_slowdown))
    if whole == 0:
        return f"{who} as fast as before"
    return f"{who} {whole} % {'slower' if relative_slowdown > 0 else 'faster'}"


def _harm(prediction: Prediction, pfc: bool) -> str:
    lost = (
        f"{bytes_text(prediction.loss_bytes)} lost"
        if prediction.loss_bytes >= LEAST_LOSS_BYTES
        else "no loss"
    )
    if not pfc:
        return lost
    paused = prediction.pfc_pause_s
    pause = f"{duration_text(paused)} of PFC pause" if paused >= LEAST_PAUSE_S else "no pause"
    return pause if lost == "no loss" else f"{pause}, {lost}"


def _harm_change(incumbent: Prediction, winner: Prediction, pfc: bool) -> str:
    before, after = _harm(incumbent, pfc), _harm(winner, pfc)
    return after if before == after else f"{after} (was {before})"


def _inside(sentence: str) -> str:
    text = sentence.rstrip(".")
    return text[:1].lower() + text[1:]

"""The sentence that explains a recommendation, and the relative changes it quotes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from telemetry.network.figures import LEAST_BULK_SHARE
from twin.prediction import ELEPHANT_FROM_BYTES, MOUSE_BELOW_BYTES, Prediction, SolveStatus
from twin.scenario import Scenario
from twin.search.disagreement import differ_text
from twin.search.gain import Policy, persistent_bytes_share
from twin.search.recommendation import SecondOpinion, Verdict, VerdictKind
from twin.search.score import LEAST_LOSS_BYTES, LEAST_PAUSE_S
from twin.units import bytes_text, change_text, duration_text, percent_text
from twin.watermark import Watermark

_TOLD_FROM = 0.1  # of what no weight counts, a loss of so much is told
CLASS_WORDS = {"mouse": "mice", "elephant": "elephants", "potential_elephant": "potential elephants"}


def relative_changes(incumbent: Prediction, winner: Prediction) -> Mapping[str, float]:
    """New ÷ old − 1 of each figure both have and the incumbent has above 0."""
    pairs = {
        "queue_mean": (incumbent.queue_mean_bytes, winner.queue_mean_bytes),
        "queue_p99": (incumbent.queue_p99_bytes, winner.queue_p99_bytes),
        "goodput": (incumbent.goodput_bytes_per_s, winner.goodput_bytes_per_s),
        "lasting_rate": (
            incumbent.lasting_bytes_per_s or math.nan,
            winner.lasting_bytes_per_s or math.nan,
        ),
        "elephant_slowdown": (
            incumbent.slowdown_figure("elephant", "mean"),
            winner.slowdown_figure("elephant", "mean"),
        ),
        "mice_p99_slowdown": (
            incumbent.slowdown_figure("mice", "p99"),
            winner.slowdown_figure("mice", "p99"),
        ),
        "probe_p99_slowdown": (_probe(incumbent), _probe(winner)),
        "medium_slowdown": (
            incumbent.slowdown_figure("medium", "mean"),
            winner.slowdown_figure("medium", "mean"),
        ),
        "loss": (incumbent.loss_bytes, winner.loss_bytes),
        "pause": (incumbent.pfc_pause_s, winner.pfc_pause_s),
    }
    return {
        name: after / before - 1
        for name, (before, after) in pairs.items()
        if math.isfinite(before) and math.isfinite(after) and before > 0
    }


def _probe(prediction: Prediction) -> float:
    probe = prediction.probe.get("all")
    return math.nan if probe is None else probe.p99


def absent_notes(incumbent: Prediction, scenario: Scenario) -> tuple[str, ...]:
    """What a gain leaves out because this traffic has none of it; nothing of a run that failed."""
    if incumbent.status is not SolveStatus.OK:
        return ()
    figures, notes = incumbent.gain_figures, []
    if persistent_bytes_share(scenario, figures) is None:
        few = figures.elephant_slowdown is not None
        which = (
            f"Elephants carry less than {percent_text(LEAST_BULK_SHARE)} of the bytes"
            if few
            else "No elephants"
        )
        notes.append(f"{which} and no persistent flows in this window: bulk speed counts nothing in a gain.")
        payload = scenario.flows.payload_bytes
        medium = payload[(payload >= MOUSE_BELOW_BYTES) & (payload < ELEPHANT_FROM_BYTES)].sum()
        share = float(medium / max(payload.sum(), 1.0))
        if share >= 0.5:
            notes.append(
                f"Messages of 100 KB to 1 MB carry {percent_text(share)} of the bytes, and no weight counts "
                "them: see what becomes of their slowdown."
            )
    if figures.mice_p99_slowdown is None and figures.probe_p99_slowdown is None:
        notes.append("No mice and no probe in this window: small-message delay counts nothing in a gain.")
    return tuple(notes)


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
    pfc: bool,
    policy: Policy,
    gained: str | None = None,
    opinion: SecondOpinion | None = None,
    other_roles: tuple[str, ...] = (),
) -> str:
    """One sentence: watermark, gain, what gets better and what worse, second opinion, traffic.

    ``gained`` such as ``8 ± 2 % better for the balanced policy``; None where the normalised score decides.
    Ports of ``other_roles`` run another watermark than the incumbent.
    """
    traffic = f"{CLASS_WORDS.get(dominant_class, dominant_class)} carry the most bytes"
    if verdict.kind is not VerdictKind.CHANGE:
        queue = bytes_text(incumbent_prediction.queue_mean_bytes)
        now = f"now predicted: mean queue {queue}, {_harm(incumbent_prediction, pfc)}"
        said = f"{_inside(verdict.sentence)}; {now}{_said(opinion, changes=False)}"
        beside = f", and what {' and '.join(other_roles)} ports run" if other_roles else ""
        return f"Keep {watermark_text(watermark)}{beside}: {said}; {traffic}."
    effects = _effects(incumbent_prediction, winner_prediction, policy)
    effects.append(_queue(incumbent_prediction, winner_prediction))
    effects.append(_harm_change(incumbent_prediction, winner_prediction, pfc))
    everywhere = f" on all ports, {' and '.join(other_roles)} too" if other_roles else ""
    lead = "" if gained is None else f"{gained}: "
    said = f"{', '.join(effects)}{_said(opinion, changes=True)}"
    return f"{watermark_text(watermark)}{everywhere}: {lead}{said}; {traffic}."


def _effects(incumbent: Prediction, winner: Prediction, policy: Policy) -> list[str]:
    """What gets faster, then what gets slower, each in the order of its weight in a gain; then what loses and
    is not weighed.
    """
    relative = relative_changes(incumbent, winner)
    probe = policy.probe if "mice_p99_slowdown" in relative else 1.0
    who = {
        "mice_p99_slowdown": ("mice", " at p99", policy.delay * (1.0 - probe)),
        "probe_p99_slowdown": ("a small message", " at p99", policy.delay * probe),
        "elephant_slowdown": ("elephants", "", policy.bulk),
    }
    found = [
        (weight * _log(relative[name]), _speed(subject, relative[name], tail))
        for name, (subject, tail, weight) in who.items()
        if name in relative
    ]
    if "lasting_rate" in relative:
        change = relative["lasting_rate"]
        found.append((-policy.bulk * _log(change), f"throughput of never-ending flows {change_text(change)}"))
    goodput = relative.get("goodput", 0.0)
    said = f"goodput {change_text(goodput)}"
    if "lasting_rate" not in relative and "elephant_slowdown" not in relative:
        found.append((-policy.bulk * _log(goodput), said))
        goodput = 0.0
    weighed = [text for _, text in sorted(found, key=lambda one: (one[0] > 0, -abs(one[0])))]
    unweighed = [said] if goodput <= -_TOLD_FROM else []
    if (medium := relative.get("medium_slowdown", 0.0)) >= _TOLD_FROM:
        unweighed.append(_speed("messages of 100 KB to 1 MB", medium, ""))
    return [*weighed, *(f"{text} (not weighed)" for text in unweighed)]


def _log(relative: float) -> float:
    return math.log(max(1.0 + relative, 1e-9))


def _said(opinion: SecondOpinion | None, *, changes: bool) -> str:
    if opinion is None:
        return ""
    engine = f"the {opinion.engine} engine"
    if not opinion.decided:
        return f"; no second opinion, {engine} could not run the incumbent"
    apart = differ_text(opinion.disagreement)
    if opinion.disagrees:
        return f"; {engine} disagrees, by {apart}"
    verb = "checked" if not changes else "chosen" if opinion.changed_pick else "confirmed"
    return f"; {verb} by {engine}, within {apart}"


def _queue(incumbent: Prediction, winner: Prediction) -> str:
    before, after = incumbent.queue_mean_bytes, winner.queue_mean_bytes
    if before <= 0:
        return f"mean queue {bytes_text(after)}"
    change = after / before - 1
    if abs(change) < 0.005:
        return f"mean queue stays at {bytes_text(after)}"
    verb = "falls" if change < 0 else "rises"
    return f"mean queue {verb} from {bytes_text(before)} to {bytes_text(after)} ({change_text(change)})"


def _speed(who: str, relative_slowdown: float, tail: str) -> str:
    whole = round(100 * abs(relative_slowdown))
    if whole == 0:
        return f"{who} as fast as before{tail}"
    return f"{who} {whole} % {'slower' if relative_slowdown > 0 else 'faster'}{tail}"


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

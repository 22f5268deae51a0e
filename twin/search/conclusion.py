"""Turns a round's scores into a verdict (is the best candidate worth a change?) and a recommendation.

No watermark helps where every candidate, over decades of Kmin, leaves queue, rates and pauses as they are:
senders that cannot or will not slow down keep queues long whatever is marked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.arrivals.calibrate import EMPTY_QUEUE_BYTES
from twin.prediction import Prediction, SolveStatus
from twin.scenario import Scenario
from twin.search.explain import absent_notes, relative_changes, why
from twin.search.gain import PARTS, policy_text
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import (
    Improvement,
    PartRecommendation,
    Recommendation,
    ScoredCandidate,
    Verdict,
    VerdictKind,
)
from twin.search.runs import Ledger
from twin.search.score import (
    LEAST_LOSS_BYTES,
    LEAST_PAUSE_S,
    LEAST_SPREAD,
    ScoreName,
    Scores,
    choose,
    surely_above,
)
from twin.search.second_engine import Decision
from twin.units import bytes_text, duration_text, gain_text, percent_text
from twin.watermark import Watermark

PINNED_QUEUE_RATIO = 1.25


@dataclass(frozen=True, slots=True)
class Found:
    """The candidate a round would recommend, on the score that decides."""

    row: int
    score_gain: float
    error: float | None
    n_alike: int
    stands: bool
    sure: bool
    by: ScoreName
    stays: bool = False

    @classmethod
    def among(
        cls,
        scores: Scores,
        may_win: Collection[int],
        incumbent: int,
        settings: SearchSettings,
        watermarks: Sequence[Watermark],
        standing: Watermark | None,
    ) -> Found:
        """The choice among candidates that may win; ``standing`` was recommended before."""
        choice = choose(
            scores,
            among=may_win,
            incumbent=incumbent,
            margin=settings.margin,
            watermarks=watermarks,
            near_tie=settings.near_tie,
            standing=standing,
        )
        by_gain = scores.by == "gain"
        gained = float(scores.score[choice.row] - scores.score[incumbent])
        error = scores.gains[choice.row].error if by_gain else math.nan
        return cls(
            row=choice.row,
            score_gain=gained,
            error=error if math.isfinite(error) else None,
            n_alike=choice.n_alike,
            stands=choice.row == incumbent,
            sure=choice.stays or surely_above(scores.gains[choice.row], settings.margin)
            if by_gain
            else gained > settings.margin,
            by=scores.by,
            stays=choice.stays,
        )

    @property
    def verb(self) -> str:
        return "gains" if self.by == "gain" else "scores"

    @property
    def text(self) -> str:
        """Such as ``gains 8 ± 2 %``."""
        if self.by == "gain":
            return f"gains {gain_text(self.score_gain, self.error)}"
        return f"gains {self.score_gain:.3f} in score"

    def amount(self, value: float) -> str:
        return percent_text(value) if self.by == "gain" else f"{value:g}"


def judge(
    predictions: Sequence[Prediction],
    scenario: Scenario,
    *,
    n_tried: int,
    found: Found,
    margin: float,
    drawn: Sequence[Prediction] = (),
    unlike: str | None = None,
) -> Verdict:
    """The verdict, from the predictions of all candidates that ran the full window.

    ``n_tried`` counts those dropped early too, and ``drawn`` are predictions of these and of the others over
    the same, shorter window: candidates that go on are alike, and tell little of what watermarks do.
    ``unlike`` says why the scenario is not like the network.
    """
    if scenario.unmarked:
        return Verdict(
            VerdictKind.NO_EFFECT,
            f"No watermark has an effect here: senders act on round-trip times, not on ECN "
            f"({scenario.sending_text}).",
        )
    if unlike is not None:
        return Verdict(VerdictKind.UNCALIBRATED, f"No recommendation: {unlike}")
    rows = [one for one in predictions if one.status is SolveStatus.OK]
    queue = np.array([one.queue_mean_bytes for one in rows])
    pause = np.array([one.pfc_pause_s if scenario.pfc else 0.0 for one in rows])
    loss = np.array([one.loss_bytes for one in rows])
    suffering = float(pause.max()) >= LEAST_PAUSE_S or float(loss.max()) >= LEAST_LOSS_BYTES
    remarks = _remarks(pause, loss, scenario)
    # Where a low watermark holds senders back, queues may be empty, or all better candidates alike, and yet
    # there is much to gain.
    gains = found.by == "gain" and found.sure and not found.stands
    if float(queue.max()) < EMPTY_QUEUE_BYTES and not suffering and not gains:
        return Verdict(
            VerdictKind.UNCONGESTED,
            f"Nothing to tune: every candidate's mean queue is below {bytes_text(EMPTY_QUEUE_BYTES)}.",
        )
    if not gains and _pinned(rows) and _pinned([one for one in drawn if one.status is SolveStatus.OK]):
        low, high = _core(queue)
        pauses = f" and PFC pause {_pause_range(pause)}" if float(pause.max()) >= LEAST_PAUSE_S else ""
        return Verdict(
            VerdictKind.NO_EFFECT,
            f"No watermark helps here: over the {len(rows)} candidates that ran in full the mean queue stays "
            f"{bytes_text(low)} to {bytes_text(high)}{pauses}; {_what_would_help(scenario)}.",
            remarks,
        )
    if found.stands:
        return Verdict(
            VerdictKind.STAND_STILL,
            f"Stand still: none of {n_tried} candidates {found.verb} more than the incumbent beyond noise.",
            remarks,
        )
    if not found.sure:
        less = "less two errors does not exceed" if found.error is not None else "does not exceed"
        return Verdict(
            VerdictKind.STAND_STILL,
            f"Stand still: the best candidate {found.text}, which {less} the margin of "
            f"{found.amount(margin)}.",
            remarks,
        )
    if found.stays:
        return Verdict(
            VerdictKind.CHANGE,
            f"Change, as recommended before: this {found.text}, and none of {n_tried} candidates is surely "
            f"better than it by the margin of {found.amount(margin)}.",
            remarks,
        )
    others = f"{found.n_alike} other{'' if found.n_alike == 1 else 's'}"
    alike = (
        f"; {others} cannot be told apart from the best, of those sure to gain this is nearest to what runs"
    )
    return Verdict(
        VerdictKind.CHANGE,
        f"Change: the best of {n_tried} candidates {found.text} (margin {found.amount(margin)})"
        f"{alike if found.n_alike else ''}.",
        remarks,
    )


def _core(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 5th and 95th percentile, so that one odd candidate does not count."""
    low, high = np.percentile(values, [5, 95])
    return float(low), float(high)


def _pinned(rows: Sequence[Prediction]) -> bool:
    """Whether queue, rates, pauses and losses are about the same in all rows; true of none."""

    def of(figure: str) -> NDArray[np.float64]:
        return np.array([getattr(one, figure) for one in rows])

    low, high = _core(of("queue_mean_bytes")) if rows else (0.0, 0.0)
    return (
        high <= low * PINNED_QUEUE_RATIO
        and _steady(of("goodput_bytes_per_s"), LEAST_SPREAD["goodput"])
        and _steady(of("pfc_pause_s"), LEAST_SPREAD["pause"], LEAST_PAUSE_S)
        and _steady(of("loss_bytes"), LEAST_SPREAD["loss"], LEAST_LOSS_BYTES)
        and _steady(_slowdowns(rows, "elephant", "mean"), LEAST_SPREAD["slowdown"])
        and _steady(_slowdowns(rows, "mice", "p99"), LEAST_SPREAD["mice"])
    )


def _steady(values: NDArray[np.float64], relative: float, absolute: float = 0.0) -> bool:
    if not values.size:
        return True
    low, high = _core(values)
    return high - low <= max(relative * abs(high), absolute)


def _slowdowns(rows: Sequence[Prediction], size_class: str, figure: str) -> NDArray[np.float64]:
    entries = [one.slowdown[size_class] for one in rows if size_class in one.slowdown]
    return np.array([getattr(entry, figure) for entry in entries if entry.n], dtype=np.float64)


def _remarks(pause: NDArray[np.float64], loss: NDArray[np.float64], scenario: Scenario) -> tuple[str, ...]:
    remarks = []
    if float(pause.min()) >= LEAST_PAUSE_S and _steady(pause, LEAST_SPREAD["pause"]):
        remarks.append(
            f"PFC pause stays {_pause_range(pause)} whatever the watermark; {_what_would_help(scenario)}."
        )
    if float(loss.min()) >= LEAST_LOSS_BYTES and _steady(loss, LEAST_SPREAD["loss"]):
        low, high = _core(loss)
        remarks.append(
            f"{bytes_text(low)} to {bytes_text(high)} are lost whatever the watermark; "
            f"{_what_would_help(scenario)}."
        )
    return tuple(remarks)


def _pause_range(pause: NDArray[np.float64]) -> str:
    low, high = _core(pause)
    return f"{duration_text(low)} to {duration_text(high)}"


def _what_would_help(scenario: Scenario) -> str:
    sharing = _persistent_senders(scenario)
    senders = f" ({sharing} long flows share the busiest port)" if sharing > 1 else ""
    return (
        f"fewer senders per receiver{senders}, DCQCN parameters that cut more and recover less, "
        f"or more than {bytes_text(scenario.buffer_bytes)} of buffer would"
    )


def _persistent_senders(scenario: Scenario) -> int:
    """The most never-ending flows that cross one switch port."""
    flows = scenario.flows
    lengths = np.diff(flows.path_offset)
    endless = np.repeat(np.isinf(flows.payload_bytes), lengths)
    ports = flows.path_ports[: len(endless)][endless]
    ports = ports[~scenario.is_nic[ports]]
    return int(np.bincount(ports).max()) if ports.size else 0


def recommend(
    problem: TuningProblem,
    settings: SearchSettings,
    *,
    parts: Sequence[Scenario],
    moments: Sequence[Scenario],
    ledger: Ledger,
    predicted: Callable[[int], Prediction],
    decision: Decision,
    incumbent: int,
    whole: Callable[[Sequence[int]], Sequence[Prediction]],
    looked_at: Sequence[str],
    seed: int,
    version: str,
) -> Recommendation:
    """The recommendation of a finished round.

    The rows of the decision's scores are the runs' candidates at full length, ``moments`` what they ran.
    ``predicted`` gives their predictions by number; ``whole`` predicts on the undivided scenario.
    """
    scores, opinion = decision.scores, decision.opinion
    watermarks = [one.watermark for one in ledger.proposals]
    found = Found.among(scores.fleet, decision.fleet, incumbent, settings, watermarks, problem.standing)
    best = found.row
    everyone = range(len(ledger.proposals))
    # The verdict is on candidates that ran in full.
    in_full = [number for number in everyone if ledger.reached(number, ledger.last_rung)]
    verdict = judge(
        list(map(predicted, in_full)),
        problem.scenario,
        n_tried=len(everyone),
        found=found,
        margin=settings.margin,
        drawn=[ledger.whole(number, 0) for number in everyone if ledger.reached(number, 0)],
        unlike=problem.unlike,
    )
    winner = best if verdict.kind is VerdictKind.CHANGE else incumbent
    incumbent_prediction, winner_prediction, best_prediction = whole([incumbent, winner, best])
    order = sorted(
        everyone, key=lambda number: (number != winner, -float(scores.fleet.score[number]), number)
    )
    return Recommendation(
        watermark=ledger.proposals[winner].watermark,
        incumbent=problem.incumbent,
        incumbent_by_role=problem.by_role,
        incumbent_prediction=incumbent_prediction,
        winner_prediction=winner_prediction,
        candidates=tuple(
            _candidate(number, ledger, scores.fleet, moments, predicted(number)) for number in order
        ),
        improvement=Improvement(
            best=ledger.proposals[best].watermark,
            score_gain=found.score_gain,
            score_error=found.error,
            n_alike=found.n_alike,
            margin=settings.margin,
            relative=relative_changes(incumbent_prediction, best_prediction),
        ),
        verdict=verdict,
        why=why(
            verdict,
            ledger.proposals[winner].watermark,
            incumbent_prediction,
            winner_prediction,
            dominant_class=problem.dominant_class,
            pfc=problem.scenario.pfc,
            gained=None
            if found.by == "normalised"
            else f"{gain_text(found.score_gain, found.error)} better for the "
            f"{policy_text(settings.policy)} policy",
            policy=settings.policy,
            opinion=opinion,
            other_roles=tuple(role for role, _ in problem.by_role),
        ),
        parts=tuple(
            _part(number, part, ledger, decision, settings, problem, in_full, incumbent)
            for number, part in enumerate(parts)
        ),
        dominant_class=problem.dominant_class,
        lambda_=problem.lambda_,
        engine=settings.engine,
        seed=seed,
        version=version,
        throughput_is=scores.fleet.throughput_is,
        queue_is=scores.fleet.queue_is,
        score_is=settings.score,
        policy=settings.policy,
        weights=settings.weights,
        notes=(
            *problem.notes,
            *looked_at,
            *absent_notes(incumbent_prediction, problem.scenario),
            *decision.notes,
        ),
        second_opinion=opinion,
    )


def _candidate(
    number: int, ledger: Ledger, scores: Scores, moments: Sequence[Scenario], prediction: Prediction
) -> ScoredCandidate:
    proposal = ledger.proposals[number]
    rung = ledger.rung_of(number)
    feasible = bool(scores.feasible[number])
    gain = scores.gains[number]
    return ScoredCandidate(
        watermark=proposal.watermark,
        origin=proposal.origin,
        source=proposal.source,
        rung=rung,
        window_s=ledger.rungs[rung].traffic_s(moments),
        n_seeds=ledger.n_seeds(number),
        prediction=prediction,
        raw={name: float(column[number]) for name, column in scores.raw.items()},
        normalised={name: float(column[number]) for name, column in scores.normalised.items()},
        score=float(scores.score[number]) if feasible else None,
        score_error=gain.error if feasible and math.isfinite(gain.error) else None,
        score_normalised=float(scores.normalised_score[number]) if feasible else None,
        gain={part: getattr(gain, part) for part in PARTS} if feasible else None,
    )


def _part(
    number: int,
    part: Scenario,
    ledger: Ledger,
    decision: Decision,
    settings: SearchSettings,
    problem: TuningProblem,
    in_full: Sequence[int],
    incumbent: int,
) -> PartRecommendation:
    own = decision.scores.parts[number]
    last, everyone = ledger.last_rung, range(len(ledger.proposals))
    watermarks = [one.watermark for one in ledger.proposals]
    found = Found.among(own, decision.parts[number], incumbent, settings, watermarks, problem.standing)
    verdict = judge(
        ledger.at(number, in_full, last),
        part,
        n_tried=len(everyone),
        found=found,
        margin=settings.margin,
        drawn=ledger.at(number, [one for one in everyone if ledger.reached(one, 0)], 0),
        unlike=problem.unlike,
    )
    winner = found.row if verdict.kind is VerdictKind.CHANGE else incumbent
    before, after = ledger.at(number, [incumbent, winner], last)
    return PartRecommendation(
        name=part.name,
        n_flows=len(part.flows),
        switch_ports=tuple((port.node, port.port) for port in part.ports if port.port is not None),
        traffic_share=float(decision.scores.traffic_share[number]),
        watermark=ledger.proposals[winner].watermark,
        score_gain=found.score_gain,
        incumbent_prediction=before,
        winner_prediction=after,
        verdict=verdict,
    )

"""Turns a round's scores into its recommendation; must import no engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twin.result import Prediction
from twin.scenario import Scenario
from twin.search.explain import relative_changes, why
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import (
    Improvement,
    PartRecommendation,
    Recommendation,
    ScoredCandidate,
    VerdictKind,
)
from twin.search.runs import Ledger
from twin.search.score import Scores, best_among
from twin.search.second_engine import Decision
from twin.search.verdict import judge


def recommend(
    problem: TuningProblem,
    settings: SearchSettings,
    *,
    parts: Sequence[Scenario],
    ledger: Ledger,
    decision: Decision,
    incumbent: int,
    whole: Callable[[Sequence[int]], Sequence[Prediction]],
    seed: int,
    version: str,
) -> Recommendation:
    """The recommendation of a finished round.

    The rows of the decision's scores are the ledger's candidates at full length. ``whole`` predicts the
    undivided scenario for the candidates it is given.
    """
    scores, opinion = decision.scores, decision.opinion
    best = best_among(scores.fleet, among=decision.fleet, incumbent=incumbent, near_tie=settings.near_tie)
    gain = float(scores.fleet.score[best] - scores.fleet.score[incumbent])
    everyone = range(len(ledger.proposals))
    # The verdict reads the candidates that ran in full; parts are judged apart, the fleet over all of their
    # runs.
    in_full = [number for number in everyone if ledger.rung_of(number) == len(settings.fractions) - 1]
    verdict = judge(
        [ledger.whole(number) for number in in_full],
        problem.scenario,
        n_tried=len(everyone),
        gain=gain,
        margin=settings.margin,
        stands=best == incumbent,
        pfc=problem.pauses,
    )
    winner = best if verdict.kind is VerdictKind.CHANGE else incumbent
    incumbent_prediction, winner_prediction, best_prediction = whole([incumbent, winner, best])
    order = sorted(
        everyone, key=lambda number: (number != winner, -float(scores.fleet.score[number]), number)
    )
    return Recommendation(
        watermark=ledger.proposals[winner].watermark,
        incumbent=problem.incumbent,
        incumbent_prediction=incumbent_prediction,
        winner_prediction=winner_prediction,
        candidates=tuple(_candidate(number, ledger, scores.fleet, problem, settings) for number in order),
        improvement=Improvement(
            best=ledger.proposals[best].watermark,
            score_gain=gain,
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
            lambda_=problem.lambda_,
            pfc=problem.pauses,
            opinion=opinion,
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
        weights=settings.weights,
        notes=(*problem.notes, *decision.notes),
        second_opinion=opinion,
    )


def _candidate(
    number: int, ledger: Ledger, scores: Scores, problem: TuningProblem, settings: SearchSettings
) -> ScoredCandidate:
    proposal = ledger.proposals[number]
    rung = ledger.rung_of(number)
    feasible = bool(scores.feasible[number])
    return ScoredCandidate(
        watermark=proposal.watermark,
        origin=proposal.origin,
        source=proposal.source,
        rung=rung,
        window_s=settings.fractions[rung] * problem.scenario.duration_s,
        n_seeds=ledger.n_seeds(number),
        prediction=ledger.whole(number),
        raw={name: float(column[number]) for name, column in scores.raw.items()},
        normalised={name: float(column[number]) for name, column in scores.normalised.items()},
        score=float(scores.score[number]) if feasible else None,
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
    last = len(settings.fractions) - 1
    best = best_among(own, among=decision.parts[number], incumbent=incumbent, near_tie=settings.near_tie)
    gain = float(own.score[best] - own.score[incumbent])
    verdict = judge(
        ledger.at(number, in_full, last),
        part,
        n_tried=len(ledger.proposals),
        gain=gain,
        margin=settings.margin,
        stands=best == incumbent,
        pfc=problem.pauses,
    )
    winner = best if verdict.kind is VerdictKind.CHANGE else incumbent
    before, after = ledger.at(number, [incumbent, winner], last)
    return PartRecommendation(
        name=part.name,
        n_flows=len(part.flows),
        switch_ports=tuple((port.node, port.port) for port in part.ports if port.port is not None),
        traffic_share=float(decision.scores.traffic_share[number]),
        watermark=ledger.proposals[winner].watermark,
        score_gain=gain,
        incumbent_prediction=before,
        winner_prediction=after,
        verdict=verdict,
    )

"""What ``ecntwin demo --json`` prints."""

from __future__ import annotations

from typing import Self

from lab.demo.closed_loop import Interval, Outcome, Round, Run
from lab.documents import FiguresDocument
from service.documents.base import Document, Figure
from service.documents.predictions import WatermarkDocument
from settings.version import ecntwin_version


class PhaseDocument(Document):
    """Traffic from ``begin_s`` on."""

    name: str
    begin_s: float
    traffic: str


class IntervalDocument(Document):
    """Figures of one interval (flows that completed in it) and the watermark set last before it."""

    watermark: WatermarkDocument
    figures: FiguresDocument

    @classmethod
    def of(cls, interval: Interval) -> Self:
        """The document of an interval."""
        return cls(watermark=WatermarkDocument.of(interval.watermark), figures=interval.figures)


class RoundOutcomeDocument(Document):
    """A round: ``pushed``, ``kept`` (nothing better), ``held`` back by a gate, or ``failed``."""

    at_s: float
    outcome: str
    watermark: WatermarkDocument
    score_gain: Figure
    why: str
    wall_s: float

    @classmethod
    def of(cls, round_: Round) -> Self:
        """The document of a round."""
        return cls(
            at_s=round_.at_s,
            outcome=round_.outcome,
            watermark=WatermarkDocument.of(round_.watermark),
            score_gain=round_.gain,
            why=round_.why,
            wall_s=round_.wall_s,
        )


class RunDocument(Document):
    """One run over the whole traffic. ``figures`` are the whole run's, flows still under way at their age.

    ``terms`` are the normalised terms that ``score`` is made of.
    """

    name: str
    score: Figure
    terms: dict[str, Figure]
    figures: FiguresDocument
    intervals: list[IntervalDocument]


class DemoDocument(Document):
    """The three runs, the closed loop first; ``lead`` is its score less the better static setting's."""

    plan: str
    seed: int
    hosts: int
    duration_s: float
    interval_s: float
    phases: list[PhaseDocument]
    runs: list[RunDocument]
    rounds: list[RoundOutcomeDocument]
    lead: float
    picture: str | None
    version: str
    wall_s: float

    @classmethod
    def of(cls, outcome: Outcome, picture: str | None) -> Self:
        """The document of an outcome."""
        plan = outcome.plan
        return cls(
            plan=plan.name,
            seed=outcome.seed,
            hosts=plan.fabric.leaves * plan.fabric.hosts,
            duration_s=plan.duration_s,
            interval_s=plan.interval_s,
            phases=[
                PhaseDocument(name=one.name, begin_s=one.begin_s, traffic=one.line) for one in plan.phases
            ],
            runs=[_run(outcome, number, run) for number, run in enumerate(outcome.runs)],
            rounds=[RoundOutcomeDocument.of(one) for one in outcome.loop.rounds],
            lead=outcome.lead,
            picture=picture,
            version=ecntwin_version(),
            wall_s=outcome.wall_s,
        )


def _run(outcome: Outcome, number: int, run: Run) -> RunDocument:
    return RunDocument(
        name=run.name,
        score=float(outcome.scores.score[number]),
        terms={name: float(column[number]) for name, column in outcome.scores.normalised.items()},
        figures=run.whole,
        intervals=[IntervalDocument.of(one) for one in run.intervals],
    )

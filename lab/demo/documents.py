"""What ``ecntwin demo --json`` prints."""

from __future__ import annotations

from typing import Self

from lab.demo.closed_loop import Interval, Outcome, Round, Run
from lab.demo.plan import Phase
from lab.documents import FiguresDocument
from service.documents.base import Document, Figure
from service.documents.predictions import GainDocument
from settings.version import ecntwin_version


class RunDocument(Document):
    """``figures``: of the whole run, unfinished flows at their age; ``gain`` over the vendor default."""

    name: str
    score: Figure
    gain: GainDocument
    figures: FiguresDocument
    intervals: tuple[Interval, ...]


class DemoDocument(Document):
    """The three runs, the closed loop first; ``lead`` is its gain less the better static setting's."""

    plan: str
    seed: int
    hosts: int
    duration_s: float
    interval_s: float
    phases: tuple[Phase, ...]
    runs: list[RunDocument]
    rounds: tuple[Round, ...]
    lead: float
    picture: str | None
    version: str
    wall_s: float

    @classmethod
    def of(cls, outcome: Outcome, picture: str | None) -> Self:
        plan = outcome.plan
        return cls(
            plan=plan.name,
            seed=outcome.seed,
            hosts=plan.fabric.leaves * plan.fabric.hosts,
            duration_s=plan.duration_s,
            interval_s=plan.interval_s,
            phases=plan.phases,
            runs=[_run(outcome, number, run) for number, run in enumerate(outcome.runs)],
            rounds=outcome.loop.rounds,
            lead=outcome.lead,
            picture=picture,
            version=ecntwin_version(),
            wall_s=outcome.wall_s,
        )


def _run(outcome: Outcome, number: int, run: Run) -> RunDocument:
    gain = outcome.gains[number]
    return RunDocument(
        name=run.name,
        score=gain.value,
        gain=GainDocument(bulk=gain.bulk, delay=gain.delay, harm=gain.harm),
        figures=run.whole,
        intervals=run.intervals,
    )

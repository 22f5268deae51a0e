"""The closed loop, interval by interval, and a run that keeps its setting; must know no process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from lab.demo.closed_loop import Lab, Service
from lab.demo.plan import DemoPlan
from lab.documents import FiguresDocument
from twin.watermark import Watermark

Outcome = Literal["pushed", "kept", "held", "failed"]


@dataclass(frozen=True, slots=True)
class Interval:
    """What a lab did over one interval, and the watermark that was set last before it."""

    watermark: Watermark
    figures: FiguresDocument


@dataclass(frozen=True, slots=True)
class Round:
    """A round at ``at_s`` of simulated time. ``watermark`` runs from then on, ``gain`` is the twin's."""

    at_s: float
    outcome: Outcome
    watermark: Watermark
    gain: float | None
    why: str
    wall_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run over the whole traffic; ``rounds`` is empty where the setting was kept."""

    name: str
    intervals: tuple[Interval, ...]
    whole: FiguresDocument
    rounds: tuple[Round, ...] = field(default=())


Told = Callable[[Interval, Round | None], None]


def keep(name: str, lab: Lab, plan: DemoPlan, watermark: Watermark, told: Told) -> Run:
    """The whole traffic under one setting. ``told`` hears of every interval."""
    intervals = []
    for end_s in plan.ends_s:
        intervals.append(Interval(watermark, lab.advance(end_s)))
        told(intervals[-1], None)
    return Run(name, tuple(intervals), lab.figures())


def close_the_loop(
    name: str,
    lab: Lab,
    service: Service,
    plan: DemoPlan,
    start: Watermark,
    told: Told,
    *,
    clock_s: Callable[[], float] = time.monotonic,
) -> Run:
    """The whole traffic, a round after each interval but the last; what is found is set for those after it.

    A round sees reports of the past only. One that fails or is held back changes nothing.
    """
    intervals: list[Interval] = []
    rounds: list[Round] = []
    running = start
    for end_s in plan.ends_s:
        intervals.append(Interval(running, lab.advance(end_s)))
        if end_s == plan.ends_s[-1]:
            told(intervals[-1], None)
            break
        rounds.append(_round(service, end_s, running, clock_s))
        running = rounds[-1].watermark
        told(intervals[-1], rounds[-1])
    return Run(name, tuple(intervals), lab.figures(), tuple(rounds))


def _round(service: Service, at_s: float, running: Watermark, clock_s: Callable[[], float]) -> Round:
    began_s = clock_s()

    def ended(outcome: Outcome, watermark: Watermark, why: str, gain: float | None = None) -> Round:
        return Round(at_s, outcome, watermark, gain, why, clock_s() - began_s)

    said = service.tune()
    if said.document is None:
        return ended("failed", running, said.detail)
    found = said.document
    why, gain = str(found["why"]), found["improvement"]["score_gain"]
    if not found["changes"] or found["staged"] is None:
        return ended("kept", running, why, gain)
    if found["holds"]:
        return ended("held", running, " ".join(found["holds"]), gain)
    approved = service.approve(str(found["id"]))
    if approved.document is None:
        return ended("failed", running, approved.detail, gain)
    return ended("pushed", _watermark(approved.document["staged"]), why, gain)


def _watermark(document: dict[str, Any]) -> Watermark:
    return Watermark(document["kmin_bytes"], document["kmax_bytes"], document["pmax"])

"""Runs the demo over HTTP: a closed loop and fixed watermarks, scored like candidates of a round."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import httpx

from lab.demo.plan import VENDOR_DEFAULT, DemoPlan, Phase
from lab.demo.processes import Child
from lab.documents import FiguresDocument
from service.documents.base import Document, Figure
from service.documents.predictions import GainDocument
from settings.version import ecntwin_version
from telemetry.topology import GBPS
from twin.prediction import Prediction, Probe, Slowdown, SolveStatus
from twin.search.gain import POLICIES, Gain, gain_over, joined
from twin.watermark import Watermark

ROLLOUT_S = 300.0
_POLL_S = 0.05


class Lab(Protocol):
    """A lab that is advanced step by step."""

    def advance(self, until_s: float) -> None:
        """Runs until ``until_s`` of simulated time."""

    def mark(self) -> FiguresDocument:
        """The figures since the last mark or the start, unfinished flows at their age; sets a mark."""

    def figures(self) -> FiguresDocument:
        """The figures of the whole run, unfinished flows at their age."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The ``document`` of a successful answer, else the ``detail`` of its problem document."""

    document: dict[str, Any] | None
    detail: str = ""


class Service(Protocol):
    """A service that tunes and pushes."""

    def tune(self) -> Answer: ...

    def approve(self, recommendation: str) -> Answer:
        """Rolls the recommendation out; returns once every switch runs it, or all are restored."""


class _Caller:
    def __init__(self, child: Child, url: str) -> None:
        self._child = child
        # No timeout: kernels may have to be compiled first, and a process that ends ends its calls.
        self._client = httpx.Client(base_url=url, timeout=None, trust_env=False)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        try:
            return self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise self._child.failure(f"no answer to {method} {path}") from error

    def close(self) -> None:
        self._client.close()


class LabAt(_Caller):
    """A lab in a child process."""

    def advance(self, until_s: float) -> None:
        self._figures(self._call("POST", "/advance", {"until_s": until_s}))

    def mark(self) -> FiguresDocument:
        return self._figures(self._call("POST", "/mark"))

    def figures(self) -> FiguresDocument:
        return self._figures(self._call("GET", "/figures"))

    def _figures(self, answer: httpx.Response) -> FiguresDocument:
        if not answer.is_success:
            raise self._child.failure(_detail(answer))
        return FiguresDocument.model_validate_json(answer.content)


class ServiceAt(_Caller):
    """A service in a child process; a rollout fails after ``rollout_s``."""

    def __init__(
        self,
        child: Child,
        url: str,
        *,
        rollout_s: float = ROLLOUT_S,
        clock_s: Callable[[], float] = time.monotonic,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(child, url)
        self._rollout_s = rollout_s
        self._clock_s = clock_s
        self._sleep_s = sleep_s

    def tune(self) -> Answer:
        return self._answer("POST", "/v1/tune")

    def approve(self, recommendation: str) -> Answer:
        approved = self._answer("POST", f"/v1/recommendations/{recommendation}/approve")
        if approved.document is None:
            return approved
        rollout_id = approved.document["rollout"]
        deadline_s = self._clock_s() + self._rollout_s
        while True:
            answer = self._answer("GET", f"/v1/rollouts/{rollout_id}")
            rollout = answer.document
            if rollout is None:
                return answer
            if rollout["ended"]:
                return approved if rollout["phase"] == "done" else Answer(None, str(rollout["why"]))
            if self._clock_s() >= deadline_s:
                phase = rollout["stalled"] or rollout["phase"]
                return Answer(None, f"the rollout has not ended within {self._rollout_s:g} s ({phase})")
            self._sleep_s(_POLL_S)

    def _answer(self, method: str, path: str) -> Answer:
        answer = self._call(method, path)
        return Answer(answer.json()) if answer.is_success else Answer(None, _detail(answer))


def _detail(answer: httpx.Response) -> str:
    try:
        detail = str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"status {answer.status_code}"
    return detail


IntervalOutcome = Literal["pushed", "kept", "held", "failed"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Figures of one interval, unfinished flows at their age, and the watermark set last before it."""

    watermark: Watermark
    figures: FiguresDocument


@dataclass(frozen=True, slots=True)
class Round:
    """A round at ``at_s`` of simulated time: ``watermark`` runs from then on, ``score_gain`` is predicted."""

    at_s: float
    outcome: IntervalOutcome
    watermark: Watermark
    score_gain: float | None
    why: str
    wall_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run over the whole traffic; a fixed setting has no rounds."""

    name: str
    intervals: tuple[Interval, ...]
    whole: FiguresDocument
    rounds: tuple[Round, ...] = ()


OnInterval = Callable[[Interval, Round | None], None]


def keep(name: str, lab: Lab, plan: DemoPlan, watermark: Watermark, on_interval: OnInterval) -> Run:
    """Runs the whole traffic under one setting."""
    intervals = []
    for end_s in plan.ends_s:
        lab.advance(end_s)
        intervals.append(Interval(watermark, lab.mark()))
        on_interval(intervals[-1], None)
    return Run(name, tuple(intervals), lab.figures())


def close_the_loop(
    name: str,
    lab: Lab,
    service: Service,
    plan: DemoPlan,
    start: Watermark,
    on_interval: OnInterval,
    *,
    clock_s: Callable[[], float] = time.monotonic,
) -> Run:
    """Runs the whole traffic with a round after each interval but the last, and rolls out what it finds.

    A round that fails or is held back changes nothing.
    """
    intervals: list[Interval] = []
    rounds: list[Round] = []
    running = start
    for end_s in plan.ends_s:
        lab.advance(end_s)
        intervals.append(Interval(running, lab.mark()))
        if end_s == plan.ends_s[-1]:
            on_interval(intervals[-1], None)
            break
        rounds.append(_round(service, end_s, running, clock_s))
        running = rounds[-1].watermark
        on_interval(intervals[-1], rounds[-1])
    return Run(name, tuple(intervals), lab.figures(), tuple(rounds))


def _round(service: Service, at_s: float, running: Watermark, clock_s: Callable[[], float]) -> Round:
    began_s = clock_s()

    def ended(outcome: IntervalOutcome, watermark: Watermark, why: str, gain: float | None = None) -> Round:
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
    return ended("pushed", Watermark(**approved.document["staged"]), why, gain)


CLOSED_LOOP, VENDOR, PAPER_SETTING = "closed loop", "vendor default", "DCQCN paper"
POLICY = "balanced"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The runs, the closed loop first, the vendor default second, and their gains over the latter.

    A gain is the mean of those in each interval: intervals of unlike traffic have unlike slowdowns, and a
    99 % figure of the whole run would be that of its worst hundredth.
    """

    plan: DemoPlan
    seed: int
    runs: tuple[Run, ...]
    gains: tuple[Gain, ...]
    wall_s: float

    @property
    def loop(self) -> Run:
        return self.runs[0]

    @property
    def lead(self) -> float:
        """The closed loop's gain less that of the better static setting."""
        loop, *others = (one.value for one in self.gains)
        return loop - max(others)


def outcome_of(plan: DemoPlan, seed: int, runs: Sequence[Run], wall_s: float) -> Outcome:
    """The runs with their gains; the first is the closed loop's, the second the vendor default's."""
    by_interval = [gains_over(runs[1], run) for run in runs]
    gains = [joined(each, [1.0 / len(each)] * len(each)) for each in by_interval]
    return Outcome(plan, seed, tuple(runs), tuple(gains), wall_s)


def gains_over(now: Run, new: Run) -> list[Gain]:
    """By interval, the gain of a run over another of the same traffic."""
    return [
        gain_over(measured(before.figures), measured(after.figures), POLICIES[POLICY], 0.0)
        for before, after in zip(now.intervals, new.intervals, strict=True)
    ]


def by_phase(plan: DemoPlan, now: Run, new: Run) -> list[float]:
    """Mean gain over ``now`` in the intervals of each phase."""
    names = [plan.phase_at(one.figures.begin_s).name for one in now.intervals]
    gains = [one.value for one in gains_over(now, new)]
    return [
        statistics.mean(gain for gain, name in zip(gains, names, strict=True) if name == phase.name)
        for phase in plan.phases
    ]


def measured(figures: FiguresDocument) -> Prediction:
    """A lab's figures as a ``Prediction``, which ``gain_over`` takes; its watermark is meaningless."""
    found = {
        name: Slowdown(one.n, float(one.mean), float(one.p99))
        for name, one in figures.slowdown.items()
        if one.n and one.mean is not None and one.p99 is not None
    }
    probe = figures.probe_slowdown
    return Prediction(
        watermark=VENDOR_DEFAULT,
        status=SolveStatus.OK,
        queue_mean_bytes=figures.queue_mean_bytes,
        queue_p99_bytes=figures.queue_p99_bytes,
        queue_peak_bytes=float("nan"),
        goodput_bytes_per_s=figures.goodput_gbps * GBPS,
        marked_fraction=figures.marked_fraction,
        loss_bytes=figures.dropped_bytes,
        pfc_pause_s=figures.paused_s,
        slowdown=found,
        probe={} if probe.p50 is None or probe.p99 is None else {"all": Probe(probe.n, probe.p50, probe.p99)},
        paused_share=figures.paused_share,
        loss_share=figures.loss_share,
    )


class RunDocument(Document):
    """``figures``: of the whole run, unfinished flows at their age; ``gain`` over the vendor default,
    ``gain_by_phase`` in the order of the phases.
    """

    name: str
    score: Figure
    gain: GainDocument
    gain_by_phase: list[float]
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
            runs=[_run(plan, outcome.runs[1], *one) for one in zip(outcome.runs, outcome.gains, strict=True)],
            rounds=outcome.loop.rounds,
            lead=outcome.lead,
            picture=picture,
            version=ecntwin_version(),
            wall_s=outcome.wall_s,
        )


def _run(plan: DemoPlan, now: Run, run: Run, gain: Gain) -> RunDocument:
    return RunDocument(
        name=run.name,
        score=gain.value,
        gain=GainDocument(bulk=gain.bulk, delay=gain.delay, harm=gain.harm),
        gain_by_phase=by_phase(plan, now, run),
        figures=run.whole,
        intervals=run.intervals,
    )

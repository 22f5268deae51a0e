"""Advice between rounds: what a round would most likely choose for the traffic of the moment, and whether the
next round confirms it. Nothing approves or sets it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np

from service.network_metrics import AdviceMetrics
from service.tuning.round import Ask, IncumbentOf, RoundResult, rebuilt, switches_of
from settings.twin import TuningSettings
from telemetry.errors import TelemetryError
from telemetry.state import NetworkState
from twin.advice.artefact import SHIPPED, Learnt, read
from twin.advice.features import Scales, features, queue_of
from twin.advice.guard import Advice, advise
from twin.advice.lessons import Lesson
from twin.advice.versions import in_use
from twin.errors import ParameterError, TwinError
from twin.scenario import Scenario
from twin.search.push_gate import GateSettings
from twin.search.recommendation import Recommendation, VerdictKind
from twin.watermark import Watermark

LOOKED_S = 0.02  # of the end of the window, as long as what the advice is learnt from
NEAR = 1.0  # as Watermark.distance_to (a factor of e in one value): a candidate within speaks for the advice

Answered = Literal["confirmed", "contradicted", "untold"]

_log = logging.getLogger("ecntwin.tuning")


@dataclass(frozen=True, slots=True)
class Given:
    """The advice of one look, in nanoseconds since 1970; ``version`` as ``Adviser.version``."""

    advice: Advice
    at_ns: int
    version: int | None


class Adviser:
    """The newest advice, and how rounds answered. ``problem`` says why there is none at all; ``version`` is
    the one in use, 0 that which comes with ecntwin, None where there is none or the file is none of them.

    Use from one event loop only. Counts are since the service started.
    """

    def __init__(
        self,
        file: Path | None,
        *,
        gate: GateSettings,
        metrics: AdviceMetrics,
        clock_ns: Callable[[], int],
        problem: str | None = None,
    ) -> None:
        self.problem = problem
        self.version: int | None = None
        self.newest: Given | None = None
        self.looks: Counter[str] = Counter()
        self.rounds: Counter[Answered] = Counter()
        self._file = file
        self._stamp: tuple[int, ...] | None = None
        self._learnt: Learnt | None = None
        self._gate = gate
        self._metrics = metrics
        self._clock_ns = clock_ns
        self._open: Advice | None = None  # no round has answered it yet
        if file is not None:
            self._read(file)

    @classmethod
    def of(
        cls,
        settings: TuningSettings,
        *,
        by_gain: bool,
        gate: GateSettings,
        metrics: AdviceMetrics,
        clock_ns: Callable[[], int],
    ) -> Self:
        """With what the settings name. Where that cannot be read the service goes on without advice; it is
        read again when it changes.
        """
        file, problem = None, None
        if not settings.advice:
            problem = "Advice is off (tuning.advice)."
        elif not by_gain:
            problem = "Advice is on gains, and rounds decide by another score (search.score)."
        else:
            file = settings.advice_file or SHIPPED
        return cls(file, gate=gate, metrics=metrics, clock_ns=clock_ns, problem=problem)

    async def look(self, state: NetworkState, ask: Ask, incumbent: IncumbentOf, held: Sequence[str]) -> None:
        """Advises on this state; ``held`` are the push gate's sentences. Never raises: rounds go on."""
        if self._file is None:
            return
        await asyncio.to_thread(self._read, self._file)
        if self._learnt is None:
            self.newest = self._open = None
            return
        try:
            found = await asyncio.to_thread(self._advice, self._learnt, state, ask, incumbent, held)
        except Exception:
            _log.exception("a look for advice failed; rounds go on")
            found = Advice.none(None, "unknown", "the look failed; the service's log says why.")
        outcome = found.abstained or "given"
        self.looks[outcome] += 1
        self._metrics.looks.labels(outcome).inc()
        self.newest = Given(found, self._clock_ns(), self.version)
        self._open = found

    def _read(self, file: Path) -> None:
        """Reads the file unless it is the one read before: a version may have been put in its place."""
        try:
            found = file.stat()
            stamp: tuple[int, ...] = (found.st_ino, found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = ()  # reading says what is wrong
        if stamp == self._stamp:
            return
        self._stamp, self.version = stamp, None
        try:
            self._learnt, self.problem = read(file), None
            with suppress(OSError):  # it was removed since, or a version beside it was
                self.version = in_use(file)
        except ParameterError as error:
            self._learnt, self.problem = None, f"{error}."
            _log.warning("no advice between rounds: %s", self.problem)

    def round_ended(self, answer: Recommendation) -> None:
        """Compares the newest advice with the answer of a round, unless one did before."""
        advice, self._open = self._open, None
        if advice is None or advice.watermark is None:
            return
        answered = answered_by(advice.watermark, advice.incumbent, answer)
        self.rounds[answered] += 1
        self._metrics.rounds.labels(answered).inc()

    def _advice(
        self, learnt: Learnt, state: NetworkState, ask: Ask, incumbent: IncumbentOf, held: Sequence[str]
    ) -> Advice:
        try:
            scenario = _looked_at(state, ask)
        except (TwinError, TelemetryError) as error:
            return Advice.none(None, "unknown", f"{error}.")
        running, queue = incumbent(switches_of(scenario)), queue_of(state)
        if queue is None:
            return Advice.none(running, "unknown", "no report shows the depth of a queue.")
        scales = Scales.of(scenario)
        row = features(scenario, scales, queue, running, ask.search.policy)
        others = sorted({sender.name for sender in scenario.sending.values()})
        return advise(
            learnt,
            row,
            scales,
            running,
            self._gate,
            margin=ask.search.margin,
            other_senders=others,
            held=held,
        )


def lesson_of(result: RoundResult, ask: Ask) -> Lesson | None:
    """What the round teaches, with features as a look sees them. None where there is no advice on what it
    judged: a score that is no gain, a twin out of step, ports of roles that run different watermarks, senders
    of another kind than DCQCN, unknown queues. Never raises: the round is done.
    """
    answer, queue = result.recommendation, queue_of(result.state)
    calibrated = answer.verdict.kind is not VerdictKind.UNCALIBRATED
    if answer.score_is != "gain" or not calibrated or answer.incumbent_by_role or queue is None:
        return None
    try:
        scenario = _looked_at(result.state, ask)
        scales = Scales.of(scenario)
        row = features(scenario, scales, queue, answer.incumbent, ask.search.policy)
    except (TwinError, TelemetryError):
        return None
    except Exception:
        _log.exception("the features of a round could not be made; it is not kept to learn from")
        return None
    if scenario.sending or not np.isfinite(row).all():
        return None
    return Lesson.of(row, scales.bdp_bytes, answer.candidates)


def _looked_at(state: NetworkState, ask: Ask) -> Scenario:
    """The newest part of a window, whose features the advice takes. Raises what ``rebuilt`` does."""
    return rebuilt(state, ask.fabric, None, replay_s=LOOKED_S, live=True).scenario


def answered_by(advised: Watermark, incumbent: Watermark | None, answer: Recommendation) -> Answered:
    """``confirmed``: the candidate nearest to what was advised gains as much as the round's answer, within
    the margin. ``untold``: the round judged another incumbent, could not tell, or tried nothing near.
    """
    if answer.incumbent != incumbent or answer.verdict.kind is VerdictKind.UNCALIBRATED:
        return "untold"
    nearest = min(answer.candidates, key=lambda one: one.watermark.distance_to(advised))
    chosen = next(one for one in answer.candidates if one.watermark == answer.watermark)
    if nearest.watermark.distance_to(advised) > NEAR or nearest.score is None or chosen.score is None:
        return "untold"
    return "confirmed" if nearest.score >= chosen.score - answer.improvement.margin else "contradicted"

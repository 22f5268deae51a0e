"""Runs tuning rounds, periodically or on request, one at a time, in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from service.documents.predictions import WatermarkDocument
from service.events import Broadcaster, retrieve
from service.history.gains import GainHistory
from service.history.measured import Measured
from service.history.service import History
from service.ingest.window_owner import WindowOwner
from service.metrics import Metrics
from service.nics.polling import NicPolling
from service.rollouts.manager import Rollouts
from service.switches.fleet import PATIENCE_S, Fleet
from service.tuning.advice import Adviser, lesson_of
from service.tuning.approvals import Approvals
from service.tuning.entry import Entry, to_decide
from service.tuning.gate import PushGate
from service.tuning.moments import Moments
from service.tuning.recommendations import RecommendationStore
from service.tuning.round import Ask, RoundResult, run_round
from settings.errors import ConflictError
from telemetry.errors import TelemetryError
from telemetry.topology import Topology
from twin.errors import SearchError, TwinError, what_did_not_fit
from twin.search.recommendation import VerdictKind
from twin.search.round import Progress
from twin.watermark import Watermark
from twin.workers.pool import Workers

PROGRESS_EVERY_S = 0.25

_log = logging.getLogger("ecntwin.tuning")


class _StoppingError(Exception):
    """Aborts a round because the service is stopping."""


class Failure(NamedTuple):
    """Why and when (``clock_s``) a round failed, and the topology declared when it began."""

    why: str
    at_s: float
    declared: Topology | None


@dataclass(kw_only=True)
class TuningLoop:
    """``clock_s`` is monotonic seconds. Use from one event loop only."""

    ask: Ask
    moments: Moments
    period_s: float
    look_every_s: float
    window: WindowOwner
    fleet: Fleet
    store: RecommendationStore
    gate: PushGate
    metrics: Metrics
    events: Broadcaster
    workers: Workers
    clock_s: Callable[[], float]
    history: History
    gains: GainHistory
    rollouts: Rollouts
    approvals: Approvals
    nics: NicPolling
    adviser: Adviser

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-round")
        self._round_task: asyncio.Task[Entry] | None = None
        self._stopping = asyncio.Event()
        self._stop_now = False
        self._accepted_at_last_round = -1
        self._counted = self.window.counters
        self._declared_at_last_round: Topology | None = None
        self._failure: Failure | None = None

    @property
    def last_failure(self) -> Failure | None:
        """Of the last round, unless the topology that it was for has been replaced."""
        failure = self._failure
        return failure if failure is not None and failure.declared is self.window.declared else None

    @property
    def running(self) -> bool:
        return self._round_task is not None and not self._round_task.done()

    async def run_now(self) -> Entry:
        """Runs a round and stores its recommendation.

        Raises ``ConflictError`` while one runs or telemetry is stale, ``WindowError`` while the window is
        empty, and ``TwinError`` where the round fails. A failure is counted and published either way.
        """
        if self.running or self._stop_now:
            raise ConflictError(
                "tuning round",
                None,
                "one round runs at a time" if self.running else "the service is stopping",
                "wait for its recommendation" if self.running else "ask again once it has started",
            )
        age_s = self.window.age_s()
        if age_s is not None and self.window.stale:
            raise ConflictError(
                "tuning round",
                f"telemetry {age_s:.0f} s old",
                "a round needs fresh reports (tuning.stale_after_s)",
                "post INT reports and ask again",
            )
        self._round_task = asyncio.create_task(self._round(), name="tuning-round")
        self._round_task.add_done_callback(retrieve)
        # Cancelling the caller does not cancel the round. Nor does the caller wait for a round that the
        # service's stop cuts short.
        stopping = asyncio.create_task(self._stopping.wait(), name="tuning-stopping")
        waited_for: set[asyncio.Task[Any]] = {self._round_task, stopping}
        try:
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        if self._round_task.done():
            return self._round_task.result()
        raise SearchError("tuning round", None, "the service ended before the round", "ask again")

    async def run_forever(self) -> None:
        """A round every period, or as soon as traffic changes, while telemetry is fresh; until ``stop``."""
        while not self._stopping.is_set():
            try:
                await self._until_due()
                if self._stopping.is_set():
                    return
                window = self.window
                unchanged = window.accepted == self._accepted_at_last_round
                if self.running or window.stale or window.empty or unchanged:
                    self.metrics.rounds.labels("skipped").inc()
                    continue
                await self.run_now()
            except (TwinError, TelemetryError, ConflictError):
                continue  # already published, counted and logged where it happened
            except Exception:
                _log.exception("a round failed unexpectedly; the loop continues")

    async def _until_due(self) -> None:
        """Waits for a period, or until traffic differs from what rounds have seen; looks between."""
        n_looks = max(1, math.ceil(self.period_s / self.look_every_s))
        for left in reversed(range(n_looks)):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self.period_s / n_looks)
            if self._stopping.is_set():
                return
            try:
                changed = left > 0 and await self._look()
            except Exception:  # it must not put off the round, which counts and tells its own failure
                _log.exception("a look between rounds failed; the next round begins at its time")
                continue
            if changed:
                _log.info("traffic changed: a round begins before its time")
                return

    async def _look(self) -> bool:
        """Advises on the traffic of the moment; returns whether it differs from what rounds have seen."""
        if self.window.stale or not self.window.warm:
            return False
        state = await self.window.shown()
        if not self.running:
            held = self.gate.held(age_s=self.window.age_s() or 0.0)
            await self.adviser.look(state, self.nics.asked(self.ask), self.fleet.incumbent, held)
            if (newest := self.adviser.newest) is not None:
                self.events.publish("advice", {"why": newest.advice.why})
        return False if self.running else self.moments.look(state, self.clock_s())

    def stop_soon(self) -> None:
        """Ends the loop now, and the round in progress when it next reports progress."""
        self._stop_now = True
        self._stopping.set()

    async def stop(self, grace_s: float) -> None:
        """Ends the loop, the round in progress (after ``grace_s`` at most) and the worker processes."""
        self.stop_soon()
        if self._round_task is not None:
            await asyncio.wait({self._round_task}, timeout=grace_s)
        try:
            await asyncio.to_thread(self.workers.close)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _round(self) -> Entry:
        self.metrics.running.set(1)
        self._publish("started")
        began_s = self.clock_s()
        self._accepted_at_last_round = self.window.accepted
        self._declared_at_last_round = self.window.declared
        try:
            snapshot, state = await self.window.seen()
            since_set_s = self.window.since_set_s
            counters = self.window.counters
            self.metrics.network.saw_state(state)
            self.fleet.saw(state.topology.switches)
            # A round is advice: of switches that take longer, the last reading will do.
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self.fleet.refresh(state.topology.switches, from_now=True)
            running = dict(self.fleet.running())
            loop = asyncio.get_running_loop()
            changed = self.moments.saw(state, self.clock_s())
            past = self.rollouts.past()
            ask = self.nics.asked(self.ask)
            # A recommendation made for other traffic does not count as the standing one.
            standing = None if changed else self.store.standing(self._rolling(past))
            result = await loop.run_in_executor(
                self._thread,
                lambda: run_round(
                    state,
                    ask,
                    self.fleet.incumbent,
                    workers=self.workers,
                    clock_s=self.clock_s,
                    progress=self._progress(loop),
                    moments=self.moments,
                    standing=standing,
                    by_role=self.fleet.by_role,
                    since_set_s=since_set_s,
                ),
            )
            if result.recommendation.verdict.kind is not VerdictKind.UNCALIBRATED:
                self.moments.keep(result.scenario, result.extent, state, self.clock_s())
        except Exception as error:
            if (what := what_did_not_fit(error)) is not None:
                short = _short_of_memory(what)
                short.__cause__ = error  # so that the log shows its traceback
                self._failed(short)
                raise short from error
            self._failed(error)
            if isinstance(error, (TwinError, TelemetryError)):
                raise
            stopping = isinstance(error, _StoppingError)
            raise SearchError(
                "tuning round",
                None,
                "the service ended before the round" if stopping else f"failed with {type(error).__name__}",
                "ask again" if stopping else "look in the service's log, and report it",
            ) from error
        finally:
            self.metrics.running.set(0)
        answer = result.recommendation
        measures = (
            answer.score_is == "gain"
            and to_decide(answer, hosts=bool(self.nics.hosts))
            and since_set_s >= result.window_s
        )
        before = await self.gains.of_window(snapshot, state) if measures else None
        wall_s, rolling = self.clock_s() - began_s, self._rolling(past)
        behind_share, self._counted = counters.behind_share_since(self._counted), counters
        entry = self._keep(result, wall_s, before, running, changed, rolling, behind_share)
        lesson = None
        if self.history.keeps_lessons:
            lesson = await loop.run_in_executor(self._thread, lesson_of, result, ask)
        self.history.round_ended(entry.id, result, lesson)
        await self.approvals.by_policy(entry)
        return self.store.get(entry.id)

    def _rolling(self, past: Collection[str]) -> frozenset[str]:
        """Recommendation ids of rollouts that are not ``past``."""
        every = self.rollouts.newest(len(self.rollouts))
        return frozenset(one.state.plan.recommendation for one in every if one.id not in past)

    def _keep(
        self,
        result: RoundResult,
        wall_s: float,
        before: Measured | None,
        running: Mapping[str, Watermark],
        changed: str | None,
        rolling: Collection[str],
        behind_share: float,
    ) -> Entry:
        answer = result.recommendation
        hosts = bool(self.nics.hosts)
        cleared = self.gate.round_ended(
            answer,
            result.residual_ratio,
            age_s=self.window.age_s() or 0.0,
            behind_share=behind_share,
            waits=to_decide(answer, hosts=hosts),
        )
        if changed is not None:
            _log.info("traffic changed: %s", changed)
            self._publish("regime", detail=changed)
        entry = self.store.add(
            result, wall_s, cleared, before, running, changed=changed, rolling=rolling, hosts=hosts
        )
        self.adviser.round_ended(answer)
        outcome = "recommended" if answer.changes else "kept"
        self._failure = None
        metrics = self.metrics
        metrics.rounds.labels(outcome).inc()
        for stage, seconds in result.stage_s.items():
            metrics.stage_seconds.labels(stage).observe(seconds)
        metrics.round_seconds.observe(wall_s)
        if result.search_s > 0:
            metrics.candidates_per_second.set(len(answer.candidates) / result.search_s)
        metrics.predicted_queue.labels("incumbent").set(answer.incumbent_prediction.queue_mean_bytes)
        metrics.predicted_queue.labels("recommended").set(answer.winner_prediction.queue_mean_bytes)
        measured = result.measured_queue_bytes
        metrics.measured_queue.set(math.nan if measured is None else measured)
        if result.residual_ratio is not None:
            metrics.residual.set(result.residual_ratio)
        opinion = answer.second_opinion
        metrics.disagreement.set(math.nan if opinion is None else opinion.disagreement_ratio)
        metrics.saw_watermarks("current", self.fleet.running())
        there = filter(self.fleet.knows, result.switches)  # another topology may have been declared meanwhile
        metrics.saw_watermarks("recommended", dict.fromkeys(there, answer.watermark))
        _log.info("round %s in %.1f s: %s", entry.id, wall_s, answer.why)
        self._publish("finished", outcome=outcome, id=entry.id)
        self.events.publish(
            "recommendation",
            {
                "id": entry.id,
                "status": entry.status,
                "recommendation": WatermarkDocument.of(answer.watermark).model_dump(),
                "why": answer.why,
            },
        )
        return entry

    def _failed(self, error: Exception) -> None:
        why = str(error) or type(error).__name__
        self._failure = Failure(why, self.clock_s(), self._declared_at_last_round)
        self.metrics.rounds.labels("failed").inc()
        _log.warning("round failed: %s", why)
        _log.debug("traceback of the failed round", exc_info=error)
        self._publish("finished", outcome="failed", detail=why)

    def _publish(self, stage: str, **more: object) -> None:
        self.events.publish("round", {"stage": stage, **more})

    def _progress(self, loop: asyncio.AbstractEventLoop) -> Callable[[Progress], None]:
        """Publishes progress from the round's thread a few times a second; raises when the service is
        stopping.
        """
        published_s = -math.inf

        def report(step: Progress) -> None:
            nonlocal published_s
            if self._stop_now:
                raise _StoppingError("the service stops")
            now_s = self.clock_s()
            if step.done in (0, step.total) or now_s - published_s >= PROGRESS_EVERY_S:
                published_s = now_s
                loop.call_soon_threadsafe(
                    partial(self._publish, step.stage, done=step.done, total=step.total)
                )

        return report


def _short_of_memory(what: str) -> SearchError:
    return SearchError(
        "tuning round",
        f"no memory left: {what} does not fit",
        "the service holds its window and every moment that a round looks at",
        "use fewer workers (search.workers), shorter or fewer moments (tuning.moment_s, tuning.moments), "
        "a smaller window (telemetry.max_reports), or a machine with more memory",
    )

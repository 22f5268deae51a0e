"""Runs rounds, by itself every period or when asked, beside the event loop and never on it.

An async shell: the round is ``rounds.run_round`` in a thread that waits for worker processes. One at a time.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from service.documents.predictions import WatermarkDocument
from service.events import Broadcaster
from service.fleet import Fleet
from service.ingest.window_owner import WindowOwner
from service.metrics import Metrics
from service.tuning.gate import PushGate
from service.tuning.recommendations import Entry, RecommendationStore
from service.tuning.round import Ask, RoundResult, run_round
from settings.errors import ConflictError
from telemetry.errors import TelemetryError
from twin.errors import SearchError, TwinError
from twin.search.push_gate import residual_ratio
from twin.search.round import Progress
from twin.workers.pool import Workers

PROGRESS_EVERY_S = 0.25

_log = logging.getLogger("ecntwin.tuning")


class _StoppingError(Exception):
    """Ends a round because the service stops."""


class TuningLoop:
    """``clock_s`` is monotonic seconds; ``found`` hears of every round. Use from one event loop only."""

    def __init__(
        self,
        ask: Ask,
        *,
        period_s: float,
        window: WindowOwner,
        fleet: Fleet,
        store: RecommendationStore,
        gate: PushGate,
        metrics: Metrics,
        events: Broadcaster,
        workers: Workers,
        clock_s: Callable[[], float],
        found: Callable[[Entry], Awaitable[None]],
    ) -> None:
        self._ask = ask
        self._found = found
        self._period_s = period_s
        self._window = window
        self._fleet = fleet
        self._store = store
        self._gate = gate
        self._metrics = metrics
        self._events = events
        self._workers = workers
        self._clock_s = clock_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-round")
        self._round_task: asyncio.Task[Entry] | None = None
        self._stopping = asyncio.Event()
        self._stop_now = False
        self._accepted_at_last_round = -1
        self.last_failure: str | None = None

    @property
    def running(self) -> bool:
        """Whether a round runs now."""
        return self._round_task is not None and not self._round_task.done()

    async def run_now(self) -> Entry:
        """Runs a round and keeps its answer.

        Raises ``ConflictError`` while one runs or telemetry is stale, ``WindowError`` while the window is
        empty, and ``TwinError`` where the round fails. A failure is counted and told either way.
        """
        if self.running or self._stop_now:
            raise ConflictError(
                "tuning round",
                None,
                "one round runs at a time" if self.running else "the service is stopping",
                "wait for its recommendation" if self.running else "ask again once it has started",
            )
        age_s = self._window.age_s()
        if age_s is not None and self._window.stale:
            raise ConflictError(
                "tuning round",
                f"telemetry {age_s:.0f} s old",
                "a round needs fresh reports (tuning.stale_after_s)",
                "post INT reports and ask again",
            )
        self._round_task = asyncio.create_task(self._round(), name="tuning-round")
        self._round_task.add_done_callback(_heard)
        # The caller may go away: the round it asked for is still told and kept. Nor does it wait for a
        # round that the service's end cuts short.
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
        """A round every period while telemetry is fresh; returns once ``stop`` was called."""
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._period_s)
            if self._stopping.is_set():
                return
            if self.running or self._window.stale or self._window.accepted == self._accepted_at_last_round:
                self._metrics.rounds.labels("skipped").inc()
                continue
            try:
                await self.run_now()
            except (TwinError, TelemetryError, ConflictError):
                continue  # told, counted and logged where it happened
            except Exception:
                _log.exception("a round failed in a way it should not; the loop goes on")

    def stop_soon(self) -> None:
        """Lets the loop end, and the round in progress as soon as it next reports progress."""
        self._stop_now = True
        self._stopping.set()

    async def stop(self, grace_s: float) -> None:
        """Ends the loop, the round in progress (after ``grace_s`` at most) and the worker processes."""
        self.stop_soon()
        if self._round_task is not None:
            await asyncio.wait({self._round_task}, timeout=grace_s)
        try:
            await asyncio.to_thread(self._workers.close)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _round(self) -> Entry:
        self._metrics.running.set(1)
        self._tell("started")
        began_s = self._clock_s()
        self._accepted_at_last_round = self._window.accepted
        try:
            state = await self._window.state()
            self._metrics.saw_state(state)
            self._fleet.saw(state.topology.switches)
            await self._fleet.refresh(state.topology.switches)
            teller = _Teller(self, asyncio.get_running_loop())
            result: RoundResult = await asyncio.get_running_loop().run_in_executor(
                self._thread,
                lambda: run_round(
                    state,
                    self._ask,
                    self._fleet.incumbent,
                    workers=self._workers,
                    clock_s=self._clock_s,
                    progress=teller,
                ),
            )
        except Exception as error:
            self._failed(error)
            if isinstance(error, (TwinError, TelemetryError)):
                raise
            stopped = isinstance(error, _StoppingError)
            raise SearchError(
                "tuning round",
                None,
                "the service ended before the round" if stopped else f"failed with {type(error).__name__}",
                "ask again" if stopped else "look in the service's log, and report it",
            ) from error
        finally:
            self._metrics.running.set(0)
        entry = self._keep(result, self._clock_s() - began_s)
        await self._found(entry)
        return self._store.get(entry.id)

    def _keep(self, result: RoundResult, wall_s: float) -> Entry:
        answer = result.recommendation
        cleared = self._gate.round_ended(
            answer, result.measured_queue_bytes, age_s=self._window.age_s() or 0.0
        )
        entry = self._store.add(result, wall_s, cleared)
        outcome = "recommended" if answer.changes else "kept"
        self.last_failure = None
        metrics = self._metrics
        metrics.rounds.labels(outcome).inc()
        for stage, seconds in result.stage_s.items():
            metrics.stage_seconds.labels(stage).observe(seconds)
        metrics.round_seconds.observe(wall_s)
        if result.search_s > 0:
            metrics.candidates_per_second.set(len(answer.candidates) / result.search_s)
        metrics.predicted_queue.labels("incumbent").set(answer.incumbent_prediction.queue_mean_bytes)
        metrics.predicted_queue.labels("recommended").set(answer.winner_prediction.queue_mean_bytes)
        if result.measured_queue_bytes is not None:
            metrics.measured_queue.set(result.measured_queue_bytes)
        residual = residual_ratio(answer.incumbent_prediction.queue_mean_bytes, result.measured_queue_bytes)
        if residual is not None:
            metrics.residual.set(residual)
        opinion = answer.second_opinion
        metrics.disagreement.set(math.nan if opinion is None else opinion.disagreement_ratio)
        metrics.saw_watermarks("current", self._fleet.running())
        metrics.saw_watermarks("recommended", dict.fromkeys(result.switches, answer.watermark))
        _log.info("round %s in %.1f s: %s", entry.id, wall_s, answer.why)
        self._tell("finished", outcome=outcome, id=entry.id)
        self._events.publish(
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
        self.last_failure = str(error) or type(error).__name__
        self._metrics.rounds.labels("failed").inc()
        _log.warning("round failed: %s", self.last_failure)
        _log.debug("where it failed", exc_info=error)
        self._tell("finished", outcome="failed", detail=self.last_failure)

    def _tell(self, stage: str, **more: object) -> None:
        self._events.publish("round", {"stage": stage, **more})

    def told(self, step: Progress) -> None:
        """Publishes progress; on the event loop."""
        self._tell(step.stage, done=step.done, total=step.total)

    def check(self) -> None:
        """Ends the round from its own thread when the service stops."""
        if self._stop_now:
            raise _StoppingError("the service stops")

    def now_s(self) -> float:
        """The loop's clock."""
        return self._clock_s()


def _heard(task: asyncio.Task[Entry]) -> None:
    """Takes note of how a round ended: it was told elsewhere, and perhaps nobody waited."""
    if not task.cancelled():
        task.exception()


class _Teller:
    """Takes progress out of the round's thread, a few times a second, and stops the round when asked to."""

    def __init__(self, tuning: TuningLoop, loop: asyncio.AbstractEventLoop) -> None:
        self._tuning = tuning
        self._loop = loop
        self._told_s = float("-inf")

    def __call__(self, step: Progress) -> None:
        self._tuning.check()
        now_s = self._tuning.now_s()
        if step.done not in (0, step.total) and now_s - self._told_s < PROGRESS_EVERY_S:
            return
        self._told_s = now_s
        self._loop.call_soon_threadsafe(self._tuning.told, step)

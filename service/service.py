"""The service's parts wired together, its start and its stop; must not know HTTP."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial

from prometheus_client import CollectorRegistry

from service.alarms.checks import AlarmChecks, DatabaseHealth, TelemetrySources
from service.alarms.service import Alarms
from service.auth.access import Access
from service.documents.predictions import WatermarkDocument
from service.domain import ask_of, gate_of, inventory_of, load_topology
from service.events import Broadcaster, Clocks
from service.fleet import Adapters, Fleet
from service.history.query import HistoryReader
from service.history.service import History
from service.ingest.pipeline import IngestPipeline
from service.metrics import Metrics
from service.persistence import Remembering, TakingUp
from service.readings import Known
from service.rollouts.manager import Rollouts
from service.rollouts.notify import RolloutNews
from service.rollouts.watch import Watcher
from service.tuning.approvals import Approvals
from service.tuning.gate import PushGate
from service.tuning.loop import TuningLoop
from service.tuning.recommendations import Entry
from service.tuning.whatif_requests import AskedWhatIf
from service.tuning.workers import search_workers
from settings.model import Settings
from settings.version import ecntwin_version
from switches.registry import AdapterRegistry
from telemetry.errors import WindowError
from telemetry.topology import Topology
from twin.search.problem import SearchSettings
from twin.workers.pool import Workers
from twin.workers.reserved import ReservedWorker

_log = logging.getLogger("ecntwin.service")


class Service:
    """One instance of everything. Make it, ``start`` it and ``stop`` it on one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        registry: CollectorRegistry,
        clocks: Clocks,
        workers: Workers | None = None,
        adapters: AdapterRegistry | None = None,
        search: SearchSettings | None = None,
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(registry, version=ecntwin_version())
        self.access = Access(
            settings.security,
            host=settings.server.host,
            max_body_bytes=settings.server.max_body_bytes,
            metrics=self.metrics.access,
            clocks=clocks,
        )
        self.events = Broadcaster()
        # One thread: large answers side by side would only take turns at the interpreter.
        self.answers = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-answers")
        self.remembering = Remembering(settings, self.access, clocks)
        self.database, self.recorder = self.remembering.database, self.remembering.recorder
        self.store, self.recall = self.remembering.store, self.remembering.recall
        self.audit, self.revisions = self.remembering.audit, self.remembering.revisions
        inventory = inventory_of(settings)
        devices = {} if inventory is None else inventory.devices()
        registry_of_adapters = adapters or AdapterRegistry.with_installed()
        making = Adapters(settings.push, registry_of_adapters, devices=devices, clock_ns=clocks.wall_ns)
        declared = load_topology(settings.fabric.topology)
        self.pipeline = IngestPipeline(
            settings,
            inventory,
            devices.values(),
            declared,
            metrics=self.metrics,
            events=self.events,
            clocks=clocks,
        )
        self.window, self.counters = self.pipeline.window, self.pipeline.counters
        self.fleet = Fleet(
            settings.incumbent,
            making.make,
            names=making.names,
            told=self._switch_read,
            at_once=settings.rollout.at_once,
            untuned=lambda: self.pipeline.binary.untuned,
        )
        if declared is not None:
            self.fleet.saw(declared.switches)
        self._ask = ask_of(settings) if search is None else replace(ask_of(settings), search=search)
        self._workers = workers or search_workers(settings.search)
        self._gate = PushGate(gate_of(settings), clock_s=clocks.monotonic_s)
        watcher = Watcher(self.window, self.counters, silence_s=settings.rollout.silence_s)
        news = RolloutNews(
            fleet=self.fleet,
            store=self.store,
            gate=self._gate,
            metrics=self.metrics,
            events=self.events,
            audit=self.audit,
        )
        self.rollouts = Rollouts(
            self.fleet,
            self.remembering.journal,
            watcher,
            at_once=settings.rollout.at_once,
            measure_every_s=settings.rollout.measure_every_s,
            keep=settings.tuning.keep,
            wall_s=lambda: clocks.wall_ns() / 1e9,
            clock_s=clocks.monotonic_s,
            told=news.heard,
            timed=news.timed,
        )
        self.history = History(
            settings,
            self.database,
            self.recorder,
            window=self.window,
            ports=self.pipeline.ports,
            clocks=clocks,
        )
        self.history_reader = HistoryReader(
            self.database,
            settings.storage.steps(),
            window_s=self.window.length_s,
            wall_ns=clocks.wall_ns,
        )
        self.database_health = DatabaseHealth(
            self.database,
            restored=lambda: self.remembering.journal.known,
            waiting=lambda: self.recorder.waiting,
            lost=lambda: self.history.lost,
            metrics=self.metrics.storage,
        )
        lossless = frozenset(settings.alarms.lossless_queues) if settings.fabric.pfc else None
        self.alarms = Alarms(
            settings.alarms,
            AlarmChecks(
                window=self.window,
                ports=self.pipeline.ports,
                fleet=self.fleet,
                rollouts=self.rollouts,
                sources=TelemetrySources(
                    binary=self.pipeline.binary,
                    udp=self.pipeline.udp,
                    polling=self.pipeline.counter_polling,
                ),
                database=self.database_health,
                lossless=lossless,
                clocks=clocks,
            ),
            metrics=self.metrics.network,
            events=self.events,
            clocks=clocks,
            on_change=self.history.alarms.record,
        )
        self.approvals = Approvals(
            settings,
            fleet=self.fleet,
            store=self.store,
            rollouts=self.rollouts,
            watcher=watcher,
            gate=self._gate,
            alarmed=self.alarms.holding,
            settling_s=self.alarms.settling_s,
            audit=self.audit,
            written=self.remembering.kept.decided,
        )
        self._taking_up = TakingUp(
            self.remembering,
            rollouts=self.rollouts,
            history=self.history,
            gate=self._gate,
            declared=declared,
            declare=self._declare,
            inventory=None if inventory is None else inventory.text,
            keep=settings.tuning.keep,
            clocks=clocks,
        )
        self.metrics.rollouts_active.set_function(lambda: self.rollouts.active)
        self.metrics.frozen.set_function(lambda: self.rollouts.freeze.frozen)
        self.tuning = TuningLoop(
            self._ask,
            period_s=settings.tuning.period_s,
            window=self.window,
            fleet=self.fleet,
            store=self.store,
            gate=self._gate,
            metrics=self.metrics,
            events=self.events,
            workers=self._workers,
            clock_s=clocks.monotonic_s,
            found=self._found,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.what_if = AskedWhatIf(
            self._ask,
            window=self.window,
            events=self.events,
            workers=self._workers,
            quick=workers or ReservedWorker(),
            incumbent=self.fleet.incumbent,
            clock_s=clocks.monotonic_s,
        )
        self.metrics.saw_watermarks("current", self.fleet.running())

    async def start(self) -> None:
        """Takes datagrams, takes up the journal's rollouts, begins to watch the switches, and to tune if that
        is wanted. Raises ``ApiError`` for what keeps it from that.
        """
        loop = self._loop = asyncio.get_running_loop()
        self.metrics.tasks.set_function(lambda: len(asyncio.all_tasks(loop)))
        self.pipeline.take_datagrams()
        self.recorder.start()
        if not await self._taking_up.at_start():
            self._tasks.append(asyncio.create_task(self._taking_up.later(), name="take-up"))
        self._tasks.append(asyncio.create_task(self._watch_switches(), name="switches"))
        self._tasks.append(asyncio.create_task(self.alarms.run_forever(), name="alarms"))
        self._tasks.append(asyncio.create_task(self.history.run_forever(), name="history"))
        self._tasks.append(asyncio.create_task(self.remembering.tokens.run_forever(), name="tokens"))
        self._tasks.append(asyncio.create_task(self.audit.run_forever(), name="audit"))
        self.pipeline.start()
        if self.settings.tuning.enabled:
            self._tasks.append(asyncio.create_task(self.tuning.run_forever(), name="tuning-loop"))

    def stop_soon(self) -> None:
        """Ends event streams and the round in progress; may be called from anywhere, a signal handler too."""

        def begin() -> None:
            self.events.close()
            self.tuning.stop_soon()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(begin)

    async def stop(self) -> None:
        """Ends streams, rounds, workers and threads. What fails to end keeps nothing else from it; the error
        is raised once all have been tried.
        """
        grace_s = self.settings.server.shutdown_grace_s
        async with AsyncExitStack() as ending:  # the last one first
            ending.push_async_callback(asyncio.to_thread, self.database.close)
            ending.push_async_callback(self.recorder.stop, grace_s)
            ending.push_async_callback(self.pipeline.stop)
            ending.callback(self.fleet.close)
            ending.push_async_callback(self._end_tasks)
            ending.push_async_callback(self.rollouts.stop, grace_s)
            ending.push_async_callback(self.tuning.stop, grace_s)
            ending.push_async_callback(asyncio.to_thread, self.what_if.close)
            ending.push_async_callback(asyncio.to_thread, partial(self.answers.shutdown, cancel_futures=True))
            ending.callback(self.events.close)

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        # One that had already died must not keep the others from ending.
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                _log.error("a task of the service had failed", exc_info=ended)

    def unready(self) -> list[str]:
        """Why no recommendation could be made now, in sentences; empty where one could."""
        reasons = []
        age_s = self.window.age_s()
        if age_s is None:
            reasons.append("No INT report has been accepted yet; post some to /v1/telemetry/int.")
        elif self.window.stale:
            reasons.append(f"The newest INT report came {age_s:.0f} s ago; look at the exporters.")
        if self.tuning.last_failure is not None:
            reasons.append(f"The last round failed: {self.tuning.last_failure}")
        return reasons

    async def declare(self, topology: Topology, by: str) -> None:
        """Replaces the declared topology, and makes adapters for its switches.

        Raises ``UnavailableError``, with nothing replaced, where it cannot be written down.
        """
        await self.revisions.declared("topology", topology.to_json(), by)
        await self._declare(topology)

    async def _declare(self, topology: Topology) -> None:
        await self.pipeline.declare(topology)
        self.fleet.saw(topology.switches)

    async def look_for_switches(self) -> None:
        """Makes adapters for the switches that reports show; none while the window is empty."""
        with suppress(WindowError):
            self.fleet.saw((await self.window.state()).topology.switches)

    async def approve(self, recommendation_id: str, by: str) -> Entry:
        """Begins the rollout of a pending recommendation; raises ``ConflictError`` where it may not."""
        decided = await self.approvals.approve(recommendation_id, by)
        self._tell(decided)
        return decided

    async def _found(self, entry: Entry) -> None:
        self.history.round_ended(entry.document(candidates=False))
        decided = await self.approvals.by_policy(entry)
        if decided is not None:
            self._tell(decided)

    async def reject(self, recommendation_id: str, by: str) -> Entry:
        """Turns a pending recommendation down; raises ``ConflictError`` and ``UnavailableError``."""
        decided = await self.approvals.reject(recommendation_id, by)
        self._tell(decided)
        return decided

    async def _watch_switches(self) -> None:
        while True:
            await self.fleet.refresh_devices()
            await asyncio.sleep(self.settings.push.read_every_s)

    def _switch_read(self, switch: str, before: Known, after: Known) -> None:
        """A switch was read, or could not be: what it runs may have changed by itself."""
        if after.reading is not None and after.failure is None:
            self.rollouts.was_read(after.reading)
        drifted = self.fleet.drifted(switch)
        self.metrics.reachable.labels(switch).set(after.reachable)
        self.metrics.drifted.labels(switch).set(drifted)
        self.metrics.saw_watermarks("current", {switch: self.fleet.runs(switch)})
        was, now = (known.reading.usual if known.reading else None for known in (before, after))
        if before.reachable == after.reachable and (was is None or was == now):
            return
        if after.failure is not None:
            _log.warning("switch %s does not answer: %s", switch, after.failure)
        else:
            note = ", which is not what was last set on it here" if drifted else ""
            _log.log(logging.WARNING if drifted else logging.INFO, "switch %s runs %s%s", switch, now, note)
        self.events.publish(
            "switch",
            {
                "switch": switch,
                "reachable": after.reachable,
                "running": None if now is None else WatermarkDocument.of(now).model_dump(),
                "drifted": drifted,
            },
        )

    def _tell(self, entry: Entry) -> None:
        _log.info("recommendation %s %s by %s", entry.id, entry.status, entry.decided_by)
        self.events.publish("decision", {"id": entry.id, "status": entry.status, "by": entry.decided_by})

"""The service's parts wired together, its start and its stop."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from service.alarms.attention import Silences
from service.alarms.checks import AlarmChecks, DatabaseHealth, TelemetrySources
from service.alarms.links import LinkChecks
from service.alarms.service import Alarms
from service.auth.access import Access
from service.documents.fabric import ConditionDocument, LatestFabric
from service.documents.predictions import WatermarkDocument
from service.domain import ask_of, gate_of, inventory_of, load_topology, moments_of
from service.events import Broadcaster, Clocks
from service.history.condition import Condition
from service.history.forecast import Forecasts
from service.history.gains import GainHistory
from service.history.query import HistoryReader
from service.history.service import History
from service.ingest.pipeline import IngestPipeline
from service.metrics import Metrics
from service.neighbours.cabling import Cabling
from service.nics.hosts import make_nics
from service.nics.polling import NicPolling
from service.persistence import DeclaredTopology, Persistence, Restore
from service.polling.lossless import LosslessCheck
from service.rollouts.manager import Rollouts
from service.rollouts.notify import RolloutNotifier
from service.rollouts.rehash import Rehash
from service.rollouts.runner import Runner, SteadyClock
from service.rollouts.watch import Watcher
from service.switches.adapter_check import Answer, Repeated
from service.switches.adapters import Adapters
from service.switches.fleet import Fleet
from service.tuning.advice import Adviser
from service.tuning.approvals import Approvals
from service.tuning.gate import PushGate
from service.tuning.loop import TuningLoop
from service.tuning.together import JointChanges
from service.tuning.validity import Validity
from service.tuning.whatif_requests import WhatIfRequests
from service.tuning.workers import search_workers
from settings.model import Settings
from settings.version import ecntwin_version
from switches.base import Reading
from switches.hashing.registry import set_by_hand
from switches.registry import AdapterRegistry
from telemetry.alarms import Level
from telemetry.errors import WindowError
from telemetry.neighbours.merge import Assumed
from telemetry.topology import Topology
from twin.search.problem import SearchSettings
from twin.workers.pool import ReservedWorker, Workers

_log = logging.getLogger("ecntwin.service")


class Service:
    """One instance of each part of the service. Construct, ``start`` and ``stop`` it on one event loop."""

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
        self._clocks = clocks
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self.metrics = Metrics(registry, version=ecntwin_version())
        self.events = Broadcaster(begun_s=clocks.wall_ns() // 10**9)
        # One thread: two would only take turns at the interpreter's lock.
        self.answers = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-answers")
        self.latest_fabric = LatestFabric()  # used in that thread only
        self.access = Access(
            settings.security,
            host=settings.server.host,
            max_body_bytes=settings.server.max_body_bytes,
            metrics=self.metrics.access,
            clocks=clocks,
        )
        self.persistence = Persistence(settings, self.access, clocks)
        self.database, self.recorder = self.persistence.database, self.persistence.recorder
        self.store, self.audit = self.persistence.store, self.persistence.audit
        self.revisions = self.persistence.revisions
        self._make_ingest(adapters or AdapterRegistry.with_installed())
        self._make_history()
        self._make_rollouts()
        self._make_alarms()
        self._make_tuning(workers, search)

    def _make_ingest(self, registry: AdapterRegistry) -> None:
        """Creates telemetry, switches and the topology they share."""
        settings, clocks = self.settings, self._clocks
        inventory = inventory_of(settings)
        self._inventory = None if inventory is None else inventory.text
        devices = {} if inventory is None else inventory.devices()
        adapters = Adapters(settings.push, registry, devices=devices, clock_ns=clocks.wall_ns)
        by_hand = {name: set_by_hand(device.platform) for name, device in devices.items()}
        self._hash_settings = {name: said for name, said in by_hand.items() if said is not None}
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
        hosts = {} if inventory is None else inventory.hosts()
        self._senders = {} if inventory is None else inventory.senders()
        self.nics = NicPolling(
            hosts,
            make_nics(hosts, clock_ns=clocks.wall_ns),
            settings.telemetry.nics,
            settings.dcqcn.params(),
            said="dcqcn" in settings.model_fields_set,
            metrics=self.metrics.nics,
            clock_s=clocks.monotonic_s,
            writable=settings.push.enabled and settings.push.nics,
            steps_at_once=settings.rollout.nic_at_once,
            on_reading=lambda reading: self.rollouts.was_read(reading),
            declared=lambda: self.window.declared,
        )
        self.cabling = Cabling(
            devices,
            settings.telemetry.neighbours,
            Assumed(settings.telemetry.default_delay_us, settings.telemetry.default_rate_gbps),
            declared=lambda: self.window.declared,
            wall_ns=clocks.wall_ns,
        )
        self.lossless = LosslessCheck(
            inventory,
            registry,
            settings.telemetry.lossless,
            nics=self.nics,
            topology=self._topology_now,
            busy=lambda: self.rollouts.active > 0,
            metrics=self.metrics.lossless,
            wall_ns=clocks.wall_ns,
        )
        self.fleet = Fleet(
            settings.incumbent,
            adapters,
            on_reading=self._switch_read,
            at_once=settings.rollout.at_once,
            binary=self.pipeline.binary,
        )
        self.topology = DeclaredTopology(
            from_settings=declared,
            revisions=self.revisions,
            pipeline=self.pipeline,
            fleet=self.fleet,
            metrics=self.metrics,
        )
        if declared is not None:
            self.fleet.saw(declared.switches)
        self.metrics.saw_watermarks("current", self.fleet.running())

    def _make_history(self) -> None:
        settings, clocks = self.settings, self._clocks
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
            alarm_history=self.history.alarms,
            window_s=self.window.length_s,
            wall_ns=clocks.wall_ns,
        )
        ahead = {one.ahead_s for one in settings.alarms.conditions() if one.ahead_s is not None}
        self.forecasts = Forecasts(
            self.database, settings.storage.steps(), self.window, clocks.wall_ns, frozenset(ahead)
        )

    def _make_rollouts(self) -> None:
        """Creates the parts that set switches."""
        settings, clocks = self.settings, self._clocks
        self._gate = PushGate(gate_of(settings), clock_s=clocks.monotonic_s)
        self._watcher = Watcher(self.window, self.counters, silence_s=settings.rollout.silence_s)
        self.condition = Condition(
            settings.condition, window=self.window, watcher=self._watcher, events=self.events, clocks=clocks
        )
        self.gains = GainHistory(
            self.recorder, window=self.window, watcher=self._watcher, metrics=self.metrics
        )
        notifier = RolloutNotifier(
            fleet=self.fleet,
            nics=self.nics,
            store=self.store,
            gate=self._gate,
            metrics=self.metrics,
            events=self.events,
            audit=self.audit,
            gains=self.gains,
            window=self.window,
        )
        runner = Runner(
            self.fleet,
            self.nics,
            self.persistence.journal,
            self._watcher,
            notifier,
            SteadyClock(lambda: clocks.wall_ns() / 1e9, clocks.monotonic_s),
            at_once=settings.rollout.at_once,
            nic_at_once=settings.rollout.nic_at_once,
            measure_every_s=settings.rollout.measure_every_s,
        )
        self.rollouts = Rollouts(runner, keep=settings.tuning.keep)
        self.metrics.rollouts_active.set_function(lambda: self.rollouts.active)
        self.metrics.frozen.set_function(lambda: self.rollouts.freeze.frozen)

    def _make_alarms(self) -> None:
        """Creates alarms, history, and the restore of persisted state."""
        settings, clocks = self.settings, self._clocks
        self.database_health = DatabaseHealth(
            self.database, self.persistence.journal, self.recorder, self.history, self.metrics.storage
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
                    nics=self.nics,
                ),
                database=self.database_health,
                cabling=self.cabling,
                lossless_check=self.lossless,
                links=LinkChecks(settings.alarms.conditions()) if settings.alarms.links else None,
                forecasts=self.forecasts,
                lossless=lossless,
                clocks=clocks,
            ),
            metrics=self.metrics.network,
            events=self.events,
            clocks=clocks,
            history=self.history.alarms,
            silences=Silences(self.database, clocks=clocks),
        )
        self._restore = Restore(
            persistence=self.persistence,
            rollouts=self.rollouts,
            alarms=self.alarms,
            gate=self._gate,
            topology=self.topology,
            inventory=self._inventory,
            keep=settings.tuning.keep,
            clocks=clocks,
        )

    def _make_tuning(self, given: Workers | None, search: SearchSettings | None) -> None:
        """Creates rounds, approvals and what-if requests."""
        settings, clocks = self.settings, self._clocks
        ask = replace(ask_of(settings), hash_settings=self._hash_settings)
        ask = replace(ask, fabric=replace(ask.fabric, senders=self._senders), search=search or ask.search)
        workers = given or search_workers(settings.search)
        self.validity = Validity(
            fleet=self.fleet,
            store=self.store,
            rollouts=self.rollouts,
            gate=self._gate,
            joint=JointChanges(
                nics=self.nics,
                fleet=self.fleet,
                settings=settings.rollout,
                max_step=settings.tuning.max_step or math.inf,
                declared=lambda: self.window.declared,
            ),
            window=self.window,
            stale_after_s=settings.tuning.stale_after_s,
            events=self.events,
            clocks=clocks,
        )
        self.approvals = Approvals(
            settings=settings,
            fleet=self.fleet,
            store=self.store,
            saved=self.persistence.rounds,
            rollouts=self.rollouts,
            watcher=self._watcher,
            validity=self.validity,
            alarms=self.alarms,
            audit=self.audit,
            events=self.events,
        )
        self.adviser = Adviser.of(
            settings.tuning,
            by_gain=ask.search.score == "gain",
            gate=gate_of(settings),
            metrics=self.metrics.advice,
            clock_ns=clocks.wall_ns,
        )
        self.tuning = TuningLoop(
            ask=ask,
            moments=moments_of(settings),
            period_s=settings.tuning.period_s,
            look_every_s=settings.tuning.look_every_s,
            window=self.window,
            fleet=self.fleet,
            store=self.store,
            gate=self._gate,
            metrics=self.metrics,
            events=self.events,
            workers=workers,
            clock_s=clocks.monotonic_s,
            history=self.history,
            gains=self.gains,
            rollouts=self.rollouts,
            approvals=self.approvals,
            nics=self.nics,
            adviser=self.adviser,
        )
        self.rehash = Rehash(
            settings=settings, fleet=self.fleet, rollouts=self.rollouts, watcher=self._watcher
        )
        self.what_if = WhatIfRequests(
            ask=ask,
            window=self.window,
            events=self.events,
            workers=workers,
            quick=given or ReservedWorker(),
            fleet=self.fleet,
            nics=self.nics,
            clock_s=clocks.monotonic_s,
        )

    async def start(self) -> None:
        """Opens the UDP sockets, restores state and starts all tasks; raises ``ApiError``."""
        loop = self._loop = asyncio.get_running_loop()
        self.metrics.tasks.set_function(lambda: len(asyncio.all_tasks(loop)))
        self.pipeline.take_datagrams()
        self.recorder.start()
        if not await self._restore.at_start():
            self._run("restore", self._restore.retry())
        repeated = Repeated("switches", self.settings.push.read_every_s, asyncio.sleep)
        self._run("switches", repeated.run(self.fleet.refresh_devices))
        self._run("neighbours", self.cabling.run_forever())
        self._run("lossless", self.lossless.run_forever())
        self._run("validity", self.validity.run_forever())
        self._run("alarms", self.alarms.run_forever())
        self._run("history", self.history.run_forever())
        self._run("forecasts", self.forecasts.run_forever())
        self._run("condition", self.condition.run_forever())
        self._run("tokens", self.persistence.tokens.run_forever())
        self._run("audit", self.audit.run_forever())
        self.pipeline.start()
        self.nics.start()
        if self.settings.tuning.enabled:
            self._run("tuning-loop", self.tuning.run_forever())

    def _run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))

    def stop_soon(self) -> None:
        """Ends event streams and the round in progress; safe in threads and signal handlers."""

        def begin() -> None:
            self._stopping = True
            self.events.close()
            self.tuning.stop_soon()

        if self._loop is not None:
            self._loop.call_soon_threadsafe(begin)

    async def stop(self) -> None:
        """Ends streams, rounds, workers and threads, even if some fail; then raises the errors."""
        grace_s = self.settings.server.shutdown_grace_s
        async with AsyncExitStack() as ending:  # in reverse order of starting
            ending.push_async_callback(asyncio.to_thread, self.database.close)
            ending.push_async_callback(self.recorder.stop, grace_s)
            ending.push_async_callback(self.nics.stop)
            ending.push_async_callback(self.pipeline.stop)
            ending.callback(self.fleet.close)
            ending.push_async_callback(self._end_tasks)
            ending.callback(self.gains.stop)
            ending.push_async_callback(self.rollouts.stop, grace_s)
            ending.push_async_callback(self.tuning.stop, grace_s)
            ending.push_async_callback(asyncio.to_thread, self.what_if.close)
            ending.push_async_callback(asyncio.to_thread, partial(self.answers.shutdown, cancel_futures=True))
            ending.callback(self.events.close)

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        # one that has failed must not keep the others from ending
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                _log.error("a task of the service failed", exc_info=ended)

    def unready(self) -> list[str]:
        """Sentences on why telemetry cannot be taken and calls not be answered; empty where they can.

        Neither silent telemetry nor an unavailable database is a reason: telemetry must reach a service that
        waits for it, and advice is given without the database.
        """
        return ["The service is stopping."] if self._stopping else []

    def without_advice(self) -> list[str]:
        """Sentences on why no recommendation can be made now; empty where one can."""
        reasons = self.unready()
        if (missing := self.window.missing) is not None:
            reasons.append(f"{missing.why[0].upper()}{missing.why[1:]}; {missing.remedy}.")
        if (failure := self.tuning.last_failure) is not None:
            ago_s = self._clocks.monotonic_s() - failure.at_s
            reasons.append(f"The last round failed {ago_s:.0f} s ago: {failure.why}")
        return reasons

    def verdict(self) -> ConditionDocument:
        """The verdict on the fabric, by its figures and the current alarms."""
        critical = sum(alarm.level is Level.CRITICAL for alarm in self.alarms.active)
        return self.condition.document(critical_alarms=critical)

    def show_now(self) -> None:
        """Sets the metrics of the fabric's condition and of the recommendation in force."""
        self.metrics.condition.saw(self.verdict())
        if not len(self.store):
            return
        entry = self.store.current()
        self.metrics.recommendation.saw(
            entry.watermark,
            gain=None if entry.gain is None else entry.gain.value,
            gain_error=None if entry.gain is None else entry.gain.error,
            age_s=(self._clocks.wall_ns() - entry.created_ns) / 1e9,
            pending=entry.status == "pending",
        )

    async def look_for_switches(self) -> None:
        """Makes adapters for the switches that reports show."""
        with suppress(WindowError):
            self.fleet.saw((await self.window.shown()).topology.switches)

    async def _topology_now(self) -> Topology | None:
        """As LLDP shows it where that is read, else as declared."""
        cabled = await self.cabling.current()
        return self.window.declared if cabled is None else cabled.merged.topology

    def _switch_read(self, switch: str, before: Answer[Reading], after: Answer[Reading]) -> None:
        """Publishes a reading or its failure where something changed; rollouts check every reading."""
        if after.reading is not None and after.failure is None:
            self.rollouts.was_read(after.reading)
        drifted = self.fleet.drifted(switch)
        if self.fleet.knows(switch):  # a rollout under way reads those that are gone too
            runs = self.fleet.runs(switch)
            self.metrics.saw_switch(switch, runs, reachable=after.reachable, drifted=drifted)
        was, now = (last.reading.usual if last.reading else None for last in (before, after))
        if was != now or before.reachable != after.reachable:
            self.validity.review()
        if before.reachable == after.reachable and (was is None or was == now):
            return
        if after.failure is not None:
            _log.warning("switch %s does not answer: %s", switch, after.failure)
        else:
            note = ", which is not what was last set from here" if drifted else ""
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

"""The service's parts wired together, its start and its stop; must not know HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from api.adapters import Adapters
from api.alarms.looks import Looks
from api.alarms.service import Alarms
from api.alarms.sources import Sources
from api.approvals import Approvals
from api.binary_reports import BinaryReports
from api.clearance import Clearance
from api.counter_sources.making import counter_polling
from api.counting import Counting
from api.errors import SettingsError, UnprocessableError
from api.events import Broadcaster
from api.fleet import Fleet
from api.intake import Intake, Room
from api.inventory import load_inventory, load_reporting
from api.metrics import Metrics
from api.port_figures import PortFigures
from api.readings import Known
from api.report_formats import ReportFormats
from api.rollouts.conductor import Rollouts
from api.rollouts.journal import Journal
from api.rollouts.news import RolloutNews
from api.rollouts.watch import Watcher
from api.rounds import Ask, Fabric, scenario_of
from api.schemas.predictions import WatermarkDocument
from api.schemas.whatif import MOST_PACKET_HOPS, WhatIfDocument, WhatIfRequest
from api.sensing import Sensing, SensingLimits
from api.settings import Settings
from api.store import Entry, RecommendationStore
from api.tuning_loop import TuningLoop
from api.udp.listening import UdpListening
from api.version import ecntwin_version
from api.whatif import ONE_BY_ONE, what_if
from switches.registry import AdapterRegistry
from telemetry.decode.p4.devices import Devices
from telemetry.errors import TopologyError, WindowError
from telemetry.topology import Topology, topology_from_json
from twin.guard import GuardSettings
from twin.scenario import Scenario
from twin.scenario_json import scenario_from_json
from twin.search import Progress
from twin.search_problem import SearchSettings
from twin.workers import Workers, make_workers
from twin.workload import packet_hops

_log = logging.getLogger("ecntwin.service")


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where time comes from: monotonic seconds, and wall-clock nanoseconds since 1970."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns


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
        self.events = Broadcaster()
        self.store = RecommendationStore(settings.tuning.keep, clock_ns=clocks.wall_ns)
        devices = {} if settings.push.inventory is None else load_inventory(settings.push.inventory)
        self.binary = BinaryReports(
            settings.telemetry.int_, reporting_of(settings), metrics=self.metrics.binary
        )
        registry_of_adapters = adapters or AdapterRegistry.with_installed()
        making = Adapters(settings.push, registry_of_adapters, devices=devices, clock_ns=clocks.wall_ns)
        self.fleet = Fleet(
            settings.incumbent,
            making.make,
            names=making.names,
            told=self._switch_read,
            at_once=settings.rollout.at_once,
            untuned=lambda: self.binary.untuned,
        )
        declared = load_topology(settings.fabric.topology)
        if declared is not None:
            self.binary.declare(declared)
            self.fleet.saw(declared.switches)
        limits = SensingLimits(
            settings.server.max_decoded_bytes,
            settings.server.max_errors_listed,
            settings.tuning.stale_after_s,
        )
        self.formats = ReportFormats(
            self.binary, max_decoded_bytes=limits.max_decoded_bytes, wall_ns=clocks.wall_ns
        )
        self.intake = Intake(
            Room(
                settings.server.max_pending_bytes,
                metrics=self.metrics.ingest,
                clock_s=clocks.monotonic_s,
            ),
            max_body_bytes=settings.server.max_body_bytes,
        )
        self.counting = Counting(
            settings.telemetry.counters.window(), limits, metrics=self.metrics, clock_s=clocks.monotonic_s
        )
        self.counter_polling = counter_polling(
            devices.values(),
            settings.telemetry.counters,
            counting=self.counting,
            metrics=self.metrics,
            clock_s=clocks.monotonic_s,
        )
        self.sensing = Sensing(
            settings.telemetry.window(),
            declared,
            limits,
            metrics=self.metrics,
            events=self.events,
            clock_s=clocks.monotonic_s,
            wall_s=lambda: clocks.wall_ns() / 1e9,
        )
        self.udp: UdpListening | None = None
        if settings.telemetry.udp.ports:
            self.udp = UdpListening(
                settings.telemetry.udp,
                decode=self.binary.decode,
                sensing=self.sensing,
                metrics=self.metrics.udp,
            )
        self._ask = ask_of(settings) if search is None else replace(ask_of(settings), search=search)
        self._workers = workers or make_workers(
            settings.search.workers or max(2, os.cpu_count() or 2), niceness=settings.search.niceness
        )
        self._clearance = Clearance(guard_of(settings), clock_s=clocks.monotonic_s)
        watcher = Watcher(self.sensing, self.counting, silence_s=settings.rollout.silence_s)
        news = RolloutNews(
            fleet=self.fleet,
            store=self.store,
            clearance=self._clearance,
            metrics=self.metrics,
            events=self.events,
        )
        self.ports = PortFigures(
            self.counting,
            span_s=settings.telemetry.period_s * settings.telemetry.n_periods,
            stale_after_s=settings.tuning.stale_after_s,
            clock_s=clocks.monotonic_s,
        )
        self.rollouts = Rollouts(
            self.fleet,
            Journal(settings.storage.url),
            watcher,
            at_once=settings.rollout.at_once,
            measure_every_s=settings.rollout.measure_every_s,
            keep=settings.tuning.keep,
            wall_s=lambda: clocks.wall_ns() / 1e9,
            clock_s=clocks.monotonic_s,
            told=news.heard,
            timed=news.timed,
        )
        lossless = frozenset(settings.alarms.lossless_queues) if settings.fabric.pfc else None
        self.alarms = Alarms(
            settings.alarms,
            Looks(
                sensing=self.sensing,
                ports=self.ports,
                fleet=self.fleet,
                rollouts=self.rollouts,
                sources=Sources(binary=self.binary, udp=self.udp, polling=self.counter_polling),
                lossless=lossless,
                clock_s=clocks.monotonic_s,
                wall_s=lambda: clocks.wall_ns() / 1e9,
            ),
            metrics=self.metrics.network,
            events=self.events,
            clock_s=clocks.monotonic_s,
            wall_ns=clocks.wall_ns,
        )
        self.approvals = Approvals(
            settings,
            fleet=self.fleet,
            store=self.store,
            rollouts=self.rollouts,
            watcher=watcher,
            clearance=self._clearance,
            alarmed=self.alarms.holding,
        )
        self.metrics.rollouts_active.set_function(lambda: self.rollouts.active)
        self.metrics.frozen.set_function(lambda: self.rollouts.freeze.frozen)
        self._clocks = clocks
        self.tuning = TuningLoop(
            self._ask,
            period_s=settings.tuning.period_s,
            sensing=self.sensing,
            fleet=self.fleet,
            store=self.store,
            clearance=self._clearance,
            metrics=self.metrics,
            events=self.events,
            workers=self._workers,
            clock_s=clocks.monotonic_s,
            found=self._found,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._asking = asyncio.Lock()
        self.metrics.saw_watermarks("current", self.fleet.running())

    async def start(self) -> None:
        """Takes datagrams, takes up the journal's rollouts, begins to watch the switches, and to tune if that
        is wanted. Raises ``ApiError`` for what keeps it from that.
        """
        self._loop = asyncio.get_running_loop()
        if self.udp is not None:
            self.udp.start()
        await self.rollouts.resume()
        if (set_s := self.rollouts.last_set_s) is not None:
            age_s = self._clocks.wall_ns() / 1e9 - set_s
            self._clearance.watermark_changed(age_s=max(age_s, 0.0))  # the clock may have been set back
        self._tasks.append(asyncio.create_task(self._watch_switches(), name="switches"))
        self._tasks.append(asyncio.create_task(self.alarms.run_forever(), name="alarms"))
        self.counter_polling.start()
        if self.binary.merges:
            self._tasks.append(asyncio.create_task(self._release_postcards(), name="postcards"))
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
        """Ends streams, rounds, workers and threads."""
        self.events.close()
        await self.tuning.stop(self.settings.server.shutdown_grace_s)
        await self.rollouts.stop(self.settings.server.shutdown_grace_s)
        for task in self._tasks:
            task.cancel()
        # One that had already died must not keep the threads below from ending.
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                _log.error("a task of the service had failed", exc_info=ended)
        await self.counter_polling.stop()
        if self.udp is not None:
            await self.udp.stop()
        self.fleet.close()
        await asyncio.to_thread(self.sensing.close)
        await asyncio.to_thread(self.counting.close)

    def unready(self) -> list[str]:
        """Why no recommendation could be made now, in sentences; empty where one could."""
        reasons = []
        age_s = self.sensing.age_s()
        if age_s is None:
            reasons.append("No INT report has been accepted yet; post some to /v1/telemetry/int.")
        elif self.sensing.stale:
            reasons.append(f"The newest INT report came {age_s:.0f} s ago; look at the exporters.")
        if self.tuning.last_failure is not None:
            reasons.append(f"The last round failed: {self.tuning.last_failure}")
        return reasons

    async def declare(self, topology: Topology) -> None:
        """Replaces the declared topology, and makes adapters for its switches."""
        await self.sensing.declare(topology)
        self.binary.declare(topology)
        self.fleet.saw(topology.switches)

    async def look_for_switches(self) -> None:
        """Makes adapters for the switches that reports show; none while the window is empty."""
        with suppress(WindowError):
            self.fleet.saw((await self.sensing.state()).topology.switches)

    async def approve(self, recommendation_id: str, by: str) -> Entry:
        """Begins the rollout of a pending recommendation; raises ``ConflictError`` where it may not."""
        decided = await self.approvals.approve(recommendation_id, by)
        self._tell(decided)
        return decided

    async def _found(self, entry: Entry) -> None:
        decided = await self.approvals.by_policy(entry)
        if decided is not None:
            self._tell(decided)

    def reject(self, recommendation_id: str, by: str) -> Entry:
        """Turns a pending recommendation down."""
        decided = self.approvals.reject(recommendation_id, by)
        self._tell(decided)
        return decided

    async def what_if(self, asked: WhatIfRequest) -> WhatIfDocument:
        """Predictions in worker processes, one request at a time."""
        watermarks = [given.watermark() for given in asked.watermarks]
        if asked.scenario is None:
            state = await self.sensing.state()
            scenario = await asyncio.to_thread(scenario_of, state, self._ask.fabric)
        else:
            scenario = await asyncio.to_thread(_inline_scenario, asked.scenario)
        if asked.engine in ONE_BY_ONE:
            hops = len(watermarks) * await asyncio.to_thread(packet_hops, scenario, scenario.duration_s)
            if hops > MOST_PACKET_HOPS:
                raise UnprocessableError(
                    "whatif",
                    f"{hops:.2g} packet-hops",
                    f"a request to the {asked.engine} engine holds at most {MOST_PACKET_HOPS:.2g} of them",
                    "ask for fewer watermarks or a shorter scenario, or use the command",
                )
        loop = asyncio.get_running_loop()

        def told(step: Progress) -> None:
            loop.call_soon_threadsafe(self.events.publish, "whatif", {"done": step.done, "total": step.total})

        async with self._asking:
            return await asyncio.to_thread(
                what_if,
                scenario,
                watermarks,
                engine=asked.engine,
                seed=asked.seed,
                weights=self._ask.search.weights,
                workers=self._workers,
                version=self._ask.version,
                progress=told,
            )

    async def _release_postcards(self) -> None:
        """Lets merged reports go on to the window also while no others come."""
        while True:
            await asyncio.sleep(self.settings.telemetry.int_.merge_postcards_s or 0.0)
            if self.binary.pending:
                await self.sensing.ingest(partial(self.binary.due, self._clocks.wall_ns()))

    async def _watch_switches(self) -> None:
        while True:
            await self.fleet.refresh_devices()
            await asyncio.sleep(self.settings.push.read_every_s)

    def _switch_read(self, switch: str, before: Known, after: Known) -> None:
        """A switch was read, or could not be: what it runs may have changed by itself."""
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


def reporting_of(settings: Settings) -> Devices:
    """The devices that report INT under these settings; raises ``SettingsError``."""
    default = settings.telemetry.int_.default_units.profile()
    if settings.push.inventory is None:
        return Devices(default=default)
    return load_reporting(settings.push.inventory, default)


def guard_of(settings: Settings) -> GuardSettings:
    """What holds a recommendation back under these settings."""
    tuning = settings.tuning
    return GuardSettings(
        bounds=settings.bounds.bounds(),
        max_step=tuning.max_step or math.inf,
        margin=tuning.margin,
        cool_down_s=tuning.cool_down_s,
        fresh_for_s=tuning.stale_after_s,
        residual_limit=tuning.residual_limit,
        disagreement_limit=tuning.disagreement_limit or math.inf,
    )


def ask_of(settings: Settings) -> Ask:
    """How rounds are run under these settings."""
    fabric, search = settings.fabric, settings.search
    return Ask(
        fabric=Fabric(
            dcqcn=settings.dcqcn.params(),
            mtu_payload_bytes=fabric.mtu_payload_bytes,
            wire_overhead_bytes=fabric.wire_overhead_bytes,
            buffer_bytes=fabric.buffer_bytes,
            pfc=fabric.pfc,
        ),
        search=SearchSettings(
            candidates=search.candidates,
            narrowed=search.narrowed,
            margin=settings.tuning.margin,
            weights=search.policy(),
            bounds=settings.bounds.bounds(),
            second_engine=search.second_opinion,
            second_candidates=search.second_opinion_candidates,
            second_seeds=search.second_opinion_seeds,
            second_packet_hops=search.second_opinion_packet_hops,
            second_margin=search.second_opinion_margin,
        ),
        base=None if search.base is None else search.base.watermark(),
        seed=search.seed,
        version=ecntwin_version(),
    )


def load_topology(path: Path | None) -> Topology | None:
    """The declared topology in a file, checked; raises ``SettingsError``."""
    if path is None:
        return None
    try:
        document: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise SettingsError(
            "settings fabric.topology",
            str(path),
            error.strerror or "the file must be readable",
            "correct the path",
        ) from error
    except ValueError as error:
        raise SettingsError(
            "settings fabric.topology", f"{path.name}: {error}", "the file must be JSON", "correct it"
        ) from error
    try:
        return topology_from_json(document, where=path.name)
    except TopologyError as error:
        raise SettingsError(error.where, error.received, error.rule, error.remedy) from error


def _inline_scenario(document: dict[str, Any]) -> Scenario:
    if "flows_csv" in document:
        raise UnprocessableError(
            "scenario flows_csv",
            repr(document["flows_csv"]),
            "a scenario in a request brings its flows along, and no file of the server is read",
            "give the rows under flows",
        )
    with tempfile.TemporaryDirectory(prefix="ecntwin-whatif-") as nothing:
        return scenario_from_json(document, directory=Path(nothing))

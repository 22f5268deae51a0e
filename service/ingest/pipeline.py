"""The service's telemetry parts, wired: report formats, UDP, counter polling, and the two windows."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import AsyncExitStack

from service.domain import reporting_of
from service.events import Broadcaster, Clocks
from service.ingest.counter_owner import CounterOwner, PortMonitor
from service.ingest.formats import ReportFormats
from service.ingest.intake import ByteBudget, Intake
from service.ingest.p4_reports import BinaryReports, PostcardFlusher
from service.ingest.threads import DecodingThreads, IngestLimits
from service.ingest.window_owner import WindowOwner
from service.metrics import Metrics
from service.polling.poller import counter_polling
from service.udp.listener import UdpListener
from settings.inventory import Inventory
from settings.model import Settings
from switches.device import Device
from telemetry.topology import Topology


class IngestPipeline:
    def __init__(
        self,
        settings: Settings,
        inventory: Inventory | None,
        devices: Collection[Device],
        declared: Topology | None,
        *,
        metrics: Metrics,
        events: Broadcaster,
        clocks: Clocks,
    ) -> None:
        server, telemetry = settings.server, settings.telemetry
        limits = IngestLimits(
            server.max_decoded_bytes, server.max_errors_listed, settings.tuning.stale_after_s
        )
        self.binary = BinaryReports(telemetry.int_, reporting_of(settings, inventory), metrics=metrics.binary)
        self._network_metrics = metrics.network
        self._named = frozenset((*settings.incumbent.switches, *(device.name for device in devices)))
        self._network_metrics.knows_switches(self._named)
        if declared is not None:
            self._declared(declared)
        self.formats = ReportFormats(
            self.binary, max_decoded_bytes=limits.max_decoded_bytes, wall_ns=clocks.wall_ns
        )
        self.intake = Intake(
            ByteBudget(server.max_pending_bytes, metrics=metrics.ingest, clock_s=clocks.monotonic_s),
            max_body_bytes=server.max_body_bytes,
        )
        self._decoding = DecodingThreads()
        self.window = WindowOwner(
            telemetry.window(),
            declared,
            limits,
            decoding=self._decoding,
            metrics=metrics,
            events=events,
            clocks=clocks,
        )
        self.counters = CounterOwner(
            telemetry.counters.window(),
            limits,
            decoding=self._decoding,
            metrics=metrics,
            clock_s=clocks.monotonic_s,
        )
        self.counter_polling = counter_polling(
            devices, telemetry.counters, self.counters, metrics=metrics, clock_s=clocks.monotonic_s
        )
        self.ports = PortMonitor(
            self.counters,
            span_s=telemetry.period_s * telemetry.n_periods,
            stale_after_s=settings.tuning.stale_after_s,
            clock_s=clocks.monotonic_s,
        )
        self.udp: UdpListener | None = None
        if telemetry.udp.ports:
            self.udp = UdpListener(
                telemetry.udp, decode=self.binary.decode, sink=self.window, metrics=metrics.udp
            )
        self._postcards = PostcardFlusher(
            self.binary, self.window, every_s=telemetry.int_.merge_postcards_s, wall_ns=clocks.wall_ns
        )

    def take_datagrams(self) -> None:
        """Opens the UDP sockets; raises ``SettingsError`` where they cannot be bound."""
        if self.udp is not None:
            self.udp.start()

    def start(self) -> None:
        self.counter_polling.start()
        self._postcards.start()

    async def stop(self) -> None:
        """Stops tasks, sockets and threads, even if some fail to stop; the windows' content is lost."""
        async with AsyncExitStack() as ending:  # in reverse order of starting
            ending.push_async_callback(asyncio.to_thread, self.counters.close)
            ending.push_async_callback(asyncio.to_thread, self.window.close)
            ending.push_async_callback(asyncio.to_thread, self._decoding.close)
            ending.push_async_callback(self._postcards.stop)
            if self.udp is not None:
                ending.push_async_callback(self.udp.stop)
            ending.push_async_callback(self.counter_polling.stop)

    async def declare(self, topology: Topology) -> None:
        await self.window.declare(topology)
        self._declared(topology)

    def _declared(self, topology: Topology) -> None:
        self.binary.declare(topology)
        self._network_metrics.knows_switches(self._named.union(topology.switches))

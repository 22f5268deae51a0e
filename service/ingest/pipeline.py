"""The telemetry half of the service wired together: reports and counters in, states out; must not know the
twin, nor HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack

from service.domain import reporting_of
from service.events import Broadcaster, Clocks
from service.ingest.counter_owner import Counting, PortFigures
from service.ingest.decoding import DecodingThreads
from service.ingest.formats import ReportFormats
from service.ingest.intake import Intake, Room
from service.ingest.p4_reports import BinaryReports, PostcardRelease
from service.ingest.window_owner import Sensing, SensingLimits
from service.metrics import Metrics
from service.polling.poller import counter_polling
from service.udp.listener import UdpListening
from settings.model import Settings
from switches.device import Device
from telemetry.topology import Topology


class Measuring:
    """Everything that takes telemetry, by whatever way it comes."""

    def __init__(
        self,
        settings: Settings,
        devices: Iterable[Device],
        declared: Topology | None,
        *,
        metrics: Metrics,
        events: Broadcaster,
        clocks: Clocks,
    ) -> None:
        server, telemetry = settings.server, settings.telemetry
        limits = SensingLimits(
            server.max_decoded_bytes, server.max_errors_listed, settings.tuning.stale_after_s
        )
        self.binary = BinaryReports(telemetry.int_, reporting_of(settings), metrics=metrics.binary)
        if declared is not None:
            self.binary.declare(declared)
        self.formats = ReportFormats(
            self.binary, max_decoded_bytes=limits.max_decoded_bytes, wall_ns=clocks.wall_ns
        )
        self.intake = Intake(
            Room(server.max_pending_bytes, metrics=metrics.ingest, clock_s=clocks.monotonic_s),
            max_body_bytes=server.max_body_bytes,
        )
        self._decoding = DecodingThreads()
        self.sensing = Sensing(
            telemetry.window(),
            declared,
            limits,
            decoding=self._decoding,
            metrics=metrics,
            events=events,
            clock_s=clocks.monotonic_s,
            wall_s=lambda: clocks.wall_ns() / 1e9,
        )
        self.counting = Counting(
            telemetry.counters.window(),
            limits,
            decoding=self._decoding,
            metrics=metrics,
            clock_s=clocks.monotonic_s,
        )
        self.counter_polling = counter_polling(
            devices,
            telemetry.counters,
            counting=self.counting,
            metrics=metrics,
            clock_s=clocks.monotonic_s,
        )
        self.ports = PortFigures(
            self.counting,
            span_s=telemetry.period_s * telemetry.n_periods,
            stale_after_s=settings.tuning.stale_after_s,
            clock_s=clocks.monotonic_s,
        )
        self.udp: UdpListening | None = None
        if telemetry.udp.ports:
            self.udp = UdpListening(
                telemetry.udp, decode=self.binary.decode, sensing=self.sensing, metrics=metrics.udp
            )
        self._postcards = PostcardRelease(
            self.binary,
            self.sensing.ingest,
            every_s=telemetry.int_.merge_postcards_s,
            wall_ns=clocks.wall_ns,
        )

    def take_datagrams(self) -> None:
        """Opens the sockets; raises ``SettingsError`` where they cannot be."""
        if self.udp is not None:
            self.udp.start()

    def start(self) -> None:
        """Begins to ask switches for counters, and to let merged reports go."""
        self.counter_polling.start()
        self._postcards.start()

    async def stop(self) -> None:
        """Ends tasks, sockets and threads, whichever of them fail to; what the window holds is lost."""
        async with AsyncExitStack() as ending:  # the last one first
            ending.push_async_callback(asyncio.to_thread, self.counting.close)
            ending.push_async_callback(asyncio.to_thread, self.sensing.close)
            ending.push_async_callback(asyncio.to_thread, self._decoding.close)
            ending.push_async_callback(self._postcards.stop)
            if self.udp is not None:
                ending.push_async_callback(self.udp.stop)
            ending.push_async_callback(self.counter_polling.stop)

    async def declare(self, topology: Topology) -> None:
        """Replaces the declared topology."""
        await self.sensing.declare(topology)
        self.binary.declare(topology)

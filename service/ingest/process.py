"""An ingest process's parts wired together: reports in and decoded, batches out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import httpx
from prometheus_client import CollectorRegistry

from service.documents.telemetry import IngestDocument
from service.domain import reporting_of
from service.ingest.decoding import DecodingThreads
from service.ingest.formats import ReportFormats
from service.ingest.forwarder import Forwarder
from service.ingest.intake import ByteBudget, Intake
from service.ingest.p4_reports import BinaryReports, PostcardFlusher
from service.metrics import ForwardMetrics
from service.udp.listener import UdpListener
from settings.model import Settings
from settings.version import ecntwin_version
from telemetry.decode.body import Decoded
from telemetry.errors import DecodeError


class IngestProcess:
    """Make it, ``start`` it and ``stop`` it on one event loop.

    ``to`` is the service's URL; ``shared``: other processes take datagrams at the same ports.
    """

    def __init__(
        self,
        settings: Settings,
        to: str,
        *,
        token: str | None = None,
        shared: bool = False,
        registry: CollectorRegistry | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        server = settings.server
        self.metrics = ForwardMetrics(registry or CollectorRegistry(), version=ecntwin_version())
        room = ByteBudget(server.max_pending_bytes, metrics=self.metrics.ingest, clock_s=time.monotonic)
        self.intake = Intake(room, max_body_bytes=server.max_body_bytes)
        binary = BinaryReports(settings.telemetry.int_, reporting_of(settings), metrics=self.metrics.binary)
        self._postcards = PostcardFlusher(
            binary,
            self.ingest_patiently,
            every_s=settings.telemetry.int_.merge_postcards_s,
            wall_ns=time.time_ns,
        )
        self.formats = ReportFormats(binary, max_decoded_bytes=server.max_decoded_bytes, wall_ns=time.time_ns)
        self.forwarder = Forwarder(to, token=token, room=room, metrics=self.metrics, transport=transport)
        self._settings = settings
        self._decoding = DecodingThreads()
        self._udp: UdpListener | None = None
        if settings.telemetry.udp.ports:
            self._udp = UdpListener(
                settings.telemetry.udp,
                decode=binary.decode,
                sink=_Patient(self),
                metrics=self.metrics.udp,
                shared=shared,
            )

    @property
    def udp_addresses(self) -> tuple[str, ...]:
        """Where datagrams are taken."""
        return () if self._udp is None else self._udp.addresses

    async def start(self) -> None:
        """Opens the sockets of UDP and begins to pass on."""
        self.forwarder.start()
        if self._udp is not None:
            self._udp.start()
        self._postcards.start()

    async def stop(self) -> None:
        """Passes on what waits, as far as the time for it reaches."""
        if self._udp is not None:
            await self._udp.stop()
        await self._postcards.stop()
        await self.forwarder.stop(self._settings.server.shutdown_grace_s)
        await asyncio.to_thread(self._decoding.close)

    async def ingest(self, decode: Callable[[], Decoded], *, body: bytes) -> IngestDocument:
        """Has ``decode`` called, which decodes ``body``, and takes its reports to be passed on.

        Raises its ``DecodeError``, and ``BusyError`` where too much waits: none of it was taken then.
        """
        decoded = await self._decoded(self._decoding.of_body(body, decode))
        if len(decoded.batch):
            await self.forwarder.offer(decoded.batch)
        self._count(decoded)
        return IngestDocument.of(
            len(decoded.batch) + decoded.aside,
            len(decoded.errors),
            malformed=decoded.errors,
            listed=self._settings.server.max_errors_listed,
        )

    async def ingest_patiently(self, decode: Callable[[], Decoded]) -> None:
        """The same of datagrams, waiting for room: who offers more meanwhile has a queue of its own."""
        decoded = await self._decoded(self._decoding.of_datagrams(decode))
        if len(decoded.batch):
            await self.forwarder.offer_patiently(decoded.batch)
        self._count(decoded)

    async def _decoded(self, decoded: Awaitable[Decoded]) -> Decoded:
        try:
            return await decoded
        except DecodeError:
            self.metrics.bodies.inc()
            raise

    def _count(self, decoded: Decoded) -> None:
        self.metrics.decoded.inc(len(decoded.batch) + decoded.aside)
        self.metrics.malformed.inc(len(decoded.errors))

    def unready(self) -> list[str]:
        """Why reports cannot be passed on now, in sentences; empty where they can."""
        reason = self.forwarder.waits_for
        return [] if reason is None else [f"Reports wait: {reason}."]


class _Patient:
    """How datagrams are taken: what finds no room waits in the queue of UDP, which counts what it drops."""

    def __init__(self, process: IngestProcess) -> None:
        self._process = process

    async def ingest(self, decode: Callable[[], Decoded]) -> None:
        await self._process.ingest_patiently(decode)

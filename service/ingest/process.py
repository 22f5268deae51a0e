"""One ``ecntwin ingest`` process: receives and decodes reports, and forwards them to the service."""

from __future__ import annotations

import asyncio
import time

import httpx
from prometheus_client import CollectorRegistry

from service.documents.telemetry import IngestDocument
from service.domain import inventory_of, load_topology, reporting_of
from service.ingest.formats import ReportFormats
from service.ingest.forwarder import Forwarder
from service.ingest.intake import ByteBudget, Intake
from service.ingest.p4_reports import BinaryReports, PostcardFlusher
from service.ingest.threads import DecodingThreads, ReportDecoder, UnreadKeys
from service.metrics import ForwardMetrics
from service.udp.listener import UdpListener
from settings.errors import SettingsError
from settings.model import Settings
from settings.version import ecntwin_version
from telemetry.errors import DecodeError


class IngestProcess:
    """Construct, ``start`` and ``stop`` it on one event loop.

    ``to`` is the service's URL; ``shared``: other processes receive on the same UDP ports.
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
        server, telemetry = settings.server, settings.telemetry
        if shared and telemetry.int_.merge_postcards_s is not None:
            raise SettingsError(
                "settings telemetry.int.merge_postcards_s",
                f"{telemetry.int_.merge_postcards_s:g} beside --share-port",
                "postcards of one packet come from several switches, which the kernel spreads over processes",
                "receive postcards in one process",
            )
        self.metrics = ForwardMetrics(registry or CollectorRegistry(), version=ecntwin_version())
        budget = ByteBudget(
            server.max_pending_bytes,
            metrics=self.metrics.ingest,
            clock_s=time.monotonic,
            remedy="see at /readyz here why the service takes none, or run another ecntwin ingest",
        )
        self.intake = Intake(budget, max_body_bytes=server.max_body_bytes)
        reporting = reporting_of(settings, inventory_of(settings))
        binary = self._binary = BinaryReports(telemetry.int_, reporting, metrics=self.metrics.binary)
        if telemetry.int_.merge_postcards_s is not None:
            binary.declare(load_topology(settings.fabric.topology))
        self._postcards = PostcardFlusher(
            binary, self, every_s=telemetry.int_.merge_postcards_s, wall_ns=time.time_ns
        )
        self.formats = ReportFormats(binary, max_decoded_bytes=server.max_decoded_bytes, wall_ns=time.time_ns)
        self.forwarder = Forwarder(to, token=token, budget=budget, metrics=self.metrics, transport=transport)
        self._settings = settings
        self._decoding = DecodingThreads()
        self._unread = UnreadKeys()
        self._udp: UdpListener | None = None
        if telemetry.udp.ports:
            self._udp = UdpListener(
                telemetry.udp, decode=binary.decode, sink=self, metrics=self.metrics.udp, shared=shared
            )

    @property
    def udp_addresses(self) -> tuple[str, ...]:
        return () if self._udp is None else self._udp.addresses

    async def start(self) -> None:
        self.forwarder.start()
        if self._udp is not None:
            self._udp.start()
        self._postcards.start()

    async def stop(self) -> None:
        """Forwards what is queued, for at most ``server.shutdown_grace_s``."""
        if self._udp is not None:
            await self._udp.stop()
        await self._postcards.stop()
        held = await asyncio.to_thread(self._binary.flush)
        if len(held):
            await self.forwarder.offer(held, beyond=True)
        await self.forwarder.stop(self._settings.server.shutdown_grace_s)
        await asyncio.to_thread(self._decoding.close)

    async def ingest(self, decode: ReportDecoder, *, body: bytes | None = None) -> IngestDocument:
        """Queues the reports that ``decode`` returns; a ``ReportSink``.

        A body that does not fit raises ``BusyError``, with nothing queued, unless some of the reports were
        accepted before. Datagrams wait until they fit: UDP has a queue of its own, which counts what it
        drops.
        """
        try:
            decoded = await self._decoding.run(decode, body)
        except DecodeError:
            self.metrics.bodies.inc()
            raise
        if len(decoded.batch):
            await self.forwarder.offer(decoded.batch, wait=body is None, beyond=decoded.accepted_before)
        self.metrics.decoded.inc(len(decoded.batch) + decoded.aside)
        self.metrics.malformed.inc(len(decoded.errors))
        self._unread.tell(decoded.unread)
        return IngestDocument.of_decoded(decoded, listed=self._settings.server.max_errors_listed)

    def unready(self) -> list[str]:
        """Why reports cannot be forwarded now, in sentences; empty where they can."""
        reason = self.forwarder.waits_for
        return [] if reason is None else [f"Reports wait: {reason}."]

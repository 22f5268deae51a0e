"""Receives telemetry reports over UDP, and has them decoded and added to the window."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from service.ingest.threads import ReportSink
from service.metrics import UDP_DROPS, UdpMetrics
from service.udp.receiver import DatagramQueue, Receiver, UdpCounts
from service.udp.sockets import AllowedSenders, Chunk, opened, reader, texts_of
from settings.sections import UdpSettings
from telemetry.decode.body import Decoded
from telemetry.errors import TelemetryError

DATAGRAMS_AT_ONCE = 16_384
COUNT_EVERY_S = 1.0
GATHER_S = 0.025  # datagrams of this long are decoded together, at a fraction of the cost

Decode = Callable[[Sequence[bytes], NDArray[np.int64], Sequence[str]], Decoded]
"""``BinaryReports.decode``: payloads, when each was received, and its source address."""

_log = logging.getLogger("ecntwin.udp")


@dataclass(frozen=True, slots=True)
class UdpTotals:
    """Datagrams received and dropped, those decoded, and those queued."""

    counts: UdpCounts
    taken: int
    waiting: int


class UdpListener:
    """``shared``: other processes may bind the same ports; the kernel distributes senders among them.

    ``start`` and ``stop`` once each, on one event loop.
    """

    def __init__(
        self,
        settings: UdpSettings,
        *,
        decode: Decode,
        sink: ReportSink,
        metrics: UdpMetrics,
        shared: bool = False,
    ) -> None:
        self._settings = settings
        self._shared = shared
        self._decode = decode
        self._sink = sink
        self._metrics = metrics
        self._queue = DatagramQueue(settings.queue_datagrams)
        self._waiting = asyncio.Event()
        self._receiver: Receiver | None = None
        self._task: asyncio.Task[None] | None = None
        self._published = UdpCounts()
        self.addresses: tuple[str, ...] = ()
        self.taken = 0

    def start(self) -> None:
        """Opens the sockets and receives; raises ``SettingsError`` for a port that cannot be bound."""
        settings = self._settings
        sockets = []
        try:
            for port in settings.ports:
                sockets += opened(
                    settings.host,
                    port,
                    settings.sockets,
                    buffer_bytes=settings.receive_buffer_bytes,
                    shared=self._shared,
                )
        except BaseException:
            for one in sockets:
                one.close()
            raise
        self.addresses = texts_of(sockets)
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._waiting.set)

        senders = AllowedSenders(map(ipaddress.ip_network, settings.allowed))
        self._receiver = Receiver(sockets, self._queue, reader(senders), wake)
        self._metrics.queue.set_function(lambda: self._queue.depth)
        self._receiver.start()
        self._task = asyncio.create_task(self._take_forever(), name="udp")

    async def stop(self) -> None:
        """Closes the sockets; queued datagrams are dropped."""
        if self._receiver is not None:
            await asyncio.to_thread(self._receiver.close)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._publish()

    @property
    def counts(self) -> UdpCounts:
        return UdpCounts() if self._receiver is None else self._receiver.counts()

    @property
    def dropped(self) -> int:
        return self.counts.dropped

    def tally(self) -> UdpTotals:
        return UdpTotals(self.counts, self.taken, self._queue.depth)

    @property
    def depth(self) -> int:
        return self._queue.depth

    async def _take_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(COUNT_EVERY_S):
                    await self._waiting.wait()
            self._waiting.clear()
            while (chunk := self._queue.take(DATAGRAMS_AT_ONCE)) is not None:
                await self._take(chunk)
                self._publish()
                if self._queue.depth < DATAGRAMS_AT_ONCE:
                    await asyncio.sleep(GATHER_S)
            self._publish()

    async def _take(self, chunk: Chunk) -> None:
        try:
            await self._sink.ingest(partial(self._decode, chunk.payloads, chunk.received_ns, chunk.sources))
        except TelemetryError as error:
            _log.warning("%d datagrams were left out: %s", len(chunk.payloads), error)
        except Exception:
            _log.exception("%d datagrams were left out", len(chunk.payloads))
        self.taken += len(chunk.payloads)

    def _publish(self) -> None:
        """Adds what was counted since the last call to the metrics."""
        now, before = self.counts, self._published
        self._published = now
        self._metrics.received.inc(now.received - before.received)
        for where in UDP_DROPS:
            more = getattr(now, where) - getattr(before, where)
            if more:
                self._metrics.dropped.labels(where).inc(more)

"""Receives telemetry reports over UDP, and has them decoded and added to the window.

One thread reads all sockets into a bounded queue, which the event loop empties.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from service.ingest.threads import ReportSink
from service.metrics import UDP_DROPS, UdpMetrics
from service.udp.sockets import (
    DATAGRAMS_A_READ,
    AllowedSenders,
    Chunk,
    SocketReader,
    dropped_by_kernel,
    opened,
    reader,
    texts_of,
)
from settings.telemetry import UdpSettings
from telemetry.decode.body import Decoded
from telemetry.errors import TelemetryError

USUAL_DATAGRAM_BYTES = 512


class DatagramQueue:
    """Holds at most ``most`` datagrams, and at most that many times ``USUAL_DATAGRAM_BYTES``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_bytes = most * USUAL_DATAGRAM_BYTES
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.depth = 0

    @property
    def room(self) -> int:
        return max(self._most - self.depth, 0) if self._bytes < self._most_bytes else 0

    def put(self, chunk: Chunk) -> bool:
        """Appends datagrams; returns whether the queue was empty before."""
        with self._lock:
            was_empty = not self._chunks
            self._chunks.append(chunk)
            self.depth += len(chunk.payloads)
            self._bytes += _bytes(chunk)
            return was_empty

    def take(self, most: int) -> Chunk | None:
        """Removes the oldest datagrams, about ``most`` of usual size; None where the queue is empty."""
        taken: list[Chunk] = []
        count = size = 0
        with self._lock:
            while self._chunks and count < most and size < most * USUAL_DATAGRAM_BYTES:
                chunk = self._chunks.popleft()
                taken.append(chunk)
                count += len(chunk.payloads)
                size += _bytes(chunk)
            self.depth -= count
            self._bytes -= size
        if len(taken) <= 1:
            return taken[0] if taken else None
        return Chunk(
            [payload for chunk in taken for payload in chunk.payloads],
            np.concatenate([chunk.received_ns for chunk in taken]),
            [source for chunk in taken for source in chunk.sources],
        )


def _bytes(chunk: Chunk) -> int:
    return sum(map(len, chunk.payloads))


# Datagrams gather in the kernel between reads: every wake-up of this thread interrupts one that computes.
READ_EVERY_S = 0.002
_READS_A_SOCKET = 8

_log = logging.getLogger("ecntwin.udp")


@dataclass(frozen=True, slots=True)
class UdpCounts:
    """Datagrams since the start: ``received`` by this process, and those dropped because the queue was full,
    the kernel's buffer was full (not in ``received``), the sender is not allowed, or they were too long.
    """

    received: int = 0
    queue: int = 0
    kernel: int = 0
    refused: int = 0
    truncated: int = 0

    @property
    def dropped(self) -> int:
        return self.queue + self.kernel + self.refused + self.truncated


@dataclass
class Receiver:
    """Reads ``sockets``, which it closes, into ``queue``. ``wake`` is called from its thread when the queue
    is no longer empty. ``start`` and ``close`` once each.
    """

    sockets: Sequence[socket.socket]
    queue: DatagramQueue
    reader: SocketReader
    wake: Callable[[], None]

    def __post_init__(self) -> None:
        self._woken, self._waker = socket.socketpair()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ecntwin-udp", daemon=True)
        self._received = self._no_room = self._refused = self._truncated = self._kernel = 0
        self._kernel_seen = [dropped_by_kernel(one) for one in self.sockets]

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and closes the sockets; unread datagrams are lost."""
        self._stopping.set()
        self._waker.send(b"\0")
        if self._thread.ident is not None:
            self._thread.join()
        self._count_kernel()
        for one in (*self.sockets, self._woken, self._waker):
            one.close()

    def counts(self) -> UdpCounts:
        return UdpCounts(self._received, self._no_room, self._kernel, self._refused, self._truncated)

    def _run(self) -> None:
        waiting = select.poll()
        waiting.register(self._woken, select.POLLIN)
        for one in self.sockets:
            waiting.register(one, select.POLLIN)
        while not self._stopping.is_set():
            try:
                read = sum(map(self._read, self.sockets))
            except Exception:  # an error must not end this thread
                _log.exception("a UDP socket cannot be read; retrying")
                read = 0
                self._stopping.wait(1.0)
            self._count_kernel()
            if read:
                self._stopping.wait(READ_EVERY_S)
            else:
                waiting.poll()

    def _read(self, one: socket.socket) -> int:
        """Reads up to some thousands of datagrams of a socket; returns how many."""
        read = 0
        for _ in range(_READS_A_SOCKET):
            taken = self.reader.read(one, self.queue.room)
            read += taken.read
            self._received += taken.read
            self._truncated += taken.truncated
            self._refused += taken.refused
            self._no_room += taken.no_room
            if taken.chunk is not None and self.queue.put(taken.chunk):
                self.wake()
            if taken.read < DATAGRAMS_A_READ:
                break
        return read

    def _count_kernel(self) -> None:
        for place, one in enumerate(self.sockets):
            seen = dropped_by_kernel(one)
            self._kernel += (seen - self._kernel_seen[place]) % (1 << 32)
            self._kernel_seen[place] = seen


DATAGRAMS_AT_ONCE = 16_384
COUNT_EVERY_S = 1.0
GATHER_S = 0.025  # datagrams of this long a time are decoded together, at a fraction of the cost

Decode = Callable[[Sequence[bytes], NDArray[np.int64], Sequence[str]], Decoded]
"""``BinaryReports.decode``: payloads, when each was received, and its source address."""


@dataclass(frozen=True, slots=True)
class UdpTotals:
    """Datagrams received and dropped, those decoded, and those queued."""

    counts: UdpCounts
    taken: int
    waiting: int


@dataclass
class UdpListener:
    """``shared``: other processes may bind the same ports; the kernel distributes senders among them.

    ``start`` and ``stop`` once each, on one event loop.
    """

    settings: UdpSettings
    decode: Decode
    sink: ReportSink
    metrics: UdpMetrics
    shared: bool = False

    def __post_init__(self) -> None:
        self._queue = DatagramQueue(self.settings.queue_datagrams)
        self._waiting = asyncio.Event()
        self._receiver: Receiver | None = None
        self._task: asyncio.Task[None] | None = None
        self._published = UdpCounts()
        self.addresses: tuple[str, ...] = ()
        self.taken = 0

    def start(self) -> None:
        """Opens the sockets and receives; raises ``SettingsError`` for a port that cannot be bound."""
        settings = self.settings
        sockets = []
        try:
            for port in settings.ports:
                sockets += opened(
                    settings.host,
                    port,
                    settings.sockets,
                    buffer_bytes=settings.receive_buffer_bytes,
                    shared=self.shared,
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
        self.metrics.queue.set_function(lambda: self._queue.depth)
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
            await self.sink.ingest(partial(self.decode, chunk.payloads, chunk.received_ns, chunk.sources))
        except TelemetryError as error:
            _log.warning("%d datagrams were left out: %s", len(chunk.payloads), error)
        except Exception:
            _log.exception("%d datagrams were left out", len(chunk.payloads))
        self.taken += len(chunk.payloads)

    def _publish(self) -> None:
        """Adds the counts since the last call to the metrics."""
        now, before = self.counts, self._published
        self._published = now
        self.metrics.received.inc(now.received - before.received)
        for where in UDP_DROPS:
            more = getattr(now, where) - getattr(before, where)
            if more:
                self.metrics.dropped.labels(where).inc(more)

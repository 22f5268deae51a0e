"""The thread that reads all UDP sockets, and the bounded queue between it and the decoding loop."""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from service.udp.sockets import DATAGRAMS_A_READ, Chunk, SocketReader, dropped_by_kernel

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


# Datagrams gather in the kernel between reads: every wake-up of this thread pauses one that computes.
GATHER_S = 0.002
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


class Receiver:
    """Reads ``sockets``, which it closes, into ``queue``. ``wake`` is called from its thread when the queue
    is no longer empty. ``start`` and ``close`` once each.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        queue: DatagramQueue,
        reader: SocketReader,
        wake: Callable[[], None],
    ) -> None:
        self._sockets = sockets
        self._queue = queue
        self._reader = reader
        self._wake = wake
        self._woken, self._waker = socket.socketpair()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ecntwin-udp", daemon=True)
        self._received = self._no_room = self._refused = self._truncated = self._kernel = 0
        self._kernel_seen = [dropped_by_kernel(one) for one in sockets]

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and closes the sockets; unread datagrams are lost."""
        self._stopping.set()
        self._waker.send(b"\0")
        if self._thread.ident is not None:
            self._thread.join()
        self._count_kernel()
        for one in (*self._sockets, self._woken, self._waker):
            one.close()

    def counts(self) -> UdpCounts:
        return UdpCounts(self._received, self._no_room, self._kernel, self._refused, self._truncated)

    def _run(self) -> None:
        waiting = select.poll()
        waiting.register(self._woken, select.POLLIN)
        for one in self._sockets:
            waiting.register(one, select.POLLIN)
        while not self._stopping.is_set():
            try:
                read = sum(map(self._read, self._sockets))
            except Exception:  # the thread must survive
                _log.exception("a UDP socket cannot be read; retrying")
                read = 0
                self._stopping.wait(1.0)
            self._count_kernel()
            if read:
                self._stopping.wait(GATHER_S)
            else:
                waiting.poll()

    def _read(self, one: socket.socket) -> int:
        """Reads up to some thousands of datagrams of a socket; returns how many."""
        read = 0
        for _ in range(_READS_A_SOCKET):
            taken = self._reader.read(one, self._queue.room)
            read += taken.read
            self._received += taken.read
            self._truncated += taken.truncated
            self._refused += taken.refused
            self._no_room += taken.no_room
            if taken.chunk is not None and self._queue.put(taken.chunk):
                self._wake()
            if taken.read < DATAGRAMS_A_READ:
                break
        return read

    def _count_kernel(self) -> None:
        for place, one in enumerate(self._sockets):
            seen = dropped_by_kernel(one)
            self._kernel += (seen - self._kernel_seen[place]) % (1 << 32)
            self._kernel_seen[place] = seen

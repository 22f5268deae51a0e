"""A bounded queue of datagrams between the thread that reads them and the loop that has them decoded."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

from service.udp.recvmmsg import Chunk

USUAL_DATAGRAM_BYTES = 512


class DatagramQueue:
    """Holds at most ``most`` datagrams, and no more bytes than as many of half a kilobyte have."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_bytes = most * USUAL_DATAGRAM_BYTES
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.depth = 0

    @property
    def room(self) -> int:
        """How many more datagrams may be put in."""
        return max(self._most - self.depth, 0) if self._bytes < self._most_bytes else 0

    def put(self, chunk: Chunk) -> bool:
        """Puts datagrams behind the others; whether it was empty before."""
        with self._lock:
            was_empty = not self._chunks
            self._chunks.append(chunk)
            self.depth += len(chunk.payloads)
            self._bytes += _bytes(chunk)
            return was_empty

    def take(self, most: int) -> Chunk | None:
        """The oldest datagrams, about ``most`` of usual size at once; None where there are none."""
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

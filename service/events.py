"""Where time comes from.

Hands out what happens to whoever listens, each with a small queue of its own; knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Clocks:
    """Monotonic seconds, wall-clock nanoseconds since 1970, and the seconds by which work is measured."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
    cost_s: Callable[[], float] = time.perf_counter


QUEUE_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; ``number`` counts up from 1 so that a listener can see a gap."""

    number: int
    kind: str
    data: Mapping[str, Any]


class Broadcaster:
    """Single event loop only. A slow listener loses its oldest events and never costs the service time."""

    def __init__(self, *, most_listeners: int = 64) -> None:
        self._queues: set[asyncio.Queue[Event | None]] = set()
        self._count = 0
        self._most_listeners = most_listeners
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether no further listener is admitted."""
        return self._closed or len(self._queues) >= self._most_listeners

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._queues)

    def publish(self, kind: str, data: Mapping[str, Any]) -> Event:
        """Tells every listener."""
        self._count += 1
        event = Event(self._count, kind, data)
        for queue in self._queues:
            _put(queue, event)
        return event

    def close(self) -> None:
        """Ends every listener's stream; the service is stopping."""
        self._closed = True
        for queue in self._queues:
            _put(queue, None)

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[Event | None]]:
        """A queue of events from now on; None ends it."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE_LENGTH)
        self._queues.add(queue)
        try:
            yield queue
        finally:
            self._queues.discard(queue)


def _put(queue: asyncio.Queue[Event | None], event: Event | None) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)

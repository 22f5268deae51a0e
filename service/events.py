"""Clocks, and event streams: each listener has a small queue of its own."""

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
    """``number`` counts up from 1, so that a listener can detect a gap."""

    number: int
    kind: str
    data: Mapping[str, Any]


class Broadcaster:
    """A slow listener loses its oldest events. Use from one event loop only."""

    def __init__(self, *, most_listeners: int = 64) -> None:
        self._queues: set[asyncio.Queue[Event | None]] = set()
        self._count = 0
        self._most_listeners = most_listeners
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether no more listeners are admitted."""
        return self._closed or len(self._queues) >= self._most_listeners

    @property
    def listeners(self) -> int:
        return len(self._queues)

    def publish(self, kind: str, data: Mapping[str, Any]) -> Event:
        self._count += 1
        event = Event(self._count, kind, data)
        for queue in self._queues:
            _put(queue, event)
        return event

    def close(self) -> None:
        """Ends every listener's stream."""
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

"""Clocks, and event streams: each listener has a small queue of its own."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Clocks:
    """Monotonic seconds, wall-clock nanoseconds since 1970, and seconds by which durations are measured."""

    monotonic_s: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
    cost_s: Callable[[], float] = time.perf_counter


QUEUE_LENGTH = 64
REPLAYED = 1_024
"""Events kept for listeners that reconnect: minutes of a busy service."""

MOST_OF_ONE_CALLER = 16

_NUMBERS_PER_S = 1 << 20


@dataclass(frozen=True, slots=True)
class Event:
    """``number`` counts up by 1, so that a listener can detect a gap."""

    number: int
    kind: str
    data: Mapping[str, Any]


def retrieve(done: asyncio.Future[Any]) -> None:
    """Marks a failure that is reported elsewhere as seen, so that asyncio does not log it."""
    if not done.cancelled():
        done.exception()


class Broadcaster:
    """A slow listener loses its oldest events. Use from one event loop only.

    Numbers begin after ``begun_s`` × 2²⁰. With the time of the start, in Unix seconds, they go on rising from
    one process to the next, so that the number of an earlier process is known as such.
    """

    def __init__(self, *, most_listeners: int = 64, begun_s: int = 0) -> None:
        self._queues: dict[asyncio.Queue[Event | None], str] = {}
        self._first = self._count = begun_s * _NUMBERS_PER_S
        self._kept: deque[Event] = deque(maxlen=REPLAYED)
        self._most_listeners = most_listeners
        self._closed = False

    @property
    def full(self) -> bool:
        """Whether no more listeners are admitted."""
        return self._closed or len(self._queues) >= self._most_listeners

    @property
    def listeners(self) -> int:
        return len(self._queues)

    def listeners_of(self, caller: str) -> int:
        return sum(one == caller for one in self._queues.values())

    def publish(self, kind: str, data: Mapping[str, Any]) -> Event:
        self._count += 1
        event = Event(self._count, kind, data)
        self._kept.append(event)
        for queue in self._queues:
            _put(queue, event)
        return event

    def since(self, number: int) -> list[Event]:
        """The events after the one of that number; a single ``reset`` where not all of them are known."""
        if self._first <= number <= self._count and number >= self._count - len(self._kept):
            return [event for event in self._kept if event.number > number]
        why = "That event is of an earlier process, or too long ago: read again what you show."
        return [Event(self._count, "reset", {"why": why})]

    def newest(self, kind: str) -> Event | None:
        """The newest of that kind, if it is among those kept."""
        return next((event for event in reversed(self._kept) if event.kind == kind), None)

    def close(self) -> None:
        """Ends every listener's stream."""
        self._closed = True
        for queue in self._queues:
            _put(queue, None)

    @contextmanager
    def listen(self, caller: str = "") -> Iterator[asyncio.Queue[Event | None]]:
        """A queue of events from now on; None ends it."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE_LENGTH)
        self._queues[queue] = caller
        try:
            yield queue
        finally:
            del self._queues[queue]


def _put(queue: asyncio.Queue[Event | None], event: Event | None) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(event)

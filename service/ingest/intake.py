"""Bodies of telemetry between the socket and the window, bounded in bytes; must not know what is in them.

A body counts from its first byte (where its length is told, from its header) until it is in the window. One
that finds no room is refused, before it is read where its length is told: nothing that was accepted is lost,
and nothing waits without bound.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from service.metrics import IngestMetrics
from settings.errors import BusyError

LONGEST_WAIT_S = 60
_REMEMBERED_S = 10.0


class DrainRate:
    """How fast bytes leave, in bytes a second, over the last ten busy seconds or so."""

    def __init__(self) -> None:
        self._bytes = 0.0
        self._busy_s = 0.0
        self._since_s = 0.0

    def began(self, now_s: float) -> None:
        """There is something to do again."""
        self._since_s = now_s

    def left(self, size: int, now_s: float) -> None:
        """Bytes left, now."""
        took_s = now_s - self._since_s
        kept = math.exp(-took_s / _REMEMBERED_S)
        self._bytes = kept * self._bytes + size
        self._busy_s = kept * self._busy_s + took_s
        self._since_s = now_s

    def rate(self, now_s: float) -> float | None:
        """Bytes a second; what has been at work since counts too. None before anything left."""
        busy_s = self._busy_s + now_s - self._since_s
        return self._bytes / busy_s if self._bytes and busy_s > 0 else None


class ByteBudget:
    """What may be held of ``limit_bytes``, or one larger thing alone. ``clock_s`` is monotonic."""

    def __init__(self, limit_bytes: int, *, metrics: IngestMetrics, clock_s: Callable[[], float]) -> None:
        self._limit_bytes = limit_bytes
        self._metrics = metrics
        self._clock_s = clock_s
        self._drain = DrainRate()
        self.held_bytes = 0
        metrics.pending_bytes.set_function(lambda: self.held_bytes)

    def fits(self, size: int, *, own: int = 0) -> bool:
        """Whether so much more may be held by whom ``own`` of it belongs to already."""
        return self.held_bytes <= own or self.held_bytes + size <= self._limit_bytes

    def hold(self, size: int, *, own: int = 0) -> None:
        """Holds so much more; raises ``BusyError`` where it does not fit."""
        if not self.fits(size, own=own):
            raise self._busy(size)
        if self.held_bytes == 0:
            self._drain.began(self._clock_s())
        self.held_bytes += size

    def free(self, size: int) -> None:
        """Gives back what was held."""
        if size:  # where nothing was, no time was spent on it either
            self.held_bytes -= size
            self._drain.left(size, self._clock_s())

    def _busy(self, size: int) -> BusyError:
        self._metrics.refused.inc()
        rate = self._drain.rate(self._clock_s())
        excess = self.held_bytes + size - self._limit_bytes
        wait_s = 1 if rate is None else min(max(math.ceil(excess / rate), 1), LONGEST_WAIT_S)
        return BusyError(
            "request body",
            f"{size} bytes while {self.held_bytes} are waiting",
            f"at most {self._limit_bytes} bytes wait (server.max_pending_bytes)",
            f"send it again in {wait_s} s; if that goes on, run ecntwin ingest beside the service",
            retry_after_s=wait_s,
        )


class Intake:
    """Admits bodies as far as ``room`` reaches; those over ``max_body_bytes`` are refused elsewhere."""

    def __init__(self, room: ByteBudget, *, max_body_bytes: int) -> None:
        self.room = room
        self._max_body_bytes = max_body_bytes

    @asynccontextmanager
    async def body(self, declared: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The body of these chunks, which is held until the block ends; ``declared`` is its Content-Length.

        Raises ``BusyError`` where there is no room for it, and what ``chunks`` raises.
        """
        told = int(declared) if declared.isdecimal() else 0
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            self.room.hold(size, own=held)
            held += size

        if told <= self._max_body_bytes:  # else whoever reads it is told that it is too large
            hold(told)
        try:
            parts: list[bytes] = []
            async for chunk in chunks:
                if told == 0:
                    hold(len(chunk))
                parts.append(chunk)
            yield b"".join(parts)
        finally:
            self.room.free(held)

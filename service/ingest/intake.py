"""Admission control for telemetry bodies: bounded bytes in flight, 429 when full.

The bytes of a body count as they come, until they are in the window: what a header announces is held by
nobody, or four headers would keep all others out. A body that does not fit is refused, with a Content-Length
before it is read where that can be told, so no accepted report is lost.
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
    """Rate in bytes/s at which bodies are processed, over about the last ten busy seconds."""

    def __init__(self) -> None:
        self._bytes = 0.0
        self._busy_s = 0.0
        self._since_s = 0.0

    def began(self, now_s: float) -> None:
        """The first bytes after an idle time have arrived."""
        self._since_s = now_s

    def left(self, size: int, now_s: float) -> None:
        took_s = now_s - self._since_s
        kept = math.exp(-took_s / _REMEMBERED_S)
        self._bytes = kept * self._bytes + size
        self._busy_s = kept * self._busy_s + took_s
        self._since_s = now_s

    def rate(self, now_s: float) -> float | None:
        """The rate in bytes/s, work in progress included; None before anything was processed."""
        busy_s = self._busy_s + now_s - self._since_s
        return self._bytes / busy_s if self._bytes and busy_s > 0 else None


class ByteBudget:
    """Holds at most ``limit_bytes``, or one larger item alone. ``clock_s`` is monotonic seconds; ``remedy``
    is what to do where it is full for long.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        metrics: IngestMetrics,
        clock_s: Callable[[], float],
        remedy: str = "run ecntwin ingest beside the service",
    ) -> None:
        self._limit_bytes = limit_bytes
        self._remedy = remedy
        self._metrics = metrics
        self._clock_s = clock_s
        self._drain = DrainRate()
        self.held_bytes = 0
        metrics.pending_bytes.set_function(lambda: self.held_bytes)

    def fits(self, size: int, *, own: int = 0) -> bool:
        """Whether ``size`` more bytes fit for a holder that already has ``own`` of those held."""
        return self.held_bytes <= own or self.held_bytes + size <= self._limit_bytes

    def check(self, size: int, *, own: int = 0) -> None:
        """Raises ``BusyError`` where ``size`` more bytes do not fit."""
        if not self.fits(size, own=own):
            raise self._busy(size)

    def hold(self, size: int, *, own: int = 0, beyond: bool = False) -> None:
        """Holds ``size`` more bytes; raises as ``check``, unless ``beyond``."""
        if not beyond:
            self.check(size, own=own)
        if self.held_bytes == 0:
            self._drain.began(self._clock_s())
        self.held_bytes += size

    def free(self, size: int) -> None:
        if size:
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
            f"send it again in {wait_s} s; if this persists, {self._remedy}",
            retry_after_s=wait_s,
        )


class Intake:
    """Admits bodies that fit into ``budget``; those over ``max_body_bytes`` are refused by their reader."""

    def __init__(self, budget: ByteBudget, *, max_body_bytes: int) -> None:
        self._budget = budget
        self._max_body_bytes = max_body_bytes

    @asynccontextmanager
    async def body(self, declared: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The body of these chunks, held in the budget until the block ends; ``declared`` is its
        Content-Length. Raises ``BusyError`` where it does not fit, and what ``chunks`` raises.
        """
        length = int(declared) if declared.isdecimal() else 0
        held = 0
        counts = length <= self._max_body_bytes  # otherwise reading it raises the 413
        if counts:
            self._budget.check(length)
        try:
            parts: list[bytes] = []
            async for chunk in chunks:
                if counts:
                    self._budget.hold(len(chunk), own=held)
                    held += len(chunk)
                parts.append(chunk)
            yield b"".join(parts)
        finally:
            self._budget.free(held)

"""Decoding threads, and the base of the owners of a telemetry window.

Decoding and windows run off the event loop. A window has one thread, which takes some thousands of reports or
samples at a time: it needs no lock, and a small body does not wait for a large one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, NamedTuple, ParamSpec, Protocol, TypeVar

import prometheus_client

from service.documents.telemetry import IngestDocument
from telemetry.decode.body import Decoded, holds_at_most
from telemetry.report import ReportProblem

SMALL_BYTES = 128 << 10
"""Size of a body as unpacked; decoding one takes some 3 ms, 40 ms at worst."""

MOST_LOGGED = 100
"""Keys that were not read; a body may spell them anew each time."""

P = ParamSpec("P")
T = TypeVar("T")
PartT = TypeVar("PartT")

ReportDecoder = Callable[[], Decoded]
"""Decodes a body (``ReportFormats.decoder``), some datagrams (``UdpListener``), or due postcards."""

_log = logging.getLogger("ecntwin.telemetry")


class ReportSink(Protocol):
    """Where decoded reports go: the window, or an ingest process that forwards them."""

    async def ingest(self, decode: ReportDecoder, *, body: bytes | None = None) -> IngestDocument:
        """Takes the reports that ``decode`` returns, which is called in a decoding thread; ``body`` is None
        for datagrams.

        Raises the ``DecodeError`` of a body that holds no reports at all.
        """


class _LargeError(Exception):
    """A body counts as small by its received size, and as large by its unpacked size."""


class DecodingThreads:
    """Separate threads for small bodies, large bodies and datagrams.

    Large bodies share one thread: two at once would be no faster under the interpreter's lock, and take twice
    the memory.
    """

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(2, thread_name_prefix="ecntwin-decode")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-decode-large")
        self._datagrams = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-datagrams")

    async def run(self, decode: Callable[[], T], body: bytes | None) -> T:
        """Runs ``decode``, which decodes ``body`` (None: datagrams); raises what it raises."""

        def unless_large() -> T:
            if not holds_at_most(body or b"", SMALL_BYTES):
                raise _LargeError
            return decode()

        loop = asyncio.get_running_loop()
        if body is None:
            return await loop.run_in_executor(self._datagrams, decode)
        if len(body) <= SMALL_BYTES:
            with suppress(_LargeError):
                return await loop.run_in_executor(self._small, unless_large)
        return await loop.run_in_executor(self._large, decode)

    def close(self) -> None:
        """Ends the threads once their current work is done."""
        for threads in (self._small, self._large, self._datagrams):
            threads.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """Limits of one body (unpacked size, errors listed), and when telemetry is stale."""

    max_decoded_bytes: int
    max_errors_listed: int
    stale_after_s: float


class Added(NamedTuple):
    """How many reports of a part were accepted, which were refused, and how many for each reason;
    ``duplicates`` of the accepted were held already.
    """

    accepted: int
    refused: Sequence[ReportProblem]
    reasons: Counter[str]
    duplicates: int = 0


class UnreadKeys:
    """Keys that records had and the format does not: the log names each once, and ``MOST_LOGGED`` of them."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, keys: Sequence[str]) -> None:
        new = [key for key in keys if key not in self._told][: MOST_LOGGED - len(self._told)]
        if new:
            self._told.update(new)
            _log.warning("JSON records have keys that were not read: %s; is one misspelt?", ", ".join(new))


class TelemetryOwner(Generic[PartT]):
    """Owns a window and its thread. ``clock_s`` is monotonic seconds; ages are by arrival."""

    def __init__(
        self,
        thread_name: str,
        limits: IngestLimits,
        *,
        decoding: DecodingThreads,
        accepted: prometheus_client.Counter,
        rejected: prometheus_client.Counter,
        clock_s: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._decoding = decoding
        self._accepted_total = accepted
        self._rejected_total = rejected
        self._clock_s = clock_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
        self._last_accepted_s: float | None = None
        self._unread = UnreadKeys()

    def age_s(self) -> float | None:
        """Seconds since telemetry was last accepted; None before the first."""
        return None if self._last_accepted_s is None else self._clock_s() - self._last_accepted_s

    def close(self) -> None:
        """Ends the thread once its current work is done."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _add(self, part: PartT) -> Added:
        """Adds to the window; runs in its thread."""
        raise NotImplementedError

    async def _add_all(
        self,
        parts: Iterable[PartT],
        *,
        malformed: Sequence[ReportProblem],
        aside: int = 0,
        unread: Sequence[str] = (),
    ) -> IngestDocument:
        accepted, duplicates, reasons = 0, 0, Counter(malformed=len(malformed))
        refused: list[ReportProblem] = []
        for part in parts:
            added = await self._run(self._add, part)
            accepted += added.accepted
            duplicates += added.duplicates
            refused += added.refused
            reasons += added.reasons
        self._count(accepted, reasons)
        self._unread.tell(unread)
        return IngestDocument.of(
            accepted + aside,
            reasons.total(),
            malformed=malformed,
            refused=refused,
            duplicates=duplicates,
            unread=unread,
            listed=self._limits.max_errors_listed,
        )

    def _count(self, accepted: int, reasons: Counter[str]) -> None:
        self._accepted_total.inc(accepted)
        for reason, number in reasons.items():
            if number:
                self._rejected_total.labels(reason).inc(number)
        if accepted:
            self._last_accepted_s = self._clock_s()

    async def _run(self, function: Callable[P, T], *arguments: P.args, **_named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

"""Counters of switches in, how much they grew out; must not know who asks or why.

The window runs in one thread of its own, which takes some thousands of samples at a time, as that of reports
does.

What ports did lately, of the switches that still give counters; must not judge it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from service.documents.telemetry import IngestDocument
from service.ingest.decoding import DecodingThreads
from service.ingest.window_owner import IngestLimits
from service.metrics import Metrics
from telemetry.counters.model import CounterIncrease, CounterSample, CounterSettings
from telemetry.counters.window import CounterWindow, PortRates, port_rates
from telemetry.decode.counters import decode_counters
from telemetry.report import ReportProblem

SAMPLES_AT_ONCE = 5_000

P = ParamSpec("P")
T = TypeVar("T")


class CounterOwner:
    """Owns the counters' window. ``clock_s`` is monotonic seconds."""

    def __init__(
        self,
        settings: CounterSettings,
        limits: IngestLimits,
        *,
        decoding: DecodingThreads,
        metrics: Metrics,
        clock_s: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._decoding = decoding
        self._window = CounterWindow(settings)
        self._metrics = metrics
        self._clock_s = clock_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-counters")
        self._last_accepted_s: float | None = None

    def age_s(self) -> float | None:
        """Seconds since a sample was last accepted; None before the first."""
        return None if self._last_accepted_s is None else self._clock_s() - self._last_accepted_s

    async def ingest(self, body: bytes, content_encoding: str | None) -> IngestDocument:
        """Takes one body in. Raises ``DecodeError`` where it holds no samples at all."""
        decoded = await self._decoding.of_body(
            body,
            partial(
                decode_counters,
                body,
                content_encoding=content_encoding,
                max_body_bytes=self._limits.max_decoded_bytes,
            ),
        )
        accepted, reasons = 0, Counter(malformed=len(decoded.errors))
        refused: list[ReportProblem] = []
        for begin in range(0, len(decoded.samples), SAMPLES_AT_ONCE):
            some = slice(begin, begin + SAMPLES_AT_ONCE)
            added = await self._run(self._window.add, decoded.samples[some], decoded.positions[some])
            accepted += added.accepted
            refused += (*added.late, *added.no_room)
            reasons.update(late=len(added.late), no_room=len(added.no_room))
        self._note(accepted, reasons)
        return IngestDocument.of(
            accepted,
            reasons.total(),
            malformed=decoded.errors,
            refused=refused,
            listed=self._limits.max_errors_listed,
        )

    async def add(self, samples: Sequence[CounterSample]) -> int:
        """Takes the samples of one look at a switch in; how many were accepted."""
        added = await self._run(self._window.add, samples)
        self._note(added.accepted, Counter(late=len(added.late), no_room=len(added.no_room)))
        return added.accepted

    async def increase(
        self, switches: Collection[str] | None, since_ns: int, until_ns: int
    ) -> CounterIncrease:
        """How much the counters of these switches (None: of all) grew between two times of their clocks."""
        return await self._run(self._window.increase, switches, since_ns, until_ns)

    async def newest_ns(self, switches: Collection[str] | None = None) -> int | None:
        """The newest reading of these switches by their clocks; None without one."""
        return await self._run(self._window.newest_ns, switches)

    async def recent(self, span_ns: int) -> tuple[tuple[PortRates, ...], dict[str, int]]:
        """What every port did in the last ``span_ns`` of its own clock, and each switch's newest reading."""
        return await self._run(self._recent, span_ns)

    def _recent(self, span_ns: int) -> tuple[tuple[PortRates, ...], dict[str, int]]:
        return port_rates(self._window.lately(span_ns)), self._window.newest_by_switch()

    def close(self) -> None:
        """Ends the thread once what it has begun is done."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _note(self, accepted: int, rejected: Counter[str]) -> None:
        self._metrics.samples_accepted.inc(accepted)
        for reason, number in rejected.items():
            if number:
                self._metrics.samples_rejected.labels(reason).inc(number)
        if accepted:
            self._last_accepted_s = self._clock_s()

    async def _run(self, function: Callable[P, T], *arguments: P.args, **_named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


@dataclass(frozen=True, slots=True)
class RecentPorts:
    """``ports`` of switches that are not silent; ``silent_s`` how long ago each switch's counters moved.
    ``at_s`` is when it was so.
    """

    ports: tuple[PortRates, ...]
    silent_s: Mapping[str, float]
    at_s: float = 0.0


class PortMonitor:
    """``span_s`` is how far back rates reach, by the devices' clocks; counters that have not moved for
    ``stale_after_s`` of ``clock_s`` (monotonic seconds) tell nothing of now.
    """

    def __init__(
        self, counters: CounterOwner, *, span_s: float, stale_after_s: float, clock_s: Callable[[], float]
    ) -> None:
        self._counters = counters
        self._span_ns = max(round(span_s * 1e9), 1)
        self._stale_after_s = stale_after_s
        self._clock_s = clock_s
        self._moved: dict[str, tuple[int, float]] = {}
        self.latest: RecentPorts | None = None
        """What was last told to anybody."""

    async def recent(self) -> RecentPorts:
        """Every port that is known of now. Ask often: a switch's silence is counted from the first asking
        that found nothing new.
        """
        ports, newest_ns = await self._counters.recent(self._span_ns)
        now_s = self._clock_s()
        self._moved = {
            switch: self._moved[switch]
            if switch in self._moved and self._moved[switch][0] == at_ns
            else (at_ns, now_s)
            for switch, at_ns in newest_ns.items()
        }
        silent_s = {switch: now_s - moved_s for switch, (_, moved_s) in self._moved.items()}
        told = tuple(port for port in ports if silent_s[port.switch] <= self._stale_after_s)
        self.latest = RecentPorts(told, silent_s, now_s)
        return self.latest

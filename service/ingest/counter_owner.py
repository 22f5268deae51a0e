"""The counters of switches: samples in, increases and recent port rates out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from service.documents.telemetry import IngestDocument
from service.ingest.threads import Added, DecodingThreads, IngestLimits, TelemetryOwner
from service.metrics import Metrics
from telemetry.counters.model import CounterIncrease, CounterSample, CounterSettings
from telemetry.counters.window import CounterWindow, PortRates, port_rates
from telemetry.decode.counters import decode_counters
from telemetry.settings import NS_PER_S

SAMPLES_AT_ONCE = 5_000

_Samples = tuple[Sequence[CounterSample], Sequence[int] | None]
_Recent = tuple[tuple[PortRates, ...], dict[str, int]]


class CounterOwner(TelemetryOwner[_Samples]):
    def __init__(
        self,
        settings: CounterSettings,
        limits: IngestLimits,
        *,
        decoding: DecodingThreads,
        metrics: Metrics,
        clock_s: Callable[[], float],
    ) -> None:
        super().__init__(
            "ecntwin-counters",
            limits,
            decoding=decoding,
            accepted=metrics.samples_accepted,
            rejected=metrics.samples_rejected,
            clock_s=clock_s,
        )
        self._window = CounterWindow(settings)
        self._recently: tuple[int, _Recent] | None = None

    async def ingest(self, body: bytes, content_encoding: str | None) -> IngestDocument:
        """Adds the samples of one body; raises ``DecodeError`` where it holds none at all."""
        decode = partial(
            decode_counters,
            body,
            content_encoding=content_encoding,
            max_body_bytes=self._limits.max_decoded_bytes,
        )
        decoded = await self._decoding.run(decode, body)
        parts = (
            (
                decoded.samples[begin : begin + SAMPLES_AT_ONCE],
                decoded.positions[begin : begin + SAMPLES_AT_ONCE],
            )
            for begin in range(0, len(decoded.samples), SAMPLES_AT_ONCE)
        )
        return await self._add_all(parts, malformed=decoded.errors, unread=decoded.unread)

    async def add(self, samples: Sequence[CounterSample]) -> int:
        """Adds the samples of one poll of a switch; returns how many were accepted."""
        added = await self._run(self._add, (samples, None))
        self._count(added.accepted, added.reasons)
        return added.accepted

    async def increase(
        self, switches: Collection[str] | None, since_ns: int, until_ns: int
    ) -> CounterIncrease:
        """Growth of the counters of these switches (None: all) between two times of the switches' clocks."""
        return await self._run(self._window.increase, switches, since_ns, until_ns)

    async def newest_ns(self, switches: Collection[str] | None = None) -> int | None:
        """The newest sample of these switches by their clocks; None without one."""
        return await self._run(self._window.newest_ns, switches)

    async def recent(self, span_ns: int) -> _Recent:
        """Each port's rates over the last ``span_ns`` of its clock, and each switch's newest sample.

        Computed once for all callers until the next sample arrives.
        """
        return await self._run(self._recent, span_ns)

    def _recent(self, span_ns: int) -> _Recent:
        if self._recently is None or self._recently[0] != span_ns:
            found = port_rates(self._window.lately(span_ns)), self._window.newest_by_switch()
            self._recently = span_ns, found
        return self._recently[1]

    def _add(self, part: _Samples) -> Added:
        self._recently = None
        added = self._window.add(*part, arrived_ns=round(self._clock_s() * NS_PER_S))
        reasons = Counter(late=len(added.late), no_room=len(added.no_room))
        return Added(added.accepted, (*added.late, *added.no_room), reasons)


@dataclass(frozen=True, slots=True)
class RecentPorts:
    """Rates of the ports of switches that are not silent; by switch, seconds since its counters last moved;
    and when that was (monotonic seconds).
    """

    ports: tuple[PortRates, ...]
    silent_s: Mapping[str, float]
    at_s: float = 0.0


class PortMonitor:
    """Port rates over ``span_s`` of the switches' clocks. Counters that have not moved for ``stale_after_s``
    of ``clock_s`` (monotonic seconds) are left out.
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
        """The last result of ``recent``."""

    async def recent(self) -> RecentPorts:
        """All ports with current counters. Call it often: a switch counts as silent from the first call
        without a new sample.
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
        current = tuple(port for port in ports if silent_s[port.switch] <= self._stale_after_s)
        self.latest = RecentPorts(current, silent_s, now_s)
        return self.latest

"""The telemetry window of the service: reports in, network state out."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from service.documents.telemetry import IngestDocument
from service.events import Broadcaster, Clocks
from service.ingest.threads import Added, DecodingThreads, IngestLimits, ReportDecoder, TelemetryOwner
from service.metrics import Metrics
from telemetry.decode.body import Decoded
from telemetry.errors import DecodeError, WindowError
from telemetry.network.assemble import Snapshot
from telemetry.report import ReportBatch, parted
from telemetry.settings import NS_PER_S, WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology
from telemetry.window.window import Window, WindowCounters

EVENT_EVERY_S = 0.5

_Version = tuple[int, Topology | None]


SLOW_S = 0.25
REUSED_FOR = 4.0
"""A slow state is reused for so many times the time it took to compute."""


_DECLARED = " since the topology was declared"
_REFUSED = MappingProxyType(
    {
        "malformed": ("cannot be read", "look at the errors in the answers to POST /v1/telemetry/int"),
        "late": ("are older than the window", "look at the clocks of switches and collectors"),
        "skewed": ("are too far away in time", "look at the clocks of switches and collectors"),
        "unknown_place": (
            "name a switch or port that the declared topology lacks",
            "declare this fabric's topology (PUT /v1/topology)",
        ),
        "no_room": ("find no room in the window", "raise telemetry.max_paths or telemetry.max_queues"),
    }
)
"""By reason for which reports are rejected: what they do, and what helps."""


class Missing(NamedTuple):
    """Why there is nothing to tune on, as a clause, and what helps."""

    why: str
    remedy: str


class LatestState(NamedTuple):
    """The last state computed, when (monotonic seconds), and how long it took."""

    state: NetworkState
    at_s: float
    took_s: float = 0.0


class WindowOwner(TelemetryOwner[ReportBatch]):
    def __init__(
        self,
        settings: WindowSettings,
        declared: Topology | None,
        limits: IngestLimits,
        *,
        decoding: DecodingThreads,
        metrics: Metrics,
        events: Broadcaster,
        clocks: Clocks,
    ) -> None:
        super().__init__(
            "ecntwin-window",
            limits,
            decoding=decoding,
            accepted=metrics.accepted,
            rejected=metrics.rejected,
            clock_s=clocks.monotonic_s,
        )
        self._settings = settings
        self._window = Window(settings, declared)
        self._metrics = metrics
        self._events = events
        self._wall_ns = clocks.wall_ns
        self._last_event_s = float("-inf")
        self._unpublished = Counter[str]()
        self._refused = Counter[str]()  # since a report was last accepted, or a topology declared
        self._cached: tuple[_Version, LatestState] | None = None
        self._found: tuple[int, Topology] | None = None
        self._computing = asyncio.Lock()
        self.declared = declared
        self.accepted = self.rejected = 0
        self._span_ns: tuple[int, int] | None = None  # of the reports' clock; None while it is empty
        self._set_ns: int | None = None

    def silent_s(self, since_s: float) -> float:
        """Seconds since a report was last accepted; before the first one, since ``since_s``."""
        age_s = self.age_s()
        return self.now_s() - since_s if age_s is None else age_s

    def now_s(self) -> float:
        return self._clock_s()

    @property
    def step_ns(self) -> int:
        """A step in time that the window's end follows at once."""
        return self._settings.step_ns

    @property
    def counters(self) -> WindowCounters:
        """Totals of the window; safe to read while reports are added."""
        return self._window.counters

    @property
    def stale(self) -> bool:
        """Whether no report was accepted within ``stale_after_s``, or ever."""
        age_s = self.age_s()
        return age_s is None or age_s > self._limits.stale_after_s

    @property
    def empty(self) -> bool:
        """Whether it holds no report: none came, or none since another topology was declared."""
        return self._span_ns is None

    @property
    def start_ns(self) -> int | None:
        """When the window begins, by the reports' clock; None while it is empty."""
        return None if self._span_ns is None else self._span_ns[0]

    @property
    def held_s(self) -> float:
        """Seconds of report time that the window holds; 0 while it is empty."""
        span_ns = self._span_ns
        return 0.0 if span_ns is None else (span_ns[1] - span_ns[0]) / NS_PER_S

    def device_set(self) -> None:
        """A switch or NIC was set: reports until now are of traffic under what ran before."""
        self._set_ns = None if self._span_ns is None else self._span_ns[1]

    @property
    def since_set_s(self) -> float:
        """Seconds of report time since a device was last set; infinite where none was, or where the reports'
        clock was set back since.
        """
        span_ns, set_ns = self._span_ns, self._set_ns
        if span_ns is None or set_ns is None or span_ns[1] < set_ns:
            return math.inf
        return (span_ns[1] - set_ns) / NS_PER_S

    @property
    def silence(self) -> str:
        """How a sentence on silence begins: reports may come, and all be rejected."""
        return f"No INT report {'was accepted' if self._refused else 'came'}"

    @property
    def missing(self) -> Missing | None:
        """Why there is nothing to tune on; None where fresh reports are there."""
        age_s = self.age_s()
        if age_s is not None and not self.stale and not self.empty:
            return None
        if self._refused:
            (reason, number), *others = self._refused.most_common()
            why, remedy = _REFUSED[reason]
            most = f", {number} of them as they {why}" if others else f": they {why}"
            since = ""
            if age_s is not None:
                since = f" since the newest taken, {age_s:.0f} s ago," if self.stale else _DECLARED
            return Missing(
                f"all {self._refused.total()} INT reports that came{since} were rejected{most}", remedy
            )
        if age_s is None:
            return Missing("no INT report has come yet", "post some to /v1/telemetry/int")
        if self.stale:
            return Missing(f"the newest INT report came {age_s:.0f} s ago", "look at the exporters")
        return Missing(f"no INT report has come{_DECLARED}", "wait for the exporters' reports")

    async def ingest(self, decode: ReportDecoder, *, body: bytes | None = None) -> IngestDocument:
        """Adds the reports that ``decode`` returns; a ``ReportSink``."""

        def decoded_parts() -> tuple[Decoded, list[ReportBatch]]:
            decoded = decode()
            return decoded, list(parted(decoded.batch))

        try:
            decoded, parts = await self._decoding.run(decoded_parts, body)
        except DecodeError:
            self._metrics.bodies.inc()
            raise
        answer = await self._add_all(
            parts, malformed=decoded.errors, aside=decoded.aside, unread=decoded.unread
        )
        if not decoded.accepted_before:
            return answer
        # What the window refused may have come with other bodies: only its totals count it.
        return IngestDocument.of_decoded(decoded, listed=self._limits.max_errors_listed)

    async def state(self) -> NetworkState:
        """The current state; raises ``WindowError`` while the window is empty.

        Computed from a snapshot outside the window's thread, so reports are added meanwhile, and once for all
        callers until the next report.
        """
        return (await self.seen())[1]

    async def seen(self) -> tuple[Snapshot, NetworkState]:
        """The reports in the current state, which stay in memory meanwhile, and that state; raises as
        ``state``.
        """
        async with self._computing:
            return await self._seen()

    async def shown(self) -> NetworkState:
        """The current state for repeated callers; raises ``WindowError`` as ``state``.

        A state that took long to compute is reused for ``REUSED_FOR`` times as long, so that pages and
        scripts keep a fifth of a core busy at most.
        """
        async with self._computing:
            if self._cached is not None:
                (_, topology), latest = self._cached
                age_s = self._clock_s() - latest.at_s
                if SLOW_S < latest.took_s > age_s / REUSED_FOR and topology is self._window.topology:
                    return latest.state
            return (await self._seen())[1]

    async def _seen(self) -> tuple[Snapshot, NetworkState]:
        snapshot, version = await self._run(self._snapshot)
        if self._cached is None or self._cached[0] != version:
            at_s = self._clock_s()
            state = await asyncio.to_thread(snapshot.state)
            self._cached = version, LatestState(state, at_s, self._clock_s() - at_s)
        return snapshot, self._cached[1].state

    @property
    def latest(self) -> LatestState | None:
        """The last state computed, and when; None before the first."""
        return None if self._cached is None else self._cached[1]

    @property
    def length_s(self) -> float:
        """Seconds of report time that fill the window."""
        return self._settings.length_ns / NS_PER_S

    @property
    def warm(self) -> bool:
        """Whether reports fill the window; the period in progress does not count as full."""
        return not self.empty and self.held_s >= self.length_s - self._settings.period_ns / NS_PER_S

    async def discovered(self) -> Topology | None:
        """The topology discovered from the reports' hops, computed like ``state``; None while the window is
        empty.
        """
        try:
            if self.declared is None:
                return (await self.state()).topology
            async with self._computing:
                snapshot, (accepted, _) = await self._run(self._snapshot)
                if self._found is None or self._found[0] != accepted:
                    found = await asyncio.to_thread(replace(snapshot, topology=None).state)
                    self._found = accepted, found.topology
                return self._found[1]
        except WindowError:
            return None

    async def declare(self, topology: Topology) -> None:
        await self._run(self._declare, topology)
        self.declared = topology
        self._refused.clear()

    def _declare(self, topology: Topology) -> None:
        self._window.set_topology(topology)
        self._note_span()

    def _note_span(self) -> None:
        self._span_ns = self._window.span_ns

    def _snapshot(self) -> tuple[Snapshot, _Version]:
        return self._window.snapshot(), (self._window.counters.accepted, self._window.topology)

    def _add(self, part: ReportBatch) -> Added:
        before = self._window.counters
        added = self._window.add(part, now_ns=self._wall_ns())
        self._note_span()
        after = self._window.counters
        reasons = Counter(
            late=after.too_old - before.too_old,
            skewed=after.skewed - before.skewed,
            unknown_place=after.unknown_sites - before.unknown_sites,
            no_room=after.overflowed - before.overflowed,
        )
        return Added(added.accepted, added.errors, reasons, added.duplicates)

    def _count(self, accepted: int, reasons: Counter[str]) -> None:
        super()._count(accepted, reasons)
        self.accepted += accepted
        self.rejected += reasons.total()
        self._refused += reasons
        if accepted:
            self._metrics.last_report.set(self._wall_ns() / 1e9)
            self._refused.clear()
        self._unpublished.update(accepted=accepted, rejected=reasons.total())
        if self._clock_s() - self._last_event_s >= EVENT_EVERY_S:
            self._last_event_s = self._clock_s()
            self._events.publish("reports", dict(self._unpublished))
            self._unpublished.clear()

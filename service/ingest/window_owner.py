"""The telemetry side of the service: bodies in, network state out; must not know the twin.

The window runs in one thread of its own, which takes some thousands of reports at a time: the event loop
never waits for it, a large body does not keep a small one waiting, and the window needs no lock.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, ParamSpec, TypeVar

from service.documents.telemetry import IngestDocument
from service.events import Broadcaster
from service.ingest.decoding import DecodingThreads
from service.metrics import Metrics
from telemetry.decode.body import Decoded
from telemetry.errors import DecodeError, WindowError
from telemetry.network.assemble import Snapshot
from telemetry.report import ReportBatch, ReportProblem, parted
from telemetry.settings import NS_PER_S, WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology
from telemetry.window.window import AddResult, Window, WindowCounters

EVENT_EVERY_S = 0.5

_Version = tuple[int, Topology | None]
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """What one body may hold once unpacked, how many of its errors are listed, and when silence is stale."""

    max_decoded_bytes: int
    max_errors_listed: int
    stale_after_s: float


class LatestState(NamedTuple):
    """The last state that was worked out for anybody, and when it was so, in the clock's seconds."""

    state: NetworkState
    at_s: float


class WindowOwner:
    """Owns the window. ``clock_s`` is monotonic seconds; ages are by arrival, not by report time."""

    def __init__(
        self,
        window: WindowSettings,
        declared: Topology | None,
        limits: IngestLimits,
        *,
        decoding: DecodingThreads,
        metrics: Metrics,
        events: Broadcaster,
        clock_s: Callable[[], float],
        wall_s: Callable[[], float],
    ) -> None:
        self._settings = window
        self._limits = limits
        self._decoding = decoding
        self._window = Window(window, declared)
        self._metrics = metrics
        self._events = events
        self._clock_s = clock_s
        self._wall_s = wall_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-window")
        self._last_accepted_s: float | None = None
        self._last_event_s = float("-inf")
        self._unpublished = Counter[str]()
        self._known: tuple[_Version, LatestState] | None = None
        self._held_s = 0.0
        self._working_out = asyncio.Lock()
        self.declared = declared
        self.accepted = self.rejected = 0

    def age_s(self) -> float | None:
        """Seconds since a report was last accepted; None before the first."""
        return None if self._last_accepted_s is None else self._clock_s() - self._last_accepted_s

    def silent_s(self, since_s: float) -> float:
        """Seconds since a report was last accepted; before the first, seconds since then."""
        age_s = self.age_s()
        return self.now_s() - since_s if age_s is None else age_s

    def now_s(self) -> float:
        """The clock's seconds."""
        return self._clock_s()

    @property
    def counters(self) -> WindowCounters:
        """What became of all reports so far; may be asked while others come in."""
        return self._window.counters

    @property
    def stale(self) -> bool:
        """Whether no report was accepted for too long, or none ever was."""
        age_s = self.age_s()
        return age_s is None or age_s > self._limits.stale_after_s

    async def ingest(self, decode: Callable[[], Decoded], *, body: bytes | None = None) -> IngestDocument:
        """Has ``decode`` called, which decodes ``body`` (None: datagrams), and takes what it gives into the
        window.

        Raises the ``DecodeError`` of a body that holds no reports at all.
        """

        def taken_apart() -> tuple[Decoded, list[ReportBatch]]:
            decoded = decode()
            return decoded, list(parted(decoded.batch))

        threads = self._decoding
        try:
            decoded, parts = await (
                threads.of_datagrams(taken_apart) if body is None else threads.of_body(body, taken_apart)
            )
        except DecodeError:
            self._metrics.bodies.inc()
            raise
        accepted, reasons = 0, Counter(malformed=len(decoded.errors))
        refused: list[ReportProblem] = []
        for part in parts:
            taken, why = await self._run(self._take, part)
            accepted += taken.accepted
            refused += taken.errors
            reasons += why
        self._count(accepted, reasons)
        return IngestDocument.of(
            accepted + decoded.aside,
            reasons.total(),
            malformed=decoded.errors,
            refused=refused,
            listed=self._limits.max_errors_listed,
        )

    async def state(self) -> NetworkState:
        """The window as it is now; raises ``WindowError`` while it is empty.

        Worked out beside the window's thread, so that reports keep coming in, and once for all who ask until
        the next report.
        """
        async with self._working_out:
            snapshot, version = await self._run(self._snapshot)
            if self._known is None or self._known[0] != version:
                at_s = self._clock_s()
                self._known = (version, LatestState(await asyncio.to_thread(snapshot.state), at_s))
            return self._known[1].state

    @property
    def latest(self) -> LatestState | None:
        """What ``state`` last worked out; asking for it costs nothing."""
        return None if self._known is None else self._known[1]

    @property
    def held_s(self) -> float:
        """How much of the window reports fill, in seconds of their own time; 0 while it is empty."""
        return self._held_s

    @property
    def length_s(self) -> float:
        """How much fills it."""
        return self._settings.length_ns / NS_PER_S

    @property
    def warm(self) -> bool:
        """Whether reports fill it; its last period is never full."""
        return self._held_s >= self.length_s - self._settings.period_ns / NS_PER_S

    async def discovered(self) -> Topology | None:
        """What the hops of the window's reports show; None while it is empty."""
        return await self._run(self._discovered)

    async def declare(self, topology: Topology) -> None:
        """Replaces the declared topology."""
        await self._run(self._window.set_topology, topology)
        self.declared = topology

    def close(self) -> None:
        """Ends the thread once what it has begun is done."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _snapshot(self) -> tuple[Snapshot, _Version]:
        """In the window's thread: what it holds, and what differs when that does."""
        return self._window.snapshot(), (self._window.counters.accepted, self._window.topology)

    def _discovered(self) -> Topology | None:
        declared = self._window.topology
        self._window.set_topology(None)
        try:
            return self._window.state().topology
        except WindowError:
            return None
        finally:
            self._window.set_topology(declared)

    def _take(self, batch: ReportBatch) -> tuple[AddResult, Counter[str]]:
        """In the window's thread: what became of the reports, and how many were left out by reason."""
        before = self._window.counters
        added = self._window.add(batch)
        span_ns = self._window.span_ns
        self._held_s = 0.0 if span_ns is None else (span_ns[1] - span_ns[0]) / NS_PER_S
        after = self._window.counters
        return added, Counter(
            late=after.too_old - before.too_old,
            skewed=after.skewed - before.skewed,
            unknown_place=after.unknown_sites - before.unknown_sites,
            no_room=after.overflowed - before.overflowed,
        )

    def _count(self, accepted: int, reasons: Counter[str]) -> None:
        self._metrics.accepted.inc(accepted)
        self.rejected += reasons.total()
        for reason, number in reasons.items():
            if number:
                self._metrics.rejected.labels(reason).inc(number)
        if accepted:
            self.accepted += accepted
            self._last_accepted_s = self._clock_s()
            self._metrics.last_report.set(self._wall_s())
        self._unpublished.update(accepted=accepted, rejected=reasons.total())
        if self._clock_s() - self._last_event_s >= EVENT_EVERY_S:
            self._last_event_s = self._clock_s()
            self._events.publish("reports", dict(self._unpublished))
            self._unpublished.clear()

    async def _run(self, function: Callable[P, T], *arguments: P.args, **_named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

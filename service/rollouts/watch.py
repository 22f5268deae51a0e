"""What telemetry says of some switches since a change: the window's queues, and counters; must not judge it.

Reports and counters carry the devices' clocks, which need not be the service's: what counts as "since" is
told by the newest of their times when the watching began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from service.ingest.counter_owner import CounterOwner
from service.ingest.window_owner import WindowOwner
from switches.rollout.plan import Figures
from telemetry.errors import WindowError
from telemetry.settings import NS_PER_S
from telemetry.state import NetworkState

LATELY_NS = 60_000_000_000  # counters come every few seconds at best, whatever the window


@dataclass(frozen=True, slots=True)
class Mark:
    """When watching began, in the service's seconds, and in the devices' times: None before any report, no
    switch without counters.
    """

    at_s: float
    reports_ns: int | None = None
    counters_ns: Mapping[str, int] = field(default_factory=dict)


class Watcher:
    """Figures of switches from the service's telemetry. ``silence_s`` without a report is silence."""

    def __init__(self, window: WindowOwner, counters: CounterOwner, *, silence_s: float) -> None:
        self._window = window
        self._counters = counters
        self._silence_s = silence_s

    async def mark(self, switches: Sequence[str]) -> Mark:
        """Now, as the devices tell it."""
        at_s, state = self._window.now_s(), await self._state()
        return Mark(at_s, None if state is None else state.window_end_ns, await self._newest_ns(switches))

    async def lately(self, switches: Sequence[str]) -> Figures:
        """The window as it is, and the counters over the same length of time or the last minute."""
        state = await self._state()
        if state is None:
            return Figures()
        lasted_ns = max(state.window_end_ns - state.window_start_ns, LATELY_NS)
        newest_ns = await self._newest_ns(switches)
        since_ns = {switch: at_ns - lasted_ns for switch, at_ns in newest_ns.items()}
        return await self._figures(switches, state, since_ns)

    async def since(self, mark: Mark, switches: Sequence[str]) -> Figures:
        """Since the mark. Queue and throughput are not told until the whole window lies after it."""
        state = await self._state()
        after = state if state is not None and state.window_start_ns >= (mark.reports_ns or 0) else None
        return await self._figures(switches, after, mark.counters_ns)

    def silent(self, mark: Mark) -> str | None:
        """A sentence where telemetry has stopped. Before the first report that counts from the mark on: a
        service that has just started has heard of no sender yet.
        """
        silent_s = self._window.silent_s(mark.at_s)
        if silent_s > self._silence_s:
            return f"no INT report for {silent_s:.0f} s; at most {self._silence_s:g} s are waited"
        return None

    async def _state(self) -> NetworkState | None:
        try:
            return await self._window.state()
        except WindowError:
            return None

    async def _newest_ns(self, switches: Sequence[str]) -> dict[str, int]:
        found = {switch: await self._counters.newest_ns([switch]) for switch in switches}
        return {switch: at_ns for switch, at_ns in found.items() if at_ns is not None}

    async def _figures(
        self, switches: Sequence[str], state: NetworkState | None, since_ns: Mapping[str, int]
    ) -> Figures:
        named = frozenset(switches)
        depth = throughput = None
        if state is not None:
            queues = [queue for queue in state.queues if queue.ref.switch in named]
            depths = [queue.depth_mean_bytes for queue in queues if queue.has_depth]
            depth = sum(depths) / len(depths) if depths else None if queues else 0.0
            throughput = sum(queue.throughput_bytes_per_s for queue in queues)
        ports = 0
        paused, frames, dropped = _Rate(), _Rate(), _Rate()
        # Each by its own clock and over its own time: one that is silent, or slow, neither hides what the
        # others tell nor makes it look like more.
        for switch, newest_ns in (await self._newest_ns(switches)).items():
            if switch not in since_ns or newest_ns <= since_ns[switch]:
                continue
            grown = await self._counters.increase([switch], since_ns[switch], newest_ns)
            if grown.covered_s > 0 and grown.ports:
                ports += grown.ports if grown.counters.pfc_pause_ns is not None else 0
                paused.add(grown.counters.pfc_pause_ns, grown.covered_s)
                frames.add(grown.counters.pfc_tx_frames, grown.covered_s)
                dropped.add(grown.counters.dropped_packets, grown.covered_s)
        return Figures(
            queue_mean_bytes=depth,
            throughput_bytes_per_s=throughput,
            pause_share=None if paused.per_s is None else paused.per_s / NS_PER_S / ports,
            pfc_frames_per_s=frames.per_s,
            drops_per_s=dropped.per_s,
        )


@dataclass(slots=True)
class _Rate:
    """Counts a second of all switches that count; None where none does."""

    per_s: float | None = None

    def add(self, count: int | None, covered_s: float) -> None:
        if count is not None:
            self.per_s = (self.per_s or 0.0) + count / covered_s

"""What telemetry says of some switches since a change: the window's queues, and counters; must not judge it.

Reports and counters carry the devices' clocks, which need not be the service's: what counts as "since" is
told by the newest of their times when the watching began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from api.counting import Counting
from api.sensing import Sensing
from switches.rollout.plan import Figures
from telemetry.errors import WindowError
from telemetry.state import NetworkState

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Mark:
    """Where watching began, in the devices' times; None where there was no telemetry of that kind."""

    reports_ns: int | None
    counters_ns: int | None


class Watcher:
    """Figures of switches from the service's telemetry. ``silence_s`` without a report is silence."""

    def __init__(self, sensing: Sensing, counting: Counting, *, silence_s: float) -> None:
        self._sensing = sensing
        self._counting = counting
        self._silence_s = silence_s

    async def mark(self, switches: Sequence[str]) -> Mark:
        """Now, as the devices tell it."""
        state = await self._state()
        counters_ns = await self._counting.newest_ns(switches)
        return Mark(None if state is None else state.window_end_ns, counters_ns)

    async def lately(self, switches: Sequence[str]) -> Figures:
        """The window as it is, and the counters over the same length of time."""
        state = await self._state()
        if state is None:
            return Figures()
        newest_ns = await self._counting.newest_ns(switches)
        lasted_ns = state.window_end_ns - state.window_start_ns
        since_ns = None if newest_ns is None else newest_ns - lasted_ns
        return await self._figures(switches, state, since_ns)

    async def since(self, mark: Mark, switches: Sequence[str]) -> Figures:
        """Since the mark. Queue and throughput are not told until the whole window lies after it."""
        state = await self._state()
        after = state if state is not None and state.window_start_ns >= (mark.reports_ns or 0) else None
        return await self._figures(switches, after, mark.counters_ns)

    def silent(self) -> str | None:
        """A sentence where telemetry has stopped."""
        age_s = self._sensing.age_s()
        if age_s is None:
            return "no INT report has ever come"
        if age_s > self._silence_s:
            return f"no INT report for {age_s:.0f} s; at most {self._silence_s:g} s are waited"
        return None

    async def _state(self) -> NetworkState | None:
        try:
            return await self._sensing.state()
        except WindowError:
            return None

    async def _figures(
        self, switches: Sequence[str], state: NetworkState | None, counters_since_ns: int | None
    ) -> Figures:
        named = frozenset(switches)
        depth = throughput = None
        if state is not None:
            queues = [queue for queue in state.queues if queue.ref.switch in named]
            depth = sum(queue.depth_mean_bytes for queue in queues) / len(queues) if queues else 0.0
            throughput = sum(queue.throughput_bytes_per_s for queue in queues)
        pause_share = frames_per_s = drops_per_s = None
        newest_ns = await self._counting.newest_ns(switches)
        if counters_since_ns is not None and newest_ns is not None and newest_ns > counters_since_ns:
            grown = await self._counting.increase(switches, counters_since_ns, newest_ns)
            if grown.covered_s > 0 and grown.ports:
                counted = grown.counters
                port_s = grown.covered_s * grown.ports
                pause_share = _rate(counted.pfc_pause_ns, port_s * NS_PER_S)
                frames_per_s = _rate(counted.pfc_tx_frames, grown.covered_s)
                drops_per_s = _rate(counted.dropped_packets, grown.covered_s)
        return Figures(
            queue_mean_bytes=depth,
            throughput_bytes_per_s=throughput,
            pause_share=pause_share,
            pfc_frames_per_s=frames_per_s,
            drops_per_s=drops_per_s,
        )


def _rate(count: int | None, per: float) -> float | None:
    return None if count is None else count / per

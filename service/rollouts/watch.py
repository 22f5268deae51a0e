"""What telemetry shows of some switches since a change: queues of the window, and counters.

Reports and counters carry the devices' clocks, which may differ from the service's: "since" counts from the
newest device time when watching began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rollout.plan import Figures
from service.ingest.counter_owner import CounterOwner
from service.ingest.window_owner import WindowOwner
from telemetry.errors import WindowError
from telemetry.settings import NS_PER_S
from telemetry.state import NetworkState

LATELY_NS = 60_000_000_000  # counters come every few seconds at best, whatever the window


@dataclass(frozen=True, slots=True)
class Mark:
    """When watching began: in the service's seconds, and by the devices' clocks.

    ``None`` before any report; 0 for switches without counters then, as after a restart: all that come later
    are from after it.
    """

    at_s: float
    reports_ns: int | None = None
    counters_ns: Mapping[str, int] = field(default_factory=dict)


class Watcher:
    """Telemetry of some switches, from the service's window and counters; ``silence_s`` without a report is
    silence.
    """

    def __init__(self, window: WindowOwner, counters: CounterOwner, *, silence_s: float) -> None:
        self._window = window
        self._counters = counters
        self._silence_s = silence_s

    async def mark(self, switches: Sequence[str]) -> Mark:
        """A mark at the current time of the devices' clocks."""
        at_s, state = self._window.now_s(), await self._state()
        counters_ns = dict.fromkeys(switches, 0) | await self._newest_ns(switches)
        return Mark(at_s, None if state is None else state.window_end_ns, counters_ns)

    async def lately(self, switches: Sequence[str]) -> Figures:
        """Figures of the window now, and of the counters over its length or at least the last minute."""
        state = await self._state()
        if state is None:
            return Figures()
        lasted_ns = max(state.window_end_ns - state.window_start_ns, LATELY_NS)
        newest_ns = await self._newest_ns(switches)
        since_ns = {switch: at_ns - lasted_ns for switch, at_ns in newest_ns.items()}
        return await self._figures(switches, state, since_ns)

    async def since(self, mark: Mark, switches: Sequence[str]) -> Figures:
        """Figures since the mark. Queue and throughput are None until the whole window lies after it."""
        state = await self._state()
        after = state if state is not None and state.window_start_ns >= (mark.reports_ns or 0) else None
        return await self._figures(switches, after, mark.counters_ns)

    async def counted(self, switches: Sequence[str], mark: Mark | None = None) -> Figures:
        """Figures of the counters alone, since the mark; without one over the last minute."""
        if mark is not None:
            return await self._figures(switches, None, mark.counters_ns)
        newest_ns = await self._newest_ns(switches)
        return await self._figures(
            switches, None, {switch: at_ns - LATELY_NS for switch, at_ns in newest_ns.items()}
        )

    def silent(self, mark: Mark) -> str | None:
        """A sentence if telemetry has stopped, else None.

        Before the first report, silence counts from the mark: a service that has just started has heard no
        sender yet.
        """
        silent_s = self._window.silent_s(mark.at_s)
        if silent_s > self._silence_s:
            return f"no INT report for {silent_s:.0f} s; the limit is {self._silence_s:g} s"
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
        rates: dict[str, float] = {}
        # Each switch by its own clock and over its own time: a silent or slow switch neither hides the
        # others' counters nor inflates them.
        for switch, newest_ns in (await self._newest_ns(switches)).items():
            if switch not in since_ns or newest_ns <= since_ns[switch]:
                continue
            grown = await self._counters.increase([switch], since_ns[switch], newest_ns)
            if grown.covered_s > 0 and grown.ports:
                ports += grown.ports if grown.counters.pfc_pause_ns is not None else 0
                for name in ("pfc_pause_ns", "pfc_tx_frames", "dropped_packets"):
                    if (count := getattr(grown.counters, name)) is not None:
                        rates[name] = rates.get(name, 0.0) + count / grown.covered_s
        paused = rates.get("pfc_pause_ns")
        return Figures(
            queue_mean_bytes=depth,
            throughput_bytes_per_s=throughput,
            pause_share=None if paused is None else paused / NS_PER_S / ports,
            pfc_frames_per_s=rates.get("pfc_tx_frames"),
            drops_per_s=rates.get("dropped_packets"),
        )

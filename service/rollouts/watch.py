"""What telemetry shows of some switches since a change: queues of the window, and counters.

Reports and counters carry the devices' clocks, which may differ from the service's: "since" counts from the
newest device time when watching began.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rollout.plan import Figures
from service.ingest.counter_owner import CounterOwner
from service.ingest.window_owner import WindowOwner
from telemetry.counters.model import CounterIncrease
from telemetry.errors import WindowError
from telemetry.settings import NS_PER_S
from telemetry.state import NetworkState, QueueState

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
        return (await self.lately_each([switches]))[0]

    async def lately_each(self, groups: Sequence[Sequence[str]]) -> list[Figures]:
        """As ``lately``, of the first group, of the first two together, and so on, as stages of a rollout."""
        state = await self._state()
        if state is None:
            return [Figures()] * len(groups)
        lasted_ns = max(state.window_end_ns - state.window_start_ns, LATELY_NS)
        newest_ns = await self._newest_ns([switch for group in groups for switch in group])
        since_ns = {switch: at_ns - lasted_ns for switch, at_ns in newest_ns.items()}
        return await self._figures(groups, state, since_ns)

    async def since(self, mark: Mark, switches: Sequence[str]) -> Figures:
        """Figures since the mark. Queue and throughput are None until the whole window lies after it."""
        state = await self._state()
        after = state if state is not None and state.window_start_ns >= (mark.reports_ns or 0) else None
        return (await self._figures([switches], after, mark.counters_ns))[0]

    async def counted(self, switches: Sequence[str], mark: Mark | None = None) -> Figures:
        """Figures of the counters alone, since the mark; without one over the last minute."""
        if mark is not None:
            since_ns = mark.counters_ns
        else:
            newest_ns = await self._newest_ns(switches)
            since_ns = {switch: at_ns - LATELY_NS for switch, at_ns in newest_ns.items()}
        return (await self._figures([switches], None, since_ns))[0]

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
        self, groups: Sequence[Sequence[str]], state: NetworkState | None, since_ns: Mapping[str, int]
    ) -> list[Figures]:
        """Figures of the first group, of the first two together, and so on; each switch is asked once."""
        queues: defaultdict[str, list[QueueState]] = defaultdict(list)
        for queue in () if state is None else state.queues:
            queues[queue.ref.switch].append(queue)
        sums, found = _Sums(), []
        for group in groups:
            for switch in dict.fromkeys(group):
                sums.add_queues(queues.get(switch, ()))
            # Each switch by its own clock and over its own time: a silent or slow switch neither hides the
            # others' counters nor inflates them.
            for switch, newest_ns in (await self._newest_ns(group)).items():
                if switch in since_ns and newest_ns > since_ns[switch]:
                    sums.add_counters(await self._counters.increase([switch], since_ns[switch], newest_ns))
            found.append(sums.figures(with_queues=state is not None))
        return found


@dataclass(slots=True)
class _Sums:
    """Telemetry of some switches, added up: figures are its means and rates. ``ports`` are those that count
    pauses; ``rates`` are a second, by the counter's name.
    """

    queues: int = 0
    depths: int = 0
    depth_bytes: float = 0.0
    throughput_bytes_per_s: float = 0.0
    ports: int = 0
    rates: dict[str, float] = field(default_factory=dict)

    def add_queues(self, queues: Collection[QueueState]) -> None:
        depths = [queue.depth_mean_bytes for queue in queues if queue.has_depth]
        self.queues += len(queues)
        self.depths += len(depths)
        self.depth_bytes += sum(depths)
        self.throughput_bytes_per_s += sum(queue.throughput_bytes_per_s for queue in queues)

    def add_counters(self, grown: CounterIncrease) -> None:
        if grown.covered_s <= 0 or not grown.ports:
            return
        self.ports += grown.ports if grown.counters.pfc_pause_ns is not None else 0
        for name in ("pfc_pause_ns", "pfc_tx_frames", "dropped_packets"):
            if (count := getattr(grown.counters, name)) is not None:
                self.rates[name] = self.rates.get(name, 0.0) + count / grown.covered_s

    def figures(self, *, with_queues: bool) -> Figures:
        mean_bytes = self.depth_bytes / self.depths if self.depths else None if self.queues else 0.0
        paused = self.rates.get("pfc_pause_ns")
        return Figures(
            queue_mean_bytes=mean_bytes if with_queues else None,
            throughput_bytes_per_s=self.throughput_bytes_per_s if with_queues else None,
            pause_share=None if paused is None else paused / NS_PER_S / self.ports,
            pfc_frames_per_s=self.rates.get("pfc_tx_frames"),
            drops_per_s=self.rates.get("dropped_packets"),
        )

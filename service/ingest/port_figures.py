"""What ports did lately, of the switches that still give counters; must not judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.ingest.counter_owner import Counting
from telemetry.counters.counter_rates import PortRates


@dataclass(frozen=True, slots=True)
class Lately:
    """``ports`` of switches that are not silent; ``silent_s`` how long ago each switch's counters moved.
    ``at_s`` is when it was so.
    """

    ports: tuple[PortRates, ...]
    silent_s: Mapping[str, float]
    at_s: float = 0.0


class PortFigures:
    """``span_s`` is how far back rates reach, by the devices' clocks; counters that have not moved for
    ``stale_after_s`` of ``clock_s`` (monotonic seconds) tell nothing of now.
    """

    def __init__(
        self, counting: Counting, *, span_s: float, stale_after_s: float, clock_s: Callable[[], float]
    ) -> None:
        self._counting = counting
        self._span_ns = max(round(span_s * 1e9), 1)
        self._stale_after_s = stale_after_s
        self._clock_s = clock_s
        self._moved: dict[str, tuple[int, float]] = {}
        self.latest: Lately | None = None
        """What was last told to anybody."""

    async def lately(self) -> Lately:
        """Every port that is known of now. Ask often: a switch's silence is counted from the first asking
        that found nothing new.
        """
        ports, newest_ns = await self._counting.lately(self._span_ns)
        now_s = self._clock_s()
        self._moved = {
            switch: self._moved[switch]
            if switch in self._moved and self._moved[switch][0] == at_ns
            else (at_ns, now_s)
            for switch, at_ns in newest_ns.items()
        }
        silent_s = {switch: now_s - moved_s for switch, (_, moved_s) in self._moved.items()}
        told = tuple(port for port in ports if silent_s[port.switch] <= self._stale_after_s)
        self.latest = Lately(told, silent_s, now_s)
        return self.latest

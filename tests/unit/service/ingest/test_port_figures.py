"""What ports did lately is told of switches that still give counters, and how long the others are silent."""

from __future__ import annotations

from typing import Any, cast

import pytest

from service.ingest.counter_owner import PortMonitor
from telemetry.counters.window import PortRates, Rates

pytestmark = pytest.mark.anyio


class Counts:
    """Counters that come when a test says so."""

    def __init__(self) -> None:
        self.newest_ns = {"leaf1": 1, "leaf2": 1}
        self.spans: list[int] = []

    async def recent(self, span_ns: int) -> tuple[tuple[PortRates, ...], dict[str, int]]:
        self.spans.append(span_ns)
        return tuple(PortRates(name, "1", 1.0, Rates(), {}) for name in self.newest_ns), dict(self.newest_ns)


async def test_a_switch_whose_counters_do_not_move_is_silent_and_then_not_shown() -> None:
    counts, now_s = Counts(), 0.0
    figures = PortMonitor(cast(Any, counts), span_s=2.5, stale_after_s=60.0, clock_s=lambda: now_s)
    assert (await figures.recent()).silent_s == {"leaf1": 0, "leaf2": 0}
    now_s = 60.0
    counts.newest_ns["leaf1"] = 2
    both = await figures.recent()
    assert both.silent_s == {"leaf1": 0, "leaf2": 60}
    assert [port.switch for port in both.ports] == ["leaf1", "leaf2"]
    now_s = 61.0
    one = await figures.recent()
    assert one.silent_s == {"leaf1": 1, "leaf2": 61}
    assert [port.switch for port in one.ports] == ["leaf1"]
    del counts.newest_ns["leaf2"]
    assert (await figures.recent()).silent_s == {"leaf1": 1}
    assert counts.spans == [2_500_000_000] * 4

"""Silent ports and queues make room by the service's clock, whatever the clocks of the switches say."""

from __future__ import annotations

from contextlib import closing

import pytest
from prometheus_client import CollectorRegistry

from service.ingest.counter_owner import CounterOwner
from service.ingest.threads import DecodingThreads, IngestLimits
from service.metrics import Metrics
from telemetry.counters.model import Counters, CounterSample, CounterSettings, SeriesKey

pytestmark = pytest.mark.anyio


async def test_a_full_window_makes_room_by_the_service_s_clock() -> None:
    now_s = 50.0
    with closing(DecodingThreads()) as decoding:
        owner = CounterOwner(
            CounterSettings(max_series=1, horizon_ns=900_000_000_000),
            IngestLimits(1 << 20, 10, 60.0),
            decoding=decoding,
            metrics=Metrics(CollectorRegistry(), version="0"),
            clock_s=lambda: now_s,
        )
        with closing(owner):

            async def accepted(switch: str, ts_ns: int) -> int:
                key = SeriesKey(switch, "Ethernet0", 3)
                return await owner.add([CounterSample(key, ts_ns, Counters(tx_bytes=1))])

            assert await accepted("leaf1", 10**18) == 1
            assert await accepted("ahead", 2 * 10**18) == 0
            now_s += 901.0
            assert await accepted("behind", 1) == 1
            assert await owner.newest_ns() == 1

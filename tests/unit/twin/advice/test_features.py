"""Features are finite, without dimensions, and count what begins together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.unit.twin.fabrics import chained, star
from twin.advice.features import FEATURES, Queue, Scales, features
from twin.scenario import Scenario
from twin.search.gain import POLICIES
from twin.watermark import Watermark

PAIRS = [(1, 0), (2, 0), (3, 0), (4, 5), (1, 5)]
SIZES = [2e6, 5e4, 5e4, 3e5, 2e6]


def named(scenario: Scenario, *, times: float = 1.0) -> dict[str, float]:
    """Features by name, of queues and a watermark so many times as large."""
    incumbent = Watermark(round(10_000 * times), round(40_000 * times), 0.2)
    queue = Queue(5_000.0 * times, 9_000.0 * times)
    row = features(scenario, Scales.of(scenario), queue, incumbent, POLICIES["balanced"])
    return dict(zip(FEATURES, row.tolist(), strict=True))


def test_every_feature_is_a_finite_number() -> None:
    found = named(star(PAIRS, payload_bytes=SIZES))
    assert len(found) == len(FEATURES)
    assert np.isfinite(list(found.values())).all()
    assert np.isfinite(list(named(star(PAIRS, payload_bytes=np.inf)).values())).all()


def test_shares_and_loads_are_those_of_the_bytes() -> None:
    found = named(star(PAIRS, payload_bytes=SIZES))
    assert found["bytes of elephants, share"] == np.float64(4e6 / 4.4e6)
    assert abs(found["bytes of mice, share"] - 1e5 / 4.4e6) < 1e-3
    assert found["bytes that wait for others, share"] == 0.0
    assert named(chained(star(PAIRS)))["bytes that wait for others, share"] == 0.8
    # 2.4 MB to host 5, 48 bytes of 1000 more on the wire, in 20 ms at 100 Gbit/s.
    assert abs(found["load of a receiver, highest"] - 2.3e6 * 1.048 / (0.02 * 12.5e9)) < 1e-4
    assert found["load between switches, highest"] == 0.0


def test_messages_begin_together_at_one_receiver_within_a_round_trip() -> None:
    scenario = star([(1, 0), (2, 0), (3, 0), (4, 5)], payload_bytes=1e4)
    rtt_s = Scales.of(scenario).rtt_s
    starts = np.array([0.0, 0.5, 1.8, 1.9]) * rtt_s
    apart = replace(scenario, flows=replace(scenario.flows, start_s=starts))
    # The second has the first in the round trip before it; the third and the one to host 5 are alone.
    assert abs(named(apart)["messages that begin together, mean, log"] - np.log(5 / 4)) < 1e-9
    assert abs(named(scenario)["messages that begin together, mean, log"] - np.log(7 / 4)) < 1e-9


def test_a_fabric_twice_as_fast_with_twice_the_bytes_looks_the_same() -> None:
    scenario = star(PAIRS, payload_bytes=2e5)
    ports = tuple(replace(one, rate_bytes_per_s=2 * one.rate_bytes_per_s) for one in scenario.ports)
    flows = replace(
        scenario.flows,
        payload_bytes=2 * scenario.flows.payload_bytes,
        start_rate_bytes_per_s=2 * scenario.flows.start_rate_bytes_per_s,
    )
    sizes = {name: 2 * getattr(scenario, name) for name in ("mtu_payload_bytes", "wire_overhead_bytes")}
    dcqcn = scenario.dcqcn
    faster = replace(
        dcqcn,
        ai_rate_bytes_per_s=2 * dcqcn.ai_rate_bytes_per_s,
        hai_rate_bytes_per_s=2 * dcqcn.hai_rate_bytes_per_s,
        byte_counter_bytes=None,
    )
    twice = replace(
        scenario,
        ports=ports,
        flows=flows,
        dcqcn=faster,
        ack_wire_bytes=2 * scenario.ack_wire_bytes,
        buffer_bytes=2 * scenario.buffer_bytes,
        **sizes,
    )
    before, after = named(scenario), named(twice, times=2.0)
    # The offset that keeps empty queues apart from none, and the byte counter's cap, are in bytes.
    for name in FEATURES:
        near = 0.2 if name.startswith("queue") else 0.8 if "byte counter" in name else 1e-9
        assert abs(before[name] - after[name]) <= near, name


def test_congested_ports_are_those_that_queue_a_hundredth_of_the_deepest() -> None:
    assert Queue.over(np.array([100.0, 0.5, 50.0, 0.0])) == Queue(75.0, 100.0)
    assert Queue.over(np.zeros(3)) == Queue(0.0, 0.0)

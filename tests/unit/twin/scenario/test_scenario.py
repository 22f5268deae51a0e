"""A scenario in memory: what a flow takes alone, what is on the wire, and the same problem cut short."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.twin.fabrics import star
from tests.unit.twin.fluid.problems import flow, line
from twin.errors import ScenarioError
from twin.scenario import Scenario, pfc_shares

GBPS = 125e6


def small() -> Scenario:
    return star([(0, 1), (2, 3), (4, 5)], payload_bytes=[500.0, 1_000_000.0, math.inf])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"duration_s": 0.0}, "duration_s: received 0.0; it must be above 0"),
        ({"duration_s": math.nan}, "duration_s"),
        ({"buffer_bytes": math.inf}, "buffer_bytes"),
        ({"mtu_payload_bytes": 0}, "mtu_payload_bytes"),
        ({"wire_overhead_bytes": -1}, "wire_overhead_bytes"),
        ({"ack_wire_bytes": -1}, "ack_wire_bytes"),
        ({"window_s": (0.01, 0.01)}, "window_s"),
        ({"window_s": (0.0, 0.03)}, "window_s"),
        ({"window_s": (-0.01, 0.01)}, "window_s"),
        ({"monitored": ()}, "name at least one port"),
    ],
)
def test_numbers_outside_their_meaning_are_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError, match=says) as raised:
        replace(small(), **changed)
    assert raised.value.where.startswith("scenario 'star'")


def test_a_scenario_needs_traffic() -> None:
    flows = small().flows
    none = replace(
        flows,
        src=(),
        dst=(),
        payload_bytes=flows.payload_bytes[:0],
        start_s=flows.start_s[:0],
        start_rate_bytes_per_s=flows.start_rate_bytes_per_s[:0],
        path_offset=flows.path_offset[:1],
        path_ports=flows.path_ports[:0],
    )
    with pytest.raises(ScenarioError, match="at least one flow"):
        replace(small(), flows=none)


def test_every_packet_carries_its_overhead() -> None:
    scenario = small()
    assert scenario.packet_wire_bytes == 1048
    assert scenario.flow_wire_bytes.tolist() == [548.0, 1_048_000.0, math.inf]
    bare = replace(scenario, wire_overhead_bytes=0)
    assert bare.flow_wire_bytes.tolist() == [500.0, 1_000_000.0, math.inf]


def test_a_flow_alone_by_hand() -> None:
    scenario = small()
    rate, cable_s = 100 * GBPS, 1e-6
    # One short packet, stored and forwarded once, four cables and two acknowledgements' time.
    way_back = 4 * cable_s + 2 * 60 / rate
    assert scenario.alone_s[0] == pytest.approx(548 / rate + 548 / rate + way_back, rel=1e-12)
    assert scenario.alone_s[1] == pytest.approx(1_048_000 / rate + 1048 / rate + way_back, rel=1e-12)
    assert scenario.alone_s[2] == math.inf


def test_alone_the_slowest_cable_counts() -> None:
    scenario = line([flow("a0", "a2", 1_000_000)], rates_gbps=(40.0, 10.0), duration_s=1e-2)
    fast, slow = 40 * GBPS, 10 * GBPS
    expected = 1e6 / slow + 1_000 * 3 / fast + 8e-6
    assert scenario.alone_s[0] == pytest.approx(expected, rel=1e-12)


def test_routes_are_the_distinct_paths() -> None:
    rows = [flow("a0", "a2", 1e5), flow("b0", "b1", 1e5), flow("a0", "a2", 2e5)]
    flows = line(rows, duration_s=1e-3).flows
    paths, of_flow = flows.routes
    assert [paths[route] for route in of_flow] == [flows.path(one) for one in range(3)]
    assert of_flow.tolist() == [0, 1, 0]
    assert len(paths) == 2


def test_ports_know_what_they_are() -> None:
    scenario = small()
    assert scenario.is_nic.tolist() == [True] * 8 + [False] * 8
    assert np.all(scenario.port_rate_bytes_per_s == 100 * GBPS)
    assert np.all(scenario.port_delay_s == 1e-6)


def test_cut_short_it_drops_what_starts_later() -> None:
    rows = [flow("a0", "a2", 1e5, 1e-3 * number) for number in range(10)]
    scenario = line(rows, duration_s=10e-3, window_s=(1e-3, 10e-3))
    short = scenario.until(4e-3)
    assert len(short.flows) == 4
    assert short.duration_s == 4e-3
    assert short.window_s == (pytest.approx(0.4e-3), 4e-3)
    assert short.flows.path(3) == scenario.flows.path(3)
    assert scenario.until(10e-3) is scenario
    assert scenario.until(1.0) is scenario
    # A problem without traffic is none: the first flow stays.
    assert len(scenario.until(1e-9).flows) == 1


@pytest.mark.parametrize(
    ("uplink_gbps", "share"),
    [(10, 1 / 8), (40, 1 / 8), (41, 1 / 4), (80, 1 / 4), (100, 1 / 2), (160, 1 / 2), (320, 1.0), (800, 1.0)],
)
def test_a_faster_port_may_hold_a_larger_share_of_a_buffer(uplink_gbps: float, share: float) -> None:
    scenario = line([flow("a0", "b1")], rates_gbps=(uplink_gbps,))
    shares = {
        (port.node, port.peer): found
        for port, found in zip(scenario.ports, pfc_shares(scenario.ports).tolist(), strict=True)
    }
    assert shares.pop(("s0", "s1")) == shares.pop(("s1", "s0")) == share
    assert set(shares.values()) == {1 / 8}

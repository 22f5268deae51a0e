"""How many packet-hops a scenario is, before anything runs it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.twin.fabrics import star
from twin.scenario import affordable_s, packet_hops

LINE = 12.5e9 / 1048  # full packets a second at 100 Gbit/s


def test_flows_that_end_count_their_packets_and_acknowledgements() -> None:
    scenario = star([(0, 1)], payload_bytes=2e6)
    assert packet_hops(scenario, 0.02) == 2_000 * 2 * 2
    assert packet_hops(replace(scenario, ack_wire_bytes=0), 0.02) == 2_000 * 2


def test_a_window_too_short_for_a_flow_counts_what_its_nic_sends() -> None:
    scenario = star([(0, 1)], payload_bytes=2e6)
    assert packet_hops(scenario, 1e-4) == pytest.approx(1e-4 * LINE * 4, rel=1e-3)


def test_full_ports_carry_no_more_than_their_rate() -> None:
    endless = star([(0, 1), (2, 1), (3, 1)], payload_bytes=np.inf)
    assert packet_hops(endless, 0.02) == pytest.approx(0.02 * LINE * 4, rel=1e-3)
    shared_nic = star([(0, 1), (0, 2), (0, 3)], payload_bytes=np.inf)
    assert packet_hops(shared_nic, 0.02) == pytest.approx(0.02 * LINE * 4, rel=1e-3)


def test_flows_yet_to_start_do_not_count() -> None:
    scenario = star([(0, 1), (2, 3)], payload_bytes=2e6)
    late = replace(scenario, flows=replace(scenario.flows, start_s=np.array([0.0, 0.01])))
    assert packet_hops(late, 0.005) == 2_000 * 4
    assert packet_hops(late, 0.02) == 2 * 2_000 * 4


def test_what_a_budget_buys() -> None:
    endless = star([(0, 1)], payload_bytes=np.inf)
    whole = packet_hops(endless, endless.duration_s)
    assert affordable_s(endless, whole) == endless.duration_s
    half = affordable_s(endless, whole / 2)
    assert half == pytest.approx(endless.duration_s / 2, rel=1e-3)
    assert packet_hops(endless, half) <= whole / 2

"""Scenarios of drawn traffic."""

from __future__ import annotations

import numpy as np

from learn.states import scenario_of
from telemetry.topology import leaf_spine
from twin.packet.plan import FabricPlan
from twin.senders.dcqcn import PAPER
from twin.traffic.base import Traffic


def test_a_flow_waits_for_all_that_it_waits_for_in_the_traffic() -> None:
    topology = leaf_spine(1, 0, 4, rate_gbps=100.0, uplink_gbps=100.0, delay_us=1.0)
    traffic = Traffic(
        src=np.array([0, 1, 2, 2, 3], np.int32),
        dst=np.array([2, 2, 3, 0, 1], np.int32),
        payload_bytes=np.array([1e5, 2e5, 1e5, 1e5, 1e9]),
        start_s=np.array([0.0, 0.0, 0.0, 0.0, 1.0]),
        after_offset=np.array([0, 0, 0, 2, 4, 4]),
        after=np.array([0, 1, 0, 1]),
        gap_s=np.full(5, 1e-6),
    )
    plan = FabricPlan(ports=topology.ports, dcqcn=PAPER, buffer_bytes=4e6, pfc=True)
    flows = scenario_of(traffic, topology, plan, duration_s=1e-3).flows
    assert flows.waits is not None
    begin, after = flows.waits.of_each_flow()
    assert begin.tolist() == [0, 0, 0, 2, 4]  # the last begins too late
    assert after.tolist() == [0, 1, 0, 1]
    assert flows.waits.barrier.max() == 0  # of one barrier

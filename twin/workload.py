"""How much work a scenario is for an engine that carries packets one by one; must import no engine."""

from __future__ import annotations

import numpy as np

from twin.scenario import Scenario


def packet_hops(scenario: Scenario, duration_s: float) -> float:
    """Packets sent until ``duration_s`` × the ports each waits in, acknowledgements included: an estimate.

    What flows offer, each no faster than its NIC, is cut to what its ports carry in that time. A flow through
    several full ports is cut by the tightest, once.
    """
    flows = scenario.flows
    lengths = np.diff(flows.path_offset).astype(np.int64)
    owner = np.repeat(np.arange(len(flows)), lengths)
    crossed = flows.path_ports[: len(owner)]
    rate = scenario.port_rate_bytes_per_s
    active_s = np.maximum(duration_s - flows.start_s, 0.0)
    nic = flows.path_ports[flows.path_offset[:-1]]
    offered = np.minimum(scenario.flow_wire_bytes, active_s * rate[nic])
    load = np.bincount(crossed, weights=offered[owner], minlength=len(rate))
    carried = np.minimum(1.0, rate * duration_s / np.maximum(load, 1.0))
    tightest = np.ones(len(flows))
    np.minimum.at(tightest, owner, carried[crossed])
    packets = np.ceil(offered / scenario.packet_wire_bytes) * tightest
    each_way = 2.0 if scenario.ack_wire_bytes > 0 else 1.0
    return float(np.dot(packets, lengths) * each_way)


def affordable_s(scenario: Scenario, budget: float) -> float:
    """How long the scenario may run, from its start, before it is more than ``budget`` packet-hops."""
    if packet_hops(scenario, scenario.duration_s) <= budget:
        return scenario.duration_s
    low, high = 0.0, scenario.duration_s
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if packet_hops(scenario, middle) <= budget else (low, middle)
    return low

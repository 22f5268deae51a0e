"""Slices of a large fabric: all flows to a sample of its receivers, the rest as measured background.

Receivers are grouped by rack (by port where racks are few), the groups ordered by load and fan-in and dealt
out to equal slices: a systematic sample of each kind. All that reaches a group's ports is in its slice. What
the other flows take at the senders' NICs and bring to the uplinks is recorded in one run of the whole fabric
under the watermark that runs now, and stays as it was there under every other. So slices tell the truth where
bytes wait at ports of one slice's own: at receivers, not at oversubscribed uplinks (``own_share``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twin.prediction import Prediction
from twin.replay.model import ReplayEngine
from twin.scenario import Background, Scenario, reverse_ports
from twin.watermark import Setting

LEAST_RACKS = 8


def last_ports(scenario: Scenario) -> NDArray[np.int32]:
    """Per flow: the switch port to its receiver."""
    flows = scenario.flows
    return flows.path_ports[flows.path_offset[1:] - 1]


def groups(scenario: Scenario) -> list[NDArray[np.int32]]:
    """The ports to receivers that flows have, in groups that stay together, the most loaded first.

    Groups of like load (within a quarter of them) follow each other by fan-in.
    """
    last = last_ports(scenario)
    ports, of_flow = np.unique(last, return_inverse=True)
    _, rack = np.unique([scenario.ports[port].node for port in ports], return_inverse=True)
    group = rack if len(set(rack.tolist())) >= LEAST_RACKS else np.arange(len(ports))
    left_s = np.maximum(scenario.duration_s - scenario.flows.start_s, 0.0)
    nic = scenario.flows.path_ports[scenario.flows.path_offset[:-1]]
    offered = np.minimum(scenario.flow_wire_bytes, left_s * scenario.port_rate_bytes_per_s[nic])
    load = np.bincount(group[of_flow], weights=offered)
    fan_in = np.bincount(group[of_flow])
    quarter = np.argsort(np.argsort(-load, kind="stable")) * 4 // len(load)
    return [ports[group == one].astype(np.int32) for one in np.lexsort((-fan_in, quarter))]


def deal(scenario: Scenario, n_slices: int) -> dict[int, int]:
    """The slice of each port to receivers, below ``n_slices``; forth and back, so that loads are alike."""
    turns = [*range(n_slices), *reversed(range(n_slices))]
    return {
        port: turns[place % len(turns)]
        for place, ports in enumerate(groups(scenario))
        for port in ports.tolist()
    }


def slices(
    scenario: Scenario, slice_of: Mapping[int, int], wanted: Sequence[int], incumbent: Setting, seed: int
) -> tuple[Prediction, list[Scenario], float]:
    """The incumbent's prediction on the whole scenario, the slices ``wanted`` of it, and their own share.

    That is how much of the time that their bytes wait they wait at ports of their own (``own_share``).
    """
    place = {number: at for at, number in enumerate(wanted)}
    group_of = {port: place[number] for port, number in slice_of.items() if number in place}
    prediction, [*brought, everything] = ReplayEngine().record(
        scenario, incumbent, seed=seed, group_of=group_of
    )
    group = np.array([group_of.get(port, -1) for port in last_ports(scenario).tolist()])
    found = [cut(scenario, group == at, everything.without(own)) for at, own in enumerate(brought)]
    return prediction, found, own_share(scenario, brought, everything)


def own_share(scenario: Scenario, brought: Sequence[Background], everything: Background) -> float:
    """The part of the waiting of ``brought`` bytes at switch ports that no others reach.

    Of what arrives at these alone a slice knows how a watermark changes it. Waiting is that of a queue that
    gets what ``everything`` brings it, evenly within a bin.
    """
    switch = ~scenario.is_nic[everything.ports]
    rate = scenario.port_rate_bytes_per_s[everything.ports]
    depth, waiting_s = np.zeros(len(rate)), np.zeros(everything.wire_bytes.shape)
    for at, arrived in enumerate(everything.wire_bytes.T):
        depth = np.maximum(depth + arrived - rate * everything.bin_s, 0.0)
        waiting_s[:, at] = depth / rate
    own, total, all_carried = 0.0, 0.0, everything.wire_bytes.sum(axis=1)
    for one in brought:
        waited = np.sum(one.wire_bytes * waiting_s, axis=1) * switch
        own += float(waited[one.wire_bytes.sum(axis=1) >= 0.99 * all_carried].sum())
        total += float(waited.sum())
    return own / total if total > 0.0 else 1.0


def cut(scenario: Scenario, kept: NDArray[np.bool_], rest: Background) -> Scenario:
    """The flows ``kept``, with what the others bring to all ports, at the ports that matter to these.

    It monitors those monitored ports that no other flow crosses, or all such ports of switches where none is.
    """
    flows = scenario.flows
    inside = np.repeat(kept, np.diff(flows.path_offset))
    crossed = np.zeros(len(scenario.ports), dtype=np.bool_)
    crossed[flows.path_ports[inside]] = True
    shared = np.zeros(len(scenario.ports), dtype=np.bool_)
    shared[flows.path_ports[~inside]] = True
    # Acknowledgements load the other direction: of its own ports those are counted as they go, at shared ones
    # they are a part of the background.
    back = np.array(reverse_ports(scenario.ports))
    own = crossed & ~shared
    matters = crossed.copy()
    matters[back[own & (back >= 0)]] = True
    acknowledged = np.zeros(rest.wire_bytes.shape, dtype=np.float32)
    row_of = np.full(len(scenario.ports) + 1, -1)
    row_of[rest.ports] = np.arange(len(rest.ports))
    other_row = row_of[back[rest.ports]]
    counted = (other_row >= 0) & ~own[rest.ports] & ~matters[back[rest.ports]]
    acknowledged[counted] = rest.wire_bytes[other_row[counted]]
    ratio = np.float32(scenario.ack_wire_bytes / scenario.packet_wire_bytes)
    rest = replace(rest, wire_bytes=rest.wire_bytes + ratio * acknowledged)
    background = rest.at(matters[rest.ports] & (rest.wire_bytes.sum(axis=1) > 0.0))
    last = last_ports(scenario)
    return replace(
        scenario,
        flows=flows.only(kept),
        monitored=tuple(port for port in scenario.monitored if own[port])
        or tuple(np.flatnonzero(own & ~scenario.is_nic).tolist()),
        background=background,
        slice_share=len(np.unique(last[kept])) / len(np.unique(last)),
    )

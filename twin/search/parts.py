"""Splits a scenario into parts that share no port, and scores candidates over all parts.

A flow connects all egress ports it waits in, its NIC included, and, where acknowledgements carry bytes, the
ports they return through. Parts influence each other only through a switch's shared buffer when it is nearly
full; a round therefore predicts the undivided scenario once more before it recommends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twin.prediction import Prediction
from twin.scenario import Scenario, reverse_ports
from twin.search.gain import Gain, joined
from twin.search.score import ScoreName, Scores, Weights, score


@dataclass(frozen=True)
class FleetScores:
    """``fleet`` over all parts, ``parts[part]`` alone, rows candidates; ``traffic_share[part]`` sums to 1."""

    fleet: Scores
    parts: tuple[Scores, ...]
    traffic_share: NDArray[np.float64]


def fleet_scores(
    predictions: Sequence[Sequence[Prediction]],
    incumbent: int,
    weights: Weights,
    pfc: bool,
    persistent_shares: Sequence[float | None],
    gains: Sequence[Sequence[Gain]],
    by: ScoreName,
) -> FleetScores:
    """Scores ``predictions[part][candidate]`` by their ``gains[part][candidate]`` or by the patent's score.

    A part is weighted by the bytes it delivers under the incumbent (row ``incumbent``), so that nine idle
    jobs do not outvote the one that carries most traffic. A candidate must be feasible in every part.
    """
    parts = tuple(
        score(rows, weights, pfc, persistent_share=share).with_gains(own, by)
        for rows, share, own in zip(predictions, persistent_shares, gains, strict=True)
    )
    delivered = np.array([rows[incumbent].goodput_bytes_per_s for rows in predictions], dtype=np.float64)
    delivered = np.where(np.isfinite(delivered), delivered, 0.0)
    share = delivered / delivered.sum() if delivered.sum() > 0 else np.full(len(parts), 1 / len(parts))
    if len(parts) == 1:
        return FleetScores(parts[0], parts, share)
    feasible = np.all([part.feasible for part in parts], axis=0)

    def weighed(columns: Sequence[NDArray[np.float64]], elsewhere: float = np.nan) -> NDArray[np.float64]:
        total = np.zeros(len(feasible))
        for weight, column in zip(share, columns, strict=True):
            total += weight * np.where(feasible, column, 0.0)
        return np.where(feasible, total, elsewhere)

    fleet = Scores(
        score=weighed([part.score for part in parts], -np.inf),
        normalised_score=weighed([part.normalised_score for part in parts], -np.inf),
        feasible=feasible,
        raw={name: weighed([part.raw[name] for part in parts]) for name in parts[0].raw},
        normalised={name: weighed([part.normalised[name] for part in parts]) for name in parts[0].normalised},
        queue_mean_bytes=weighed([part.queue_mean_bytes for part in parts]),
        throughput_is=" and ".join(dict.fromkeys(part.throughput_is for part in parts)),
        queue_is=" and ".join(dict.fromkeys(part.queue_is for part in parts)),
        by=by,
        gains=tuple(joined(row, share.tolist()) for row in zip(*(part.gains for part in parts), strict=True)),
    )
    return FleetScores(fleet, parts, share)


def split_moments(moments: Sequence[Scenario], max_parts: int) -> list[tuple[Scenario, ...]]:
    """The connected components of the (flow, port) graph, the one with most flows first: of each the
    scenarios of all ``moments`` of one fabric's traffic.

    Flows of all moments join ports, so that a part is the same ports in each. Components without flows in
    some moment stay together with others that have; beyond ``max_parts`` so do the smallest, in the last
    part: many tiny problems cost more apart. A part monitors the monitored ports its flows cross, or else
    every switch port they cross; flow and port order are kept.
    """
    flow_part = _flow_components(moments)
    names, sizes = np.unique(np.concatenate(flow_part), return_counts=True)
    if len(names) == 1 or max_parts <= 1:
        return [tuple(moments)]
    always = np.all([np.isin(names, part) for part in flow_part], axis=0)
    apart = np.flatnonzero(always)[np.lexsort((names[always], -sizes[always]))]
    if not len(apart):
        return [tuple(moments)]
    alone = len(apart) if len(apart) == len(names) <= max_parts else max_parts - 1
    groups = [[name] for name in names[apart[:alone]]]
    rest = [name for name in names if [name] not in groups]
    if rest and not all(np.isin(part, rest).any() for part in flow_part):
        rest += groups.pop()
    groups += [rest] if rest else []
    return [
        _part(moments, [np.isin(part, group) for part in flow_part], f"part {number}")
        for number, group in enumerate(groups, start=1)
    ]


def _flow_components(moments: Sequence[Scenario]) -> list[NDArray[np.int32]]:
    """Per moment, of each flow: its component, numbered by first appearance."""
    from scipy.sparse import coo_array  # imported here: see twin/arrivals/sizes.py
    from scipy.sparse.csgraph import connected_components

    n_ports = len(moments[0].ports)
    back_of = np.array(reverse_ports(moments[0].ports))
    owners, ports, n_flows = [], [], 0
    for scenario in moments:
        flows = scenario.flows
        owner, port = np.repeat(np.arange(len(flows)), np.diff(flows.path_offset)), flows.path_ports
        if scenario.ack_wire_bytes > 0:
            back = back_of[port]
            owner = np.concatenate([owner, owner[back >= 0]])
            port = np.concatenate([port, back[back >= 0]])
        owners.append(n_flows + owner)
        ports.append(port)
        n_flows += len(scenario.flows)
    owner, port = np.concatenate(owners), np.concatenate(ports)
    size = n_flows + n_ports
    graph = coo_array((np.ones(len(owner), dtype=np.int8), (owner, n_flows + port)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    _, first, component = np.unique(label[:n_flows], return_index=True, return_inverse=True)
    component = np.argsort(np.argsort(first))[component].astype(np.int32)
    return np.split(component, np.cumsum([len(scenario.flows) for scenario in moments])[:-1])


def _part(moments: Sequence[Scenario], kept: Sequence[NDArray[np.bool_]], name: str) -> tuple[Scenario, ...]:
    """The flows ``kept`` of each moment, on the ports that any of them crosses."""
    flows_of = [scenario.flows.only(marks) for scenario, marks in zip(moments, kept, strict=True)]
    crossed = np.unique(np.concatenate([flows.path_ports for flows in flows_of]))
    first = moments[0]
    back = np.array(reverse_ports(first.ports))[crossed]
    ports = np.unique(np.concatenate([crossed, back[back >= 0]]))
    new_index = np.full(len(first.ports), -1, dtype=np.int64)
    new_index[ports] = np.arange(len(ports))
    crossed_set = set(crossed.tolist())
    monitored = [port for port in first.monitored if port in crossed_set] or [
        port for port in crossed_set if not first.is_nic[port]
    ]
    nodes = {first.ports[port].node for port in ports}
    return tuple(
        replace(
            scenario,
            name=f"{scenario.name} {name}",
            senders={host: sender for host, sender in scenario.senders.items() if host in nodes},
            ports=tuple(scenario.ports[port] for port in ports),
            flows=replace(flows, path_ports=new_index[flows.path_ports].astype(np.int32)),
            monitored=tuple(int(new_index[port]) for port in sorted(monitored)),
        )
        for scenario, flows in zip(moments, flows_of, strict=True)
    )

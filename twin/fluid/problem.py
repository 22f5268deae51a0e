"""Converts a scenario to the kernels' arrays: packets and seconds, like flows merged, ports renumbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError, ScenarioError
from twin.fluid._arrays import Clock, Fabric, Groups, Sender
from twin.fluid._math import MOST_FAST_RECOVERY
from twin.probe._draws import Paths, ProbePaths
from twin.probe.figures import block_ends, drawn_paths, probe_paths
from twin.scenario import Scenario, pfc_shares, reverse_ports

# Headroom and reserve a port of the reference switches (ns-3 RoCEv2), and where a pause ends.
PFC_HEADROOM_DELAYS = 3.0
PFC_RESERVE_BYTES = 4096.0
PFC_RESUME_BYTES = 3000.0  # the other engines take 3072, which would move this engine's figures

FINE_STEP_S = 1e-6
COARSE_STEP_S = 5e-6
LONGEST_RING = 8192
PROBE_INSTANTS = 1024  # averaged equations move smoothly


@dataclass(frozen=True)
class Problem:
    """A scenario for the kernels.

    ``group_of_flow[flow]`` names the group a flow was merged into; ``monitored`` indexes the switch ports in
    ``Fabric``'s order; ``packet_bytes`` is a full packet on the wire.
    """

    groups: Groups
    fabric: Fabric
    sender: Sender
    clock: Clock
    monitored: NDArray[np.int64]
    group_of_flow: NDArray[np.int64]
    packet_bytes: float
    switches: int
    probed: ProbePaths
    drawn: Paths


def build(scenario: Scenario, step_s: float | None) -> Problem:
    """The scenario in kernel units.

    Raises ``ScenarioError`` for a path without a switch or senders other than DCQCN, ``ParameterError`` for a
    bad step.
    """
    scenario.check_dcqcn("fluid")
    scenario.check_one_dcqcn("fluid")
    packet = float(scenario.packet_wire_bytes)
    paths = [scenario.flows.path(flow) for flow in range(len(scenario.flows))]
    _check_paths(scenario, paths)
    group_of_flow, first_flow, counts, solo = _merge(scenario, paths)
    switch_ports = _switch_ports(scenario, paths)
    port_of = {port: index for index, port in enumerate(switch_ports)}
    nic_ports, nic_of_group = _nics(paths, first_flow, solo)
    groups = _groups(scenario, paths, first_flow, counts, nic_of_group, port_of, packet)
    links = np.ones(len(nic_ports) + len(switch_ports))
    for group, nic in enumerate(nic_of_group):
        if solo[group]:
            links[nic] = counts[group]
    shared_nics = {nic_ports[nic] for group, nic in enumerate(nic_of_group) if not solo[group]}
    fabric, switches = _fabric(
        scenario, [*nic_ports, *switch_ports], len(nic_ports), links, shared_nics, packet
    )
    params = scenario.dcqcn
    if params.fast_recovery_steps > MOST_FAST_RECOVERY:
        rule = f"the fluid engine takes up to {MOST_FAST_RECOVERY}, as NICs do"
        raise ParameterError("dcqcn fast_recovery_steps", str(params.fast_recovery_steps), rule, "lower it")
    sender = Sender(
        gain=params.gain,
        cnp_interval=params.cnp_interval_s,
        alpha_timer=params.alpha_timer_s,
        increase_timer=params.increase_timer_s,
        byte_counter=(params.byte_counter_bytes or 0.0) / packet,
        fast_recovery=params.fast_recovery_steps,
        additive=params.ai_rate_bytes_per_s / packet,
        min_rate=params.min_rate_bytes_per_s / packet,
        initial_alpha=params.initial_alpha,
    )
    rates = scenario.port_rate_bytes_per_s / packet
    probed = probe_paths(*scenario.flows.routes, scenario.packet_alone_s, rates, port_of)
    clock = _clock(scenario, groups, fabric, sender, step_s)
    drawn, every = drawn_paths(probed, clock.window_end - clock.window_begin, PROBE_INSTANTS)
    return Problem(
        groups=groups,
        fabric=fabric,
        sender=sender,
        clock=clock._replace(probe_every=every),
        monitored=np.array([port_of[port] for port in scenario.monitored], dtype=np.int64),
        group_of_flow=group_of_flow,
        packet_bytes=packet,
        switches=switches,
        probed=probed,
        drawn=drawn,
    )


def _check_paths(scenario: Scenario, paths: Sequence[tuple[int, ...]]) -> None:
    for flow, path in enumerate(paths):
        if len(path) < 2 or not scenario.is_nic[path[0]] or any(scenario.is_nic[list(path[1:])]):
            where = f"scenario {scenario.name!r} flow {flow} from {scenario.flows.src[flow]}"
            rule = "a path is the sender's NIC and at least one switch port"
            remedy = "route the flow through a switch"
            raise ScenarioError(where, f"a path of {len(path)} ports", rule, remedy)
    for port in scenario.monitored:
        if scenario.is_nic[port]:
            received = f"the NIC of {scenario.ports[port].node!r}"
            rule = "queues that mark are those of switches"
            remedy = "monitor a switch's port"
            raise ScenarioError(f"scenario {scenario.name!r} monitored_ports", received, rule, remedy)


def _merge(
    scenario: Scenario, paths: Sequence[tuple[int, ...]]
) -> tuple[NDArray[np.int64], list[int], list[int], list[bool]]:
    """Merges flows that cannot differ: same path, size, start and rate, each alone on a like NIC."""
    flows = scenario.flows
    users: dict[int, int] = {}
    for path in paths:
        users[path[0]] = users.get(path[0], 0) + 1
    seen: dict[tuple[object, ...], int] = {}
    group_of_flow = np.empty(len(flows), dtype=np.int64)
    first_flow: list[int] = []
    counts: list[int] = []
    solo: list[bool] = []
    for flow in np.argsort(flows.start_s, kind="stable").tolist():
        nic = paths[flow][0]
        alone = users[nic] == 1
        port = scenario.ports[nic]
        sender: object = (port.rate_bytes_per_s, port.delay_s, port.peer) if alone else nic
        key = (
            alone,
            sender,
            paths[flow][1:],
            flows.payload_bytes[flow],
            flows.start_s[flow],
            flows.start_rate_bytes_per_s[flow],
        )
        if key not in seen:
            seen[key] = len(first_flow)
            first_flow.append(flow)
            counts.append(0)
            solo.append(alone)
        counts[seen[key]] += 1
        group_of_flow[flow] = seen[key]
    return group_of_flow, first_flow, counts, solo


def _switch_ports(scenario: Scenario, paths: Sequence[tuple[int, ...]]) -> list[int]:
    used = {port for path in paths for port in path[1:]}
    return sorted(used | set(scenario.monitored))


def _nics(
    paths: Sequence[tuple[int, ...]], first_flow: Sequence[int], solo: Sequence[bool]
) -> tuple[list[int], list[int]]:
    """A NIC row for each shared NIC and for each merged group; the row of each group."""
    ports: list[int] = []
    shared: dict[int, int] = {}
    of_group: list[int] = []
    for flow, alone in zip(first_flow, solo, strict=True):
        nic = paths[flow][0]
        if alone or nic not in shared:
            shared[nic] = len(ports)
            ports.append(nic)
        of_group.append(shared[nic])
    return ports, of_group


def _groups(
    scenario: Scenario,
    paths: Sequence[tuple[int, ...]],
    first_flow: Sequence[int],
    counts: Sequence[int],
    nic_of_group: Sequence[int],
    port_of: dict[int, int],
    packet: float,
) -> Groups:
    flows = scenario.flows
    rates, delays = scenario.port_rate_bytes_per_s, scenario.port_delay_s
    hops = np.full((len(first_flow), max(len(paths[flow]) - 1 for flow in first_flow)), -1, dtype=np.int64)
    round_trip, tail, line = (np.empty(len(first_flow)) for _ in range(3))
    for group, flow in enumerate(first_flow):
        path = list(paths[flow])
        hops[group, : len(path) - 1] = [port_of[port] for port in path[1:]]
        last = (
            min(float(flows.payload_bytes[flow]), scenario.mtu_payload_bytes) + scenario.wire_overhead_bytes
        )
        way = float(delays[path].sum())
        round_trip[group] = 2 * way + float(np.sum((packet + scenario.ack_wire_bytes) / rates[path]))
        acks = float(np.sum(scenario.ack_wire_bytes / rates[path]))
        tail[group] = 2 * way + float(np.sum(last / rates[path[1:]])) + acks
        line[group] = rates[path[0]] / packet
    return Groups(
        start=flows.start_s[first_flow].astype(np.float64),
        size=scenario.flow_wire_bytes[first_flow] / packet,
        start_rate=np.minimum(flows.start_rate_bytes_per_s[first_flow] / packet, line),
        line_rate=line,
        flows=np.array(counts, dtype=np.float64),
        round_trip=round_trip,
        tail=tail,
        nic=np.array(nic_of_group, dtype=np.int64),
        hops=hops,
        hop_count=np.array([len(paths[flow]) - 1 for flow in first_flow], dtype=np.int64),
    )


def _fabric(
    scenario: Scenario,
    senders: Sequence[int],
    nics: int,
    links: NDArray[np.float64],
    shared_nics: set[int],
    packet: float,
) -> tuple[Fabric, int]:
    ports = scenario.ports
    switch_of = {name: i for i, name in enumerate(dict.fromkeys(p.node for p in ports if p.port is not None))}
    reserved = np.zeros(max(len(switch_of), 1))
    for port in ports:
        if port.port is not None:
            headroom = PFC_HEADROOM_DELAYS * port.rate_bytes_per_s * port.delay_s
            reserved[switch_of[port.node]] += headroom + PFC_RESERVE_BYTES
    pool = np.maximum(scenario.buffer_bytes - reserved, scenario.buffer_bytes / 8) / packet
    # Acknowledgements are followed between single links only: a merged NIC stands for several.
    row_of = {port: row for row, port in enumerate(senders) if links[row] == 1}
    back = reverse_ports(ports)
    reverse = [row_of.get(back[port], -1) if links[row] == 1 else -1 for row, port in enumerate(senders)]
    shared = np.array([port in shared_nics for port in senders], dtype=np.bool_)
    homes = [switch_of[ports[port].node] for port in senders[nics:]]
    fabric = Fabric(
        nics=nics,
        capacity=scenario.port_rate_bytes_per_s[list(senders)] / packet,
        links=links,
        reverse=np.array(reverse, dtype=np.int64),
        limited=shared | (np.array(reverse) >= 0) | scenario.pfc,
        ack_ratio=scenario.ack_wire_bytes / packet,
        into=np.array([switch_of.get(ports[port].peer, -1) for port in senders], dtype=np.int64),
        home=np.array(homes, dtype=np.int64),
        pool=pool,
        pfc_share=pfc_shares(ports)[list(senders)],
        buffer=scenario.buffer_bytes / packet,
        shared_buffer=len(set(homes)) < len(homes),
        resume=PFC_RESUME_BYTES / packet,
        pfc=scenario.pfc,
    )
    return fabric, len(reserved)


def _clock(scenario: Scenario, groups: Groups, fabric: Fabric, sender: Sender, step_s: float | None) -> Clock:
    """The step: 5 µs for persistent flows at a given delay without PFC, else 1 µs.

    At most a quarter of the sender's fastest time constant, and a whole fraction of a given delay, so that
    delayed values fall on the grid.
    """
    delay = scenario.dcqcn.feedback_delay_s
    if step_s is None:
        steady = delay is not None and not scenario.pfc and bool(np.all(np.isinf(groups.size)))
        target = COARSE_STEP_S if steady else FINE_STEP_S
        fastest = min(sender.cnp_interval, sender.increase_timer, sender.alpha_timer / sender.gain)
        if sender.byte_counter > 0:
            fastest = min(fastest, sender.byte_counter / float(groups.line_rate.max()))
        target = min(target, 0.25 * fastest)
    else:
        target = step_s
        if not (np.isfinite(step_s) and 0 < step_s <= scenario.duration_s):
            rule = "a step is above 0 and within the scenario"
            raise ParameterError("fluid step_s", str(step_s), rule, "give such as 1e-6")
    delay_steps = 0
    step = target
    if delay is not None:
        delay_steps = max(1, int(np.ceil(delay / target * (1 - 1e-9))))
        step = delay / delay_steps
    steps = max(1, round(scenario.duration_s / step))
    begin = min(round(scenario.window_s[0] / step), steps - 1)
    end = min(max(round(scenario.window_s[1] / step), begin + 1), steps)
    if delay_steps:
        rows = delay_steps + 2
    else:
        waits = np.where(
            groups.hops >= 0, fabric.buffer / fabric.capacity[fabric.nics :][groups.hops], 0.0
        ).sum(axis=1)
        rows = int(np.max(groups.round_trip + waits) / step) + 4
        rows = min(rows, steps + 4, LONGEST_RING)
    return Clock(
        step=step,
        steps=steps,
        window_begin=begin,
        window_end=end,
        delay_steps=delay_steps,
        ring=1 << (rows - 1).bit_length(),
        track=scenario.pfc or groups.hops.shape[1] > 1,
        block_ends=block_ends(begin, end),
        probe_every=1,
    )

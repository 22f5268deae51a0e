"""Small fabrics for the packet engine's tests, and what their state must look like at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from telemetry.topology import GBPS, EgressPort, Host, Link, Topology, leaf_spine
from twin.packet import layout
from twin.packet.fabric import Fabric
from twin.packet.layout import RESERVE_BYTES, PacketSettings
from twin.packet.plan import FabricPlan
from twin.packet.results import Completions, Samples
from twin.scenario import Background
from twin.senders.dcqcn import PAPER, DcqcnParams
from twin.watermark import Watermark

CHURNING: DcqcnParams = replace(PAPER, byte_counter_bytes=None, min_rate_bytes_per_s=0.1 * GBPS)
NEVER = Watermark(30_000_000, 31_000_000, 1.0)  # marks nothing in a buffer of any size used here


def star(n_hosts: int, *, rate_gbps: float = 100.0, delay_us: float = 1.0, **kept: Any) -> FabricPlan:
    """Hosts h0 … on one switch; ports alternate: h0's NIC, the switch's port to h0, h1's NIC, …"""
    links = [Link(f"h{n}", "s", rate_gbps, delay_us, b_port=f"e{n}") for n in range(n_hosts)]
    return plan(Topology(tuple(Host(f"h{n}") for n in range(n_hosts)), ("s",), tuple(links)), **kept)


def line(
    n_switches: int,
    *,
    rates_gbps: Sequence[float] = (100.0,),
    edge_gbps: float = 100.0,
    delay_us: float = 1.0,
    **kept: Any,
) -> FabricPlan:
    """Switches s0 - s1 - …, two hosts each (h0 and h1 on s0, …); the last rate serves the rest."""
    hosts = tuple(Host(f"h{n}") for n in range(2 * n_switches))
    links = [
        Link(host.name, f"s{n // 2}", edge_gbps, delay_us, b_port=f"e{n}") for n, host in enumerate(hosts)
    ]
    for k in range(n_switches - 1):
        rate = rates_gbps[min(k, len(rates_gbps) - 1)]
        links.append(Link(f"s{k}", f"s{k + 1}", rate, delay_us, a_port="right", b_port="left"))
    return plan(Topology(hosts, tuple(f"s{k}" for k in range(n_switches)), tuple(links)), **kept)


def two_tiers(n_leaves: int, n_spines: int, hosts_per_leaf: int, **kept: Any) -> FabricPlan:
    """A leaf-spine fabric of 100 Gbit/s."""
    return plan(leaf_spine(n_leaves, n_spines, hosts_per_leaf), **kept)


def plan(topology: Topology, *, dcqcn: DcqcnParams = CHURNING, **kept: Any) -> FabricPlan:
    return FabricPlan(ports=topology.ports, dcqcn=dcqcn, **kept)


def port_between(fabric: FabricPlan, node: str, peer: str) -> int:
    """The egress port of ``node`` towards ``peer``."""
    [found] = [index for index, port in enumerate(fabric.ports) if (port.node, port.peer) == (node, peer)]
    return found


def running(
    fabric: FabricPlan,
    *,
    watermark: Watermark = NEVER,
    seed: int = 1,
    sampling_rate: float = 0.0,
    background: Background | None = None,
    **settings: Any,
) -> Fabric:
    """A fabric whose settings are given by name, looked at seldom unless they say otherwise."""
    settings.setdefault("queue_sample_s", 1e-5)
    return Fabric(
        fabric,
        watermark=watermark,
        seed=seed,
        settings=PacketSettings(**settings),
        sampling_rate=sampling_rate,
        background=background,
    )


def faster(port: EgressPort, factor: float) -> EgressPort:
    """The same port in a world where everything happens ``factor`` times as fast."""
    return replace(port, rate_bytes_per_s=port.rate_bytes_per_s * factor, delay_s=port.delay_s / factor)


def joined(parts: Sequence[Completions]) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of several slices' completions, one after another."""
    names = ("flow", "src", "dst", "payload_bytes", "start_s", "end_s", "alone_s")
    return {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}


def columns(samples: Samples) -> dict[str, np.ndarray[Any, Any]]:
    return {name: getattr(samples, name) for name in Samples.__slots__}


def free_slots(fabric: Fabric) -> set[int]:
    state = fabric._state
    found, slot = set(), int(state.clock["free_packet"][0])
    while slot >= 0:
        assert slot not in found
        found.add(slot)
        slot = int(state.packets["next"][slot])
    return found


def waiting_at(fabric: Fabric, port: int) -> list[int]:
    """Slots of the data packets that wait at a switch port, first first."""
    state = fabric._state
    found, slot = [], int(state.ports["head"][port])
    while slot >= 0:
        found.append(slot)
        slot = int(state.packets["next"][slot])
    return found


def active_flows(fabric: Fabric) -> int:
    """Flows that have begun and are not over."""
    states = fabric._flows.rows["state"][fabric._flows.live]
    return int(np.count_nonzero(states != layout.WAITING))


def inside_bytes(fabric: Fabric) -> float:
    """Payload of all data packets waiting or on a cable."""
    packets = fabric._state.packets
    data = packets["kind"] == layout.DATA
    data[list(free_slots(fabric))] = False
    return float((packets["wire"][data] - fabric.plan.wire_overhead_bytes).sum())


def check_books(fabric: Fabric) -> None:
    """Every sum a fabric keeps, counted again packet by packet."""
    state, plan = fabric._state, fabric.plan
    measured = fabric.measured()
    gone = measured.delivered_bytes + measured.dropped_bytes + measured.discarded_bytes
    assert measured.injected_bytes == gone + inside_bytes(fabric)
    assert len(free_slots(fabric)) == state.clock["free_packets"][0]

    from_ingress = np.zeros(len(plan.ports))
    for port in plan.switch_ports:
        queued = waiting_at(fabric, port)
        row = state.ports[port]
        assert np.all(state.packets["kind"][queued] == layout.DATA)
        assert np.all(state.places[state.packets["place"][queued]] == port)
        assert row["depth"] == state.packets["wire"][queued].sum()
        came_by = state.places[state.packets["place"][queued] - 1]
        np.add.at(from_ingress, came_by, state.packets["wire"][queued].astype(float))
    switch_of = state.ports["switch"]
    waiting = np.zeros(len(plan.switches))
    np.add.at(waiting, switch_of[switch_of >= 0], state.ports["depth"][switch_of >= 0])
    assert np.array_equal(state.switches["waiting"], waiting)
    held, headroom = state.ports["held"], state.ports["headroom_held"]
    if not plan.pfc:
        assert np.all(waiting <= plan.buffer_bytes)
        assert not held.any()
        assert not headroom.any()
        assert not state.ports["pauses"].any()
        return
    assert np.array_equal(held + headroom, from_ingress)
    assert held.min() >= 0
    assert np.all((headroom >= 0) & (headroom <= state.ports["headroom"]))
    used = np.zeros(len(plan.switches))
    names = {name: number for number, name in enumerate(plan.switches)}
    for index, cable in enumerate(plan.ports):
        if cable.peer in names:
            used[names[cable.peer]] += max(held[index] - RESERVE_BYTES, 0.0)
    assert np.array_equal(state.switches["used"], used)
    assert np.all(used <= state.switches["shared"])


def check_silence(fabric: Fabric) -> None:
    """Nothing is left of traffic that is over."""
    state = fabric._state
    check_books(fabric)
    assert active_flows(fabric) == 0
    assert inside_bytes(fabric) == 0
    assert len(free_slots(fabric)) == len(state.packets) - len(fabric.plan.ports)
    assert state.clock["timers"][0] == 0
    assert not state.flows["pending"].any()
    for name in ("depth", "held", "headroom_held", "paused", "pausing", "scheduled"):
        assert not state.ports[name].any(), name
    assert np.all(state.ports["head"] == -1)
    assert not state.switches["used"].any()
    assert not state.switches["waiting"].any()
    assert np.all(state.buckets == -1)

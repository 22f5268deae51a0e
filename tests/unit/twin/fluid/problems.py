"""Small problems for the fluid engine's tests: one switch, and a line of switches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from telemetry.topology import GBPS, Host, Link, Topology
from twin.scenario import Scenario
from twin.scenario_file import flows_from_rows
from twin.senders.dcqcn import PAPER, DcqcnParams

STEADY = replace(PAPER, feedback_delay_s=85e-6)
CHURNING = replace(PAPER, byte_counter_bytes=None, min_rate_bytes_per_s=0.1 * GBPS)


def flow(
    src: str, dst: str, size: float | None = None, start_s: float = 0.0, rate_gbps: float | None = None
) -> dict[str, Any]:
    """One row of a flows table; ``size`` None never ends."""
    row: dict[str, Any] = {"src": src, "dst": dst, "bytes": size, "start_s": start_s}
    return row if rate_gbps is None else row | {"start_rate_gbps": rate_gbps}


def star(
    flows: Sequence[Mapping[str, Any]],
    *,
    hosts: int = 4,
    to: str | None = None,
    rate_gbps: float = 40.0,
    delay_us: float = 1.0,
    dcqcn: DcqcnParams = STEADY,
    duration_s: float = 0.01,
    window_s: tuple[float, float] | None = None,
    **kept: Any,
) -> Scenario:
    """Hosts h0… on one switch.

    The port to ``to`` (the last host) is monitored. 1000-byte packets, no overhead.
    """
    names = [f"h{i}" for i in range(hosts)]
    links = [Link(name, "sw", rate_gbps, delay_us, None, f"Ethernet{i}") for i, name in enumerate(names)]
    topology = Topology(tuple(Host(name) for name in names), ("sw",), tuple(links))
    return problem(topology, flows, [("sw", to or names[-1])], dcqcn, duration_s, window_s, **kept)


def line(
    flows: Sequence[Mapping[str, Any]],
    *,
    rates_gbps: Sequence[float] = (40.0, 40.0),
    dcqcn: DcqcnParams = CHURNING,
    duration_s: float = 0.01,
    window_s: tuple[float, float] | None = None,
    **kept: Any,
) -> Scenario:
    """Switches s0-s1-…, two hosts a switch (a0, b0, a1, b1, …); the ports along the line are monitored."""
    count = len(rates_gbps) + 1
    switches = tuple(f"s{i}" for i in range(count))
    hosts = tuple(Host(f"{side}{i}") for i in range(count) for side in "ab")
    links = [
        Link(f"{side}{i}", f"s{i}", 40.0, 1.0, None, f"Host{side}") for i in range(count) for side in "ab"
    ] + [Link(f"s{i}", f"s{i + 1}", rate, 1.0, "East", "West") for i, rate in enumerate(rates_gbps)]
    topology = Topology(hosts, switches, tuple(links))
    monitored = [(f"s{i}", f"s{i + 1}") for i in range(count - 1)]
    return problem(topology, flows, monitored, dcqcn, duration_s, window_s, **kept)


def problem(
    topology: Topology,
    flows: Sequence[Mapping[str, Any]],
    monitored: Sequence[tuple[str, str]],
    dcqcn: DcqcnParams,
    duration_s: float,
    window_s: tuple[float, float] | None,
    **kept: Any,
) -> Scenario:
    """A scenario on a topology; monitored ports by (switch, neighbour)."""
    ends = [(port.node, port.peer) for port in topology.ports]
    settings: dict[str, Any] = {
        "mtu_payload_bytes": 1000,
        "wire_overhead_bytes": 0,
        "ack_wire_bytes": 0,
        "buffer_bytes": 32_000_000.0,
        "pfc": False,
    }
    return Scenario(
        name="small",
        ports=topology.ports,
        flows=flows_from_rows(topology, flows),
        monitored=tuple(ends.index(pair) for pair in monitored),
        dcqcn=dcqcn,
        duration_s=duration_s,
        window_s=window_s or (0.0, duration_s),
        **(settings | kept),
    )


def same(a: float, b: float) -> bool:
    """Equal to 12 digits, NaN to NaN."""
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300)

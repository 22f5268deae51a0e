"""Elephants from one leaf to another over four uplinks, on packets, and what INT tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from lab.reports import ReportWriter
from telemetry.decode.json import decode
from telemetry.settings import WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology, leaf_spine
from telemetry.window.window import Window
from twin.packet.fabric import Fabric
from twin.packet.plan import FabricPlan
from twin.scenario import Flows, Scenario
from twin.senders.dcqcn import VENDOR
from twin.watermark import Watermark

FABRIC = leaf_spine(2, 4, 8)
UPLINKS = tuple(f"Ethernet{number}" for number in range(8, 12))
ON_TWO_OF_FOUR = (0, 1) * 4  # the spine of each elephant, h0 → h8, h1 → h9, ...
EVEN = (0, 1, 2, 3) * 2
RUNNING = Watermark(400_000, 1_600_000, 0.2)
RATE = 1 / 1000


def over(
    spines: Sequence[int],
    *,
    payload_bytes: float = np.inf,
    duration_s: float = 0.04,
    topology: Topology = FABRIC,
) -> Scenario:
    """The k-th elephant goes from host k of the first leaf to host k of the second by that spine."""
    paths = []
    for number, spine in enumerate(spines):
        src, dst = f"h{number}", f"h{number + 8}"
        walk = [src, "leaf1", f"spine{spine + 1}", "leaf2", dst]
        of_link = {(port.node, port.peer): index for index, port in enumerate(topology.ports)}
        paths.append([of_link[step] for step in pairwise(walk)])
    count = len(spines)
    nic = topology.ports[paths[0][0]].rate_bytes_per_s
    return Scenario(
        name="uplinks",
        ports=topology.ports,
        flows=Flows(
            src=tuple(f"h{number}" for number in range(count)),
            dst=tuple(f"h{number + 8}" for number in range(count)),
            payload_bytes=np.full(count, payload_bytes),
            start_s=np.arange(count) * 1e-6,
            start_rate_bytes_per_s=np.full(count, nic),
            path_offset=np.arange(0, 4 * count + 1, 4, dtype=np.int32),
            path_ports=np.array(paths, dtype=np.int32).ravel(),
        ),
        monitored=tuple(index for index, port in enumerate(topology.ports) if port.port is not None),
        dcqcn=VENDOR,
        duration_s=duration_s,
        window_s=(0.1 * duration_s, duration_s),
    )


def recorded(scenario: Scenario, *, seed: int = 1, rate: float = RATE, topology: Topology = FABRIC) -> bytes:
    """What INT reports of it, from packets, as the lab writes it."""
    plan = FabricPlan.of(scenario)
    fabric = Fabric(plan, watermark=RUNNING, seed=seed, sampling_rate=rate, monitored=scenario.monitored)
    fabric.offer_routed(scenario.flows)
    samples = fabric.advance(scenario.duration_s).samples
    addresses = {host.name: host.ip for host in topology.hosts}
    writer = ReportWriter(plan, addresses, sampling_rate=rate)
    return b"".join(body.content for body in writer.bodies(samples))


def seen(reports: bytes, topology: Topology | None = FABRIC) -> NetworkState:
    """Those reports as one window."""
    batch = decode(reports).batch
    window = Window(WindowSettings.covering(batch), topology)
    window.add(batch)
    return window.state()


def without_paths(state: NetworkState) -> NetworkState:
    """The same window where no flow's path is known."""
    unknown = np.full(len(state.flows), -1, dtype=np.int32)
    return replace(state, flows=replace(state.flows, path=unknown))

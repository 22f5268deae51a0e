"""What a policy does once flows have settled: many to one, in the packet fabric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from learn.rlcc import UNREAD, Lesson
from twin.packet.fabric import Fabric
from twin.packet.layout import PacketSettings
from twin.packet.plan import FabricPlan
from twin.packet.policies import DECISION
from twin.senders.artefact import Policy
from twin.senders.dcqcn import PAPER

SETTLED_S, MEASURED_S = 0.1, 0.04
_MOST_DECISIONS = 1_000_000
_INFLATION = DECISION.index("inflation")


@dataclass(frozen=True, slots=True)
class Settled:
    """``inflation`` is RTT ÷ RTT0 over all probes, ``utilisation`` the share of what the link can carry of
    payload, ``jain`` Jain's index of the flows' goodput.
    """

    flows: int
    inflation: float
    inflation_p99: float
    utilisation: float
    jain: float


def settled(policy: Policy, flows: int, *, seed: int = 1) -> Settled:
    """So many flows that never end to one host, each from a host of its own, after ``SETTLED_S``."""
    lesson = Lesson(flows + 1, 1)
    topology = lesson.topology()
    plan = FabricPlan(
        ports=topology.ports,
        dcqcn=PAPER,
        senders=dict.fromkeys((host.name for host in topology.hosts), policy),
    )
    fabric = Fabric(
        plan, watermark=UNREAD, seed=seed, settings=PacketSettings(queue_sample_s=1e-3), monitored=()
    )
    fabric.offer(lesson.traffic(np.random.default_rng(seed)))
    fabric.advance(SETTLED_S)
    fabric.keep_decisions(_MOST_DECISIONS)
    before = fabric.acknowledged_bytes()
    fabric.advance(SETTLED_S + MEASURED_S)
    got = fabric.acknowledged_bytes() - before
    carried = topology.ports[0].rate_bytes_per_s * plan.mtu_payload_bytes / plan.packet_wire_bytes
    inflation = fabric.decisions[:, _INFLATION]
    return Settled(
        flows=flows,
        inflation=float(inflation.mean()),
        inflation_p99=float(np.quantile(inflation, 0.99)),
        utilisation=float(got.sum() / MEASURED_S / carried),
        jain=float(got.sum() ** 2 / (flows * (got**2).sum())),
    )

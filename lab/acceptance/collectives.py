"""The traffic of an acceptance: two collectives of training, incast, and a mix as of storage."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lab.acceptance.links import even_loads
from telemetry.topology import Topology
from twin.errors import ParameterError
from twin.packet.plan import FabricPlan
from twin.traffic.base import Traffic
from twin.traffic.notation import read_traffic
from twin.traffic.patterns import AllToAll, Incast, RingAllReduce
from twin.units import duration_text

MOST_RANKS = 128  # of a ring or an all-to-all: both grow with its square
RING_CHUNK_BYTES = 512_000  # long enough that the latency of a step takes less than a fifth of it
EACH_BYTES = 128_000  # to each peer: as many messages a port as ECMP needs to spread them
SKEW_S = 200e-9  # ranks are never in step; where a thousand were, the engine would take ten times as long
MOST_SENDERS = 8
BUFFERS = 2.0  # a burst of an incast brings as much as this many shared buffers of a switch
BURSTS = 2
STORAGE = "poisson:0.3:sizes=256KB,hadoop:0.05"
HOP_S = 1.5e-7  # of a core for a packet-hop, measured on fabrics of 8 to 1 024 hosts


@dataclass(frozen=True, slots=True, eq=False)
class Collective:
    """One kind of traffic. ``ideal_s`` is how long it takes where only NICs limit it.

    ``bus_bytes``: what nccl-tests' bus bandwidth counts, over all iterations, so that it is ``bus_bytes`` ÷
    time; for n ranks 2(n − 1)/n of the data of an all-reduce, (n − 1)/n of that of an all-to-all (nccl-tests,
    doc/PERFORMANCE.md). None where it is not defined; ranks then do not send alike.
    """

    name: str
    traffic: Traffic
    ideal_s: float
    bus_bytes: float | None = None


def collectives(plan: FabricPlan, *, duration_s: float, seed: int) -> tuple[Collective, ...]:
    """Those of a fabric; each lasts about ``duration_s`` at line rate, or one iteration.

    Where there are more than ``MOST_RANKS`` hosts, they form groups of equal size that run at once, an
    all-to-all across the fabric. Raises ``ParameterError`` for one host, and where no message, or too many,
    begin in that time.
    """
    hosts = replace(plan.traffic_hosts, nic_bytes_per_s=line_rate(plan))
    ranks = hosts.count // math.ceil(hosts.count / MOST_RANKS)

    def iterations(sent: int, each_bytes: float) -> int:
        return max(1, math.floor(duration_s / (sent * hosts.alone_s(each_bytes))))

    rounds = iterations(2 * (ranks - 1), RING_CHUNK_BYTES)
    ring = RingAllReduce(size_bytes=RING_CHUNK_BYTES * ranks, group_size=ranks, iterations=rounds)
    times = iterations(ranks - 1, EACH_BYTES)
    every = AllToAll(each_bytes=EACH_BYTES, group_size=ranks, placement="spread", iterations=times)
    senders = min(MOST_SENDERS, hosts.count - 1)
    each = math.ceil(BUFFERS * plan.buffer_bytes / senders)
    apart_s = 2 * senders * hosts.alone_s(each)
    incast = Incast(fan_in=senders, each_bytes=each, period_s=apart_s, jitter_s=0.0)
    patterns = (
        ("ring all-reduce", ring, duration_s, rounds * 2.0 * (ranks - 1) * RING_CHUNK_BYTES),
        ("all-to-all", every, duration_s, times * (ranks - 1.0) * EACH_BYTES),
        ("incast", incast, BURSTS * apart_s, None),
        ("storage mix", read_traffic(STORAGE), duration_s, None),
    )
    found = []
    for name, pattern, lasts_s, bus_bytes in patterns:
        try:
            traffic = pattern.traffic(hosts, duration_s=lasts_s, seed=seed)
        except ParameterError as refused:  # the options fit the hosts: there are too many messages
            remedy = "give a shorter duration, such as 4ms"
            raise ParameterError(f"collective {name}", refused.received, refused.rule, remedy) from None
        if len(traffic) == 0:
            received = f"a duration of {duration_text(lasts_s)}, in which no message begins"
            rule = "a collective has messages"
            raise ParameterError(f"collective {name}", received, rule, "give a longer one, such as 4ms")
        if bus_bytes is not None:
            gaps_s = np.random.default_rng(seed).uniform(0.0, SKEW_S, len(traffic))
            starts_s = np.linspace(0.0, SKEW_S, len(traffic))
            traffic = replace(traffic, start_s=starts_s, gap_s=gaps_s)
        found.append(Collective(name, traffic, _ideal_s(traffic, hosts.nic_bytes_per_s), bus_bytes))
    return tuple(found)


def _ideal_s(traffic: Traffic, rate_bytes_per_s: float) -> float:
    """When the last NIC is done where each sends, and receives, one message after the other."""
    free_s: dict[tuple[str, int], float] = {}
    columns = (traffic.src, traffic.dst, traffic.start_s, traffic.payload_bytes / rate_bytes_per_s)
    for src, dst, start_s, lasts_s in zip(*(column.tolist() for column in columns), strict=True):
        for end in (("out", src), ("in", dst)):
            free_s[end] = max(free_s.get(end, 0.0), start_s) + lasts_s
    return max(free_s.values(), default=0.0)


def line_rate(plan: FabricPlan) -> float:
    """Bytes per second of the host whose NICs together are slowest."""
    return min(sum(plan.ports[port].rate_bytes_per_s for port in nics) for nics in plan.nics)


def offered_loads(topology: Topology, collective: Collective) -> NDArray[np.float64]:
    """Payload bytes through each port of the fabric where ECMP spreads them evenly."""
    return even_loads(topology, collective.traffic, collective.traffic.payload_bytes)


def cost_s(topology: Topology, plan: FabricPlan, collective: Collective) -> float:
    """About how long the packet engine runs a collective on one core, acknowledgements included."""
    packets = float(offered_loads(topology, collective).sum()) / plan.mtu_payload_bytes
    return HOP_S * packets * (2.0 if plan.ack_wire_bytes else 1.0)

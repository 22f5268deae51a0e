"""One port with a known optimum and no packets: what a tuner is proved on before it meets a fabric.

The port settles at once. Its queue is as deep as the threshold T that a watermark amounts to,

    T = √(Kmin · Kmax) · (0.2 ÷ Pmax)^(1/4),

and its utilisation T ÷ (T + K₀) rises with it. So whatever weighs rate against delay has one optimum, on a
surface in (Kmin, Kmax, Pmax), in closed form:

- w₁ · rate + w₂ · base RTT ÷ RTT, with B what the line sends in the base RTT: T* = (B − s·K₀) ÷ (s − 1) with
  s = √(w₂·B ÷ (w₁·K₀)), where s > 1 and B > s·K₀;
- rate ÷ (T + u): T* = √(K₀·u).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.rivals.observe import Budget
from bench.rivals.tuner import FabricFacts, Seen, SeenFlows, Settings, Tuner
from lab.demo.plan import VENDOR_DEFAULT
from telemetry.topology import Host, Link, Topology
from twin.scenario import FabricSizes
from twin.senders.dcqcn import PAPER
from twin.watermark import Watermark

HALF_USED_BYTES = 20_000.0  # K₀: the queue at which the port is used half
SMALL_BYTES, LARGE_BYTES = 10_000.0, 5_000_000.0


@dataclass(frozen=True, slots=True)
class Toy:
    """Two hosts and a switch at ``rate_gbps``; the port to the second host is the one that matters.

    ``large`` says whether its flows are large ones; a flow is a new one every interval.
    """

    budget: Budget
    rate_gbps: float = 25.0
    delay_us: float = 10.0
    large: bool = False
    sets_senders: bool = False
    incumbent: Watermark = VENDOR_DEFAULT

    @property
    def facts(self) -> FabricFacts:
        ends = [("h0", "Ethernet0"), ("h1", "Ethernet1")]
        links = tuple(Link(host, "switch", self.rate_gbps, self.delay_us, None, port) for host, port in ends)
        topology = Topology((Host("h0"), Host("h1")), ("switch",), links)
        [queue] = [index for index, port in enumerate(topology.ports) if port.peer == "h1"]
        return FabricFacts(
            topology=topology,
            sizes=FabricSizes(),
            dcqcn=PAPER,
            queues=(queue,),
            interval_s=self.budget.interval_s,
            delay_s=self.budget.delay_s,
            sampling=self.budget.sampling or 1.0,
            incumbent=(self.incumbent,),
            sets_senders=self.sets_senders,
        )

    def run(self, tuner: Tuner, intervals: int, seed: int) -> Iterator[tuple[Seen, Settings]]:
        """What it sees and what it answers, interval by interval."""
        facts = self.facts
        late = round(facts.delay_s / facts.interval_s)
        asked = [tuner.begin(facts, seed)]
        for number in range(intervals):
            [running] = asked[max(0, number - late)].watermarks
            seen = self._seen(facts, number, running)
            asked.append(tuner.act(seen))
            yield seen, asked[-1]

    def _seen(self, facts: FabricFacts, number: int, running: Watermark) -> Seen:
        depth = np.array([threshold_bytes(running)])
        begin_s, end_s = number * facts.interval_s, (number + 1) * facts.interval_s
        sent = facts.rate_bytes_per_s * used(depth[0]) * facts.interval_s
        size = LARGE_BYTES if self.large else SMALL_BYTES
        none, zero = np.zeros(1, dtype=np.int64), np.zeros(1)
        flows = SeenFlows(
            flow=np.array([number]),
            queue=none,
            src=none,
            dst=none + 1,
            payload_bytes=np.array([size]),
            last_s=np.array([end_s]),
        )
        return Seen(
            begin_s=begin_s,
            end_s=end_s,
            depth_mean_bytes=depth,
            depth_peak_bytes=depth,
            sent_bytes=sent,
            marked_bytes=sent * running.pmax,
            dropped_packets=none,
            paused_s=zero,
            pausing_s=zero,
            pauses_sent=none,
            watermarks=(running,),
            dcqcn=PAPER,
            flows=flows,
        )


def threshold_bytes(watermark: Watermark) -> float:
    """The threshold T that a watermark amounts to."""
    gentler: float = (0.2 / watermark.pmax) ** 0.25
    return math.sqrt(watermark.kmin_bytes * watermark.kmax_bytes) * gentler


def used(depth_bytes: float) -> float:
    return depth_bytes / (depth_bytes + HALF_USED_BYTES)


def best_of_rate_and_delay(rate_weight: float, delay_weight: float, line_bytes: float) -> float:
    """T* of w₁ · rate + w₂ · base RTT ÷ RTT; ``line_bytes`` is B. Raises ``ValueError`` where it has none."""
    s = math.sqrt(delay_weight * line_bytes / (rate_weight * HALF_USED_BYTES))
    if not (s > 1 and line_bytes > s * HALF_USED_BYTES):
        raise ValueError("the optimum is at an end: one of the two always wins")
    return (line_bytes - s * HALF_USED_BYTES) / (s - 1)


def best_of_rate_per_queue(unit_bytes: float) -> float:
    """T* of rate ÷ (T + u)."""
    return math.sqrt(HALF_USED_BYTES * unit_bytes)

"""Runs one collective on a fabric of its own, until all of it is delivered or its time is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.acceptance.collectives import Collective
from twin.packet.fabric import Fabric
from twin.packet.layout import PacketSettings
from twin.packet.plan import FabricPlan
from twin.packet.results import Measured
from twin.watermark import Watermark

ECN_OFF = Watermark((1 << 50) - 1, 1 << 50, 1.0)  # no queue is that deep
SLICE_S = 1e-4
PATIENCE = 100.0  # times as long as at line rate; senders that DCQCN has cut to a hundredth still end
LEAST_PATIENCE_S = 0.5  # several retransmission timeouts


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one run showed. ``took_s`` is to the last delivery, ``n_delivered`` of the collective's messages.

    ``delivered`` [host] counts messages by their sender, ``s_per_byte`` [host] is the time its messages took
    ÷ their payload, NaN where none was delivered. ``peaks_bytes`` [port]: the deepest queue, 0 for NICs.
    """

    collective: Collective
    seed: int
    took_s: float
    delivered: NDArray[np.int64]
    s_per_byte: NDArray[np.float64]
    measured: Measured
    peaks_bytes: NDArray[np.float64]

    @property
    def n_delivered(self) -> int:
        return int(self.delivered.sum())

    @property
    def limit_s(self) -> float:
        return _limit_s(self.collective)


def _limit_s(collective: Collective) -> float:
    return max(PATIENCE * collective.ideal_s, LEAST_PATIENCE_S)


def run(
    plan: FabricPlan,
    watermarks: Mapping[int, Watermark],
    collective: Collective,
    *,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Calls ``progress(delivered, messages)`` after each slice of simulated time.

    ``watermarks`` are of switch ports by their index, others do not mark. Raises ``ScenarioError`` where
    hosts are not joined.
    """
    settings = PacketSettings(queue_sample_s=1e-3)  # peaks are exact without samples
    fabric = Fabric(plan, watermark=ECN_OFF, seed=seed, settings=settings, monitored=())
    for port, watermark in watermarks.items():
        fabric.set_watermark([port], watermark)
    traffic, hosts = collective.traffic, len(plan.hosts)
    fabric.offer(traffic)
    delivered, taken_s, payload = np.zeros(hosts, dtype=np.int64), np.zeros(hosts), np.zeros(hosts)
    took_s = 0.0
    while (done := int(delivered.sum())) < len(traffic) and fabric.now_s < _limit_s(collective):
        progress(done, len(traffic))
        over = fabric.advance(fabric.now_s + SLICE_S).completions
        delivered += np.bincount(over.src, minlength=hosts)
        taken_s += np.bincount(over.src, weights=over.end_s - over.start_s, minlength=hosts)
        payload += np.bincount(over.src, weights=over.payload_bytes, minlength=hosts)
        took_s = float(over.end_s.max(initial=took_s))
    progress(done, len(traffic))
    ports = list(plan.switch_ports)
    peaks = np.zeros(len(plan.ports))
    peaks[ports] = fabric.read_ports(ports).peak_bytes
    with np.errstate(invalid="ignore"):
        s_per_byte = taken_s / payload
    return Outcome(collective, seed, took_s, delivered, s_per_byte, fabric.measured(), peaks)

"""What tuners may see: readings of the fabric cut down to an observation budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from bench.rivals.tuner import Counts, FabricFacts, Floats, Looks, Seen, SeenFlows
from twin.errors import check_known
from twin.packet.fabric import Fabric
from twin.packet.results import Measured, Samples
from twin.scenario import reverse_ports
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

FORGET_FLOWS_S = 0.010  # a flow table keeps what it saw within this


@dataclass(frozen=True, slots=True)
class Budget:
    """An interval every ``interval_s``; what follows from it runs ``delay_s`` after its end.

    With ``sampling`` None depths and flows are exact, else they are those of INT on this share of packets.
    Counters (bytes, marks, drops, pauses) are exact in both.
    """

    name: str
    interval_s: float
    delay_s: float
    sampling: float | None


BUDGETS: Mapping[str, Budget] = MappingProxyType(
    {
        one.name: one
        for one in (
            Budget("none", 1e-3, 0.0, None),  # of a tuner that does not look
            Budget("box", 100e-6, 0.0, None),
            Budget("collector", 1e-3, 5e-3, 1.0 / 64.0),
        )
    }
)


def budget_named(name: str) -> Budget:
    """Raises ``ParameterError`` for an unknown one."""
    check_known("budget", name, BUDGETS)
    return BUDGETS[name]


class Meter:
    """Reads a fabric interval by interval, with depth peaks of the interval."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        fabric.forget_depths()
        self._before = fabric.measured()

    def read(self) -> Measured:
        """Totals since the last reading; ``now_s`` is now."""
        now = self._fabric.measured()
        self._fabric.forget_depths()
        found = now.since(self._before)
        self._before = replace(
            now,
            queue_histogram=np.zeros_like(now.queue_histogram),
            depth_sum_bytes=np.zeros_like(now.depth_sum_bytes),
        )
        return found


class Observer:
    """Turns readings and INT samples into ``Seen`` for one tuner and budget."""

    def __init__(self, facts: FabricFacts, budget: Budget, looks: Looks) -> None:
        self._budget = budget
        self._looks = looks
        self._queues = np.array(facts.queues, dtype=np.int64)
        self._far_ends = np.array(reverse_ports(facts.topology.ports), dtype=np.int64)[self._queues]
        self._row = np.full(len(facts.topology.ports), -1, dtype=np.int64)
        self._row[self._queues] = np.arange(len(self._queues))
        self._samples: list[Samples] = []
        self._flows = _FlowBook(facts, self._row, self.sampling_rate)
        self._end_s = 0.0

    @property
    def sampling_rate(self) -> float:
        """The share of packets that INT has to report for this."""
        if self._looks is Looks.NOTHING:
            return 0.0
        if self._budget.sampling is not None:
            return self._budget.sampling
        return 1.0 if self._looks is Looks.FLOWS else 0.0

    def saw(self, samples: Samples) -> None:
        """Adds samples of the interval under way."""
        self._samples.append(samples)

    def seen(self, reading: Measured, watermarks: tuple[Watermark, ...], dcqcn: DcqcnParams) -> Seen:
        """The interval that ends with ``reading``."""
        begin_s, self._end_s = self._end_s, reading.now_s
        samples = Samples.joined(self._samples) if self._samples else None
        self._samples = []
        at = self._queues
        if self._budget.sampling is None:
            mean = reading.depth_sum_bytes[at] / max(reading.depth_samples, 1)
            peak = reading.depth_peak_bytes[at]
        else:
            mean, peak = self._sampled_depths(samples)
        flows = None
        if self._looks is Looks.FLOWS:
            flows = self._flows.after(samples, self._end_s)
        return Seen(
            begin_s=begin_s,
            end_s=self._end_s,
            depth_mean_bytes=mean,
            depth_peak_bytes=peak,
            sent_bytes=reading.sent_bytes[at],
            marked_bytes=reading.marked_bytes[at],
            dropped_packets=reading.dropped_packets[at],
            paused_s=reading.paused_s[at],
            pausing_s=reading.paused_s[self._far_ends],
            pauses_sent=reading.pauses[self._far_ends],
            watermarks=watermarks,
            dcqcn=dcqcn,
            flows=flows,
            samples=samples if self._looks is Looks.FLOWS else None,
        )

    def _sampled_depths(self, samples: Samples | None) -> tuple[Floats, Floats]:
        """Mean and peak depth by the INT reports of each queue; 0 where none came."""
        count = len(self._queues)
        mean, peak = np.zeros(count), np.zeros(count)
        if samples is None or not len(samples.port):
            return mean, peak
        rows, depth = self._row[samples.port], samples.queue_bytes
        sums = np.bincount(rows, weights=depth, minlength=count)
        mean = sums / np.maximum(np.bincount(rows, minlength=count), 1)
        np.maximum.at(peak, rows, depth)
        return mean, peak


class _FlowBook:
    """Flow tables of all switches, by flow and queue."""

    def __init__(self, facts: FabricFacts, row: Counts, sampling_rate: float) -> None:
        self._row = row
        self._n_queues = len(facts.queues)
        self._overhead_bytes = facts.sizes.wire_overhead_bytes
        self._scale = 1.0 / sampling_rate if sampling_rate > 0 else 1.0
        self._keys = np.zeros(0, dtype=np.int64)
        self._columns = {
            "src": np.zeros(0, dtype=np.int64),
            "dst": np.zeros(0, dtype=np.int64),
            "payload_bytes": np.zeros(0),
            "last_s": np.zeros(0),
        }

    def after(self, samples: Samples | None, now_s: float) -> SeenFlows:
        """The tables with these samples added, and without what was not seen of late."""
        if samples is not None and len(samples.port):
            self._add(samples)
        kept = self._columns["last_s"] >= now_s - FORGET_FLOWS_S
        if not kept.all():
            self._keys = self._keys[kept]
            self._columns = {name: column[kept] for name, column in self._columns.items()}
        flow, queue = np.divmod(self._keys, self._n_queues)
        columns: dict[str, Any] = {name: column.copy() for name, column in self._columns.items()}
        return SeenFlows(flow=flow, queue=queue, **columns)

    def _add(self, samples: Samples) -> None:
        of = np.repeat(np.arange(len(samples)), np.diff(samples.hop_offset))
        seen = samples.flow[of] * self._n_queues + self._row[samples.port]
        keys = np.union1d(self._keys, seen)
        grown = {name: np.zeros(len(keys), dtype=c.dtype) for name, c in self._columns.items()}
        old = np.searchsorted(keys, self._keys)
        for name, column in self._columns.items():
            grown[name][old] = column
        at = np.searchsorted(keys, seen)
        grown["src"][at], grown["dst"][at] = samples.src[of], samples.dst[of]
        payload = (samples.wire_bytes[of] - self._overhead_bytes) * self._scale
        grown["payload_bytes"] += np.bincount(at, weights=payload, minlength=len(keys))
        np.maximum.at(grown["last_s"], at, samples.egress_s)
        self._keys, self._columns = keys, grown

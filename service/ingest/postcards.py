"""Postcards of binary reports merged into paths, where the settings want that; must not know how they came.

A live stream is merged as time goes on; a capture is a whole of its own, merged by the times in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.metrics import BinaryMetrics
from telemetry.decode.p4.assemble import P4Reports
from telemetry.decode.p4.postcards import PostcardCounts, PostcardMerger
from telemetry.report import ReportBatch, joined
from telemetry.settings import NS_PER_S
from telemetry.topology import Topology

CAPTURE_SLICE = 8_192
"""Reports of a capture that are merged at once."""


class Postcards:
    """``hold_s`` is how long the first report about a packet waits for the others. For one thread, but
    ``declare`` and ``pending`` may be called from any.
    """

    def __init__(self, hold_s: float, *, metrics: BinaryMetrics) -> None:
        self._hold_ns = round(hold_s * NS_PER_S)
        self._metrics = metrics
        self._merger = PostcardMerger(hold_ns=self._hold_ns)
        self._declared: Topology | None = None
        self._known: Topology | None = None
        self.pending = 0

    def declare(self, topology: Topology | None) -> None:
        """Who sends to whom: orders the hops of packets whose hop limit does not tell."""
        self._declared = topology

    def merged(self, reports: P4Reports, now_ns: int) -> ReportBatch:
        """What need not wait of reports that came at ``now_ns``, and the paths that are due."""
        before = self._begin()
        return self._end(before, self._merger.merged(reports, now_ns))

    def due(self, now_ns: int) -> ReportBatch:
        """The paths that are due, though nothing came."""
        before = self._begin()
        return self._end(before, self._merger.due(now_ns))

    def whole(self, reports: P4Reports, received_ns: NDArray[np.int64]) -> ReportBatch:
        """All paths of a capture whose payloads were received at these times."""
        merger = PostcardMerger(hold_ns=self._hold_ns, topology=self._declared)
        at_ns = received_ns[reports.batch.index]
        order = np.argsort(at_ns, kind="stable")
        released = []
        for begin in range(0, len(order), CAPTURE_SLICE):
            rows = order[begin : begin + CAPTURE_SLICE]
            released.append(merger.merged(reports.take(rows), int(at_ns[rows[-1]])))
        released.append(merger.flush())
        self._count(PostcardCounts(), merger.counts)
        return joined([batch for batch in released if len(batch)])

    def _begin(self) -> PostcardCounts:
        if self._declared is not self._known:
            self._known = self._declared
            self._merger.set_topology(self._known)
        return self._merger.counts

    def _end(self, before: PostcardCounts, batch: ReportBatch) -> ReportBatch:
        self.pending = self._merger.pending
        self._count(before, self._merger.counts)
        return batch

    def _count(self, before: PostcardCounts, after: PostcardCounts) -> None:
        for outcome in ("merged", "surplus", "late"):
            self._metrics.postcards.labels(outcome).inc(getattr(after, outcome) - getattr(before, outcome))

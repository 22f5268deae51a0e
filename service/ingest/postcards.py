"""Merges postcards, reports of one hop each, into the paths of their packets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

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
    """Merges postcards into paths: live ones as time passes, a capture as a whole by the times in it.

    ``hold_s`` is how long the first report about a packet waits for the others. For one thread, but
    ``declare`` and ``pending`` may be called from any.
    """

    def __init__(self, hold_s: float, *, metrics: BinaryMetrics) -> None:
        self._hold_ns = round(hold_s * NS_PER_S)
        self._metrics = metrics
        self._merger = PostcardMerger(hold_ns=self._hold_ns)
        self._declared: Topology | None = None
        self._applied: Topology | None = None
        self.pending = 0

    def declare(self, topology: Topology | None) -> None:
        """Sets the topology that orders hops where reports carry no hop limit."""
        self._declared = topology

    def merged(self, reports: P4Reports, now_ns: int) -> ReportBatch:
        """Adds reports received at ``now_ns``; returns those that need not wait and the paths that are
        complete or due.
        """
        return self._released(lambda: self._merger.merged(reports, now_ns))

    def due(self, now_ns: int) -> ReportBatch:
        return self._released(lambda: self._merger.due(now_ns))

    def flush(self) -> ReportBatch:
        return self._released(self._merger.flush)

    def whole(self, parts: Iterable[P4Reports], received_ns: NDArray[np.int64]) -> ReportBatch:
        """Merges all postcards of a capture, whose payloads were received at ``received_ns`` and whose parts
        come in that order. Returns the paths.
        """
        merger = PostcardMerger(hold_ns=self._hold_ns, topology=self._declared)
        released = []
        for reports in parts:
            at_ns = received_ns[reports.batch.index]
            for begin in range(0, len(at_ns), CAPTURE_SLICE):
                rows = np.arange(begin, min(begin + CAPTURE_SLICE, len(at_ns)))
                released.append(merger.merged(reports.take(rows), int(at_ns[rows[-1]])))
        released.append(merger.flush())
        self._count(PostcardCounts(), merger.counts)
        return joined([batch for batch in released if len(batch)])

    def _released(self, merge: Callable[[], ReportBatch]) -> ReportBatch:
        if self._declared is not self._applied:
            self._applied = self._declared
            self._merger.set_topology(self._applied)
        before = self._merger.counts
        batch = merge()
        self.pending = self._merger.pending
        self._count(before, self._merger.counts)
        return batch

    def _count(self, before: PostcardCounts, after: PostcardCounts) -> None:
        for outcome in ("merged", "surplus", "late"):
            self._metrics.postcards.labels(outcome).inc(getattr(after, outcome) - getattr(before, outcome))

"""Figures of a stretch of simulated time: those that recommendations are scored by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.documents import FiguresDocument
from service.documents.predictions import ProbeDocument, slowdown_documents
from telemetry.topology import GBPS
from twin.packet.results import Completions, Measured
from twin.prediction import by_class
from twin.probe.figures import probes


class Stretch:
    def __init__(self, begun: Measured) -> None:
        self._begun = begun
        self._slowdowns: list[NDArray[np.float64]] = []
        self._sizes: list[NDArray[np.float64]] = []

    @property
    def begin_s(self) -> float:
        return self._begun.now_s

    def add(self, completions: Completions) -> None:
        """Adds the flows that completed in a slice."""
        if len(completions):
            self._slowdowns.append(completions.slowdown)
            self._sizes.append(completions.payload_bytes)

    def figures(self, now: Measured, under_way: Completions | None = None) -> FiguresDocument:
        """Figures until now: queue depths of the monitored ports together, ``paused_s`` over all ports.

        ``slowdown`` is of completed flows by payload size, ``probe_slowdown`` of packets that would cross the
        fabric at random moments. A packet that two ports marked counts twice in ``marked_bytes``. Flows
        ``under_way`` count in ``slowdown`` at their age, or slow ones would not show; nothing is known of
        those younger than they would take alone.
        """
        during = now.since(self._begun)
        lasted_s = now.now_s - self._begun.now_s
        sent, marked = int(during.sent_packets.sum()), int(during.marked_packets.sum())
        slowdowns, sizes = list(self._slowdowns), list(self._sizes)
        completions = sum(map(len, sizes))
        if under_way is not None:
            late = under_way.slowdown >= 1.0
            slowdowns.append(under_way.slowdown[late])
            sizes.append(under_way.payload_bytes[late])
        found = by_class(np.concatenate(slowdowns), np.concatenate(sizes)) if slowdowns else {}
        return FiguresDocument(
            begin_s=self._begun.now_s,
            end_s=now.now_s,
            queue_mean_bytes=during.queue_mean_bytes,
            queue_p99_bytes=during.queue_quantile_bytes(0.99),
            slowdown=slowdown_documents(found),
            completions=completions,
            goodput_gbps=during.delivered_bytes / lasted_s / GBPS if lasted_s > 0 else 0.0,
            marked_fraction=marked / sent if sent else 0.0,
            marked_bytes=float(during.marked_bytes.sum()),
            cnps=during.cnps,
            pauses=int(during.pauses.sum()),
            paused_s=float(during.paused_s.sum()),
            dropped_packets=int(during.dropped_packets.sum()),
            dropped_bytes=float(during.dropped_wire_bytes.sum()),
            probe_slowdown=ProbeDocument.of(probes(during.probe_counts).get("all")),
            paused_share=float(during.paused_s.mean()) / lasted_s if lasted_s > 0 else 0.0,
            loss_share=float(during.dropped_wire_bytes.sum()) / max(during.injected_wire_bytes, 1.0),
        )

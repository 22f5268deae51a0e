"""Figures of a stretch of simulated time: those that recommendations are scored by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.packet.results import Completions, Measured
from twin.prediction import Probe, Slowdown, by_class
from twin.probe.figures import probes


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures from ``begin_s`` to ``end_s``. Queue depths pool monitored ports; ``paused_s`` sums all ports.

    ``slowdown`` covers completed flows by payload size (no entry for an empty class) and, where requested,
    unfinished flows at their age, if that exceeds their time alone; ``completions`` counts completed flows
    only. ``probe_slowdown`` is that of packets that would cross the fabric at random moments (None: nothing
    sampled), ``paused_share`` port time paused ÷ port time, ``loss_share`` wire bytes lost ÷ sent.
    ``marked_bytes`` are wire bytes, summed over ports: a packet that two of them marked counts twice.
    """

    begin_s: float
    end_s: float
    queue_mean_bytes: float
    queue_p99_bytes: float
    slowdown: dict[str, Slowdown]
    completions: int
    goodput_bytes_per_s: float
    marked_fraction: float
    marked_bytes: float
    cnps: int
    pauses: int
    paused_s: float
    dropped_packets: int
    dropped_bytes: float
    probe_slowdown: Probe | None
    paused_share: float
    loss_share: float


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

    def figures(self, now: Measured, under_way: Completions | None = None) -> Figures:
        """Figures until now; flows ``under_way`` count at their age, or slow ones would not show.

        Of those that are younger than they would take alone nothing can be said.
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
        return Figures(
            begin_s=self._begun.now_s,
            end_s=now.now_s,
            queue_mean_bytes=during.queue_mean_bytes,
            queue_p99_bytes=during.queue_quantile_bytes(0.99),
            slowdown=by_class(np.concatenate(slowdowns), np.concatenate(sizes)) if slowdowns else {},
            completions=completions,
            goodput_bytes_per_s=during.delivered_bytes / lasted_s if lasted_s > 0 else 0.0,
            marked_fraction=marked / sent if sent else 0.0,
            marked_bytes=float(during.marked_bytes.sum()),
            cnps=during.cnps,
            pauses=int(during.pauses.sum()),
            paused_s=float(during.paused_s.sum()),
            dropped_packets=int(during.dropped_packets.sum()),
            dropped_bytes=float(during.dropped_wire_bytes.sum()),
            probe_slowdown=probes(during.probe_counts).get("all"),
            paused_share=float(during.paused_s.mean()) / lasted_s if lasted_s > 0 else 0.0,
            loss_share=float(during.dropped_wire_bytes.sum()) / max(during.injected_wire_bytes, 1.0),
        )

"""What a fabric did over a stretch of simulated time, in the figures that recommendations are judged by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.packet.happenings import Completions, Measured
from twin.result import Slowdown
from twin.slowdown import by_class


@dataclass(frozen=True, slots=True)
class Figures:
    """From ``begin_s`` to ``end_s``. Queues are the monitored ports' pooled, classes go by payload bytes.

    ``slowdown`` is of the flows that completed, classes without any left out, and where asked for of those
    still under way at their age; ``completions`` counts the former. ``paused_s`` adds all ports' pauses.
    """

    begin_s: float
    end_s: float
    queue_mean_bytes: float
    queue_p99_bytes: float
    slowdown: dict[str, Slowdown]
    completions: int
    goodput_bytes_per_s: float
    marked_fraction: float
    cnps: int
    pauses: int
    paused_s: float
    dropped_packets: int
    dropped_bytes: float


class Stretch:
    """Collects a stretch from ``begun`` on."""

    def __init__(self, begun: Measured) -> None:
        self._begun = begun
        self._slowdowns: list[NDArray[np.float64]] = []
        self._sizes: list[NDArray[np.float64]] = []

    @property
    def begin_s(self) -> float:
        """When it began."""
        return self._begun.now_s

    def add(self, completions: Completions) -> None:
        """Takes the flows that completed in a slice of it."""
        if len(completions):
            self._slowdowns.append(completions.slowdown)
            self._sizes.append(completions.payload_bytes)

    def figures(self, now: Measured, under_way: Completions | None = None) -> Figures:
        """What happened until now; flows ``under_way`` count at their age, lest slow ones go unseen."""
        during = now.since(self._begun)
        lasted_s = now.now_s - self._begun.now_s
        sent, marked = int(during.sent_packets.sum()), int(during.marked_packets.sum())
        slowdowns, sizes = list(self._slowdowns), list(self._sizes)
        completions = sum(map(len, sizes))
        if under_way is not None:
            slowdowns.append(under_way.slowdown)
            sizes.append(under_way.payload_bytes)
        return Figures(
            begin_s=self._begun.now_s,
            end_s=now.now_s,
            queue_mean_bytes=during.queue_mean_bytes,
            queue_p99_bytes=during.queue_quantile_bytes(0.99),
            slowdown=by_class(np.concatenate(slowdowns), np.concatenate(sizes)) if slowdowns else {},
            completions=completions,
            goodput_bytes_per_s=during.delivered_bytes / lasted_s if lasted_s > 0 else 0.0,
            marked_fraction=marked / sent if sent else 0.0,
            cnps=during.cnps,
            pauses=int(during.pauses.sum()),
            paused_s=float(during.paused_s.sum()),
            dropped_packets=int(during.dropped_packets.sum()),
            dropped_bytes=float(during.dropped_wire_bytes.sum()),
        )

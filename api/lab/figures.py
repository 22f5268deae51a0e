"""What a fabric did over a stretch of simulated time, in the figures that recommendations are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twin.packet.happenings import Completions, Measured
from twin.result import ELEPHANT_FROM_BYTES, MOUSE_BELOW_BYTES, Slowdown


@dataclass(frozen=True, slots=True)
class Figures:
    """From ``begin_s`` to ``end_s``. Queues are the monitored ports' pooled, classes go by payload bytes.

    ``slowdown`` is of the flows that completed, classes without any left out; ``paused_s`` adds the pauses of
    all ports.
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
        self._completions: list[Completions] = []

    @property
    def begin_s(self) -> float:
        """When it began."""
        return self._begun.now_s

    def add(self, completions: Completions) -> None:
        """Takes the flows that completed in a slice of it."""
        if len(completions):
            self._completions.append(completions)

    def figures(self, now: Measured) -> Figures:
        """What happened until now."""
        during = now.since(self._begun)
        lasted_s = now.now_s - self._begun.now_s
        sent, marked = int(during.sent_packets.sum()), int(during.marked_packets.sum())
        slowdown = _slowdown(self._completions)
        return Figures(
            begin_s=self._begun.now_s,
            end_s=now.now_s,
            queue_mean_bytes=during.queue_mean_bytes,
            queue_p99_bytes=during.queue_quantile_bytes(0.99),
            slowdown=slowdown,
            completions=slowdown["all"].n if slowdown else 0,
            goodput_bytes_per_s=during.delivered_bytes / lasted_s if lasted_s > 0 else 0.0,
            marked_fraction=marked / sent if sent else 0.0,
            cnps=during.cnps,
            pauses=int(during.pauses.sum()),
            paused_s=float(during.paused_s.sum()),
            dropped_packets=int(during.dropped_packets.sum()),
            dropped_bytes=float(during.dropped_wire_bytes.sum()),
        )


def _slowdown(parts: Sequence[Completions]) -> dict[str, Slowdown]:
    if not parts:
        return {}
    slowdown = np.concatenate([part.slowdown for part in parts])
    size = np.concatenate([part.payload_bytes for part in parts])
    members = {
        "all": slowdown,
        "mice": slowdown[size < MOUSE_BELOW_BYTES],
        "medium": slowdown[(size >= MOUSE_BELOW_BYTES) & (size < ELEPHANT_FROM_BYTES)],
        "elephant": slowdown[size >= ELEPHANT_FROM_BYTES],
    }
    return {
        name: Slowdown(values.size, float(values.mean()), float(np.percentile(values, 99)))
        for name, values in members.items()
        if values.size
    }

"""A watermark change as a unified diff, the same for every adapter; imports nothing but its values."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from switches.base import QueueWatermark
from twin.watermark import Watermark


def watermark_diff(switch: str, before: Watermark | None, after: Watermark) -> str:
    """A unified diff of the three values of ``switch``; empty where nothing changes."""
    return _diff(switch, _lines(before), _lines(after))


def queues_diff(switch: str, before: Sequence[QueueWatermark], after: Watermark) -> str:
    """The same for a switch whose queues differ: three values a queue."""
    return _diff(
        switch,
        [f"{queue.port}/{queue.queue} {line}" for queue in before for line in _lines(queue.watermark)],
        [f"{queue.port}/{queue.queue} {line}" for queue in before for line in _lines(after)],
    )


def _diff(switch: str, before: Sequence[str], after: Sequence[str]) -> str:
    lines = unified_diff(before, after, fromfile=f"{switch}/running", tofile=f"{switch}/staged", lineterm="")
    return "\n".join(lines)


def _lines(watermark: Watermark | None) -> list[str]:
    if watermark is None:
        return []
    return [
        f"kmin_bytes: {watermark.kmin_bytes}",
        f"kmax_bytes: {watermark.kmax_bytes}",
        f"pmax: {watermark.pmax:g}",
    ]

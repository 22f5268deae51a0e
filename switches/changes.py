"""A watermark change as a unified diff, the same for every adapter; imports nothing but its values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from difflib import unified_diff

from switches.base import QueueWatermark
from twin.watermark import Watermark

_MOST_PORTS = 3


def watermark_diff(
    switch: str, before: Sequence[QueueWatermark], after: Watermark, notes: Sequence[str] = ()
) -> str:
    """From what its queues run to ``after``, which all of them will; empty where nothing changes.

    Queues that run the same are one group; groups are named where there are several. Notes follow as
    comments.
    """
    groups: defaultdict[Watermark | None, list[QueueWatermark]] = defaultdict(list)
    for queue in before:
        groups[queue.watermark].append(queue)
    labels = [""] if len(groups) < 2 else [f"{_label(queues)} " for queues in groups.values()]
    running = [label + line for label, mark in zip(labels, groups, strict=False) for line in _lines(mark)]
    staged = [label + line for label in labels for line in _lines(after)]
    diff = list(
        unified_diff(
            running, staged, fromfile=f"{switch}/running", tofile=f"{switch}/staged", lineterm="", n=9
        )
    )
    return "\n".join([*diff, *(f"# {note}" for note in notes)] if diff else [])


def _label(queues: Sequence[QueueWatermark]) -> str:
    named = ", ".join(f"{queue.port}/{queue.queue}" for queue in queues[:_MOST_PORTS])
    more = len(queues) - _MOST_PORTS
    return f"{named} and {more} more" if more > 0 else named


def _lines(watermark: Watermark | None) -> list[str]:
    if watermark is None:
        return ["ecn: off"]
    return [
        "ecn: on",
        f"kmin_bytes: {watermark.kmin_bytes}",
        f"kmax_bytes: {watermark.kmax_bytes}",
        f"pmax: {watermark.pmax:g}",
    ]

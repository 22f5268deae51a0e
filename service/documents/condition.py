"""How well the fabric is, as a document."""

from __future__ import annotations

from typing import Literal

from service.documents.base import Document, Figure, Time

ConditionLevel = Literal["well", "watch", "bad"]


class ConditionFigure(Document):
    """One figure of the newest window, its thresholds and its last hour."""

    name: str
    """`packet_p99_slowdown` (a full packet that crosses the fabric) or `elephant_slowdown` (messages of 1 MB
    and more), durations ÷ durations alone; `paused_share` of port time, `loss_share` or `marked_share` of
    packets.
    """
    value: Figure
    """Null: the window shows none of it, or nobody counts it."""
    level: ConditionLevel
    """By the thresholds; `well` where it is not known."""
    watch_from: Figure
    """From this value on it is to be watched; null: never."""
    bad_from: Figure
    """From this value on the fabric is not well; null: never."""
    sentence: str
    """The figure in words."""
    hour_median: Figure
    """Median of the last hour; null where nothing was measured."""
    hour: list[tuple[Time, float]]
    """The last hour as time and value, the oldest first: all that was measured where that is at most 60
    values, else the highest of each minute.
    """


class ConditionDocument(Document):
    """Whether the fabric is well, by what its traffic gets."""

    level: Literal["well", "watch", "bad", "unknown"]
    """The worst level of the figures; `bad` also under a critical alarm, `unknown` without fresh reports."""
    sentence: str
    """The verdict in words, with the figures that decide it."""
    as_of: Time | None
    """When the newest window was measured; null: none was."""
    figures: list[ConditionFigure]
    """Small messages first, then bulk, pauses, loss and marks."""

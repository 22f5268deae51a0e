"""How well the fabric is, as a document."""

from __future__ import annotations

from typing import Literal

from service.documents.base import Document, Figure

ConditionLevel = Literal["well", "watch", "bad"]


class ConditionFigure(Document):
    """One figure of the newest window, its thresholds, and its last hour as (time, value).

    ``packet_p99_slowdown``: of a full packet that crosses the fabric, and ``elephant_slowdown``, of messages
    of 1 MB and more, are durations ÷ durations alone; ``paused_share`` of port time, ``loss_share`` and
    ``marked_share`` of packets. Null: the window shows none of it, or nobody counts it.
    """

    name: str
    value: Figure
    level: ConditionLevel
    watch_from: Figure
    bad_from: Figure
    sentence: str
    hour_median: Figure
    hour: list[tuple[str, float]]


class ConditionDocument(Document):
    """The worst level of the figures; ``bad`` also under a critical alarm, ``unknown`` without fresh reports.

    ``as_of`` is when the newest window was measured; null: none was.
    """

    level: Literal["well", "watch", "bad", "unknown"]
    sentence: str
    as_of: str | None
    figures: list[ConditionFigure]

"""Switches as documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from api.schemas.base import Document, timestamp
from api.schemas.predictions import WatermarkDocument
from switches.base import Capabilities, Reading
from switches.dryrun import DryRunRecord
from switches.errors import SwitchError
from twin.watermark import Watermark


class SwitchRecordDocument(Document):
    """One change that was made, or that a dry run would have made."""

    action: str
    watermark: WatermarkDocument | None
    at: str
    diff: str


class QueueWatermarkDocument(WatermarkDocument):
    """What one egress queue runs."""

    port: str
    queue: int


class SwitchDocument(Document):
    """One switch: its adapter, what it runs, and the newest changes first.

    ``running`` is as read at ``read_at``: null where that is not known, or where its queues differ, which
    ``queues`` then lists. ``reachable`` false: it could not be read just now, for the reason in ``detail``,
    and the last reading stands. ``set_to`` is what was last set on it from here; ``drifted``: it was read to
    run something else since.
    """

    name: str
    adapter: str
    writes: bool
    reachable: bool
    detail: str | None
    running: WatermarkDocument | None
    queues: list[QueueWatermarkDocument]
    read_at: str | None
    set_to: WatermarkDocument | None
    drifted: bool
    records: list[SwitchRecordDocument]

    @classmethod
    def of(
        cls,
        name: str,
        capabilities: Capabilities,
        reading: Reading | None,
        failure: SwitchError | None,
        *,
        set_to: Watermark | None,
        drifted: bool,
        records: Iterable[DryRunRecord],
    ) -> Self:
        """The document of a switch."""
        differ = reading is not None and reading.watermark is None
        return cls(
            name=name,
            adapter=capabilities.kind,
            writes=capabilities.writes,
            reachable=failure is None,
            detail=None if failure is None else str(failure),
            running=None if reading is None else _watermark(reading.watermark),
            queues=[
                QueueWatermarkDocument(
                    port=one.port, queue=one.queue, **WatermarkDocument.of(one.watermark).model_dump()
                )
                for one in (reading.queues if reading is not None and differ else ())
            ],
            read_at=None if reading is None else timestamp(reading.read_ns),
            set_to=_watermark(set_to),
            drifted=drifted,
            records=[
                SwitchRecordDocument(
                    action=record.action,
                    watermark=_watermark(record.watermark),
                    at=timestamp(record.recorded_ns),
                    diff=record.diff,
                )
                for record in reversed(tuple(records))
            ],
        )


def _watermark(watermark: Watermark | None) -> WatermarkDocument | None:
    return None if watermark is None else WatermarkDocument.of(watermark)

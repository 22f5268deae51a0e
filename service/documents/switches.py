"""Switches as documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from service.documents.base import Document, timestamp
from service.documents.predictions import WatermarkDocument
from switches.base import Capabilities, QueueWatermark, Reading
from switches.dryrun import DryRunRecord
from switches.errors import SwitchError
from twin.watermark import Watermark


class SwitchRecordDocument(Document):
    """One change that was made, or that a dry run would have made."""

    action: str
    watermark: WatermarkDocument | None
    at: str
    diff: str


class QueueWatermarkDocument(Document):
    """What one egress queue runs; null values: it does not mark (ECN is off)."""

    port: str
    queue: int
    kmin_bytes: int | None
    kmax_bytes: int | None
    pmax: float | None

    @classmethod
    def of(cls, queue: QueueWatermark) -> Self:
        """The document of a queue."""
        mark = queue.watermark
        return cls(
            port=queue.port,
            queue=queue.queue,
            kmin_bytes=None if mark is None else mark.kmin_bytes,
            kmax_bytes=None if mark is None else mark.kmax_bytes,
            pmax=None if mark is None else mark.pmax,
        )


class CapabilitiesDocument(Document):
    """What the platform can do: what a watermark belongs to, how thresholds and Pmax are written there,
    whether an unconfirmed change undoes itself (``dead_man``), how one is taken back, and what a reading is
    read from.
    """

    per: str
    unit: str
    unit_bytes: float
    lowest: int
    highest: int
    pmax_step: float
    atomic: bool
    dead_man: bool
    undo: str
    read_back: str

    @classmethod
    def of(cls, capabilities: Capabilities) -> Self:
        """The document of what an adapter can do."""
        units = capabilities.units
        return cls(
            per=capabilities.per,
            unit=units.name,
            unit_bytes=float(units.unit_bytes),
            lowest=units.lowest,
            highest=units.highest,
            pmax_step=1 / units.pmax_steps,
            atomic=capabilities.atomic,
            dead_man=capabilities.dead_man,
            undo=capabilities.undo,
            read_back=capabilities.read_back,
        )


class SwitchDocument(Document):
    """One switch: its adapter, what it runs, and the newest changes first.

    ``running`` is as read at ``read_at``: null where that is not known, or where its queues differ, which
    ``queues`` then lists. ``reachable`` false: it could not be read just now, for the reason in ``detail``,
    and the last reading stands. ``set_to`` is what was last set on it from here; ``drifted``: it was read to
    run something else since. ``untuned``: it reports INT in units nobody told, so the depth of its queues is
    not known and no round sets it.
    """

    name: str
    adapter: str
    writes: bool
    capabilities: CapabilitiesDocument
    reachable: bool
    detail: str | None
    running: WatermarkDocument | None
    queues: list[QueueWatermarkDocument]
    read_at: str | None
    set_to: WatermarkDocument | None
    drifted: bool
    untuned: bool
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
        untuned: bool,
        records: Iterable[DryRunRecord],
    ) -> Self:
        """The document of a switch."""
        differ = reading is not None and reading.watermark is None
        return cls(
            name=name,
            adapter=capabilities.kind,
            writes=capabilities.writes,
            capabilities=CapabilitiesDocument.of(capabilities),
            reachable=failure is None,
            detail=None if failure is None else str(failure),
            running=None if reading is None else watermark_document(reading.watermark),
            queues=[
                QueueWatermarkDocument.of(one)
                for one in (reading.queues if reading is not None and differ else ())
            ],
            read_at=None if reading is None else timestamp(reading.read_ns),
            set_to=watermark_document(set_to),
            drifted=drifted,
            untuned=untuned,
            records=[
                SwitchRecordDocument(
                    action=record.action,
                    watermark=watermark_document(record.watermark),
                    at=timestamp(record.recorded_ns),
                    diff=record.diff,
                )
                for record in reversed(tuple(records))
            ],
        )


def watermark_document(watermark: Watermark | None) -> WatermarkDocument | None:
    """The document of a watermark that may not be known."""
    return None if watermark is None else WatermarkDocument.of(watermark)

"""An inventory as documents: whether it can be used, and what its switches run.

Switches as documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from service.adapter_check import Answer
from service.documents.base import Document, timestamp
from service.documents.predictions import WatermarkDocument
from switches.base import Capabilities, QueueWatermark, Reading
from switches.device import Device
from switches.dryrun import DryRunRecord
from switches.errors import CapabilityError, SwitchError
from switches.units import WatermarkUnits, to_device
from twin.watermark import Watermark


class InventoryCheckDocument(Document):
    """How many switches of each platform, and a sentence for each problem.

    ``reporting`` is how many send binary INT reports by a node id, ``untuned`` those of them whose units are
    not told.
    """

    path: str
    platforms: dict[str, int]
    problems: list[str]
    reporting: int
    untuned: list[str]

    @classmethod
    def of(
        cls,
        path: Path,
        devices: Mapping[str, Device],
        problems: Iterable[str],
        *,
        reporting: int = 0,
        untuned: Iterable[str] = (),
    ) -> Self:
        """The document of a checked inventory."""
        counted = Counter(device.platform for device in devices.values())
        return cls(
            path=str(path),
            platforms=dict(sorted(counted.items())),
            problems=list(problems),
            reporting=reporting,
            untuned=list(untuned),
        )


class ReadQueueDocument(Document):
    """What one egress queue runs; ``watermark`` null: it does not mark."""

    port: str
    queue: int
    watermark: WatermarkDocument | None


class ReadSwitchDocument(Document):
    """One switch as its adapter reads it.

    ``running`` is what its queues run, most of them where they differ; ``queues`` lists them all.
    ``reachable`` false: it was not read, for the reason in ``detail``. ``expected`` is what the settings
    say it runs, null where they say nothing; ``drifted``: whether a queue runs something else than the switch
    would hold of that, null where one of the two is not known.
    """

    name: str
    platform: str
    address: str
    writes: bool
    reachable: bool
    detail: str | None
    running: WatermarkDocument | None
    queues: list[ReadQueueDocument]
    read_at: str | None
    expected: WatermarkDocument | None
    drifted: bool | None
    units: str
    atomic: bool
    dead_man: bool
    undo: str
    read_back: str

    @classmethod
    def of(
        cls, device: Device, capabilities: Capabilities, answer: Answer, expected: Watermark | None
    ) -> Self:
        """The document of a switch that was asked."""
        reading = answer.reading
        return cls(
            name=device.name,
            platform=device.platform,
            address=device.address,
            writes=capabilities.writes,
            reachable=answer.failure is None,
            detail=None if answer.failure is None else str(answer.failure),
            running=None if reading is None else _watermark(reading.usual),
            queues=[
                ReadQueueDocument(port=one.port, queue=one.queue, watermark=_watermark(one.watermark))
                for one in (reading.queues if reading is not None else ())
            ],
            read_at=None if reading is None else timestamp(reading.read_ns),
            expected=_watermark(expected),
            drifted=drifted(reading, expected, capabilities.units),
            units=units_text(capabilities.units),
            atomic=capabilities.atomic,
            dead_man=capabilities.dead_man,
            undo=capabilities.undo,
            read_back=capabilities.read_back,
        )


class InventoryReadDocument(Document):
    """Every switch of an inventory, in its order."""

    path: str
    answered: int
    switches: list[ReadSwitchDocument]


def drifted(reading: Reading | None, expected: Watermark | None, units: WatermarkUnits) -> bool | None:
    """Whether a switch runs something else than what it would hold of ``expected``, rounded as it does."""
    if reading is None or expected is None or not (reading.queues or reading.watermark):
        return None
    running = {queue.watermark for queue in reading.queues} or {reading.watermark}
    if running == {expected}:
        return False
    try:
        return running != {to_device(expected, units).watermark}
    except CapabilityError:
        return True


def units_text(units: WatermarkUnits) -> str:
    """``bytes``, or ``cells of 254 B``."""
    if units.unit_bytes == 1:
        return units.name
    return f"{units.name} of {float(units.unit_bytes):g} B"


def _watermark(watermark: Watermark | None) -> WatermarkDocument | None:
    return None if watermark is None else WatermarkDocument.of(watermark)


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

"""An inventory, and switches with what they run, as documents."""

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

    ``reporting`` switches send binary INT reports by node id; the units of those ``untuned`` are unknown.
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
    """One switch as read by its adapter.

    ``running`` is what most of its queues run; ``queues`` lists them all. ``reachable`` false: it could not
    be read, ``detail`` says why. ``expected`` is from the settings, null where they have none; ``drifted``:
    whether a queue runs something other than the switch makes of ``expected``, null where either is unknown.
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
        reading = answer.reading
        return cls.from_attributes(
            capabilities,
            name=device.name,
            platform=device.platform,
            address=device.address,
            reachable=answer.failure is None,
            detail=None if answer.failure is None else str(answer.failure),
            running=None if reading is None else watermark_document(reading.usual),
            queues=[
                ReadQueueDocument(port=one.port, queue=one.queue, watermark=watermark_document(one.watermark))
                for one in (reading.queues if reading is not None else ())
            ],
            read_at=None if reading is None else timestamp(reading.read_ns),
            expected=watermark_document(expected),
            drifted=drifted(reading, expected, capabilities.units),
            units=units_text(capabilities.units),
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
        mark = {name: getattr(queue.watermark, name, None) for name in WatermarkDocument.model_fields}
        return cls(port=queue.port, queue=queue.queue, **mark)


class CapabilitiesDocument(Document):
    """The platform: what a watermark belongs to, units of thresholds and Pmax, whether an unconfirmed change
    reverts itself (``dead_man``), how a change is undone, and what a reading is read from.
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
        units = capabilities.units
        return cls.from_attributes(
            capabilities,
            unit=units.name,
            unit_bytes=float(units.unit_bytes),
            lowest=units.lowest,
            highest=units.highest,
            pmax_step=1 / units.pmax_steps,
        )


class SwitchDocument(Document):
    """One switch: its adapter, what it runs, and the newest changes first.

    ``running`` is as read at ``read_at``: null where unknown, or where its queues differ and ``queues`` lists
    them. ``reachable`` false: the last try failed, ``detail`` says why, and the last reading is shown.
    ``set_to`` is what was last set from here; ``drifted``: it has been read to run something else since.
    ``untuned``: the units of its INT reports are unknown, so its queue depths are unknown and no round sets
    it.
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
    """None where the watermark is unknown."""
    return None if watermark is None else WatermarkDocument.of(watermark)

"""An inventory, and switches with what they run, as documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import ConfigDict, Field

from nics.host import Host
from rollout.plan import RoleTarget
from service.documents.base import Document, PortName, RequestBody, Time, timestamp
from service.documents.predictions import WatermarkDocument, watermark_document
from service.switches.adapter_check import Answer
from switches.base import Capabilities, QueueWatermark, Reading
from switches.device import Device
from switches.dryrun import DryRunRecord
from switches.errors import CapabilityError, SwitchError
from switches.hashing.registry import set_by_hand
from switches.hashing.values import HashReading
from switches.units import WatermarkUnits, to_device
from twin.watermark import Watermark


class InventoryCheckDocument(Document):
    """What an inventory holds."""

    path: str
    """The file."""
    platforms: dict[str, int]
    """How many switches of each platform."""
    problems: list[str]
    """A sentence for each problem."""
    reporting: int
    """How many send binary INT reports by node id."""
    untuned: list[str]
    """Of those, the ones whose units are unknown."""
    hosts: dict[str, int]
    """How many hosts by platform of their NICs."""

    @classmethod
    def of(
        cls,
        path: Path,
        devices: Mapping[str, Device],
        problems: Iterable[str],
        *,
        reporting: int,
        untuned: Iterable[str],
        hosts: Mapping[str, Host],
    ) -> Self:
        counted = Counter(device.platform for device in devices.values())
        nics = Counter(host.platform for host in hosts.values())
        return cls(
            path=str(path),
            platforms=dict(sorted(counted.items())),
            problems=list(problems),
            reporting=reporting,
            untuned=list(untuned),
            hosts=dict(sorted(nics.items())),
        )


class ReadQueueDocument(Document):
    """What one egress queue runs."""

    port: PortName
    """The port, or the platform's object that holds the watermark."""
    queue: int
    """Number of the queue."""
    watermark: WatermarkDocument | None
    """Null: it does not mark."""


class HashDocument(Document):
    """What a switch hashes flows by, where more than one port leads to their destination."""

    setting: str
    """The platform's name of what hashes flows anew: a seed, or the choice of a hash function."""
    value: str | None
    """What runs; null where the switch chooses one itself."""
    choices: list[str]
    """Values there are; empty where it is a whole number below 2^32."""
    fields: list[str] | None
    """Header fields that are hashed; null where the switch does not tell."""
    by_hand: str | None
    """What a person sets; null where the platform's documentation names nothing."""
    fixed: str | None = None
    """Why it cannot be set now, in a sentence; null where it can."""
    notes: list[str] = Field(default_factory=list)
    """What setting it brings, beside other paths of flows."""

    @classmethod
    def of(cls, reading: HashReading, platform: str) -> Self:
        return cls.from_attributes(
            reading,
            choices=list(reading.choices),
            notes=list(reading.notes),
            fields=None if reading.fields is None else list(reading.fields),
            by_hand=set_by_hand(platform),
        )


class HashInput(RequestBody):
    """What a switch is to hash by."""

    model_config = ConfigDict(frozen=True, strict=True)

    value: Annotated[str, Field(max_length=64, examples=["50"])]
    """One of its `choices`; where it has none, a whole number below 2^32."""


class ReadSwitchDocument(Document):
    """One switch as read by its adapter."""

    name: str
    """Name in the inventory."""
    platform: str
    """Its platform."""
    address: str
    """Its address."""
    writes: bool
    """Whether its adapter sets the device."""
    reachable: bool
    """False: it could not be read."""
    detail: str | None
    """Why it could not be read; null where it could."""
    running: WatermarkDocument | None
    """What most of its queues run; null where unknown."""
    queues: list[ReadQueueDocument]
    """All of its queues."""
    read_at: Time | None
    """When it was read; null where it was not."""
    expected: WatermarkDocument | None
    """What the settings expect; null where they have none."""
    drifted: bool | None
    """Whether a queue runs something other than the switch makes of `expected`; null where either is unknown.
    """
    units: str
    """Unit of its thresholds."""
    atomic: bool
    """Whether all three values change at one moment."""
    dead_man: bool
    """Whether a change that is not confirmed undoes itself."""
    undo: str
    """How a change is taken back."""
    read_back: str
    """What a reading is read from."""
    hash: HashDocument | None
    """What it hashes flows by; null where no adapter reads that of its platform, or it could not be read."""

    @classmethod
    def of(
        cls,
        device: Device,
        capabilities: Capabilities,
        answer: Answer[Reading],
        expected: Watermark | None,
        hashed: HashReading | None = None,
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
            hash=None if hashed is None else HashDocument.of(hashed, device.platform),
        )


class InventoryReadDocument(Document):
    """Every switch of an inventory, in its order."""

    path: str
    """The file."""
    answered: int
    """How many switches were read."""
    switches: list[ReadSwitchDocument]
    """In the inventory's order."""


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
    """What was done, `set` or `undo`."""
    watermark: WatermarkDocument | None
    """What was set; null where it is unknown."""
    at: Time
    """When it was done."""
    diff: str
    """The change as the platform shows it."""


class QueueWatermarkDocument(Document):
    """What one egress queue runs; null values: it does not mark (ECN is off)."""

    port: PortName
    """The port, or the platform's object that holds the watermark."""
    queue: int
    """Number of the queue."""
    kmin_bytes: int | None
    """Queue depth from which packets are marked, in bytes."""
    kmax_bytes: int | None
    """Queue depth from which every packet is marked, in bytes."""
    pmax: float | None
    """Probability of a mark just below Kmax, from 0 to 1."""

    @classmethod
    def of(cls, queue: QueueWatermark) -> Self:
        mark = {name: getattr(queue.watermark, name, None) for name in WatermarkDocument.model_fields}
        return cls(port=queue.port, queue=queue.queue, **mark)


class CapabilitiesDocument(Document):
    """What a platform can hold and do."""

    per: str
    """What a watermark belongs to: `switch`, `profile`, `port` or `queue`."""
    unit: str
    """Unit of its thresholds."""
    unit_bytes: float
    """Bytes in that unit."""
    lowest: int
    """Lowest threshold, in that unit."""
    highest: int
    """Highest threshold, in that unit."""
    pmax_step: float
    """Step of Pmax."""
    atomic: bool
    """Whether all three values change at one moment."""
    dead_man: bool
    """Whether a change that is not confirmed undoes itself."""
    undo: str
    """How a change is taken back."""
    read_back: str
    """What a reading is read from."""
    reads: bool
    """False: no device is asked, and what runs is assumed from the settings."""

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


class RoleTargetDocument(WatermarkDocument):
    """The ports of one role on a switch, and their watermark."""

    role: str
    """The role, such as `leaf-up-400G`."""
    ports: list[PortName]
    """Its ports on this switch."""


def role_targets(roles: Mapping[str, RoleTarget]) -> list[RoleTargetDocument]:
    return [
        RoleTargetDocument.from_attributes(target.watermark, role=role, ports=list(target.ports))
        for role, target in sorted(roles.items())
    ]


class SwitchDocument(Document):
    """One switch: its adapter, what it runs, and the newest changes."""

    name: str
    """Name of the switch."""
    adapter: str
    """Kind of its adapter, such as `sonic` or `dry-run`."""
    writes: bool
    """Whether the adapter sets the device; false for a dry run."""
    capabilities: CapabilitiesDocument
    """What its platform can hold and do."""
    reachable: bool
    """False: the last try to read it failed, and the last reading is shown."""
    detail: str | None
    """Why it could not be read; null where it could."""
    running: WatermarkDocument | None
    """What it runs, as read at `read_at`; null where unknown, or where its queues differ."""
    queues: list[QueueWatermarkDocument]
    """Its queues one by one, where they differ; else empty."""
    differs: bool
    """Whether its queues run different watermarks: whether `queues` has any."""
    read_at: Time | None
    """When it was last read; null before the first time."""
    set_to: WatermarkDocument | None
    """What was last set from here, or adopted; null where nothing was."""
    set_by_role: list[RoleTargetDocument] = Field(default_factory=list)
    """What ports of each role were last set to from here; empty where the switch was set as a whole."""
    drifted: bool
    """Whether it has been read to run something other than `set_to`, or `set_by_role`."""
    untuned: bool
    """Whether the units of its INT reports are unknown, so that no round sets it."""
    records: list[SwitchRecordDocument]
    """The newest first."""

    @classmethod
    def of(
        cls,
        name: str,
        capabilities: Capabilities,
        reading: Reading | None,
        failure: SwitchError | None,
        *,
        set_to: Watermark | None,
        set_by_role: Mapping[str, RoleTarget],
        drifted: bool,
        untuned: bool,
        records: Iterable[DryRunRecord],
    ) -> Self:
        queues = reading.queues if reading is not None and reading.watermark is None else ()
        return cls(
            name=name,
            adapter=capabilities.kind,
            writes=capabilities.writes,
            capabilities=CapabilitiesDocument.of(capabilities),
            reachable=failure is None,
            detail=None if failure is None else str(failure),
            running=None if reading is None else watermark_document(reading.watermark),
            queues=[QueueWatermarkDocument.of(one) for one in queues],
            differs=bool(queues),
            read_at=None if reading is None else timestamp(reading.read_ns),
            set_to=watermark_document(set_to),
            set_by_role=role_targets(set_by_role),
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

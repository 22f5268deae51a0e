"""Keys of binary INT reports in the settings and the inventory: ports, DSCPs, and the units of devices."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from telemetry.decode.p4.devices import Occupancy, TimeUnit, Timing, UnitProfile
from telemetry.decode.p4.packet import IntMarks
from telemetry.report import LEAST_SAMPLING_RATE

TimeWord = Literal["ns", "us", "2^-32s"]
TIME_UNITS: dict[TimeWord, TimeUnit] = {"ns": "ns", "us": "us", "2^-32s": "2^-32 s"}
_SIZES: tuple[tuple[Occupancy, str], ...] = (("cells", "cell_bytes"), ("packets", "packet_bytes"))

UdpPort = Annotated[int, Field(ge=0, le=65_535)]
Dscp = Annotated[int, Field(ge=0, le=63)]
DomainId = Annotated[int, Field(ge=1, le=65_535)]
StackBytes = Annotated[int, Field(ge=4, le=1020, multiple_of=4)]


class _Keys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class IntUnitKeys(_Keys):
    """The units of a device. Without ``occupancy`` it is shown, and not tuned.

    ``cell_bytes`` goes with cells, ``packet_bytes`` (the size counted for a packet) with packets.
    ``utilisation_scale`` is the value of a fully used interface: 100 for percent. ``timing`` says whether a
    packet reports the queue it met or the one it left behind, ``sampling_rate`` the share of packets that are
    reported.
    """

    occupancy: Occupancy | None = None
    cell_bytes: int | None = Field(default=None, ge=1, le=65_535)
    packet_bytes: int | None = Field(default=None, ge=1, le=65_535)
    time: TimeWord | None = None
    utilisation_scale: float | None = Field(default=None, gt=0)
    timing: Timing | None = None
    sampling_rate: float | None = Field(default=None, ge=LEAST_SAMPLING_RATE, le=1)

    def profile(self) -> UnitProfile | None:
        """The decoder's profile; None without ``occupancy``. Raises ``ValueError`` for a size that is
        missing, or of another occupancy.
        """
        for occupancy, size in _SIZES:
            given = getattr(self, size) is not None
            if given != (self.occupancy == occupancy):
                raise ValueError(
                    f"occupancy {self.occupancy or 'that is not said'} "
                    f"{'has no' if given else 'needs'} {size}: it is the size of one of its {occupancy}"
                )
        if self.occupancy is None:
            return None
        usual = UnitProfile()
        return UnitProfile(
            occupancy=self.occupancy,
            unit_bytes=self.cell_bytes or self.packet_bytes or 1,
            time=usual.time if self.time is None else TIME_UNITS[self.time],
            utilisation_scale=self.utilisation_scale or usual.utilisation_scale,
            timing=self.timing or usual.timing,
            sampling_rate=self.sampling_rate or usual.sampling_rate,
        )


class IntSettings(_Keys):
    """Binary INT reports, over HTTP or UDP. What differs between devices is in the inventory.

    ``int_ports`` and ``int_dscps`` mark packets with INT headers inside a report. ``source_only_bytes`` is,
    by Domain Specific ID, what an INT source alone adds below the hops. With ``device_time`` a report has the
    time of the device (64-bit timestamps, kept by PTP), else of its arrival. ``merge_postcards_s`` is for
    devices that each report a packet (INT-XD, INT-MX): reports of one hop wait so long for the others of
    their packet and become one path; none: each counts as a packet. ``default_units`` are the units of
    devices that are not in the inventory; none: these are shown, and not tuned.
    """

    int_ports: tuple[UdpPort, ...] = (5000,)
    int_dscps: tuple[Dscp, ...] = ()
    source_only_bytes: dict[DomainId, StackBytes] = Field(default_factory=dict)
    device_time: bool = False
    merge_postcards_s: float | None = Field(default=None, ge=0.001, le=1)
    default_units: IntUnitKeys = IntUnitKeys()

    @field_validator("int_ports", "int_dscps", mode="before")
    @classmethod
    def _one_or_several(cls, given: object) -> object:
        return (given,) if isinstance(given, int | str) else given

    @model_validator(mode="after")
    def _units_are_whole(self) -> Self:
        self.default_units.profile()
        return self

    def marks(self) -> IntMarks:
        known = IntMarks().source_only_bytes | self.source_only_bytes
        return IntMarks(frozenset(self.int_ports), frozenset(self.int_dscps), known)

"""Settings of what is received and polled: UDP, binary INT reports, counters, NICs, neighbours, lossless."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from settings.validation import Section, is_loopback
from telemetry.counters.model import CounterSettings
from telemetry.decode.p4.devices import Occupancy, TimeUnit, Timing, UnitProfile
from telemetry.decode.p4.packet import IntMarks
from telemetry.report import LEAST_SAMPLING_RATE


def _one_or_several(given: object) -> object:
    return (given,) if isinstance(given, int | str) else given


UdpPorts = Annotated[tuple[Annotated[int, Field(ge=0, le=65_535)], ...], BeforeValidator(_one_or_several)]
Dscps = Annotated[tuple[Annotated[int, Field(ge=0, le=63)], ...], BeforeValidator(_one_or_several)]


class UdpSettings(Section):
    """Binary telemetry reports by UDP, at each of ``ports`` (one number or a list; none: off) of ``host``.

    Datagrams are not authenticated: ``allow`` lists the networks that may send, such as ``192.0.2.0/24``;
    those of others are counted and dropped. On a loopback host the default is this machine, on any other it
    is required. Each port has ``sockets`` sockets with a kernel buffer of ``receive_buffer_bytes``; up to
    ``queue_datagrams`` wait to be decoded, the next are counted and dropped.
    """

    ports: UdpPorts = ()
    host: str = "127.0.0.1"
    allow: tuple[str, ...] = ()
    sockets: int = Field(default=2, ge=1, le=64)
    queue_datagrams: int = Field(default=262_144, ge=1)
    receive_buffer_bytes: int = Field(default=16 << 20, ge=4_096, lt=1 << 30)

    @field_validator("allow")
    @classmethod
    def _are_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for text in given:
            try:
                ip_network(text)
            except ValueError:
                raise ValueError(f"{text!r} is no network, such as 192.0.2.0/24 or 2001:db8::/32") from None
        return given

    @model_validator(mode="after")
    def _whoever_may_send_is_named(self) -> Self:
        if self.ports and not self.allow and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} needs allow, the networks whose datagrams are taken: "
                "UDP knows no tokens; list those of the switches, such as 192.0.2.0/24"
            )
        return self

    @property
    def allowed(self) -> tuple[str, ...]:
        return self.allow or ("127.0.0.0/8", "::1/128")


_COUNTERS = CounterSettings()


class CounterPollSettings(Section):
    """Counters polled from the switches of `push.inventory` ([counters](../telemetry/counters.md) lists the
    platforms). They are only read: `push.enabled` may be false.

    Each switch is polled every ``every_s`` seconds, ``at_once`` of them at a time. ``max_series`` is the room
    for ports and queues of all sources; each takes up to 13 kB.
    """

    poll: bool = True
    every_s: float = Field(default=10.0, ge=1, le=300)
    at_once: int = Field(default=8, ge=1, le=256)
    max_series: int = Field(default=_COUNTERS.max_series, ge=1)

    def window(self) -> CounterSettings:
        return CounterSettings(max_series=self.max_series)


class NicPollSettings(Section):
    """What the NICs of hosts in `push.inventory` run, and their counters, read over SSH
    ([NICs](../nics/connectx.md)). This only reads; `push.nics` allows that they are set.

    Each host is read every ``every_s`` seconds, ``at_once`` of them at a time.
    """

    poll: bool = True
    every_s: float = Field(default=60.0, ge=1, le=3_600)
    at_once: int = Field(default=16, ge=1, le=256)


class NeighbourSettings(Section):
    """LLDP neighbours read from the switches of `push.inventory` ([topology](../telemetry/topology.md) lists
    the platforms), every ``every_s`` seconds, ``at_once`` switches at a time. Off unless ``read`` is true: an
    account that may read counters need not have the right to it.
    """

    read: bool = False
    every_s: float = Field(default=600.0, ge=10, le=86_400)
    at_once: int = Field(default=8, ge=1, le=256)


class LosslessSettings(NeighbourSettings):
    """The lossless configuration read from the switches of `push.inventory`, and checked hop by hop
    ([lossless](../operate/lossless.md) lists platforms and rules), every ``every_s`` seconds, ``at_once``
    switches at a time. Off unless ``read`` is true, as an account that sets watermarks need not see buffers.
    """


TimeWord = Literal["ns", "us", "2^-32s"]
TIME_UNITS: Mapping[str, TimeUnit] = {"ns": "ns", "us": "us", "2^-32s": "2^-32 s"}
_SIZES: tuple[tuple[Occupancy, str], ...] = (("cells", "cell_bytes"), ("packets", "packet_bytes"))

DomainId = Annotated[int, Field(ge=1, le=65_535)]
StackBytes = Annotated[int, Field(ge=4, le=1020, multiple_of=4)]


class IntUnitKeys(Section):
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


class IntSettings(Section):
    """Binary INT reports, over HTTP or UDP. What differs between devices is in the inventory.

    ``int_ports`` and ``int_dscps`` mark packets with INT headers inside a report. ``source_only_bytes`` is,
    by Domain Specific ID, what an INT source alone adds below the hops. With ``device_time`` a report has the
    time of the device (64-bit timestamps, kept by PTP), else of its arrival. ``merge_postcards_s`` is for
    devices that each report a packet (INT-XD, INT-MX): reports of one hop wait so long for the others of
    their packet and become one path; none: each counts as a packet. ``default_units`` are the units of
    devices that are not in the inventory; none: these are shown, and not tuned.
    """

    int_ports: UdpPorts = (5000,)
    int_dscps: Dscps = ()
    source_only_bytes: dict[DomainId, StackBytes] = Field(default_factory=dict)
    device_time: bool = False
    merge_postcards_s: float | None = Field(default=None, ge=0.001, le=1)
    default_units: IntUnitKeys = IntUnitKeys()

    @model_validator(mode="after")
    def _units_are_whole(self) -> Self:
        self.default_units.profile()
        return self

    def marks(self) -> IntMarks:
        known = IntMarks().source_only_bytes | self.source_only_bytes
        return IntMarks(frozenset(self.int_ports), frozenset(self.int_dscps), known)

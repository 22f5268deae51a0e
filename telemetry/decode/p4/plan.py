"""Layouts of payloads, and the values of single payloads.

The code of a format parses a payload once, and asks a ``Trace`` for every byte that decides where something
is. The result is a ``Plan``, valid for every payload of the same length in which those bytes are the same
(``Guard``), so a stream of reports is read column by column. ``read`` takes one payload in plain Python,
``columns`` many at once with the same result.

All ones mean "not available" on the wire and here (``NOTHING_32``, ``NOTHING_64``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

NOWHERE = -1
"""The offset of an absent value."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the number at ``offset`` (``width`` bytes, big-endian, under ``mask``): one of
    ``values`` if ``wanted``, else none of them.
    """

    offset: int
    width: int
    mask: int
    values: tuple[int, ...]
    wanted: bool


@dataclass(frozen=True, slots=True)
class Likeness:
    """A condition on the four bytes at ``first`` and ``second``: equal, or not."""

    first: int
    second: int
    same: bool


@dataclass(frozen=True, slots=True)
class HopLayout:
    """Byte offsets of one hop's values, ``NOWHERE`` for absent ones.

    ``layer1`` is two 16-bit interface ids (in, out), ``layer2`` two of 32 bits, ``queue`` a queue id of 8
    bits and an occupancy of 24, ``queue_id`` a queue id alone. Timestamps are ``time_width`` bytes wide.
    """

    node: int = NOWHERE
    layer1: int = NOWHERE
    layer2: int = NOWHERE
    latency: int = NOWHERE
    queue: int = NOWHERE
    queue_id: int = NOWHERE
    ingress_time: int = NOWHERE
    egress_time: int = NOWHERE
    time_width: int = 8
    utilisation: int = NOWHERE
    drop_reason: int = NOWHERE

    @property
    def has_values(self) -> bool:
        """Whether it has more than the node."""
        return any(getattr(self, name) != NOWHERE for name in _VALUES)

    def completed(self, other: HopLayout) -> HopLayout:
        """These values, and those of ``other`` that are missing here (both timestamps or neither)."""
        names = [name for name in _UNTIMED if getattr(self, name) == NOWHERE]
        if self.ingress_time == self.egress_time == NOWHERE:
            names += ["ingress_time", "egress_time", "time_width"]
        return replace(self, **{name: getattr(other, name) for name in names})

    def moved(self, by: int) -> HopLayout:
        """The same values, ``by`` bytes further on."""
        places = {name: at + by for name in ("node", *_VALUES) if (at := getattr(self, name)) != NOWHERE}
        return replace(self, **places)


_UNTIMED = ("node", "layer1", "layer2", "latency", "queue", "queue_id", "utilisation", "drop_reason")
_VALUES = (*_UNTIMED[1:], "ingress_time", "egress_time")


@dataclass(frozen=True, slots=True)
class FlowLayout:
    """Offsets of the reported packet's fields; ``version`` is the IP version, 0 without a whole IP header.

    ``protocol`` and the ports are the original ones (in an INT shim where that has them). The packet's length
    is the 16 bits at ``length`` plus ``length_more``; where they are absent or invalid (below
    ``length_least``), it is ``seen``. ``ecn`` is the offset of 16 bits that, shifted right by ``ecn_shift``,
    end in the ECN field; ``base`` that of an InfiniBand base transport header. ``hop_limit`` (8 bits) orders
    the nodes that saw a packet; ``identification`` (16, IPv4) and ``tcp_sequence`` (32) identify the packet.
    """

    version: int = 0
    source: int = NOWHERE
    destination: int = NOWHERE
    protocol: int = NOWHERE
    source_port: int = NOWHERE
    destination_port: int = NOWHERE
    length: int = NOWHERE
    length_least: int = 1
    length_more: int = 0
    seen: int = 0
    ecn: int = NOWHERE
    ecn_shift: int = 0
    base: int = NOWHERE
    hop_limit: int = NOWHERE
    identification: int = NOWHERE
    tcp_sequence: int = NOWHERE


@dataclass(frozen=True, slots=True)
class ReportLayout:
    """One individual report: its flags (D Q F I in the low bits of the 32-bit word at ``flags`` shifted right
    by ``flags_shift``, without the lowest ``flags_missing``), its packet, its hops in path order.
    """

    flags: int
    flags_shift: int
    flags_missing: int
    flow: FlowLayout
    hops: tuple[HopLayout, ...]


@dataclass(frozen=True, slots=True)
class OriginLayout:
    """The payload's sender, and its number in that sender's sequence of 2**``sequence_bits``."""

    version: int
    node: int
    hardware: int
    hardware_shift: int
    sequence: int
    sequence_bits: int


@dataclass(frozen=True, slots=True)
class Problem:
    """An error at a byte of a payload."""

    offset: int
    received: str
    rule: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How to read every payload of ``length`` bytes that fits the guards."""

    length: int
    guards: tuple[Guard, ...]
    likenesses: tuple[Likeness, ...]
    origin: OriginLayout | None
    reports: tuple[ReportLayout, ...]
    problems: tuple[Problem, ...]


def joined(guards: Iterable[Guard], length: int) -> tuple[Guard, ...]:
    """Guards of payloads of ``length`` bytes, with adjacent single-value ones merged."""
    wide: list[Guard] = []
    others: list[Guard] = []
    for guard in sorted(guards, key=attrgetter("offset")):
        if length < _WIDEST or not guard.wanted or len(guard.values) > 1:
            others.append(guard)
            continue
        if not wide or guard.offset + guard.width > wide[-1].offset + _WIDEST:
            wide.append(Guard(min(guard.offset, length - _WIDEST), _WIDEST, 0, (0,), wanted=True))
        window = wide[-1]
        shift = 8 * (window.offset + _WIDEST - guard.offset - guard.width)
        value = window.values[0] | guard.values[0] << shift
        wide[-1] = replace(window, mask=window.mask | guard.mask << shift, values=(value,))
    return (*wide, *others)


_WIDEST = 8


class Trace:
    """A payload being parsed; records the conditions that its parse depends on."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.length = len(payload)
        self.guards: dict[Guard, None] = {}
        self.likenesses: dict[Likeness, None] = {}

    def number(self, offset: int, width: int, mask: int | None = None) -> int:
        """The number at ``offset`` under ``mask``; other payloads of the plan must have the same."""
        mask = (1 << 8 * width) - 1 if mask is None else mask
        value = int.from_bytes(self.payload[offset : offset + width], "big") & mask
        self.guards[Guard(offset, width, mask, (value,), wanted=True)] = None
        return value

    def choice(self, offset: int, width: int, choices: frozenset[int], mask: int | None = None) -> int | None:
        """The number at ``offset`` if it is among ``choices``, else None for any other number."""
        mask = (1 << 8 * width) - 1 if mask is None else mask
        value = int.from_bytes(self.payload[offset : offset + width], "big") & mask
        if value in choices:
            self.guards[Guard(offset, width, mask, (value,), wanted=True)] = None
            return value
        self.guards[Guard(offset, width, mask, tuple(sorted(choices)), wanted=False)] = None
        return None

    def alike(self, first: int, second: int) -> bool:
        """Whether the four bytes at both offsets are equal."""
        same = self.payload[first : first + 4] == self.payload[second : second + 4]
        self.likenesses[Likeness(first, second, same)] = None
        return same


NOTHING_8 = 0xFF
NOTHING_32 = 0xFFFF_FFFF
NOTHING_64 = 0xFFFF_FFFF_FFFF_FFFF
_HALF_32 = 1 << 31


@dataclass(frozen=True, slots=True)
class RawHop:
    """One hop: ids, and numbers in the device's own units."""

    node: int = NOTHING_32
    ingress: int = NOTHING_32
    egress: int = NOTHING_32
    queue: int = NOTHING_8
    occupancy: int = NOTHING_32
    utilisation: int = NOTHING_32
    ingress_time: int = NOTHING_64
    egress_time: int = NOTHING_64


@dataclass(frozen=True, slots=True)
class RawFlow:
    """A five-tuple in numbers, by IP version; all 0 without an IP header."""

    version: int = 0
    source: int = 0
    destination: int = 0
    source_port: int = 0
    destination_port: int = 0
    protocol: int = 0


@dataclass(frozen=True, slots=True)
class RawReport:
    """One individual report; ``ecn``, ``queue_pair``, ``sequence`` and ``hop_limit`` are -1 where absent, as
    is ``identity``, which else distinguishes packets of the flow. ``date`` is the last hop's timestamp if it
    has 64 bits, and so can be a time of day.
    """

    flags: int
    flow: RawFlow
    packet_bytes: int
    ecn: int
    queue_pair: int
    sequence: int
    hop_limit: int
    identity: int
    drop_reason: int
    date: int
    hops: tuple[RawHop, ...]


def read(plan: Plan, payload: bytes) -> list[RawReport]:
    return [_report(layout, payload) for layout in plan.reports]


def _number(payload: bytes, offset: int, width: int, absent: int = 0) -> int:
    return absent if offset == NOWHERE else int.from_bytes(payload[offset : offset + width], "big")


def _report(layout: ReportLayout, payload: bytes) -> RawReport:
    flow = layout.flow
    word = _number(payload, layout.flags, 4) >> layout.flags_shift & 0xF
    length = flow.seen
    if flow.length != NOWHERE and (given := _number(payload, flow.length, 2)) >= flow.length_least:
        length = given + flow.length_more
    based = flow.base != NOWHERE
    return RawReport(
        flags=word >> layout.flags_missing << layout.flags_missing,
        flow=_flow(flow, payload),
        packet_bytes=max(length, 1),
        ecn=_number(payload, flow.ecn, 2) >> flow.ecn_shift & 3 if flow.ecn != NOWHERE else -1,
        queue_pair=_number(payload, flow.base + 5, 3) if based else -1,
        sequence=_number(payload, flow.base + 9, 3) if based else -1,
        hop_limit=_number(payload, flow.hop_limit, 1, -1),
        identity=_identity(flow, payload),
        drop_reason=_number(payload, layout.hops[-1].drop_reason, 1, NOTHING_8),
        date=_date(layout.hops[-1], payload),
        hops=tuple(_hop(hop, payload) for hop in layout.hops),
    )


def _identity(flow: FlowLayout, payload: bytes) -> int:
    """TCP's sequence number and IPv4's identification (0: not set by the sender)."""
    given = _number(payload, flow.identification, 2)
    if flow.tcp_sequence != NOWHERE:
        return _number(payload, flow.tcp_sequence, 4) << 16 | given
    return given or -1


def _date(layout: HopLayout, payload: bytes) -> int:
    found = NOTHING_64
    if layout.time_width == 8:
        for offset in (layout.ingress_time, layout.egress_time):
            value = _number(payload, offset, 8, NOTHING_64)
            found = found if value == NOTHING_64 else value
    return found


def _flow(layout: FlowLayout, payload: bytes) -> RawFlow:
    if not layout.version:
        return RawFlow()
    width = 4 if layout.version == 4 else 16
    return RawFlow(
        version=layout.version,
        source=_number(payload, layout.source, width),
        destination=_number(payload, layout.destination, width),
        source_port=_number(payload, layout.source_port, 2),
        destination_port=_number(payload, layout.destination_port, 2),
        protocol=payload[layout.protocol],
    )


def _hop(layout: HopLayout, payload: bytes) -> RawHop:
    ingress = egress = NOTHING_32
    if layout.layer2 != NOWHERE:
        ingress, egress = _number(payload, layout.layer2, 4), _number(payload, layout.layer2 + 4, 4)
    if layout.layer1 != NOWHERE:
        ports = _number(payload, layout.layer1, 2), _number(payload, layout.layer1 + 2, 2)
        ingress = ports[0] if ports[0] != 0xFFFF else ingress
        egress = ports[1] if ports[1] != 0xFFFF else egress
    queue, occupancy = _number(payload, layout.queue_id, 1, NOTHING_8), NOTHING_32
    if layout.queue != NOWHERE:
        queue, occupancy = payload[layout.queue], _number(payload, layout.queue + 1, 3)
    begun, ended = _times(layout, payload)
    return RawHop(
        node=_number(payload, layout.node, 4, NOTHING_32),
        ingress=ingress,
        egress=egress,
        queue=queue,
        occupancy=NOTHING_32 if occupancy == 0xFF_FFFF else occupancy,
        utilisation=_number(payload, layout.utilisation, 4, NOTHING_32),
        ingress_time=begun,
        egress_time=ended,
    )


def _times(layout: HopLayout, payload: bytes) -> tuple[int, int]:
    """Arrival and departure by the device's clock; from 0 where only the latency is given."""
    width = layout.time_width
    nothing = (1 << 8 * width) - 1
    begun = _number(payload, layout.ingress_time, width, nothing)
    ended = _number(payload, layout.egress_time, width, nothing)
    begun = NOTHING_64 if begun == nothing else begun
    ended = NOTHING_64 if ended == nothing else ended
    if width == 4 and begun != NOTHING_64 and ended != NOTHING_64:
        # 32-bit clocks wrap; a difference of half a wrap or more means departure before arrival.
        stay = ended - begun & NOTHING_32
        ended = begun + stay if stay < _HALF_32 else ended
    stay = _number(payload, layout.latency, 4, NOTHING_32)
    if stay != NOTHING_32 and NOTHING_64 in (begun, ended):
        if begun == ended:
            return 0, stay
        if begun == NOTHING_64:
            return (ended - stay, ended) if ended >= stay else (0, stay)
        return begun, min(begun + stay, NOTHING_64 - 1)
    return begun, ended

"""Where the values of a payload lie, and which bytes that hangs on; imports nothing of the project.

A payload is taken apart once by the code of its format, which asks a ``Trace`` for every byte that decides
where something lies. What it found out is a ``Plan``; it holds for every payload of the same length in which
the bytes asked for are the same (``Guard``), so a stream of reports is read column by column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter

NOWHERE = -1
"""An offset of a value that is not there."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What a payload must have at ``offset`` (``width`` bytes, big-endian, under ``mask``): one of ``values``
    if ``wanted``, else none of them.
    """

    offset: int
    width: int
    mask: int
    values: tuple[int, ...]
    wanted: bool


@dataclass(frozen=True, slots=True)
class Likeness:
    """Whether the four bytes at ``first`` and at ``second`` must be the same, or must not."""

    first: int
    second: int
    same: bool


@dataclass(frozen=True, slots=True)
class HopLayout:
    """Byte offsets of one hop's values, ``NOWHERE`` for those that are not there.

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
    def tells(self) -> bool:
        """Whether anything but the node is there."""
        return any(getattr(self, name) != NOWHERE for name in _VALUES)

    def completed(self, other: HopLayout) -> HopLayout:
        """These values, and those of ``other`` that are not among them (a pair of timestamps is one)."""
        names = [name for name in _UNTIMED if getattr(self, name) == NOWHERE]
        if self.ingress_time == self.egress_time == NOWHERE:
            names += ["ingress_time", "egress_time", "time_width"]
        return replace(self, **{name: getattr(other, name) for name in names})


_UNTIMED = ("node", "layer1", "layer2", "latency", "queue", "queue_id", "utilisation", "drop_reason")
_VALUES = (*_UNTIMED[1:], "ingress_time", "egress_time")


@dataclass(frozen=True, slots=True)
class FlowLayout:
    """Where the reported packet says whose it is; ``version`` is the IP version, 0 where no IP header is
    whole.

    ``protocol`` and the ports are the offsets of the original ones (in an INT shim where that keeps them).
    The packet's length is what the 16 bits at ``length`` say and ``length_more``; where they say less than
    ``length_least``, which no packet has, or are not there, it is the ``seen`` bytes. ``ecn`` is the offset
    of 16 bits that, shifted right by ``ecn_shift``, end in the ECN field; ``base`` that of an InfiniBand base
    transport header. ``hop_limit`` (8 bits) tells who saw a packet first, ``identification`` (16, IPv4) and
    ``tcp_sequence`` (32) which packet of its flow it is.
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
    """One individual report: its flags (D Q F I at the bottom of the 32-bit word at ``flags`` shifted by
    ``flags_shift``, less the lowest ``flags_missing`` of the four), its packet, its hops in path order.
    """

    flags: int
    flags_shift: int
    flags_missing: int
    flow: FlowLayout
    hops: tuple[HopLayout, ...]


@dataclass(frozen=True, slots=True)
class OriginLayout:
    """Who sent the payload, and its place in that sender's sequence of 2**``sequence_bits``."""

    version: int
    node: int
    hardware: int
    hardware_shift: int
    sequence: int
    sequence_bits: int


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a byte of a payload, in the three parts that follow the place."""

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
    """Guards of payloads of ``length`` bytes, those of one value each that lie near together made one."""
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
    """A payload under inspection; remembers what was asked of it."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.length = len(payload)
        self.guards: dict[Guard, None] = {}
        self.likenesses: dict[Likeness, None] = {}

    def number(self, offset: int, width: int, mask: int | None = None) -> int:
        """The number there, under ``mask``; a payload must have the same one to be read in the same way."""
        mask = (1 << 8 * width) - 1 if mask is None else mask
        value = int.from_bytes(self.payload[offset : offset + width], "big") & mask
        self.guards[Guard(offset, width, mask, (value,), wanted=True)] = None
        return value

    def choice(self, offset: int, width: int, choices: frozenset[int], mask: int | None = None) -> int | None:
        """The number there if it is among ``choices``, else None; all other numbers are alike."""
        mask = (1 << 8 * width) - 1 if mask is None else mask
        value = int.from_bytes(self.payload[offset : offset + width], "big") & mask
        if value in choices:
            self.guards[Guard(offset, width, mask, (value,), wanted=True)] = None
            return value
        self.guards[Guard(offset, width, mask, tuple(sorted(choices)), wanted=False)] = None
        return None

    def alike(self, first: int, second: int) -> bool:
        """Whether the four bytes at both places are the same."""
        same = self.payload[first : first + 4] == self.payload[second : second + 4]
        self.likenesses[Likeness(first, second, same)] = None
        return same

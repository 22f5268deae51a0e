"""Reads many payloads of one layout at once, a column per value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.plan import (
    NOTHING_8,
    NOTHING_32,
    NOTHING_64,
    NOWHERE,
    FlowLayout,
    Guard,
    HopLayout,
    Plan,
    RawFlow,
    RawReport,
    ReportLayout,
)

_HALF_32 = np.uint64(1 << 31)
_U64 = np.uint64


@dataclass(frozen=True, slots=True)
class Payloads:
    """``count`` payloads of ``length`` bytes each, concatenated in ``buffer``."""

    buffer: bytes
    count: int
    length: int

    def column(self, offset: int, kind: str) -> np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]:
        """One number of every payload, not copied; ``kind`` is its numpy type with byte order."""
        return np.ndarray((self.count,), kind, self.buffer, offset, (self.length,))

    def number(self, offset: int, width: int) -> NDArray[np.unsignedinteger]:
        """One big-endian number of every payload, in native byte order."""
        return self.column(offset, f">u{width}").astype(f"=u{width}")

    def take(self, rows: NDArray[np.int64]) -> Payloads:
        every = np.frombuffer(self.buffer, np.uint8).reshape(self.count, self.length)
        return Payloads(every[rows].tobytes(), len(rows), self.length)


def fitting(plan: Plan, payloads: Payloads) -> NDArray[np.bool_]:
    """Which of the payloads the plan fits."""
    fits = np.ones(payloads.count, np.bool_)
    for guard in plan.guards:
        fits &= _kept(guard, payloads)
    for likeness in plan.likenesses:
        equal = payloads.column(likeness.first, "=u4") == payloads.column(likeness.second, "=u4")
        fits &= equal if likeness.same else ~equal
    return fits


def _kept(guard: Guard, payloads: Payloads) -> NDArray[np.bool_]:
    # Compared in wire byte order: swapping the constants is free, swapping the column is not.
    def swapped(value: int) -> NDArray[np.unsignedinteger]:
        return np.frombuffer(value.to_bytes(guard.width, "big"), f"=u{guard.width}")

    column = payloads.column(guard.offset, f"=u{guard.width}")
    if guard.mask != (1 << 8 * guard.width) - 1:
        column = column & swapped(guard.mask)
    kept: NDArray[np.bool_] = column == swapped(guard.values[0])
    for value in guard.values[1:]:
        kept |= column == swapped(value)
    return kept if guard.wanted else ~kept


@dataclass(frozen=True, slots=True, eq=False)
class FlowColumns:
    """Five-tuples as columns of 64 bits: the addresses (one column for IPv4, four for IPv6), then ports and
    protocol; without an IP packet IPv4 and all 0.
    """

    version: int
    words: tuple[NDArray[np.uint64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Reports with equally many hops: ``RawReport`` in columns, of shape (reports, hops) for hops."""

    payload: NDArray[np.int64]
    place: NDArray[np.int64]
    flags: NDArray[np.uint8]
    flow: FlowColumns
    packet_bytes: NDArray[np.int64]
    ecn: NDArray[np.int8]
    queue_pair: NDArray[np.int32]
    sequence: NDArray[np.int32]
    hop_limit: NDArray[np.int16]
    identity: NDArray[np.int64]
    drop_reason: NDArray[np.uint8]
    date: NDArray[np.uint64]
    node: NDArray[np.uint32]
    ingress: NDArray[np.uint32]
    egress: NDArray[np.uint32]
    queue: NDArray[np.uint8]
    occupancy: NDArray[np.uint32]
    utilisation: NDArray[np.uint32]
    ingress_time: NDArray[np.uint64]
    egress_time: NDArray[np.uint64]


REPORT_COLUMNS = {
    "flags": np.uint8,
    "packet_bytes": np.int64,
    "ecn": np.int8,
    "queue_pair": np.int32,
    "sequence": np.int32,
    "hop_limit": np.int16,
    "identity": np.int64,
    "drop_reason": np.uint8,
    "date": np.uint64,
}
HOP_COLUMNS = {
    "node": (np.uint32, NOTHING_32),
    "ingress": (np.uint32, NOTHING_32),
    "egress": (np.uint32, NOTHING_32),
    "queue": (np.uint8, NOTHING_8),
    "occupancy": (np.uint32, NOTHING_32),
    "utilisation": (np.uint32, NOTHING_32),
    "ingress_time": (np.uint64, NOTHING_64),
    "egress_time": (np.uint64, NOTHING_64),
}


def read_all(plan: Plan, payloads: Payloads, position: NDArray[np.int64]) -> list[Part]:
    """The reports of payloads that fit ``plan``, a part per report of a payload; ``position`` numbers the
    payloads.
    """
    return [_part(layout, place, payloads, position) for place, layout in enumerate(plan.reports)]


def _part(layout: ReportLayout, place: int, payloads: Payloads, position: NDArray[np.int64]) -> Part:
    n_rows, n_hops = payloads.count, len(layout.hops)
    hops = {name: np.full((n_rows, n_hops), nothing, kind) for name, (kind, nothing) in HOP_COLUMNS.items()}
    for number, hop in enumerate(layout.hops):
        _read_hop(hop, payloads, {name: column[:, number] for name, column in hops.items()})
    flow = layout.flow
    length = np.full(n_rows, flow.seen, np.int64)
    if flow.length != NOWHERE:
        given = payloads.number(flow.length, 2).astype(np.int64)
        np.copyto(length, given + flow.length_more, where=given >= flow.length_least)
    word = payloads.number(layout.flags, 4) >> np.uint32(layout.flags_shift) & np.uint32(0xF)
    missing = np.uint32(layout.flags_missing)
    based = flow.base != NOWHERE
    drop_at = layout.hops[-1].drop_reason
    return Part(
        payload=position,
        place=np.full(n_rows, place, np.int64),
        flags=(word >> missing << missing).astype(np.uint8),
        flow=_flow(flow, payloads),
        packet_bytes=np.maximum(length, 1),
        ecn=(
            (payloads.number(flow.ecn, 2) >> np.uint16(flow.ecn_shift) & np.uint16(3)).astype(np.int8)
            if flow.ecn != NOWHERE
            else np.full(n_rows, -1, np.int8)
        ),
        queue_pair=_low_24(payloads, flow.base + 4) if based else np.full(n_rows, -1, np.int32),
        sequence=_low_24(payloads, flow.base + 8) if based else np.full(n_rows, -1, np.int32),
        hop_limit=(
            payloads.number(flow.hop_limit, 1).astype(np.int16)
            if flow.hop_limit != NOWHERE
            else np.full(n_rows, -1, np.int16)
        ),
        identity=_identity(flow, payloads),
        drop_reason=(
            payloads.number(drop_at, 1).astype(np.uint8)
            if drop_at != NOWHERE
            else np.full(n_rows, NOTHING_8, np.uint8)
        ),
        date=_dates(layout.hops[-1], payloads),
        **hops,
    )


def _low_24(payloads: Payloads, offset: int) -> NDArray[np.int32]:
    return (payloads.number(offset, 4) & np.uint32(0xFF_FFFF)).astype(np.int32)


def _identity(layout: FlowLayout, payloads: Payloads) -> NDArray[np.int64]:
    """``plan._identity`` for every payload."""
    if layout.tcp_sequence != NOWHERE:
        number = payloads.number(layout.tcp_sequence, 4).astype(np.int64) << 16
        if layout.identification != NOWHERE:
            number |= payloads.number(layout.identification, 2)
        return number
    if layout.identification == NOWHERE:
        return np.full(payloads.count, -1, np.int64)
    given = payloads.number(layout.identification, 2).astype(np.int64)
    return np.where(given, given, -1)


def _flow(layout: FlowLayout, payloads: Payloads) -> FlowColumns:
    if not layout.version:
        nothing = np.zeros(payloads.count, np.uint64)
        return FlowColumns(4, (nothing, nothing))
    tail = payloads.number(layout.protocol, 1).astype(np.uint64)
    for offset, shift in ((layout.source_port, 24), (layout.destination_port, 8)):
        if offset != NOWHERE:
            tail |= payloads.number(offset, 2).astype(np.uint64) << _U64(shift)
    if layout.version == 4:  # the two addresses are adjacent
        return FlowColumns(4, (payloads.number(layout.source, 8).astype(np.uint64), tail))
    words = [payloads.number(layout.source + 8 * step, 8).astype(np.uint64) for step in range(4)]
    return FlowColumns(6, (*words, tail))


def _read_hop(layout: HopLayout, payloads: Payloads, into: dict[str, NDArray[np.unsignedinteger]]) -> None:
    if layout.node != NOWHERE:
        into["node"][:] = payloads.number(layout.node, 4)
    if layout.layer2 != NOWHERE:
        into["ingress"][:] = payloads.number(layout.layer2, 4)
        into["egress"][:] = payloads.number(layout.layer2 + 4, 4)
    if layout.layer1 != NOWHERE:
        for name, offset in (("ingress", layout.layer1), ("egress", layout.layer1 + 2)):
            port = payloads.number(offset, 2)
            np.copyto(into[name], port, where=port != 0xFFFF)
    if layout.queue_id != NOWHERE:
        into["queue"][:] = payloads.number(layout.queue_id, 1)
    if layout.queue != NOWHERE:
        word = payloads.number(layout.queue, 4)
        into["queue"][:] = word >> np.uint32(24)
        occupancy = word & np.uint32(0xFF_FFFF)
        np.copyto(into["occupancy"], occupancy, where=occupancy != 0xFF_FFFF)
    if layout.utilisation != NOWHERE:
        into["utilisation"][:] = payloads.number(layout.utilisation, 4)
    _read_times(layout, payloads, into["ingress_time"], into["egress_time"])


def _read_times(
    layout: HopLayout,
    payloads: Payloads,
    begun: NDArray[np.unsignedinteger],
    ended: NDArray[np.unsignedinteger],
) -> None:
    """``plan._times`` for every payload."""
    nothing, width = _U64(NOTHING_64), layout.time_width
    for column, offset in ((begun, layout.ingress_time), (ended, layout.egress_time)):
        if offset != NOWHERE:
            value = payloads.number(offset, width).astype(np.uint64)
            np.copyto(column, value, where=value != (1 << 8 * width) - 1)
    if width == 4 and NOWHERE not in (layout.ingress_time, layout.egress_time):
        stay = (ended - begun) & _U64(NOTHING_32)
        np.copyto(ended, begun + stay, where=(begun != nothing) & (ended != nothing) & (stay < _HALF_32))
    if layout.latency == NOWHERE:
        return
    stay = payloads.number(layout.latency, 4).astype(np.uint64)
    known = stay != NOTHING_32
    no_begin, no_end = begun == nothing, ended == nothing
    bare = known & no_begin & (no_end | (ended < stay))
    late = known & no_begin & ~bare
    early = known & no_end & ~no_begin
    np.copyto(begun, ended - stay, where=late)
    np.copyto(ended, np.where(begun < nothing - stay, begun + stay, nothing - _U64(1)), where=early)
    np.copyto(begun, _U64(0), where=bare)
    np.copyto(ended, stay, where=bare)


def _dates(layout: HopLayout, payloads: Payloads) -> NDArray[np.uint64]:
    date = np.full(payloads.count, NOTHING_64, np.uint64)
    if layout.time_width == 8:
        for offset in (layout.ingress_time, layout.egress_time):
            if offset != NOWHERE:
                value = payloads.number(offset, 8).astype(np.uint64)
                np.copyto(date, value, where=value != NOTHING_64)
    return date


def part_of(reports: list[tuple[int, int, RawReport]]) -> Part:
    """A part from single reports of equally many hops and one IP version, each with its payload's number and
    its place in the payload.
    """
    rows = [report for _, _, report in reports]
    columns = {
        name: np.array([getattr(row, name) for row in rows], kind) for name, kind in REPORT_COLUMNS.items()
    }
    hops = {
        name: np.array([[getattr(hop, name) for hop in row.hops] for row in rows], kind)
        for name, (kind, _) in HOP_COLUMNS.items()
    }
    return Part(
        payload=np.array([payload for payload, _, _ in reports], np.int64),
        place=np.array([place for _, place, _ in reports], np.int64),
        flow=_flow_columns([row.flow for row in rows]),
        **columns,
        **hops,
    )


def _flow_columns(flows: list[RawFlow]) -> FlowColumns:
    version = flows[0].version or 4
    tail = [flow.source_port << 24 | flow.destination_port << 8 | flow.protocol for flow in flows]
    if version == 4:
        words = [[flow.source << 32 | flow.destination for flow in flows], tail]
    else:
        low = NOTHING_64
        words = [
            [flow.source >> 64 for flow in flows],
            [flow.source & low for flow in flows],
            [flow.destination >> 64 for flow in flows],
            [flow.destination & low for flow in flows],
            tail,
        ]
    return FlowColumns(version, tuple(np.array(word, np.uint64) for word in words))

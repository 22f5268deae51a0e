"""Joins parsed reports into one batch in bytes, nanoseconds and names, plus the values JSON reports lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import offsets, take_rows
from telemetry.decode.p4.columns import HOP_COLUMNS, REPORT_COLUMNS, Part
from telemetry.decode.p4.names import NO_UNIT, TIME_UNITS, Names, Places
from telemetry.decode.p4.plan import NOTHING_8, NOTHING_32, NOTHING_64
from telemetry.errors import ReportError
from telemetry.report import MARK_UNKNOWN, MISSING_NS, ReportBatch, ReportProblem
from telemetry.settings import NS_PER_S

NO_REASON = -1
NOT_ROCE = -1
NO_VALUE = -1


class ReportFlags(IntFlag):
    """Why a report was sent: ``INTERMEDIATE`` was added in v2.0."""

    INTERMEDIATE = 1
    TRACKED_FLOW = 2
    CONGESTED_QUEUE = 4
    DROPPED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """The sender of each payload with a whole header: the payload's position, report ``version`` (0 for v0.5,
    1, 2), node id (``NO_VALUE``: not in every v0.5 report), hardware unit, sequence number of
    ``sequence_bits``.
    """

    payload: NDArray[np.int64]
    version: NDArray[np.int8]
    node: NDArray[np.int64]
    hardware: NDArray[np.int16]
    sequence: NDArray[np.int64]
    sequence_bits: NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class P4Reports:
    """Decoded reports.

    Rows of ``batch`` are individual reports in the order sent; ``batch.index`` is the position of the
    payload. A report without an IP packet has the flow 0.0.0.0 to 0.0.0.0, protocol 0. Per report: ``flags``
    (``ReportFlags``), ``drop_reason`` (or ``NO_REASON``), ``queue_pair`` and ``packet_sequence`` (RoCEv2's
    destination queue pair and PSN, or ``NOT_ROCE``), ``hop_limit`` (TTL or hop limit at the node, or
    ``NO_VALUE``) and ``packet_identity`` (TCP's sequence number above IPv4's identification, or
    ``NO_VALUE``). Per hop: ``occupancy`` in device units (or ``NO_VALUE``), ``tx_utilisation`` of the egress
    interface (0 to 1; NaN: unknown, or no profile). ``untuned`` are the node ids without a unit profile,
    whose occupancies and times are not in the batch.
    """

    batch: ReportBatch
    flags: NDArray[np.uint8]
    drop_reason: NDArray[np.int16]
    queue_pair: NDArray[np.int32]
    packet_sequence: NDArray[np.int32]
    hop_limit: NDArray[np.int16]
    packet_identity: NDArray[np.int64]
    occupancy: NDArray[np.int64]
    tx_utilisation: NDArray[np.float64]
    senders: Senders
    problems: tuple[ReportProblem, ...]
    untuned: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """Which rows report a dropped packet."""
        dropped: NDArray[np.bool_] = (self.flags & int(ReportFlags.DROPPED)) != 0
        return dropped

    def take(self, rows: NDArray[np.int64]) -> P4Reports:
        """These rows, in that order; ``senders``, ``problems`` and ``untuned`` stay."""
        _, hops = take_rows(self.batch.hop_offset, rows)
        names = ("flags", "drop_reason", "queue_pair", "packet_sequence", "hop_limit", "packet_identity")
        columns = {name: getattr(self, name)[rows] for name in names}
        columns |= {name: getattr(self, name)[hops] for name in ("occupancy", "tx_utilisation")}
        return replace(self, batch=self.batch.take(rows), **columns)

    def delivered(self) -> ReportBatch:
        """The batch without dropped packets: the traffic for a window."""
        return self.batch.take(~self.dropped)


_OLD_VERSION = 0

NodesOf = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Gives the node ids of the senders of the payloads at these positions (``NO_VALUE``: unknown)."""


def fill_nodes(
    hop_node: NDArray[np.uint32],
    offset: NDArray[np.int64],
    payload: NDArray[np.int64],
    senders: Senders,
    nodes: NodesOf,
) -> Senders:
    """Writes the sender's node into the last hop of v0.5 reports that lack it; only the drop and switch-local
    headers of v0.5 name the switch.

    ``offset`` cuts ``hop_node`` into reports, ``payload`` is that of each. A hop behind one of the same node
    stays as it is: the stack already has that node's values. Returns ``senders`` with the nodes.
    """
    old = senders.payload[senders.version == _OLD_VERSION]
    if not len(old):
        return senders
    node = np.full(int(senders.payload[-1]) + 1, NO_VALUE, np.int64)
    node[old] = nodes(old)
    sender, last = node[payload], offset[1:] - 1
    before = np.where(last > offset[:-1], hop_node[last - 1].astype(np.int64), NO_VALUE)
    missing = (hop_node[last] == NOTHING_32) & (sender != NO_VALUE) & (before != sender)
    hop_node[last[missing]] = sender[missing]
    return replace(senders, node=np.where(senders.node == NO_VALUE, node[senders.payload], senders.node))


_CE = 3
_MOST_NS = np.uint64(np.iinfo(np.int64).max)
_NS_PER_S = np.uint64(NS_PER_S)
_U64 = np.uint64
_LOW = np.uint64(0xFFFF_FFFF)
_FREE_PLACES, _BYTES_A_PLACE = 16_384, 128
_SENT_BITS, _PLACE_BITS = 32, 16  # of a datagram's sequence number, and of a report's place in its payload


def most_places(n_bytes: int) -> int:
    """How many new places payloads of so many bytes may name: each costs as much as some hundred bytes."""
    return _FREE_PLACES + n_bytes // _BYTES_A_PLACE


def assembled(
    parts: Sequence[Part],
    senders: Senders,
    problems: Sequence[ReportProblem],
    *,
    received_ns: NDArray[np.int64],
    names: Names,
    device_time: bool,
    most_places: int,
    nodes: NodesOf | None = None,
) -> P4Reports:
    """One batch of all parts, in the order of payloads and of the reports in them.

    ``nodes`` gives the senders of payloads without a node id. Reports of places beyond ``most_places`` new
    ones are left out.
    """
    flow, flow_keys = names.flows([part.flow for part in parts])
    rows = _joined(parts)
    hop_counts = np.concatenate(
        [np.full(len(part.payload), part.node.shape[1], np.int64) for part in parts]
        or [np.empty(0, np.int64)]
    )
    offset = offsets(hop_counts)
    if len(parts) > 1:  # the rows of one part are in order
        # A payload has fewer than 2**16 reports. The parts are sorted runs, which this sort only merges.
        order = np.argsort(rows["payload"] << _PLACE_BITS | rows["place"], kind="stable")
        offset, hops = take_rows(offset, order)
        flow = flow[order]
        rows = {name: column[hops if name in HOP_COLUMNS else order] for name, column in rows.items()}
    if nodes is not None:
        senders = fill_nodes(rows["node"], offset, rows["payload"], senders, nodes)
    at = rows["node"].astype(np.uint64) << _U64(8) | rows["queue"]
    ports = rows["ingress"].astype(np.uint64) << _U64(32) | rows["egress"]
    number = names.place_numbers(at, ports)
    fits = names.fits(number, most_places)
    if not fits.all():
        whole = np.logical_and.reduceat(fits, offset[:-1])
        first = int(rows["payload"][np.argmin(whole)])
        problems = sorted([*problems, _too_many_places(first, int(np.count_nonzero(~whole)), most_places)])
        kept = np.flatnonzero(whole)
        offset, hops = take_rows(offset, kept)
        flow = flow[kept]
        rows = {name: column[hops if name in HOP_COLUMNS else kept] for name, column in rows.items()}
        names.forget_places()
        number = names.place_numbers(at[hops], ports[hops])
    places = names.places(number)
    place, last = places.number, places.number[offset[1:] - 1]
    ts_ns = _told_apart(received_ns[rows["payload"]], rows, senders)
    if device_time and len(last):
        dated_ns = _times(rows["date"], places, last)
        ts_ns = np.where(dated_ns != MISSING_NS, dated_ns, ts_ns)
    known = rows["occupancy"] != NOTHING_32
    occupancy = np.where(known, rows["occupancy"].astype(np.int64), NO_VALUE)
    batch = ReportBatch(
        index=rows["payload"],
        ts_ns=ts_ns,
        flow=flow,
        packet_bytes=rows["packet_bytes"],
        sampling_rate=_sampling_rates(rows, offset, places.sampling_rate[last], senders, names),
        hop_offset=offset,
        hop_site=places.site.astype(np.int32),
        queue_bytes=np.where(known, occupancy * places.unit_bytes[place], np.nan),
        ingress_ns=_times(rows["ingress_time"], places, place),
        egress_ns=_times(rows["egress_time"], places, place),
        marked=_marks(rows["ecn"], offset),
        flow_keys=flow_keys,
        sites=places.sites,
    )
    used = rows["utilisation"]
    return P4Reports(
        batch=batch,
        flags=rows["flags"],
        drop_reason=np.where(
            rows["drop_reason"] != NOTHING_8, rows["drop_reason"].astype(np.int16), np.int16(NO_REASON)
        ),
        queue_pair=rows["queue_pair"],
        packet_sequence=rows["sequence"],
        hop_limit=rows["hop_limit"],
        packet_identity=rows["identity"],
        occupancy=occupancy,
        tx_utilisation=np.where(used != NOTHING_32, used / places.utilisation_scale[place], np.nan),
        senders=senders,
        problems=tuple(problems),
        untuned=places.untuned,
    )


def _told_apart(
    received_ns: NDArray[np.int64], rows: dict[str, NDArray[Any]], senders: Senders
) -> NDArray[np.int64]:
    """Times of arrival, of which each further packet at the same time has one a nanosecond later: a datagram
    brings reports of several packets, and those of one flow, size and depth would be taken for one.
    """
    if (np.diff(received_ns) > 0).all():  # as of datagrams of one report each, which need no sorting
        return received_ns
    packet = rows["queue_pair"], rows["sequence"], _identities(rows, senders), received_ns
    order = np.lexsort(packet)
    later = np.append(True, np.diff(received_ns[order]) != 0)
    other = later.copy()
    for column in packet[:-1]:
        other[1:] |= np.diff(column[order]) != 0
    number = np.cumsum(other)
    shift = number - np.maximum.accumulate(np.where(later, number, 0))
    ts_ns = received_ns.copy()
    ts_ns[order] += np.minimum(shift, np.iinfo(np.int64).max - received_ns[order])
    return ts_ns


def _identities(rows: dict[str, NDArray[Any]], senders: Senders) -> NDArray[np.int64]:
    """``packet_identity``, and a negative number of its own for each report of a packet without any number.

    That number is made of the datagram's sequence number and the report's place in it, so that a datagram
    that came twice has the same ones. Dropped packets keep ``NO_VALUE``, behind the others: no window holds
    them, and so their reports must not move those that it holds.
    """
    identity: NDArray[np.int64] = rows["identity"]
    nameless = (identity == NO_VALUE) & (rows["queue_pair"] == NOT_ROCE) & (rows["sequence"] == NOT_ROCE)
    nameless &= (rows["flags"] & int(ReportFlags.DROPPED)) == 0
    if not nameless.any():
        return identity
    sent = senders.sequence[np.searchsorted(senders.payload, rows["payload"])]
    own = (sent << _PLACE_BITS | rows["place"]) - (1 << _SENT_BITS + _PLACE_BITS)
    return np.where(nameless, own, identity)


def _sampling_rates(
    rows: dict[str, NDArray[Any]],
    offset: NDArray[np.int64],
    rates: NDArray[np.float64],
    senders: Senders,
    names: Names,
) -> NDArray[np.float64]:
    """The sampling rate of each report's sender. Its last hop has it in ``rates``, but that may be another
    node: a sink without values of its own shows only those of the stack.
    """
    if not len(rates):
        return rates
    node = senders.node[np.searchsorted(senders.payload, rows["payload"])]
    foreign = np.flatnonzero((node != NO_VALUE) & (node != rows["node"][offset[1:] - 1]))
    if len(foreign):
        nodes, number = np.unique(node[foreign], return_inverse=True)
        rates[foreign] = np.array([names.sampling_rate(one) for one in nodes.tolist()])[number]
    return rates


def _too_many_places(first: int, count: int, most: int) -> ReportProblem:
    received = f"{count} reports of further places after {most} new ones"
    rule = "a fabric has a limited number of ports and queues"
    remedy = "check which devices send to this port; these reports were left out"
    return ReportProblem(first, str(ReportError(f"datagram {first} byte 0", received, rule, remedy)))


def _joined(parts: Sequence[Part]) -> dict[str, NDArray[Any]]:
    kinds = {"payload": np.int64, "place": np.int64, **REPORT_COLUMNS}
    kinds |= {name: kind for name, (kind, _) in HOP_COLUMNS.items()}
    return {
        name: (
            getattr(parts[0], name).reshape(-1)
            if len(parts) == 1
            else np.concatenate([np.empty(0, kind), *(getattr(part, name).reshape(-1) for part in parts)])
        )
        for name, kind in kinds.items()
    }


def _marks(ecn: NDArray[np.int8], offset: NDArray[np.int64]) -> NDArray[np.int8]:
    """Whether the packet was marked when it left the last hop. Earlier hops stay unknown: it is only known
    that they did not mark an unmarked packet, and with those alone a hop would seem never to mark.
    """
    marked = np.full(offset[-1], MARK_UNKNOWN, np.int8)
    marked[offset[1:] - 1] = np.where(ecn < 0, MARK_UNKNOWN, ecn == _CE)
    return marked


def _times(raw: NDArray[np.uint64], places: Places, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Device times at each ``place`` as nanoseconds; ``MISSING_NS`` where missing, beyond 63 bits, or from a
    device without a profile.
    """
    if places.same_time_unit is not None:
        return _nanoseconds(raw, places.same_time_unit)
    converted = np.full(len(raw), MISSING_NS, np.int64)
    units = places.time_unit[place]
    for unit in range(len(TIME_UNITS)):
        here = units == unit
        converted[here] = _nanoseconds(raw[here], unit)
    return converted


def _nanoseconds(raw: NDArray[np.uint64], unit: int) -> NDArray[np.int64]:
    if unit == NO_UNIT:
        return np.full(len(raw), MISSING_NS, np.int64)
    valid = raw != NOTHING_64
    if TIME_UNITS[unit] == "ns":
        valid &= raw <= _MOST_NS
        value = raw
    elif TIME_UNITS[unit] == "us":
        valid &= raw <= _MOST_NS // np.uint64(1000)
        value = raw * np.uint64(1000)
    else:
        value = (raw >> np.uint64(32)) * _NS_PER_S + ((raw & _LOW) * _NS_PER_S >> np.uint64(32))
    return np.where(valid, value.astype(np.int64), MISSING_NS)

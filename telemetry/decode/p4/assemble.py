"""Parts in the devices' numbers made into one batch in bytes, nanoseconds and names; imports only
``telemetry`` and its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import take_rows
from telemetry.decode.p4.columns import HOP_COLUMNS, Part
from telemetry.decode.p4.names import NO_UNIT, TIME_UNITS, Names, Places
from telemetry.decode.p4.raw import NOTHING_8, NOTHING_32, NOTHING_64
from telemetry.decode.p4.result import NO_REASON, NOT_TOLD, P4Reports, Senders
from telemetry.decode.p4.source_nodes import NodesOf, tell_nodes
from telemetry.errors import ReportError
from telemetry.report import MARK_UNKNOWN, MISSING_NS, ReportBatch, ReportProblem

_CE = 3
_MOST_NS = np.uint64(np.iinfo(np.int64).max)
_NS_PER_S = np.uint64(1_000_000_000)
_U64 = np.uint64
_LOW = np.uint64(0xFFFF_FFFF)
_FREE_PLACES, _BYTES_A_PLACE = 16_384, 128


def most_places(n_bytes: int) -> int:
    """How many places payloads of so many bytes may name that are not known yet: each takes time and memory
    as some hundred bytes do.
    """
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
    """One batch of all parts, in the order of payloads and of the reports in them. ``nodes`` tells who
    sent payloads that do not say. Reports of places beyond ``most_places`` new ones are left out.
    """
    flow, flow_keys = names.flows([part.flow for part in parts])
    rows = _joined(parts)
    hop_counts = np.concatenate(
        [np.full(len(part.payload), part.node.shape[1], np.int64) for part in parts]
        or [np.empty(0, np.int64)]
    )
    offset = np.zeros(len(flow) + 1, np.int64)
    np.cumsum(hop_counts, out=offset[1:])
    marked = np.concatenate([_marks(part) for part in parts] or [np.empty(0, np.int8)])
    if len(parts) > 1:  # the rows of one part are in order
        # A payload holds fewer than 2**16 reports. The parts are runs in order, which this sort only merges.
        order = np.argsort(rows["payload"] << 16 | rows["place"], kind="stable")
        offset, hops = take_rows(offset, order)
        flow, marked = flow[order], marked[hops]
        rows = {name: column[hops if name in HOP_COLUMNS else order] for name, column in rows.items()}
    if nodes is not None:
        senders = tell_nodes(rows["node"], offset, rows["payload"], senders, nodes)
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
        flow, marked = flow[kept], marked[hops]
        rows = {name: column[hops if name in HOP_COLUMNS else kept] for name, column in rows.items()}
        names.forget_places()
        number = names.place_numbers(at[hops], ports[hops])
    places = names.places(number)
    place, last = places.number, places.number[offset[1:] - 1]
    ts_ns = received_ns[rows["payload"]]
    if device_time and len(last):
        dated_ns = _times(rows["date"], places, last)
        ts_ns = np.where(dated_ns != MISSING_NS, dated_ns, ts_ns)
    told = rows["occupancy"] != NOTHING_32
    occupancy = np.where(told, rows["occupancy"].astype(np.int64), NOT_TOLD)
    batch = ReportBatch(
        index=rows["payload"],
        ts_ns=ts_ns,
        flow=flow,
        packet_bytes=rows["packet_bytes"],
        sampling_rate=places.sampling_rate[last],
        hop_offset=offset,
        hop_site=places.site.astype(np.int32),
        queue_bytes=np.where(told, occupancy * places.unit_bytes[place], np.nan),
        ingress_ns=_times(rows["ingress_time"], places, place),
        egress_ns=_times(rows["egress_time"], places, place),
        marked=marked,
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


def _too_many_places(first: int, count: int, most: int) -> ReportProblem:
    said = ReportError(
        f"datagram {first} byte 0",
        f"{count} reports of places after {most} that were not known yet",
        "a fabric has a limited number of ports and queues",
        "look at who sends to this port; these reports were left out",
    )
    return ReportProblem(first, str(said))


_ROW_COLUMNS = {
    "payload": np.int64,
    "place": np.int64,
    "flags": np.uint8,
    "packet_bytes": np.int64,
    "queue_pair": np.int32,
    "sequence": np.int32,
    "hop_limit": np.int16,
    "identity": np.int64,
    "drop_reason": np.uint8,
    "date": np.uint64,
}


def _joined(parts: Sequence[Part]) -> dict[str, NDArray[Any]]:
    kinds = _ROW_COLUMNS | {name: kind for name, (kind, _) in HOP_COLUMNS.items()}
    return {
        name: (
            getattr(parts[0], name).reshape(-1)
            if len(parts) == 1
            else np.concatenate([np.empty(0, kind), *(getattr(part, name).reshape(-1) for part in parts)])
        )
        for name, kind in kinds.items()
    }


def _marks(part: Part) -> NDArray[np.int8]:
    """Whether the packet was marked when it left the last hop; of those before nothing is said. That one
    which ends unmarked never was would be known, but only of such: a hop told of those alone seems never to
    mark.
    """
    marked = np.full(part.node.shape, MARK_UNKNOWN, np.int8)
    marked[part.ecn >= 0, -1] = part.ecn[part.ecn >= 0] == _CE
    return marked.reshape(-1)


def _times(raw: NDArray[np.uint64], places: Places, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times at each ``place``, in its device's units, as nanoseconds; ``MISSING_NS`` where not told, beyond
    what 63 bits hold, or of a device without a profile.
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
    told = raw != NOTHING_64
    if TIME_UNITS[unit] == "ns":
        told &= raw <= _MOST_NS
        value = raw
    elif TIME_UNITS[unit] == "us":
        told &= raw <= _MOST_NS // np.uint64(1000)
        value = raw * np.uint64(1000)
    else:
        value = (raw >> np.uint64(32)) * _NS_PER_S + ((raw & _LOW) * _NS_PER_S >> np.uint64(32))
    return np.where(told, value.astype(np.int64), MISSING_NS)

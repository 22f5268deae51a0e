"""INT headers of HPCC, posted as JSON records by sending hosts, to a ``ReportBatch``.

HPCC's receiver returns the header in its acknowledgement, so the sender's host has it. A record is that
header, the flow, and the flow's path: the header does not say where a hop was.

Header layout (alibaba-edu/High-Precision-Congestion-Control, ``int-header.h``): five hops of 64 bits in path
order, then the number of hops (16 bits), all little-endian. From its low end a hop is the line rate's code
(3 bits), the packet's departure (24 bits, ns), the port's sent bytes (20 bits, units of 128 bytes) and queue
(17 bits, units of 80 bytes). The fabric's factor ``multi`` enlarges the last two units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from telemetry.columns import offsets
from telemetry.decode.body import DEFAULT_MAX_BODY_BYTES, Decoded, unpacked
from telemetry.decode.json import WORDING as REPORT
from telemetry.decode.json import Flow, Name, Nanoseconds, PacketBytes, QueueNumber
from telemetry.decode.records import RecordType, Wording, read_records, unread_keys
from telemetry.errors import ReportError
from telemetry.report import (
    LEAST_SAMPLING_RATE,
    MARK_UNKNOWN,
    MISSING_NS,
    FlowKeys,
    HopSite,
    ReportBatch,
    ReportProblem,
)

HEADER_BYTES = 42
MOST_HOPS = 5
QUEUE_UNIT_BYTES = 80
_QUEUE_BIT = 3 + 24 + 20  # a hop's first of the queue: the last field
_HEADER = np.dtype([("hop", "<u8", (MOST_HOPS,)), ("count", "<u2")])


@dataclass(frozen=True, slots=True, eq=False)
class HpccHops:
    """Hops of several headers in compressed rows: ``offset[h]:offset[h + 1]`` are header h's, in path order.

    ``passed`` is how many hops each packet passed: beyond five the first are overwritten. Of a hop's fields
    only ``queue_units`` is read.
    """

    offset: NDArray[np.int64]
    passed: NDArray[np.int64]
    queue_units: NDArray[np.int64]

    @classmethod
    def read(cls, headers: bytes) -> HpccHops:
        """Reads concatenated headers; raises ``ValueError`` for a partial one."""
        held = np.frombuffer(headers, _HEADER)
        passed = held["count"].astype(np.int64)
        kept = np.minimum(passed, MOST_HOPS)
        offset = offsets(kept)
        # The sixth hop overwrites the first: the oldest one left is where the next would go.
        begin = np.where(passed > MOST_HOPS, passed % MOST_HOPS, 0)
        header = np.repeat(np.arange(len(held)), kept)
        rank = np.arange(offset[-1]) - offset[header]
        word = held["hop"][header, (begin[header] + rank) % MOST_HOPS]
        return cls(offset=offset, passed=passed, queue_units=(word >> np.uint64(_QUEUE_BIT)).astype(np.int64))


_MOST_ON_A_WAY = 64
_MOST_MULTI = 1 << 16

WORDING = Wording(
    noun="record",
    plural="HPCC records",
    whole="a record is a JSON object with ts_ns, flow, packet_bytes, sampling_rate and header",
    absent="leave out unknown values",
    rules=MappingProxyType(
        {name: rule for name, rule in REPORT.rules.items() if name not in ("hops", "queue_bytes")}
        | {
            "header": f"header is the INT header's {HEADER_BYTES} bytes in hex",
            "multi": f"multi is a whole number from 1 to {_MOST_MULTI}",
            "path": f"path is an array of 1 to {_MOST_ON_A_WAY} places, or null",
        }
    ),
)


class _Place(Struct, gc=False, frozen=True):
    switch: Name | None = None
    ingress_port: Name | None = None
    egress_port: Name | None = None
    queue: QueueNumber | None = None


class _Record(Struct, gc=False):
    ts_ns: Nanoseconds
    flow: Flow
    packet_bytes: PacketBytes
    sampling_rate: Annotated[float, Meta(ge=LEAST_SAMPLING_RATE, le=1)]
    header: Annotated[str, Meta(pattern=rf"^[0-9a-fA-F]{{{2 * HEADER_BYTES}}}\Z")]
    multi: Annotated[int, Meta(ge=1, le=_MOST_MULTI)] = 1
    path: Annotated[list[_Place], Meta(min_length=1, max_length=_MOST_ON_A_WAY)] | None = None


_RECORDS = RecordType(_Record, flow=Flow, path=_Place)


def decode(
    body: bytes, *, content_encoding: str | None = None, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
) -> Decoded:
    """Records from one object, an array or NDJSON, gzipped or not (``docs/telemetry/int-hpcc.md``).

    A record that breaks a rule is reported in ``errors`` by its position, the others are kept. Raises
    ``DecodeError`` only for a body without any record.
    """
    text = unpacked(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)
    records: list[_Record] = []
    kept: list[int] = []

    def take(some: list[_Record], positions: list[int]) -> list[ReportProblem]:
        problems: list[ReportProblem] = []
        passed = HpccHops.read(_headers(some)).passed.tolist()
        for record, position, hops in zip(some, positions, passed, strict=True):
            wrong = _wrong(record, position, hops)
            if wrong is None:
                records.append(record)
                kept.append(position)
            else:
                problems.append(ReportProblem(position, str(wrong)))
        return problems

    problems = read_records(text, _RECORDS, WORDING, take)
    batch = _columns(records, kept)
    return Decoded(batch, tuple(problems), unread=unread_keys(text, _RECORDS))


def _headers(records: Sequence[_Record]) -> bytes:
    return bytes.fromhex("".join([record.header for record in records]))


def _wrong(record: _Record, position: int, hops: int) -> ReportError | None:
    """The error in a record whose fields are each valid; None without one."""
    if hops == 0:
        remedy = "check that switches fill the header; this record was left out"
        rule = "a report has at least one"
        return ReportError(f"record {position} header", "a count of 0 hops", rule, remedy)
    if record.path is not None and len(record.path) != hops:
        received = f"{len(record.path)} places for {hops} hops"
        rule = "a path has a place for each hop that the header counts"
        remedy = "correct the path; this record was left out"
        return ReportError(f"record {position} path", received, rule, remedy)
    return None


def _columns(records: Sequence[_Record], positions: Sequence[int]) -> ReportBatch:
    hops = HpccHops.read(_headers(records))
    flows: dict[Flow, int] = {}
    flow = np.array([flows.setdefault(record.flow, len(flows)) for record in records], np.int32)
    multi = np.array([record.multi for record in records], np.int64)
    counts = np.diff(hops.offset)
    sites: dict[HopSite, int] = {}
    site = [
        sites.setdefault(place, len(sites))
        for record, count in zip(records, counts.tolist(), strict=True)
        for place in _places(record, count)
    ]
    no_time = np.full(len(site), MISSING_NS, np.int64)
    queue_bytes = hops.queue_units * np.repeat(QUEUE_UNIT_BYTES * multi, counts)
    return ReportBatch(
        index=np.array(positions, np.int64),
        ts_ns=np.array([record.ts_ns for record in records], np.int64),
        flow=flow,
        packet_bytes=np.array([record.packet_bytes for record in records], np.int64),
        sampling_rate=np.array([record.sampling_rate for record in records], np.float64),
        hop_offset=hops.offset,
        hop_site=np.array(site, np.int32),
        queue_bytes=queue_bytes.astype(np.float64),
        # A hop has the packet's departure without its arrival: no residence time follows.
        ingress_ns=no_time,
        egress_ns=no_time,
        marked=np.full(len(site), MARK_UNKNOWN, np.int8),
        flow_keys=FlowKeys.of(flow.key for flow in flows),
        sites=tuple(sites),
    )


def _places(record: _Record, count: int) -> list[HopSite]:
    """Where the header's hops were: at the last places of the path."""
    if record.path is None:
        return [HopSite(None, None, None, None)] * count
    return [
        HopSite(place.switch, place.ingress_port, place.egress_port, place.queue)
        for place in record.path[-min(count, MOST_HOPS) :]
    ]

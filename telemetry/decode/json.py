"""INT reports in JSON (one object, an array, NDJSON; gzip of each) to a ``ReportBatch``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct
from numpy.typing import NDArray

from telemetry.columns import offsets
from telemetry.decode.body import DEFAULT_MAX_BODY_BYTES, MAX_NAME_LENGTH, Decoded, unpacked
from telemetry.decode.records import (
    MOST_EXPLAINED,
    UNREADABLE,
    RecordType,
    Wording,
    broken_json,
    explained,
    not_explained,
    read_records,
    unread_keys,
)
from telemetry.report import (
    LEAST_SAMPLING_RATE,
    MARK_UNKNOWN,
    MISSING_NS,
    FlowKeys,
    HopSite,
    ReportBatch,
    ReportProblem,
    joined,
)
from telemetry.state import FlowKey
from telemetry.topology import plain_address

MAX_HOPS = 64
MOST_INT32, MOST_NS, MOST_QUEUE_BYTES = 2**31 - 1, 2**63 - 1, 2**53
_TIME = f"a whole number of nanoseconds from 0 to {MOST_NS}"
_NAME = f"a name (1 to {MAX_NAME_LENGTH} characters)"
_ADDRESS = f"an address (1 to {MAX_NAME_LENGTH} characters)"

WORDING = Wording(
    noun="report",
    plural="INT reports",
    whole="a report is a JSON object with ts_ns, flow, packet_bytes, sampling_rate and hops",
    absent="send null for a hop value the device does not give",
    rules=MappingProxyType(
        {
            "ts_ns": f"ts_ns is {_TIME}",
            "flow": "flow is an object with src, dst, sport, dport, protocol",
            "src": f"src is {_ADDRESS}",
            "dst": f"dst is {_ADDRESS}",
            "sport": "sport is a whole number from 0 to 65535",
            "dport": "dport is a whole number from 0 to 65535",
            "protocol": "protocol is a whole number from 0 to 255",
            "packet_bytes": f"packet_bytes is a whole number of bytes from 1 to {MOST_INT32}",
            "sampling_rate": f"sampling_rate is a share of packets, {LEAST_SAMPLING_RATE:g} to 1",
            "hops": f"hops is an array of 1 to {MAX_HOPS} hop objects in path order",
            "switch": f"switch is {_NAME} or null",
            "ingress_port": f"ingress_port is {_NAME} or null",
            "egress_port": f"egress_port is {_NAME} or null",
            "queue": f"queue is a whole number from 0 to {MOST_INT32}, or null",
            "queue_bytes": f"queue_bytes is a number of bytes from 0 to {MOST_QUEUE_BYTES}, or null",
            "ingress_ts_ns": f"ingress_ts_ns is {_TIME}, or null",
            "egress_ts_ns": f"egress_ts_ns is {_TIME}, or null",
            "ecn_marked": "ecn_marked is true, false or null",
        }
    ),
)

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
QueueNumber = Annotated[int, Meta(ge=0, le=MOST_INT32)]
PacketBytes = Annotated[int, Meta(gt=0, le=MOST_INT32)]
Nanoseconds = Annotated[int, Meta(ge=0, le=MOST_NS)]
_L4Port = Annotated[int, Meta(ge=0, le=65_535)]


class _Hop(Struct, gc=False):
    switch: Name | None = None
    ingress_port: Name | None = None
    egress_port: Name | None = None
    queue: QueueNumber | None = None
    queue_bytes: Annotated[float, Meta(ge=0, le=MOST_QUEUE_BYTES)] | None = None
    ingress_ts_ns: Nanoseconds | None = None
    egress_ts_ns: Nanoseconds | None = None
    ecn_marked: bool | None = None


class Flow(Struct, gc=False, frozen=True):
    """The five-tuple of a record."""

    src: Name
    dst: Name
    sport: _L4Port
    dport: _L4Port
    protocol: Annotated[int, Meta(ge=0, le=255)]

    @property
    def key(self) -> FlowKey:
        src, dst = plain_address(self.src), plain_address(self.dst)
        return FlowKey(src, dst, self.sport, self.dport, self.protocol)


class _Report(Struct, gc=False):
    ts_ns: Nanoseconds
    # Left as text: thousands of packets repeat one flow, so each spelling is decoded once (see _flows).
    flow: Raw
    packet_bytes: PacketBytes
    sampling_rate: Annotated[float, Meta(ge=LEAST_SAMPLING_RATE, le=1)]
    hops: Annotated[list[_Hop], Meta(min_length=1, max_length=MAX_HOPS)]


Whole = TypeVar("Whole", bound=np.signedinteger[Any])

_REPORTS = RecordType(_Report, flow=Flow, hops=_Hop)
_FLOWS = RecordType(Flow)


def decode(
    body: bytes, *, content_encoding: str | None = None, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
) -> Decoded:
    """INT reports from one object, an array or NDJSON, gzipped or not (``docs/telemetry/int-report.md``).

    A report that breaks a rule is reported in ``errors`` by its position (from 0; blank lines do not count),
    the others are kept. Raises ``DecodeError`` only for a body without any report: empty, not JSON objects,
    over ``max_body_bytes``, or a damaged gzip stream.
    """
    text = unpacked(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)
    batches: list[ReportBatch] = []
    named = 0

    def take(reports: list[_Report], positions: list[int]) -> list[ReportProblem]:
        nonlocal named
        batch, problems = _columns(reports, positions, named)
        named += len(problems)
        batches.append(batch)
        return problems

    problems = read_records(text, _REPORTS, WORDING, take)
    return Decoded(joined(batches), tuple(problems), unread=unread_keys(text, _REPORTS))


def _flows(
    reports: Sequence[_Report], positions: Sequence[int], named: int
) -> tuple[list[int], tuple[FlowKey, ...], list[ReportProblem]]:
    """Flow number of each report (-1: invalid), the distinct flows, and the problems; ``named`` were before
    these.
    """
    spellings: dict[bytes, int] = {}
    spelled = [spellings.setdefault(bytes(report.flow), len(spellings)) for report in reports]
    numbers: dict[FlowKey, int] = {}
    number_of: list[int] = []
    reasons: dict[int, tuple[bytes, Exception]] = {}
    for spelling, raw in enumerate(spellings):
        try:
            flow = _FLOWS.one.decode(raw)
        except UNREADABLE as error:
            reasons[spelling] = (raw, error)
            number_of.append(-1)
            continue
        number_of.append(numbers.setdefault(flow.key, len(numbers)))
    problems: list[ReportProblem] = []
    if reasons:
        for row, spelling in enumerate(spelled):
            if spelling in reasons:
                position = positions[row]
                raw, reason = reasons[spelling]
                at = f"report {position} flow"
                if named + len(problems) >= MOST_EXPLAINED:
                    problems.append(ReportProblem(position, not_explained(at)))
                    continue
                if isinstance(reason, msgspec.ValidationError):
                    said = explained(at, raw, str(reason), field="flow", wording=WORDING)
                else:
                    said = broken_json(at, raw, str(reason), WORDING)
                problems.append(ReportProblem(position, str(said)))
    return [number_of[spelling] for spelling in spelled], tuple(numbers), problems


def _columns(
    reports: list[_Report], positions: list[int], named: int
) -> tuple[ReportBatch, list[ReportProblem]]:
    flow, flow_keys, problems = _flows(reports, positions, named)
    if problems:
        sound = [row for row, number in enumerate(flow) if number >= 0]
        positions = [positions[row] for row in sound]
        reports = [reports[row] for row in sound]
        flow = [flow[row] for row in sound]
    n = len(reports)
    hop_offset = offsets(np.fromiter([len(report.hops) for report in reports], np.int64, n))
    hops = list(chain.from_iterable([report.hops for report in reports]))
    m = len(hops)
    sites: dict[tuple[str | None, str | None, str | None, int | None], int] = {}
    hop_site = [
        sites.setdefault((hop.switch, hop.ingress_port, hop.egress_port, hop.queue), len(sites))
        for hop in hops
    ]
    batch = ReportBatch(
        index=np.array(positions, np.int64),
        ts_ns=np.fromiter([report.ts_ns for report in reports], np.int64, n),
        flow=np.fromiter(flow, np.int32, n),
        packet_bytes=np.fromiter([report.packet_bytes for report in reports], np.int64, n),
        sampling_rate=np.fromiter([report.sampling_rate for report in reports], np.float64, n),
        hop_offset=hop_offset,
        hop_site=np.fromiter(hop_site, np.int32, m),
        # numpy turns None into NaN when it makes floats of a list.
        queue_bytes=np.array([hop.queue_bytes for hop in hops], dtype=np.float64),
        ingress_ns=_filled([hop.ingress_ts_ns for hop in hops], MISSING_NS, np.int64),
        egress_ns=_filled([hop.egress_ts_ns for hop in hops], MISSING_NS, np.int64),
        marked=_filled([hop.ecn_marked for hop in hops], MARK_UNKNOWN, np.int8),
        flow_keys=FlowKeys.of(flow_keys),
        sites=tuple(HopSite(*site) for site in sites),
    )
    return batch, problems


def _filled(values: Sequence[int | None], missing: int, kind: type[Whole]) -> NDArray[Whole]:
    try:
        return np.fromiter(values, kind, len(values))
    except TypeError:  # a None somewhere: the slower way
        return np.fromiter([missing if value is None else value for value in values], kind, len(values))

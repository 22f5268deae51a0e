"""INT reports in JSON (one object, an array, NDJSON; gzip of each) to a ``ReportBatch``, bad reports left
out.

Imports only msgspec, numpy, ``telemetry.report``, ``telemetry.state``, ``telemetry.errors`` and its neighbour
``body``. The body is decoded in one call where every report is sound; only a body with a bad report is taken
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Raw, Struct

from telemetry.decode.body import Piece, array_pieces, line_pieces, unpacked
from telemetry.decode.problem import broken_json, explained
from telemetry.errors import DecodeError, ReportError
from telemetry.report import MARK_UNKNOWN, MISSING_NS, HopSite, ReportBatch, ReportProblem
from telemetry.state import FlowKey

DEFAULT_MAX_BODY_BYTES = 64 << 20
MAX_HOPS = 64
MAX_NAME_LENGTH = 256

# msgspec's own errors are ValueErrors; so is the one it lets through for text that is not UTF-8.
_UNREADABLE = (ValueError, RecursionError)

_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
_Nanoseconds = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_L4Port = Annotated[int, Meta(ge=0, le=65_535)]


class _Hop(Struct, gc=False):
    switch: _Name | None = None
    ingress_port: _Name | None = None
    egress_port: _Name | None = None
    queue: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    queue_bytes: Annotated[float, Meta(ge=0, le=2**53)] | None = None
    ingress_ts_ns: _Nanoseconds | None = None
    egress_ts_ns: _Nanoseconds | None = None
    ecn_marked: bool | None = None


class _Flow(Struct, gc=False):
    src: _Name
    dst: _Name
    sport: _L4Port
    dport: _L4Port
    protocol: Annotated[int, Meta(ge=0, le=255)]


class _Report(Struct, gc=False):
    ts_ns: _Nanoseconds
    # Left as text: thousands of packets repeat one flow, so each spelling of it is decoded once (see _flows).
    flow: Raw
    packet_bytes: Annotated[int, Meta(gt=0, le=2**31 - 1)]
    sampling_rate: Annotated[float, Meta(gt=0, le=1)]
    hops: Annotated[list[_Hop], Meta(min_length=1, max_length=MAX_HOPS)]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The sound reports of a body, and the others by position."""

    batch: ReportBatch
    errors: tuple[ReportProblem, ...]


def decode(
    body: bytes, *, content_encoding: str | None = None, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
) -> Decoded:
    """INT reports from one object, an array or NDJSON, gzipped or not (``reference/README.md`` has the
    format).

    A report that breaks a rule is left out and named in ``errors`` by its position (from 0; blank lines do
    not count), the others are kept. Raises ``DecodeError`` only where the body holds no reports at all:
    empty, not JSON objects, over ``max_body_bytes``, or a damaged gzip stream.
    """
    text = unpacked(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)
    reports, positions, problems = _reports(text)
    batch, flow_problems = _columns(reports, positions)
    return Decoded(batch, tuple(sorted([*problems, *flow_problems])))


def _reports(text: bytes) -> tuple[list[_Report], list[int] | None, list[ReportProblem]]:
    """The sound reports, their positions (None: 0, 1, 2, ...), and the problems of the rest."""
    first = text[:4096].lstrip()[:1] or text.lstrip()[:1]
    if first == b"[":
        try:
            return msgspec.json.decode(text, type=list[_Report]), None, []
        except _UNREADABLE:
            return _salvaged_array(text)
    if first == b"{":
        try:
            return msgspec.json.Decoder(_Report).decode_lines(text), None, []
        except _UNREADABLE:
            return _each(_object_pieces(text))
    pieces = line_pieces(text)
    if not any(piece.text.startswith(b"{") for piece in pieces):
        received = "nothing" if not pieces else repr(text.lstrip()[:40].decode("utf-8", "replace"))
        raise DecodeError(
            "body",
            received,
            "INT reports are a JSON object, an array of objects, or one object a line",
            "see the INT report format",
        )
    return _each(pieces)


def _object_pieces(text: bytes) -> list[Piece]:
    # A lone object may be spread over lines; only when it is not one object are the lines the reports.
    try:
        msgspec.json.decode(text, type=Raw)
    except _UNREADABLE:
        return line_pieces(text)
    return [Piece(text, "")]


def _salvaged_array(text: bytes) -> tuple[list[_Report], list[int], list[ReportProblem]]:
    try:
        raws = msgspec.json.decode(text, type=list[Raw])
    except _UNREADABLE:
        found = array_pieces(text)
        reports, positions, problems = _each(found.pieces)
        if found.break_place is not None:
            if not reports and not any(piece.text.startswith(b"{") for piece in found.pieces):
                raise DecodeError(
                    f"body {found.break_place}",
                    found.break_received,
                    "a JSON array is [object, object, ...]",
                    "send whole JSON; nothing before the break was a report",
                ) from None
            error = ReportError(
                f"body {found.break_place}",
                found.break_received,
                "a JSON array is [object, object, ...]",
                "send whole JSON; reports before the break are kept, the rest is lost",
            )
            problems.append(ReportProblem(len(found.pieces), str(error)))
        return reports, positions, problems
    return _each([Piece(bytes(raw), "") for raw in raws])


def _each(pieces: Sequence[Piece]) -> tuple[list[_Report], list[int], list[ReportProblem]]:
    decoder = msgspec.json.Decoder(_Report)
    reports: list[_Report] = []
    positions: list[int] = []
    problems: list[ReportProblem] = []
    for position, piece in enumerate(pieces):
        at = f"report {position}" + (f" ({piece.place})" if piece.place else "")
        try:
            reports.append(decoder.decode(piece.text))
            positions.append(position)
        except msgspec.ValidationError as error:
            problems.append(ReportProblem(position, str(explained(at, piece.text, str(error), field=""))))
        except _UNREADABLE as error:
            problems.append(ReportProblem(position, str(broken_json(at, piece.text, str(error)))))
    return reports, positions, problems


def _flows(
    reports: Sequence[_Report], positions: Sequence[int] | None
) -> tuple[list[int], tuple[FlowKey, ...], list[ReportProblem]]:
    """Flow number of each report (-1: its flow is unusable), the distinct flows, and the problems."""
    spellings: dict[bytes, int] = {}
    spelled = [spellings.setdefault(bytes(report.flow), len(spellings)) for report in reports]
    decoder = msgspec.json.Decoder(_Flow)
    numbers: dict[FlowKey, int] = {}
    number_of: list[int] = []
    reasons: dict[int, tuple[bytes, Exception]] = {}
    for spelling, raw in enumerate(spellings):
        try:
            flow = decoder.decode(raw)
        except _UNREADABLE as error:
            reasons[spelling] = (raw, error)
            number_of.append(-1)
            continue
        key = FlowKey(flow.src, flow.dst, flow.sport, flow.dport, flow.protocol)
        number_of.append(numbers.setdefault(key, len(numbers)))
    problems = []
    if reasons:
        for row, spelling in enumerate(spelled):
            if spelling in reasons:
                position = row if positions is None else positions[row]
                raw, reason = reasons[spelling]
                at = f"report {position} flow"
                if isinstance(reason, msgspec.ValidationError):
                    said = explained(at, raw, str(reason), field="flow")
                else:
                    said = broken_json(at, raw, str(reason))
                problems.append(ReportProblem(position, str(said)))
    return [number_of[spelling] for spelling in spelled], tuple(numbers), problems


def _columns(reports: list[_Report], positions: list[int] | None) -> tuple[ReportBatch, list[ReportProblem]]:
    flow, flow_keys, problems = _flows(reports, positions)
    if problems:
        sound = [row for row, number in enumerate(flow) if number >= 0]
        positions = sound if positions is None else [positions[row] for row in sound]
        reports = [reports[row] for row in sound]
        flow = [flow[row] for row in sound]
    n = len(reports)
    hop_offset = np.zeros(n + 1, np.int64)
    np.cumsum(np.fromiter([len(report.hops) for report in reports], np.int64, n), out=hop_offset[1:])
    hops = list(chain.from_iterable([report.hops for report in reports]))
    m = len(hops)
    sites: dict[tuple[str | None, str | None, str | None, int | None], int] = {}
    hop_site = [
        sites.setdefault((hop.switch, hop.ingress_port, hop.egress_port, hop.queue), len(sites))
        for hop in hops
    ]
    batch = ReportBatch(
        index=np.arange(n, dtype=np.int64) if positions is None else np.array(positions, np.int64),
        ts_ns=np.fromiter([report.ts_ns for report in reports], np.int64, n),
        flow=np.fromiter(flow, np.int32, n),
        packet_bytes=np.fromiter([report.packet_bytes for report in reports], np.int64, n),
        sampling_rate=np.fromiter([report.sampling_rate for report in reports], np.float64, n),
        hop_offset=hop_offset,
        hop_site=np.fromiter(hop_site, np.int32, m),
        # numpy turns None into NaN when it makes floats of a list.
        queue_bytes=np.array([hop.queue_bytes for hop in hops], dtype=np.float64),
        ingress_ns=_nanoseconds([hop.ingress_ts_ns for hop in hops]),
        egress_ns=_nanoseconds([hop.egress_ts_ns for hop in hops]),
        marked=_marks([hop.ecn_marked for hop in hops]),
        flow_keys=flow_keys,
        sites=tuple(HopSite(*site) for site in sites),
    )
    return batch, problems


def _nanoseconds(values: list[int | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    try:
        return np.fromiter(values, np.int64, len(values))
    except TypeError:  # a None somewhere: the slower way
        return np.fromiter(
            [MISSING_NS if value is None else value for value in values], np.int64, len(values)
        )


def _marks(values: list[bool | None]) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    try:
        return np.fromiter(values, np.int8, len(values))
    except TypeError:
        return np.fromiter(
            [MARK_UNKNOWN if value is None else value for value in values], np.int8, len(values)
        )

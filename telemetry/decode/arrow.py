"""INT reports in an Arrow IPC stream (a row per report; gzip allowed) to a ``ReportBatch``.

The rules are those of JSON reports; the schema is in ``docs/telemetry/int-report.md``. Columns are checked
whole; only rejected rows are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from telemetry.columns import take_rows
from telemetry.decode.arrow_stream import (
    Mask,
    Names,
    Numbers,
    names,
    numbered,
    numbers,
    opened,
    record_batches,
)
from telemetry.decode.body import DEFAULT_MAX_BODY_BYTES, MAX_NAME_LENGTH, Decoded, unpacked
from telemetry.decode.json import MAX_HOPS, MOST_INT32, MOST_NS, MOST_QUEUE_BYTES, WORDING
from telemetry.decode.records import shown, too_many
from telemetry.errors import DecodeError, OversizeError, ReportError
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
from telemetry.topology import plain_address

MOST_PROBLEMS = 20_000
"""Limit for one stream: a row takes a few bytes, the sentence about it a hundred."""

_ROW_BYTES, _HOP_BYTES = 100, 120  # of a row and a hop while they are decoded
_SHOWN_BYTES = 512  # of a text, before it is shortened for a message


class _ColumnType(NamedTuple):
    """The type of a column: a test for it, its name for messages, and the range of values (None: names)."""

    fits: Callable[[pa.DataType], bool]
    words: str
    span: tuple[float, float] | None


def _is_text(kind: pa.DataType) -> bool:
    # No views: a few bytes of one may stand for a text of any length.
    is_text: bool = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return is_text


def _is_name(kind: pa.DataType) -> bool:
    return _is_text(kind.value_type) if pa.types.is_dictionary(kind) else _is_text(kind)


def _is_real(kind: pa.DataType) -> bool:
    is_real: bool = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    return is_real


def _whole(low: int, high: int) -> _ColumnType:
    return _ColumnType(pa.types.is_integer, "integers", (low, high))


_NAME = _ColumnType(_is_name, "strings, plain or by dictionary", None)
_COLUMNS: Mapping[str, _ColumnType] = MappingProxyType(
    {
        "ts_ns": _whole(0, MOST_NS),
        "src": _NAME,
        "dst": _NAME,
        "sport": _whole(0, 65_535),
        "dport": _whole(0, 65_535),
        "protocol": _whole(0, 255),
        "packet_bytes": _whole(1, MOST_INT32),
        "sampling_rate": _ColumnType(_is_real, "floating-point numbers", (LEAST_SAMPLING_RATE, 1)),
    }
)
_HOP_COLUMNS: Mapping[str, _ColumnType] = MappingProxyType(
    {
        "switch": _NAME,
        "ingress_port": _NAME,
        "egress_port": _NAME,
        "queue": _whole(0, MOST_INT32),
        "queue_bytes": _ColumnType(_is_real, "floating-point numbers or integers", (0, MOST_QUEUE_BYTES)),
        "ingress_ts_ns": _whole(0, MOST_NS),
        "egress_ts_ns": _whole(0, MOST_NS),
        "ecn_marked": _ColumnType(pa.types.is_boolean, "booleans", (0, 1)),
    }
)


def decode(
    body: bytes, *, content_encoding: str | None = None, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
) -> Decoded:
    """INT reports from an Arrow IPC stream, gzipped or not.

    A row that breaks a rule is reported in ``errors`` by its position in the stream, the others are kept;
    after ``MOST_PROBLEMS`` of them the rest is dropped. Raises ``DecodeError`` for a broken stream or another
    schema, ``OversizeError`` for more than ``max_body_bytes`` decoded.
    """
    stream = unpacked(body, content_encoding=content_encoding, max_body_bytes=max_body_bytes)
    columns = _columns_of(opened(stream))
    parts: list[ReportBatch] = []
    problems: list[ReportProblem] = []
    position = size = 0
    for records in record_batches(stream, columns, max_bytes=max_body_bytes):
        size += _ROW_BYTES * records.num_rows + _HOP_BYTES * len(records.column("hops").values)
        if size > max_body_bytes:
            received = f"{position + records.num_rows} reports or more"
            rule = f"reports take at most {max_body_bytes} bytes decoded"
            raise OversizeError("body", received, rule, "send smaller bodies")
        if records.num_rows:
            parts.append(_Rows(records, position).batch(problems))
        position += records.num_rows
        if len(problems) > MOST_PROBLEMS:
            break
    return Decoded(joined(parts), tuple(problems))


def _columns_of(schema: pa.Schema) -> list[int]:
    """Indices of the columns to read. Raises ``DecodeError`` where the schema is not that of reports."""
    hops = _only(schema, "hops")
    if not (pa.types.is_list(hops.type) or pa.types.is_large_list(hops.type)) or not pa.types.is_struct(
        hops.type.value_type
    ):
        raise _wrong_schema("hops", f"type {hops.type}", "hops is a list of structs")
    inside = hops.type.value_type
    for name, kind in _COLUMNS.items():
        _check_type(name, _only(schema, name).type, kind)
    for name, kind in _HOP_COLUMNS.items():
        # Looked up by name: other fields' names may not even be valid text.
        found = [inside.field(number).type for number in inside.get_all_field_indices(name)]
        if len(found) > 1:
            raise _wrong_schema(f"hops.{name}", f"{len(found)} of them", "a hop has each value once")
        if found and not pa.types.is_null(found[0]):
            _check_type(f"hops.{name}", found[0], kind)
    if _has_views(inside):
        raise _wrong_schema(
            "hops", f"type {hops.type}"[:160], "hops has no views, which may all show one text"
        )
    return sorted(schema.get_field_index(name) for name in (*_COLUMNS, "hops"))


def _has_views(kind: pa.DataType) -> bool:
    """Whether the type contains string or binary views: a few bytes of them may take any time to check."""
    if pa.types.is_dictionary(kind):
        return _has_views(kind.value_type)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return True
    return any(_has_views(kind.field(number).type) for number in range(kind.num_fields))


def _only(schema: pa.Schema, name: str) -> pa.Field:
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        raise _wrong_schema(name, f"{len(found) or 'no'} such columns", "each is there once")
    return schema.field(found[0])


def _check_type(name: str, given: pa.DataType, kind: _ColumnType) -> None:
    if not kind.fits(given):
        raise _wrong_schema(name, f"type {given}", f"{name} is a column of {kind.words}")


def _wrong_schema(name: str, received: str, rule: str) -> DecodeError:
    return DecodeError(f"schema {name}", received, rule, "see the Arrow schema of INT reports")


@dataclass(frozen=True, slots=True)
class _Fault:
    """Rows (or hops) that break the rule of a field."""

    field: str
    wrong: Mask


class _Rows:
    """A record batch of reports; ``first`` is the position of its first row in the stream."""

    def __init__(self, records: pa.RecordBatch, first: int) -> None:
        self._records = records
        self._first = first
        hops = records.column("hops")
        every = hops.offsets.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        self._lists = hops
        self._hops = hops.values[every[0] : every[-1]]
        self._offset = every - every[0]
        inside = hops.type.value_type
        places = {name: inside.get_field_index(name) for name in _HOP_COLUMNS}
        self._hop_arrays = {
            name: self._hops.field(place) if place >= 0 else pa.nulls(len(self._hops))
            for name, place in places.items()
        }

    def batch(self, problems: list[ReportProblem]) -> ReportBatch:
        """The valid reports; the errors of the others are added to ``problems``."""
        columns = {name: _read(self._records.column(name), kind) for name, kind in _COLUMNS.items()}
        hops = {name: _read(self._hop_arrays[name], kind) for name, kind in _HOP_COLUMNS.items()}
        faults = [_Fault(name, bad) for name, read in columns.items() if (bad := _bad(read)) is not None]
        faults += self._list_faults()
        hop_faults = [
            _Fault(name, read.wrong)
            for name, read in hops.items()
            if read.wrong is not None and read.wrong.any()
        ]
        if self._hops.null_count:
            hop_faults.insert(0, _Fault("", self._hops.is_null().to_numpy(zero_copy_only=False)))
        offset = self._offset
        rows = np.arange(self._first, self._first + len(self._lists), dtype=np.int64)
        if faults or hop_faults:
            valid = self._report_faults(faults, hop_faults, problems)
            offset, elements = take_rows(offset, valid)
            rows = rows[valid]
            columns = {name: read.take(valid) for name, read in columns.items()}
            hops = {name: read.take(elements) for name, read in hops.items()}
        return _assembled(rows, columns, offset, hops)

    def _list_faults(self) -> Iterator[_Fault]:
        """Reports whose hops are missing, empty, or too many."""
        count = np.diff(self._offset)
        if self._lists.null_count:
            yield _Fault("hops", self._lists.is_null().to_numpy(zero_copy_only=False))
        if len(count) and (count.min() < 1 or count.max() > MAX_HOPS):
            yield _Fault("hops", (count < 1) | (count > MAX_HOPS))

    def _report_faults(
        self, faults: list[_Fault], hop_faults: list[_Fault], problems: list[ReportProblem]
    ) -> NDArray[np.int64]:
        """Adds a problem for the first rule each bad row breaks; returns the valid rows before the limit."""
        wrong = np.logical_or.reduce(
            [np.zeros(len(self._lists), np.bool_), *(fault.wrong for fault in faults)]
        )
        for fault in hop_faults:
            wrong[self._rows_of(np.flatnonzero(fault.wrong))] = True
        bad = np.flatnonzero(wrong)
        room = MOST_PROBLEMS - len(problems)
        end = len(self._lists) if len(bad) <= room else int(bad[room])
        said: dict[int, tuple[str, str, object]] = {}
        for fault in faults:
            for row in np.flatnonzero(fault.wrong[:end]).tolist():
                if row not in said:
                    said[row] = (fault.field, fault.field, self._value(fault.field, row))
        for fault in hop_faults:
            places = np.flatnonzero(fault.wrong[: self._offset[end]])
            for place, row in zip(places.tolist(), self._rows_of(places).tolist(), strict=True):
                if row not in said:
                    where = f"hops[{place - self._offset[row]}]" + (f".{fault.field}" if fault.field else "")
                    value = _plain(self._hop_arrays[fault.field][place]) if fault.field else None
                    said[row] = (fault.field or "hops", where, value)
        for row in sorted(said):
            field, where, value = said[row]
            position = self._first + row
            remedy = "correct the exporter; this report was left out"
            error = ReportError(f"report {position} {where}", shown(value), WORDING.rules[field], remedy)
            problems.append(ReportProblem(position, str(error)))
        if end < len(self._lists):
            rest = self._first + end
            problems.append(ReportProblem(rest, too_many(f"report {rest}", MOST_PROBLEMS, WORDING)))
        return np.flatnonzero(~wrong[:end])

    def _rows_of(self, hops: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each of these hops."""
        return np.searchsorted(self._offset, hops, side="right") - 1

    def _value(self, field: str, row: int) -> object:
        if field != "hops":
            return _plain(self._records.column(field)[row])
        if not self._lists[row].is_valid:
            return None
        return [None] * int(self._offset[row + 1] - self._offset[row])


def _plain(value: pa.Scalar) -> object:
    """A value for a message; only the beginning of a text is copied, as every row may have a long one."""
    if isinstance(value, pa.DictionaryScalar):
        value = value.value
    if not _is_text(value.type) or not value.is_valid:
        return value.as_py()
    return bytes(value.as_buffer()[:_SHOWN_BYTES]).decode("utf-8", "ignore")


def _read(array: pa.Array, kind: _ColumnType) -> Names | Numbers:
    return names(array, MAX_NAME_LENGTH) if kind.span is None else numbers(array, *kind.span)


def _bad(read: Names | Numbers) -> Mask | None:
    """Rows where a required value is missing or wrong; None without any."""
    masks = [mask for mask in (read.absent, read.wrong) if mask is not None and mask.any()]
    return np.logical_or.reduce(masks) if masks else None


def _assembled(
    rows: NDArray[np.int64],
    columns: Mapping[str, Names | Numbers],
    offset: NDArray[np.int64],
    hops: Mapping[str, Names | Numbers],
) -> ReportBatch:
    src, dst = _names(columns["src"]), _names(columns["dst"])
    sport, dport = _numbers(columns["sport"]), _numbers(columns["dport"])
    protocol = _numbers(columns["protocol"])
    flow, at = numbered(
        [src.digits(), dst.digits(), sport.digits(65_536), dport.digits(65_536), protocol.digits(256)]
    )
    hosts: dict[str, int] = {}
    flow_keys = FlowKeys(
        src=_hosts(src, at, hosts),
        dst=_hosts(dst, at, hosts),
        hosts=tuple(hosts),
        sport=sport.values[at].astype(np.uint16),
        dport=dport.values[at].astype(np.uint16),
        protocol=protocol.values[at].astype(np.uint8),
    )
    places = [_names(hops[name]) for name in ("switch", "ingress_port", "egress_port")]
    queue = _numbers(hops["queue"])
    site, at = numbered([*(place.digits() for place in places), queue.digits(MOST_INT32 + 1)])
    queues = [None if number < 0 else number for number in queue.whole(-1)[at].tolist()]
    return ReportBatch(
        index=rows,
        ts_ns=_numbers(columns["ts_ns"]).whole(0),
        flow=flow,
        packet_bytes=_numbers(columns["packet_bytes"]).whole(0),
        sampling_rate=_numbers(columns["sampling_rate"]).real(),
        hop_offset=offset,
        hop_site=site,
        queue_bytes=_numbers(hops["queue_bytes"]).real(),
        ingress_ns=_numbers(hops["ingress_ts_ns"]).whole(MISSING_NS),
        egress_ns=_numbers(hops["egress_ts_ns"]).whole(MISSING_NS),
        marked=_numbers(hops["ecn_marked"]).whole(MARK_UNKNOWN).astype(np.int8),
        flow_keys=flow_keys,
        sites=tuple(map(HopSite, *(place.texts(at) for place in places), queues)),
    )


def _hosts(ends: Names, rows: NDArray[np.int64], hosts: dict[str, int]) -> NDArray[np.int32]:
    """The number in ``hosts`` of the address in each row; new ones are added."""
    texts, place = ends.distinct(rows)
    numbers_of = [hosts.setdefault(plain_address(text), len(hosts)) for text in texts if text is not None]
    return np.array(numbers_of, np.int32)[place]


def _names(read: Names | Numbers) -> Names:
    assert isinstance(read, Names)
    return read


def _numbers(read: Names | Numbers) -> Numbers:
    assert isinstance(read, Numbers)
    return read

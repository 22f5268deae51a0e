"""Arrow IPC streams within limits of size and work, and Arrow columns as checked numpy arrays.

What each message claims to hold is added up before Arrow reads it, so that no stream takes more memory or
time than allowed: buffers may be compressed, and a dictionary is validated again for each batch that uses it.
Layouts: arrow.apache.org/docs/format/Columnar.html, Message.fbs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from telemetry.errors import DecodeError, OversizeError

_MOST_CODES = 2**62

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers or flags: ``values`` (0 where absent), masks of the ``absent`` ones and of those
    out of range (``wrong``); a mask is None where it would be all false.
    """

    values: NDArray[Any]
    absent: Mask | None
    wrong: Mask | None

    def take(self, rows: NDArray[np.int64]) -> Numbers:
        """The column at these rows, of which none may be wrong."""
        return Numbers(self.values[rows], None if self.absent is None else self.absent[rows], None)

    def whole(self, absent: int) -> NDArray[np.int64]:
        """As integers, with ``absent`` for missing values."""
        values = self.values.astype(np.int64, copy=False)
        return values if self.absent is None else np.where(self.absent, np.int64(absent), values)

    def real(self) -> NDArray[np.float64]:
        """As floats, with NaN for missing values."""
        values = self.values.astype(np.float64, copy=False)
        return values if self.absent is None else np.where(self.absent, np.nan, values)

    def digits(self, size: int) -> tuple[NDArray[np.int64], int]:
        """The values (below ``size``) as a part for ``numbered``."""
        return (self.whole(0), size) if self.absent is None else (self.whole(-1) + 1, size + 1)


@dataclass(frozen=True, slots=True)
class Names:
    """A column of texts: ``codes`` index the distinct ``entries`` from 1; 0 is absent."""

    codes: NDArray[np.int64]
    entries: pa.Array
    absent: Mask | None
    wrong: Mask | None

    def take(self, rows: NDArray[np.int64]) -> Names:
        """The column at these rows, of which none may be wrong."""
        absent = None if self.absent is None else self.absent[rows]
        return Names(self.codes[rows], self.entries, absent, None)

    def digits(self) -> tuple[NDArray[np.int64], int]:
        """The codes as a part for ``numbered``."""
        return self.codes, len(self.entries) + 1

    def distinct(self, rows: NDArray[np.int64]) -> tuple[list[str | None], NDArray[np.int64]]:
        """The distinct texts at these rows, and the index of each row's."""
        used, place = np.unique(self.codes[rows], return_inverse=True)
        absent: list[str | None] = [None] if len(used) and used[0] == 0 else []
        return absent + self.entries.take(pa.array(used[len(absent) :] - 1)).to_pylist(), place

    def texts(self, rows: NDArray[np.int64]) -> list[str | None]:
        """The texts at these rows; equal ones share one object."""
        known, place = self.distinct(rows)
        return [known[number] for number in place.tolist()]


def numbers(array: pa.Array, low: float, high: float) -> Numbers:
    """Reads a column of numbers, flags or nulls that range from ``low`` to ``high``."""
    values, absent = _filled(array)
    if values.dtype.kind == "f":
        values = values.astype(np.float64, copy=False)
    if len(values) == 0 or (values.min() >= low and values.max() <= high):  # never true with a NaN
        return Numbers(values, absent, None)
    wrong = ~((values >= low) & (values <= high))
    return Numbers(values, absent, wrong if absent is None else wrong & ~absent)


def _filled(array: pa.Array) -> tuple[NDArray[Any], Mask | None]:
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int8), np.ones(len(array), np.bool_)
    absent = None
    if array.null_count:
        absent = array.is_null().to_numpy(zero_copy_only=False)
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    return array.to_numpy(zero_copy_only=False), absent


def names(array: pa.Array, longest: int) -> Names:
    """Reads a column of texts (plain or dictionary-encoded) or nulls, of 1 to ``longest`` characters."""
    if pa.types.is_null(array.type):
        none = np.ones(len(array), np.bool_)
        return Names(np.zeros(len(array), np.int64), pa.array([], pa.string()), none, None)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    # A dictionary may hold a text twice, or a null.
    distinct = array.dictionary.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False) + 1
    entries = distinct.dictionary
    if distinct.null_count or len(entries) < len(distinct):
        renumbered = distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        codes = np.concatenate(([0], renumbered))[codes]
    absent = codes == 0 if array.null_count or distinct.null_count else None
    if len(entries) == 0:
        return Names(codes, entries, absent, None)
    lengths = pc.utf8_length(entries).to_numpy(zero_copy_only=False)
    if lengths.min() >= 1 and lengths.max() <= longest:
        return Names(codes, entries, absent, None)
    wrong = np.concatenate(([False], (lengths < 1) | (lengths > longest)))[codes]
    return Names(codes, entries, absent, wrong)


def numbered(parts: Sequence[tuple[NDArray[np.int64], int]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Numbers distinct rows from 0 in order of appearance: each row's number, and each number's first row.

    A part is a column of non-negative numbers and their exclusive bound (at most 2**33).
    """
    code, size = parts[0]
    for digits, base in parts[1:]:
        if size > _MOST_CODES // base:
            code, size = _by_appearance(code).astype(np.int64), len(code)
        code, size = code * base + digits, size * base
    number = _by_appearance(code)
    n = len(number)
    first = np.zeros(int(number.max()) + 1 if n else 0, np.int64)
    first[number[::-1]] = np.arange(n - 1, -1, -1)  # the last write, of the first row, wins
    return number, first


def _by_appearance(code: NDArray[np.int64]) -> NDArray[np.int32]:
    indices: NDArray[np.int32] = pa.array(code).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return indices


MOST_BATCHES = 1024
_ROWS_TOGETHER = 4096  # smaller batches are joined: each costs as much as a thousand rows
_BYTES_TOGETHER = 1 << 20
_MOST_APART = 64
_FREE_REPEATS = 32 << 20
_UNREADABLE = (pa.ArrowException, ValueError, LookupError, TypeError, OSError, MemoryError, OverflowError)

# Slots of the tables in Message.fbs.
_MESSAGE_HEADER = 2
_RECORDS_BUFFERS, _RECORDS_COMPRESSION = 2, 3
_DICTIONARY_ID, _DICTIONARY_DATA, _DICTIONARY_IS_DELTA = 0, 1, 2


def opened(body: bytes) -> pa.Schema:
    """The schema of a stream. Raises ``DecodeError`` where the body is not one."""
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            return reader.schema
    except _UNREADABLE as error:
        raise _broken(error) from error


def record_batches(body: bytes, columns: list[int], *, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batches of a stream with these columns, fully validated; small ones are joined.

    Raises ``DecodeError`` for a broken stream, ``OversizeError`` for one that claims more than ``max_bytes``
    unpacked (dictionaries count once per batch), or large dictionaries for batches of few rows.
    """
    _check_claims(body, max_bytes)
    options = pa.ipc.IpcReadOptions(
        included_fields=columns, use_threads=False, ensure_alignment=pa.ipc.Alignment.DataTypeSpecific
    )
    source = pa.BufferReader(body)
    try:
        with pa.ipc.open_stream(source, options=options) as reader:
            small: list[pa.RecordBatch] = []
            rows, begin = 0, source.tell()
            for batch in reader:
                batch.validate(full=True)
                small.append(batch)
                rows += batch.num_rows
                if rows >= _ROWS_TOGETHER or source.tell() - begin >= _BYTES_TOGETHER:
                    yield from _joined(small)
                    small, rows, begin = [], 0, source.tell()
            yield from _joined(small)
    except _UNREADABLE as error:
        if isinstance(error, DecodeError):  # raised by the consumer of the batches
            raise
        raise _broken(error) from error


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in as few batches as possible."""
    if len(batches) < 2:
        return batches
    try:
        together: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    except pa.ArrowException:
        if len(batches) <= _MOST_APART:
            return batches
        received = f"{len(batches)} small record batches that cannot be joined"
        rule = f"at most {_MOST_APART} such batches may have more dictionary texts than their indices reach"
        remedy = "write larger batches, or indices of 32 bits"
        raise OversizeError("body", received, rule, remedy) from None
    return together


def _broken(error: BaseException) -> DecodeError:
    said = " ".join(str(error).split())[:160] or type(error).__name__
    received = f"a broken or partial Arrow IPC stream ({said})"
    rule = (
        "application/vnd.apache.arrow.stream is a schema and whole record batches, in Arrow's stream format"
    )
    return DecodeError("body", received, rule, "write it with a stream writer and send it again")


@dataclass(slots=True)
class _Claims:
    """Bytes that a stream claims to hold so far."""

    limit: int
    total: int = 0
    batches: int = 0
    repeated: int = 0
    dictionaries: dict[int, int] = field(default_factory=dict)

    def dictionary(self, number: int, size: int, *, more: bool) -> None:
        self.dictionaries[number] = size + (self.dictionaries.get(number, 0) if more else 0)
        self._add(size)

    def batch(self, size: int) -> None:
        self.batches += 1
        if self.batches > MOST_BATCHES:
            received = f"more than {MOST_BATCHES} record batches"
            rule = f"a stream holds at most {MOST_BATCHES}"
            raise OversizeError("body", received, rule, "write larger batches")
        known = sum(self.dictionaries.values())
        self.repeated += known
        self._add(size)
        if self.repeated > self.total + _FREE_REPEATS:
            received = f"dictionaries of {known} bytes for record batch {self.batches} of {size}"
            free = f"{_FREE_REPEATS >> 20} MiB"
            rule = f"dictionaries, counted once per batch, are at most {free} larger than the batches in all"
            raise OversizeError("body", received, rule, "write fewer and larger record batches")

    def _add(self, size: int) -> None:
        self.total += size
        if self.total + self.repeated > self.limit:
            rule = (
                f"a body holds at most {self.limit} bytes unpacked, its dictionaries counted once per batch"
            )
            remedy = "send smaller bodies, or fewer and larger record batches in each"
            raise OversizeError("body", f"more than {self.limit} bytes", rule, remedy)


def _check_claims(body: bytes, max_bytes: int) -> None:
    claims = _Claims(max_bytes)
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            # Arrow verified the metadata when it read the message.
            header = _Table.root(memoryview(message.metadata)).table(_MESSAGE_HEADER)
            content = b"" if message.body is None else memoryview(message.body)
            if message.type == "record batch":
                claims.batch(_unpacked_bytes(header, content))
            elif message.type == "dictionary":
                size = _unpacked_bytes(header.table(_DICTIONARY_DATA), content)
                more = header.number("<B", _DICTIONARY_IS_DELTA, 0) != 0
                claims.dictionary(header.number("<q", _DICTIONARY_ID, 0), size, more=more)
    except (*_UNREADABLE, struct.error) as error:
        if isinstance(error, DecodeError):
            raise
        raise _broken(error) from error


def _unpacked_bytes(records: _Table, content: memoryview | bytes) -> int:
    """Bytes of a batch's buffers; compressed ones begin with their unpacked size (-1: not compressed)."""
    if records.place(_RECORDS_COMPRESSION) is None:
        return len(content)
    total = 0
    for offset, length in records.pairs(_RECORDS_BUFFERS):
        if length > 0:
            size: int = struct.unpack_from("<q", content, offset)[0]
            total += length if size < 0 else size
    return total


@dataclass(frozen=True, slots=True)
class _Table:
    """A minimal reader of flatbuffer tables (flatbuffers.dev/internals)."""

    data: memoryview
    at: int

    @classmethod
    def root(cls, data: memoryview) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def place(self, slot: int) -> int | None:
        """Where a field is; None where it has its default."""
        known = self.at - struct.unpack_from("<i", self.data, self.at)[0]
        if 4 + 2 * slot >= struct.unpack_from("<H", self.data, known)[0]:
            return None
        offset: int = struct.unpack_from("<H", self.data, known + 4 + 2 * slot)[0]
        return self.at + offset if offset else None

    def number(self, form: str, slot: int, default: int) -> int:
        place = self.place(slot)
        return default if place is None else int(struct.unpack_from(form, self.data, place)[0])

    def table(self, slot: int) -> _Table:
        place = self.place(slot)
        if place is None:
            raise ValueError("a message without its header")
        return _Table(self.data, place + struct.unpack_from("<I", self.data, place)[0])

    def pairs(self, slot: int) -> Iterator[tuple[int, int]]:
        """A vector of structs of two 64-bit integers."""
        place = self.place(slot)
        if place is None:
            return
        begin = place + struct.unpack_from("<I", self.data, place)[0]
        count: int = struct.unpack_from("<I", self.data, begin)[0]
        yield from struct.iter_unpack("<qq", self.data[begin + 4 : begin + 4 + 16 * count])

"""Columns of Arrow arrays as numpy arrays, checked against a rule and numbered by value, whole columns at a
time; knows no field of a report.

Imports only numpy and pyarrow. Arrays are taken to be valid (``validate(full=True)``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_MOST_CODES = 2**62

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers or flags: ``values`` (0 where absent), which are ``absent`` (None: none is), and
    which are ``wrong``: there, and outside their range (None: none is).
    """

    values: NDArray[Any]
    absent: Mask | None
    wrong: Mask | None

    def take(self, rows: NDArray[np.int64]) -> Numbers:
        """The values at these rows, all of them right."""
        return Numbers(self.values[rows], None if self.absent is None else self.absent[rows], None)

    def whole(self, absent: int) -> NDArray[np.int64]:
        """Whole numbers or flags, ``absent`` where there is none."""
        values = self.values.astype(np.int64, copy=False)
        return values if self.absent is None else np.where(self.absent, np.int64(absent), values)

    def real(self) -> NDArray[np.float64]:
        """Numbers, NaN where there is none."""
        values = self.values.astype(np.float64, copy=False)
        return values if self.absent is None else np.where(self.absent, np.nan, values)

    def digits(self, size: int) -> tuple[NDArray[np.int64], int]:
        """The values (below ``size``) for ``numbered``, 0 where there is none."""
        return (self.whole(0), size) if self.absent is None else (self.whole(-1) + 1, size + 1)


@dataclass(frozen=True, slots=True)
class Names:
    """A column of texts: ``codes`` into ``entries`` (distinct) from 1 on, 0 where absent."""

    codes: NDArray[np.int64]
    entries: pa.Array
    absent: Mask | None
    wrong: Mask | None

    def take(self, rows: NDArray[np.int64]) -> Names:
        """The texts at these rows, all of them right."""
        absent = None if self.absent is None else self.absent[rows]
        return Names(self.codes[rows], self.entries, absent, None)

    def digits(self) -> tuple[NDArray[np.int64], int]:
        """The texts' codes for ``numbered``."""
        return self.codes, len(self.entries) + 1

    def distinct(self, rows: NDArray[np.int64]) -> tuple[list[str | None], NDArray[np.int64]]:
        """The distinct texts at these rows, and which of them is at each."""
        used, place = np.unique(self.codes[rows], return_inverse=True)
        absent: list[str | None] = [None] if len(used) and used[0] == 0 else []
        return absent + self.entries.take(pa.array(used[len(absent) :] - 1)).to_pylist(), place

    def texts(self, rows: NDArray[np.int64]) -> list[str | None]:
        """The texts at these rows; equal ones are one object."""
        known, place = self.distinct(rows)
        return [known[number] for number in place.tolist()]


def numbers(array: pa.Array, low: float, high: float) -> Numbers:
    """A column of whole numbers, numbers, flags or nulls, each of them ``low`` to ``high``."""
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
    """A column of texts (plain or by dictionary) or nulls, each of 1 to ``longest`` characters."""
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


def numbered(
    parts: Sequence[tuple[NDArray[np.int64], int]],
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows of equal parts get one number, from 0 in order of appearance: each row's, and each number's first
    row.

    A part is a column of numbers from 0 on and what they are all below (at most 2**33).
    """
    code, size = parts[0]
    for digits, base in parts[1:]:
        if size > _MOST_CODES // base:
            code, size = _by_appearance(code).astype(np.int64), len(code)
        code, size = code * base + digits, size * base
    number = _by_appearance(code)
    n = len(number)
    first = np.zeros(int(number.max()) + 1 if n else 0, np.int64)
    first[number[::-1]] = np.arange(n - 1, -1, -1)  # of equal numbers the last write stays
    return number, first


def _by_appearance(code: NDArray[np.int64]) -> NDArray[np.int32]:
    indices: NDArray[np.int32] = pa.array(code).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return indices

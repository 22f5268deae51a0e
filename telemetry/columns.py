"""Columnar building blocks: ragged rows, growable columns, and fingerprints stable across processes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray


def offsets(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Begin of each run of elements, and the end of the last, from their lengths."""
    offset = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offset[1:])
    return offset


def ranks(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The inverse of a permutation: the place of each number in ``order``."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def as_they_appear(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First row of each distinct value, in order of appearance, and which of them each value is."""
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], ranks(order)[number]


Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, eq=False)
class Ragged(Sequence[tuple[Thing, ...]], Generic[Thing]):
    """A sequence of tuples in columns: ``number[offset[i]:offset[i + 1]]`` index ``things`` for the i-th.

    Equal to any sequence of the same tuples.
    """

    things: tuple[Thing, ...]
    offset: NDArray[np.int64]
    number: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offset) - 1

    @overload
    def __getitem__(self, place: int) -> tuple[Thing, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> Ragged[Thing]: ...
    def __getitem__(self, place: int | slice) -> tuple[Thing, ...] | Ragged[Thing]:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        row = range(len(self))[place]
        numbers = self.number[self.offset[row] : self.offset[row + 1]]
        return tuple([self.things[number] for number in numbers.tolist()])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.offset)

    def take(self, rows: NDArray[np.int64]) -> Ragged[Thing]:
        """These rows, in that order; ``things`` is shared."""
        offset, numbers = take_rows(self.offset, rows)
        return Ragged(self.things, offset, self.number[numbers])


def take_rows(
    offset: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Selects ``rows`` of a compressed layout: the new offsets, and the elements to keep, in order."""
    counts = offset[rows + 1] - offset[rows]
    cut = offsets(counts)
    elements = np.arange(cut[-1]) + np.repeat(offset[rows] - cut[:-1], counts)
    return cut, elements


_U64 = np.uint64


def fingerprint_of(parts: Iterable[object]) -> int:
    """Fingerprint of a key (a flow's five-tuple, a hop's site) from its text, the same in every process."""
    text = "\x1f".join([str(part) for part in parts])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser: every input bit reaches every output bit."""
    x = values + _U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
    return x ^ (x >> _U64(31))


Kind = TypeVar("Kind", bound=np.generic)

_FIRST_SIZE = 256


class GrowingArray(Generic[Kind]):
    def __init__(self, kind: type[Kind]) -> None:
        self._room: NDArray[Kind] = np.empty(_FIRST_SIZE, kind)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[Kind]:
        """A writable view, valid until the column grows."""
        return self._room[: self._count]

    def extend(self, values: NDArray[Any]) -> None:
        after = self._count + len(values)
        if after > len(self._room):
            room = np.empty(max(after, 2 * len(self._room)), self._room.dtype)
            room[: self._count] = self.values
            self._room = room
        self._room[self._count : after] = values
        self._count = after

    def replace(self, values: NDArray[Any]) -> None:
        self._room = np.array(values, self._room.dtype)
        self._count = len(self._room)

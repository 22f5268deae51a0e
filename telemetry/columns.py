"""Many short sequences in columns; imports only numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, eq=False)
class Ragged(Sequence[tuple[Thing, ...]], Generic[Thing]):
    """A sequence of tuples: ``number[offset[i]:offset[i + 1]]`` are those of the i-th, into ``things``.

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
        """The length of each."""
        return np.diff(self.offset)

    def take(self, rows: NDArray[np.int64]) -> Ragged[Thing]:
        """Those at these places, in that order; the things are shared."""
        offset, numbers = take_rows(self.offset, rows)
        return Ragged(self.things, offset, self.number[numbers])


def take_rows(
    offset: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Compressed rows cut down to ``rows``: the new offsets, and the element numbers to keep, in order."""
    counts = offset[rows + 1] - offset[rows]
    cut = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=cut[1:])
    elements = np.arange(cut[-1]) + np.repeat(offset[rows] - cut[:-1], counts)
    return cut, elements

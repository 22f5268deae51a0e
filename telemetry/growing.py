"""Columns that grow a row at a time without being copied each time; imports only numpy."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", bound=np.generic)

_FIRST_SIZE = 256


class GrowingArray(Generic[Kind]):
    """One column; ``values`` is a view of what it holds, good until it grows."""

    def __init__(self, kind: type[Kind]) -> None:
        self._room: NDArray[Kind] = np.empty(_FIRST_SIZE, kind)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[Kind]:
        """What it holds, to read and to write."""
        return self._room[: self._count]

    def extend(self, values: NDArray[Any]) -> None:
        """Append these."""
        after = self._count + len(values)
        if after > len(self._room):
            room = np.empty(max(after, 2 * len(self._room)), self._room.dtype)
            room[: self._count] = self.values
            self._room = room
        self._room[self._count : after] = values
        self._count = after

    def replace(self, values: NDArray[Any]) -> None:
        """Hold these and nothing else."""
        self._room = np.array(values, self._room.dtype)
        self._count = len(self._room)

"""Open addressing for 64-bit fingerprints, whole arrays at once; imports only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ABSENT = -1
"""The slot, or the number, of a fingerprint that has none."""

_FIRST_SIZE = 1024
_EMPTY = np.uint64(0)
_GROWTH, _LARGE = 4, 1 << 20  # below that many slots room is cheaper than moving
_STEP_SHIFT, _ODD = np.uint64(32), np.uint64(1)


class Slots:
    """A slot for each fingerprint: 16 to 32 bytes for each of many, cost per fingerprint constant.

    Fingerprints are already well mixed: their low bits are the slot, their high ones the step from there to
    the next, so that no crowd builds up. ``expected`` many find room without moving any. 0 marks an empty
    slot; a fingerprint of 0 is kept as 1.
    """

    def __init__(self, expected: int = 0) -> None:
        self._slots = np.zeros(_size_for(expected), np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """How many slots there are, empty ones counted."""
        return len(self._slots)

    def find(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The slot of each, ``ABSENT`` where it has none."""
        wanted = np.maximum(fingerprints, np.uint64(1))
        found = np.full(len(wanted), ABSENT, np.int64)
        mask = np.uint64(self.size - 1)
        open_rows = np.arange(len(wanted))
        slot = wanted & mask
        while len(open_rows):
            held = self._slots[slot]
            same = held == wanted[open_rows]
            found[open_rows[same]] = slot[same]
            walk_on = ~same & (held != _EMPTY)
            open_rows = open_rows[walk_on]
            slot = (slot[walk_on] + _step(wanted[open_rows])) & mask
        return found

    def add(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Put in fingerprints that are distinct and have no slot yet; returns their slots.

        There must be room for them (``make_room``).
        """
        self._count += len(fingerprints)
        return self._put(np.maximum(fingerprints, np.uint64(1)))

    def make_room(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Makes sure that so many more find room. Where that moves those that are there: their slots before
        and now.
        """
        size = _size_for(self._count + count)
        if size <= self.size:
            return None
        if size < _LARGE:
            size = max(size, _GROWTH * self.size)
        before = np.flatnonzero(self._slots)
        held = self._slots[before]
        self._slots = np.zeros(size, np.uint64)
        return before, self._put(held)

    def _put(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        mask = np.uint64(self.size - 1)
        found = np.empty(len(fingerprints), np.int64)
        rows, left = np.arange(len(fingerprints)), fingerprints
        slot = left & mask
        while len(left):
            free = self._slots[slot] == _EMPTY
            # Of several that claim one free slot the last write stays; the others find out and walk on.
            self._slots[slot[free]] = left[free]
            home = self._slots[slot] == left
            found[rows[home]] = slot[home]
            rows, left = rows[~home], left[~home]
            slot = (slot[~home] + _step(left)) & mask
        return found


def _size_for(count: int) -> int:
    """A power of two, at most half of it taken."""
    return max(_FIRST_SIZE, 1 << (2 * count - 1).bit_length()) if count else _FIRST_SIZE


def _step(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Odd, so that every slot is come to in the end."""
    return fingerprints >> _STEP_SHIFT | _ODD

"""A set of 64-bit report fingerprints that answers whole arrays at once; imports only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FIRST_SIZE = 1024
_EMPTY = np.uint64(0)


class SeenSet:
    """Open-addressing hash set in one array: 16 to 32 bytes a fingerprint, cost per fingerprint constant.

    Fingerprints are already well mixed, so their low bits are the slot. 0 marks an empty slot; a fingerprint
    of 0 is kept as 1.
    """

    def __init__(self) -> None:
        self._slots = np.zeros(_FIRST_SIZE, np.uint64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def contains(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these are in the set."""
        wanted = np.maximum(fingerprints, np.uint64(1))
        found = np.zeros(len(wanted), np.bool_)
        mask = np.uint64(len(self._slots) - 1)
        open_rows = np.arange(len(wanted))
        slot = wanted & mask
        while len(open_rows):
            held = self._slots[slot]
            same = held == wanted[open_rows]
            found[open_rows[same]] = True
            walk_on = ~same & (held != _EMPTY)
            open_rows = open_rows[walk_on]
            slot = (slot[walk_on] + np.uint64(1)) & mask
        return found

    def add(self, fingerprints: NDArray[np.uint64]) -> None:
        """Put in fingerprints that are distinct and not in the set yet."""
        while 2 * (self._count + len(fingerprints)) > len(self._slots):
            self._grow()
        self._put(np.maximum(fingerprints, np.uint64(1)))
        self._count += len(fingerprints)

    def _grow(self) -> None:
        held = self._slots[self._slots != _EMPTY]
        self._slots = np.zeros(2 * len(self._slots), np.uint64)
        self._put(held)

    def _put(self, fingerprints: NDArray[np.uint64]) -> None:
        mask = np.uint64(len(self._slots) - 1)
        left = fingerprints
        slot = left & mask
        while len(left):
            free = self._slots[slot] == _EMPTY
            # Of several that claim one free slot the last write stays; the others find out and walk on.
            self._slots[slot[free]] = left[free]
            homeless = self._slots[slot] != left
            left = left[homeless]
            slot = (slot[homeless] + np.uint64(1)) & mask

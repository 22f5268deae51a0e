"""Fingerprints to small numbers, whole arrays at once; imports only numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ABSENT = -1
"""The number of a fingerprint that has none."""

_FIRST_SIZE = 1024
_EMPTY = np.uint64(0)


class NumberTable:
    """Open-addressing hash table in two arrays: 24 to 48 bytes a fingerprint, cost per fingerprint constant.

    Fingerprints are already well mixed, so their low bits are the slot. 0 marks an empty slot; a fingerprint
    of 0 is kept as 1. Two things with one fingerprint (one pair in 2**64) are taken for one.
    """

    def __init__(self) -> None:
        self._slots = np.zeros(_FIRST_SIZE, np.uint64)
        self._numbers = np.zeros(_FIRST_SIZE, np.int32)
        self._count = 0

    def find(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The number of each, ``ABSENT`` where it has none."""
        wanted = np.maximum(fingerprints, np.uint64(1))
        found = np.full(len(wanted), ABSENT, np.int32)
        mask = np.uint64(len(self._slots) - 1)
        open_rows = np.arange(len(wanted))
        slot = wanted & mask
        while len(open_rows):
            held = self._slots[slot]
            same = held == wanted[open_rows]
            found[open_rows[same]] = self._numbers[slot[same]]
            walk_on = ~same & (held != _EMPTY)
            open_rows = open_rows[walk_on]
            slot = (slot[walk_on] + np.uint64(1)) & mask
        return found

    def add(self, fingerprints: NDArray[np.uint64], numbers: NDArray[np.int32]) -> None:
        """Give numbers to fingerprints that are distinct and have none yet."""
        size = len(self._slots)
        while 2 * (self._count + len(fingerprints)) > size:
            size *= 2
        if size > len(self._slots):
            held = np.flatnonzero(self._slots != _EMPTY)
            slots, told = self._slots[held], self._numbers[held]
            self._slots, self._numbers = np.zeros(size, np.uint64), np.zeros(size, np.int32)
            self._put(slots, told)
        self._put(np.maximum(fingerprints, np.uint64(1)), numbers)
        self._count += len(fingerprints)

    def _put(self, fingerprints: NDArray[np.uint64], numbers: NDArray[np.int32]) -> None:
        mask = np.uint64(len(self._slots) - 1)
        left, told = fingerprints, numbers
        slot = left & mask
        while len(left):
            free = self._slots[slot] == _EMPTY
            # Of several that claim one free slot the last write stays; the others find out and walk on.
            self._slots[slot[free]] = left[free]
            home = self._slots[slot] == left
            self._numbers[slot[home]] = told[home]
            left, told = left[~home], told[~home]
            slot = (slot[~home] + np.uint64(1)) & mask

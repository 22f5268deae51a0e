"""Fingerprints to small numbers, whole arrays at once; imports only numpy and ``slots``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from telemetry.window.hash_table import ABSENT, Slots


class NumberTable:
    """A number for each fingerprint: 24 to 48 bytes each.

    Two things with one fingerprint (one pair in 2**64) are taken for one.
    """

    def __init__(self) -> None:
        self._slots = Slots()
        self._numbers = np.zeros(self._slots.size, np.int32)

    def find(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The number of each, ``ABSENT`` where it has none."""
        slot = self._slots.find(fingerprints)
        return np.where(slot == ABSENT, np.int32(ABSENT), self._numbers[slot])

    def add(self, fingerprints: NDArray[np.uint64], numbers: NDArray[np.int32]) -> None:
        """Give numbers to fingerprints that are distinct and have none yet."""
        moved = self._slots.make_room(len(fingerprints))
        if moved is not None:
            before, now = moved
            told = np.zeros(self._slots.size, np.int32)
            told[now] = self._numbers[before]
            self._numbers = told
        self._numbers[self._slots.add(fingerprints)] = numbers

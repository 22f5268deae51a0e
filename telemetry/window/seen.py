"""A set of 64-bit report fingerprints that answers whole arrays at once; imports only numpy and ``slots``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from telemetry.window.hash_table import ABSENT, Slots


class SeenSet:
    """Fingerprints seen: 16 to 32 bytes each, and those of ``expected`` many from the start."""

    def __init__(self, expected: int = 0) -> None:
        self._slots = Slots(expected)

    def __len__(self) -> int:
        return len(self._slots)

    def contains(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these are in the set."""
        known: NDArray[np.bool_] = self._slots.find(fingerprints) != ABSENT
        return known

    def add(self, fingerprints: NDArray[np.uint64]) -> None:
        """Put in fingerprints that are distinct and not in the set yet."""
        self._slots.make_room(len(fingerprints))
        self._slots.add(fingerprints)

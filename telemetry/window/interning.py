"""Keys (hosts, places) to small numbers and back, with a fingerprint each; imports only numpy and
``fingerprint``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.window.hash_table import ABSENT

Key = TypeVar("Key", bound=Hashable)

GONE = np.iinfo(np.int32).min
"""What ``KeyTable.keep`` maps a dropped number to."""


class KeyTable(Generic[Key]):
    """Numbers keys 0, 1, 2, ... as they appear; ``keep`` drops some and renumbers the rest."""

    def __init__(self, fingerprint: Callable[[Key], int]) -> None:
        self._fingerprint = fingerprint
        self._number: dict[Key, int] = {}
        self._fingerprints: list[int] = []
        self.keys: list[Key] = []
        self._asked: tuple[Key, ...] = ()
        self._answer: NDArray[np.uint64] = np.empty(0, np.uint64)

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: Iterable[Key]) -> NDArray[np.int32]:
        """The number of each key, ``ABSENT`` where it has none."""
        number = self._number
        return np.array([number.get(key, ABSENT) for key in keys], np.int32)

    def numbers(self, keys: Iterable[Key]) -> NDArray[np.int32]:
        """The number of each key; new keys get one."""
        found = []
        for key in keys:
            number = self._number.get(key)
            if number is None:
                number = self._number[key] = len(self.keys)
                self.keys.append(key)
                self._fingerprints.append(self._fingerprint(key))
            found.append(number)
        return np.array(found, np.int32)

    def fingerprints(self, keys: tuple[Key, ...]) -> NDArray[np.uint64]:
        """The fingerprint of each key, known or not; numbers none of them.

        Asked again of the same object, it remembers: a decoder hands out the same names with every batch.
        """
        if keys is self._asked:
            return self._answer
        found = []
        for key in keys:
            number = self._number.get(key)
            found.append(self._fingerprint(key) if number is None else self._fingerprints[number])
        self._asked, self._answer = keys, np.array(found, np.uint64)
        return self._answer

    def keep(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Drop all other keys and renumber these in order; returns new number by old (``GONE`` for
        dropped).
        """
        renumbered = np.full(len(self.keys), GONE, np.int32)
        renumbered[numbers] = np.arange(len(numbers), dtype=np.int32)
        kept = numbers.tolist()
        self.keys = [self.keys[number] for number in kept]
        self._fingerprints = [self._fingerprints[number] for number in kept]
        self._number = {key: number for number, key in enumerate(self.keys)}
        return renumbered

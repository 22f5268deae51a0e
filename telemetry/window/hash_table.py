"""Open addressing for 64-bit fingerprints, whole arrays at once; imports only numpy.

Keys (hosts, places) to small numbers and back, with a fingerprint each; imports only numpy and
``fingerprint``.

Fingerprints to small numbers, whole arrays at once; imports only numpy and ``slots``.

A set of 64-bit report fingerprints that answers whole arrays at once; imports only numpy and ``slots``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

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

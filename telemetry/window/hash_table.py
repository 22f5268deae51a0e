"""Hash tables: 64-bit fingerprints looked up whole arrays at a time, and hashable keys numbered singly."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import compress, count, filterfalse, repeat
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import GrowingArray, mixed

ABSENT = -1
"""The number of a fingerprint or key that is not in the table."""
GONE = np.iinfo(np.int32).min
"""What ``KeyTable.keep`` maps a dropped number to."""

_FIRST_SIZE = 1024
_EMPTY = np.uint64(0)
_GROWTH, _LARGE = 4, 1 << 20  # below that many slots memory is cheaper than rehashing
_TABLES = 8  # some forty batches of datagrams come a second, and other bodies in between
_STEP_SHIFT, _ONE = np.uint64(32), np.uint64(1)
_OWN = np.uint64(secrets.randbits(64))  # decides where things lie, never what is found


class FingerprintTable:
    """A set of fingerprints, or with ``numbers`` a map from each to a number; open addressing.

    16 to 32 bytes per fingerprint, half as much again with numbers; ``expected`` many fit without rehashing.
    They are stored mixed with a number of this process's own: the low bits are the slot, the high bits the
    step to the next, so no cluster builds up, and no sender can choose flows that meet in one. 0 marks an
    empty slot. Two keys with the same fingerprint (one pair in 2**64) are taken for one.
    """

    def __init__(self, expected: int = 0, *, numbers: bool = False) -> None:
        size = _size_for(expected)
        self._slots = np.zeros(size, np.uint64)
        self._numbers = np.zeros(size if numbers else 0, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def contains(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        known: NDArray[np.bool_] = self._find(fingerprints) != ABSENT
        return known

    def find(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The number of each, ``ABSENT`` where it has none."""
        slot = self._find(fingerprints)
        return np.where(slot == ABSENT, np.int32(ABSENT), self._numbers[slot])

    def add(self, fingerprints: NDArray[np.uint64], numbers: NDArray[np.int32] | None = None) -> None:
        """Adds fingerprints that are distinct and not in the table yet."""
        self._make_room(len(fingerprints))
        slot = self._put(_stored(fingerprints))
        self._count += len(fingerprints)
        if numbers is not None:
            self._numbers[slot] = numbers

    def _find(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The slot of each, ``ABSENT`` where it has none."""
        wanted = _stored(fingerprints)
        found = np.full(len(wanted), ABSENT, np.int64)
        mask = np.uint64(len(self._slots) - 1)
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

    def _make_room(self, count: int) -> None:
        size = _size_for(self._count + count)
        if size <= len(self._slots):
            return
        if size < _LARGE:
            size = max(size, _GROWTH * len(self._slots))
        before = np.flatnonzero(self._slots)
        held = self._slots[before]
        self._slots = np.zeros(size, np.uint64)
        slot = self._put(held)
        if len(self._numbers):
            numbers = np.zeros(size, np.int32)
            numbers[slot] = self._numbers[before]
            self._numbers = numbers

    def _put(self, stored: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Writes fingerprints, as they are ``_stored``, into free slots; returns these."""
        mask = np.uint64(len(self._slots) - 1)
        found = np.empty(len(stored), np.int64)
        rows, left = np.arange(len(stored)), stored
        slot = left & mask
        while len(left):
            free = self._slots[slot] == _EMPTY
            # Of several that claim one free slot the last write wins; the others see that and walk on.
            self._slots[slot[free]] = left[free]
            home = self._slots[slot] == left
            found[rows[home]] = slot[home]
            rows, left = rows[~home], left[~home]
            slot = (slot[~home] + _step(left)) & mask
        return found


def _size_for(count: int) -> int:
    """A power of two, at most half of it in use."""
    return max(_FIRST_SIZE, 1 << (2 * count - 1).bit_length()) if count else _FIRST_SIZE


def _stored(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What stands for them in a table, which is never 0; 0 is taken for 1."""
    return np.maximum(mixed(np.maximum(fingerprints, _ONE) ^ _OWN), _ONE)


def _step(stored: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Odd, so that a walk reaches every slot."""
    return stored >> _STEP_SHIFT | _ONE


Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class LastAnswers(Generic[Key, Answer]):
    """The answers on the last few tables, by their identity.

    A decoder of datagrams hands out the same table of names with every batch, and other senders' batches come
    in between.
    """

    def __init__(self, answer: Callable[[tuple[Key, ...]], Answer]) -> None:
        self._answer = answer
        self._held: dict[int, tuple[tuple[Key, ...], Answer]] = {}  # the last one asked for at the end

    def on(self, table: tuple[Key, ...]) -> Answer:
        held = self._held.pop(id(table), None) or (table, self._answer(table))
        self._held[id(table)] = held
        if len(self._held) > _TABLES:
            del self._held[next(iter(self._held))]
        return held[1]


class KeyTable(Generic[Key]):
    """Numbers keys 0, 1, 2, ... as they appear, with a fingerprint each."""

    def __init__(self, fingerprint: Callable[[Key], int]) -> None:
        self._fingerprint = fingerprint
        self._number: dict[Key, int] = {}
        self._fingerprints = GrowingArray(np.uint64)
        self.keys: list[Key] = []
        self._last = LastAnswers(self._fingerprints_on)

    def __len__(self) -> int:
        return len(self.keys)

    def find(self, keys: Iterable[Key]) -> NDArray[np.int32]:
        """The number of each key, ``ABSENT`` where it has none."""
        return np.fromiter(map(self._number.get, keys, repeat(ABSENT)), np.int32)

    def numbers(self, keys: Collection[Key]) -> NDArray[np.int32]:
        """The number of each key; new keys get the next ones."""
        new = list(dict.fromkeys(filterfalse(self._number.__contains__, keys)))
        self.add(new, self._fingerprints_of(new))
        return self.find(keys)

    def add(self, keys: Sequence[Key], fingerprints: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Numbers keys that are not in the table yet; equal ones get the first one's number."""
        number = np.fromiter(map(self._number.setdefault, keys, count(len(self))), np.int32)
        self.keys += keys  # all, as each took up a number, though that of a repeated key stays unused
        self._fingerprints.extend(fingerprints)
        return number

    def fingerprints(self, keys: tuple[Key, ...]) -> NDArray[np.uint64]:
        """The fingerprint of each key, without numbering new ones."""
        return self._last.on(keys)

    def _fingerprints_on(self, keys: tuple[Key, ...]) -> NDArray[np.uint64]:
        number = self.find(keys)
        new = number == ABSENT
        found = np.empty(len(keys), np.uint64)
        found[~new] = self._fingerprints.values[number[~new]]
        found[new] = self._fingerprints_of(compress(keys, new.tolist()))
        return found

    def keep(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Drops all other keys and renumbers these; returns new number by old (``GONE``: dropped)."""
        new_number = renumbered(numbers, len(self.keys))
        kept = numbers.tolist()
        self.keys = [self.keys[number] for number in kept]
        self._fingerprints.replace(self._fingerprints.values[numbers])
        self._number = {key: number for number, key in enumerate(self.keys)}
        return new_number

    def _fingerprints_of(self, keys: Iterable[Key]) -> NDArray[np.uint64]:
        return np.fromiter(map(self._fingerprint, keys), np.uint64)


def renumbered(kept: NDArray[np.int64], size: int) -> NDArray[np.int32]:
    """New number by old where only these of ``size`` are kept, in order; ``GONE`` for the others."""
    new_number = np.full(size, GONE, np.int32)
    new_number[kept] = np.arange(len(kept), dtype=np.int32)
    return new_number

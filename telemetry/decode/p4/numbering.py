"""Equal rows numbered, within a call or over many, in linear time; must import only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MIXERS = tuple(
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD, 0xD6E8FEB86659FD93)
)
_SPARE_BITS = 4
_FEWEST_BITS, _MOST_BITS = 8, 20
_SLOTS_A_NUMBER = 4
_FEWEST_SLOTS = 1 << 12
_MOST_STEPS = 24
_FREE = -1


def numbered(columns: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each kind, in order of first appearance, and the kind of every row.

    ``columns`` are (rows,) each; two rows are of a kind where they agree in all of them. Rows are put into a
    table by a hash and compared with whoever stands there; those that met a stranger try another hash, and
    the few that met one every time are sorted.
    """
    n_rows = len(columns[0])
    every = np.arange(n_rows)
    bits = min(max(n_rows.bit_length() + _SPARE_BITS, _FEWEST_BITS), _MOST_BITS)
    table = np.empty(1 << bits, np.int64)
    first_of, waiting, held = every, every, list(columns)
    for mixer in _MIXERS:
        slot = (_hashed(held, mixer) >> np.uint64(64 - bits)).view(np.int64)
        # The last writer stays: backwards, so that it is the first of its kind.
        table[slot[::-1]] = every[: len(slot)][::-1]
        there = table.take(slot)
        differs = held[0].take(there) != held[0]
        for column in held[1:]:
            differs |= column.take(there) != column
        if waiting is every:
            first_of = there
        else:
            first_of[waiting] = waiting.take(there)
        strangers = np.flatnonzero(differs)
        waiting = waiting[strangers]
        if not len(waiting):
            break
        held = [column.take(strangers) for column in held]
    if len(waiting):
        _, begun, kind = np.unique(np.stack(held, axis=1), axis=0, return_index=True, return_inverse=True)
        first_of[waiting] = waiting[begun[kind.reshape(-1)]]
    first = np.flatnonzero(first_of == every)
    table = np.empty(n_rows, np.int64)
    table[first] = every[: len(first)]
    return first, table.take(first_of)


def _hashed(columns: Sequence[NDArray[np.uint64]], mixer: np.uint64) -> NDArray[np.uint64]:
    mixed = columns[0] * mixer
    for column in columns[1:]:
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ column) * mixer
    return mixed ^ (mixed >> np.uint64(32)) * mixer


class Numbering:
    """Numbers 0, 1, 2, ... for distinct rows of ``n_columns`` 64-bit values, kept until ``forget``.

    A table of slots: a row stands in the first free one from where its hash points, found for all rows of a
    call at once. Those that met a stranger in every slot they tried (somebody chose them so) are looked up
    one by one, by a hash that nobody can foresee: time stays linear.
    """

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self.forget()

    def forget(self) -> None:
        """Begins at 0 again."""
        self._count = 0
        self._held = [np.empty(_FEWEST_SLOTS // _SLOTS_A_NUMBER, np.uint64) for _ in range(self._n_columns)]
        self._table = np.full(_FEWEST_SLOTS, _FREE, np.int64)
        self._crowded: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._count

    def numbers(self, columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
        """The number of every row of ``columns``, (rows,) each; new rows get the next ones, in no order."""
        self._make_room(len(columns[0]))
        slot = self._slot(columns)
        found, strangers = self._looked_up(slot, columns)
        waiting, rows = strangers, columns
        for _ in range(_MOST_STEPS):
            if not len(waiting):
                return found
            slot = (slot.take(strangers) + 1) & (len(self._table) - 1)
            rows = [row.take(strangers) for row in rows]
            there, strangers = self._looked_up(slot, rows)
            found[waiting] = there
            waiting = waiting.take(strangers)
        for place in waiting.tolist():
            row = [column[place : place + 1] for column in columns]
            key = b"".join([value.tobytes() for value in row])
            if key not in self._crowded:
                self._crowded[key] = self._take(row)
            found[place] = self._crowded[key]
        return found

    def _looked_up(
        self, slot: NDArray[np.int64], rows: Sequence[NDArray[np.uint64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Who stands in the slots, once new rows took the free ones, and which rows met a stranger there."""
        there = self._table.take(slot)
        if len(there) and int(there.min()) == _FREE:
            self._settle(np.flatnonzero(there == _FREE), slot, rows)
            there = self._table.take(slot)
        differs = self._held[0].take(there) != rows[0]
        for held, row in zip(self._held[1:], rows[1:], strict=True):
            differs |= held.take(there) != row
        return there, np.flatnonzero(differs)

    def values(self, begin: int = 0) -> list[NDArray[np.uint64]]:
        """The columns of the rows numbered ``begin`` and above."""
        return [held[begin : self._count] for held in self._held]

    def _slot(self, columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
        unused = np.uint64(65 - len(self._table).bit_length())
        return (_hashed(columns, _MIXERS[0]) >> unused).view(np.int64)

    def _settle(
        self, comers: NDArray[np.int64], slot: NDArray[np.int64], rows: Sequence[NDArray[np.uint64]]
    ) -> None:
        """Gives each free slot to the first of the ``comers`` that it is free for."""
        claimed = slot[comers]
        self._table[claimed[::-1]] = comers[::-1]  # the last writer stays
        first = self._table[claimed] == comers
        begin = self._take([row[comers[first]] for row in rows])
        self._table[claimed[first]] = np.arange(begin, self._count)

    def _take(self, rows: Sequence[NDArray[np.uint64]]) -> int:
        """Numbers new rows; gives back the first number."""
        begin = self._count
        self._count += len(rows[0])
        for held, row in zip(self._held, rows, strict=True):
            held[begin : self._count] = row
        return begin

    def _make_room(self, n_rows: int) -> None:
        """Room for so many new rows, most slots free."""
        need = self._count + n_rows
        if need <= len(self._held[0]):
            return
        room = 1 << (need - 1).bit_length()
        self._held = [np.concatenate([held, np.empty(room - len(held), np.uint64)]) for held in self._held]
        self._table = np.full(room * _SLOTS_A_NUMBER, _FREE, np.int64)
        self._place_again()

    def _place_again(self) -> None:
        """Puts every number into an empty table."""
        self._crowded = {}
        waiting = np.arange(self._count)
        slot = self._slot([held[: self._count] for held in self._held])
        for _ in range(1 + _MOST_STEPS):
            free = np.flatnonzero(self._table[slot] == _FREE)
            claimed = slot[free]
            self._table[claimed[::-1]] = waiting[free[::-1]]
            homeless = self._table[slot] != waiting
            waiting = waiting[homeless]
            if not len(waiting):
                return
            slot = (slot[homeless] + 1) & (len(self._table) - 1)
        rows = np.stack([held[waiting] for held in self._held], axis=1)
        self._crowded = {row.tobytes(): number for row, number in zip(rows, waiting.tolist(), strict=True)}

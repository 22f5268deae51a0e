"""Equal rows numbered, in linear time for few or many kinds of them; must import only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MIXERS = tuple(
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD, 0xD6E8FEB86659FD93)
)
_SPARE_BITS = 2
_FEWEST_BITS, _MOST_BITS = 8, 20


def numbered(columns: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each kind, in order of first appearance, and the kind of every row.

    ``columns`` are (rows,) each; two rows are of a kind where they agree in all of them. Rows are put into a
    table by a hash and compared with whoever stands there; those that met a stranger try another hash, and
    the few that met one every time are sorted.
    """
    n_rows = len(columns[0])
    first_of = np.empty(n_rows, np.int64)
    waiting = np.arange(n_rows)
    held = list(columns)
    bits = min(max(n_rows.bit_length() + _SPARE_BITS, _FEWEST_BITS), _MOST_BITS)
    table = np.empty(1 << bits, np.int64)
    for mixer in _MIXERS:
        slot = _hashed(held, mixer) >> np.uint64(64 - bits)
        # The last writer stays: backwards, so that it is the first of its kind.
        table[slot[::-1]] = np.arange(len(slot) - 1, -1, -1)
        there = table[slot]
        met = np.ones(len(slot), np.bool_)
        for column in held:
            met &= column[there] == column
        if met.all():
            first_of[waiting] = waiting[there]
            waiting = waiting[:0]
            break
        first_of[waiting[met]] = waiting[there[met]]
        stranger = ~met
        waiting = waiting[stranger]
        held = [column[stranger] for column in held]
    if len(waiting):
        _, begun, kind = np.unique(np.stack(held, axis=1), axis=0, return_index=True, return_inverse=True)
        first_of[waiting] = waiting[begun[kind.reshape(-1)]]
    first = np.flatnonzero(first_of == np.arange(n_rows))
    kind_of = np.empty(n_rows, np.int64)
    kind_of[first] = np.arange(len(first))
    return first, kind_of[first_of]


def _hashed(columns: Sequence[NDArray[np.uint64]], mixer: np.uint64) -> NDArray[np.uint64]:
    mixed = columns[0] * mixer
    for column in columns[1:]:
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ column) * mixer
    return mixed ^ (mixed >> np.uint64(32)) * mixer

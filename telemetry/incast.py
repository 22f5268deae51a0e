"""Incast: how many senders have a message under way to one receiver at the same time; imports only numpy and
``telemetry.state``.

A sender is live to a receiver while at least one message of it is under way: from the message's start to its
end, both ends included. Messages that overlap or touch count as one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from telemetry.state import Incast

_BEGIN, _END = 0, 1  # of two events at one time the beginning comes first: what touches overlaps


def incast_degrees(
    names: Sequence[str],
    sender: NDArray[np.int64],
    receiver: NDArray[np.int64],
    start_ns: NDArray[np.float64],
    end_ns: NDArray[np.float64],
) -> tuple[Incast, ...]:
    """The incast of each receiver, worst first (of equals by name); O(n log n) in the number n of messages.

    Per message: ``sender`` and ``receiver`` into ``names``, and when it begins and ends (no earlier than it
    begins), on any one scale.
    """
    if len(sender) == 0:
        return ()
    code, at_ns, kind = _live(receiver * len(names) + sender, start_ns, end_ns)
    receiver = code // len(names)
    order = np.lexsort((kind, at_ns, receiver))
    receiver, kind = receiver[order], kind[order]
    # Every sender that begins ends: the count is 0 where one receiver's events give way to the next one's.
    live = np.cumsum(np.where(kind == _BEGIN, 1, -1))
    found, first = np.unique(receiver, return_index=True)
    degree = np.maximum.reduceat(live, first)
    distinct = np.bincount(np.unique(code) // len(names), minlength=len(names))
    seen = [
        Incast(names[number], most, int(distinct[number]))
        for number, most in zip(found.tolist(), degree.tolist(), strict=True)
    ]
    return tuple(sorted(seen, key=lambda one: (-one.degree, one.receiver)))


def _live(
    code: NDArray[np.int64], start_ns: NDArray[np.float64], end_ns: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int8]]:
    """When each (receiver, sender) goes live and when it stops: its first message's beginning, last's end."""
    n = len(code)
    both = np.concatenate((code, code))
    at_ns = np.concatenate((start_ns, end_ns))
    kind = np.repeat(np.array([_BEGIN, _END], np.int8), n)
    order = np.lexsort((kind, at_ns, both))
    both, at_ns, kind = both[order], at_ns[order], kind[order]
    under_way = np.cumsum(np.where(kind == _BEGIN, 1, -1))
    turns = np.where(kind == _BEGIN, under_way == 1, under_way == 0)
    return both[turns], at_ns[turns], kind[turns]

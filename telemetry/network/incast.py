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

_MOST_KEY = 2**62  # of a key made of a number and a time


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
    codes, pair = np.unique(receiver.astype(np.int64) * len(names) + sender, return_inverse=True)
    receivers, receiver_of = np.unique(codes // len(names), return_inverse=True)
    start, end, length = _whole(start_ns, end_ns, most=len(codes))
    begins, ends = _live(pair * length + start, pair * length + end)
    # Sorted by receiver, then time: of those before it every begin has its end, and the count starts at 0.
    owner = receiver_of[begins // length] * length
    begins, ends = np.sort(owner + begins % length), np.sort(owner + ends % length)
    live = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, side="left")
    of = begins // length
    degree = np.maximum.reduceat(live, np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1]))))
    distinct = np.bincount(receiver_of)
    seen = [
        Incast(names[number], most, senders)
        for number, most, senders in zip(receivers.tolist(), degree.tolist(), distinct.tolist(), strict=True)
    ]
    return tuple(sorted(seen, key=lambda one: (-one.degree, one.receiver)))


def _whole(
    start_ns: NDArray[np.float64], end_ns: NDArray[np.float64], *, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Times from 0, in whole nanoseconds (coarser where ``most`` stretches of them would not fit into a key),
    and how long a stretch is.
    """
    zero = float(start_ns.min())
    unit = max(1.0, (float(end_ns.max()) - zero + 2) * most / _MOST_KEY)
    start, end = (np.rint((times - zero) / unit).astype(np.int64) for times in (start_ns, end_ns))
    return start, end, int(end.max()) + 1


def _live(start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When each pair goes live and when it stops, as keys of pair and time, in order: its messages joined
    where they overlap or touch.
    """
    order = np.argsort(start)
    start, latest = start[order], np.maximum.accumulate(end[order])
    apart = start[1:] > latest[:-1]
    return start[np.concatenate(([True], apart))], latest[np.concatenate((apart, [True]))]

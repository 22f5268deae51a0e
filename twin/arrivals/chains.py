"""Chains: large messages of which each starts once the one before it, of the same hosts, was delivered.

Storage and bulk copies send like that. A replay that started each when it was seen to start would pile them
up under a slower watermark, and leave gaps under a faster one; so those of a chain wait for each other, and
the chain goes on beyond what the window showed of it.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from twin.arrivals.bursts import batches, first_samples

LARGE_BYTES = 300_000.0
LEAST_SAMPLES = 3.0  # of a large message; with fewer nobody knows when it began and ended
FOLLOWS_S = 150e-6  # between the end of a message and the start of the next, as sampling shows them, ...
_SPACINGS, _OVERLAP = 4.0, 0.25  # ... or as many times between two samples; the part of a message it may be
_AHEAD, _MOST_AGAIN = 4.0, 20_000  # moments in a row are as many; messages, of all chains
_FAR_SMALLER = 0.25  # messages that only sampling made large, beside transfers
_LEAST_TURNS = 4  # of a pair, or of all: two messages may follow each other by chance
_FOLLOWING = 0.75  # of a pair's messages that have one before them: some resume after a pause
_FOLLOWING_OF_ALL = 0.4  # of bytes; web search, data mining and Hadoop have up to 0.05, by chance

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Chained:
    """``arrivals`` with messages added that chains would send next, which start as the window ends.

    ``after`` [i] is the row that a message waits for, −1 for none, ``gap_s`` [i] the time between: the usual
    one, or the pause that was seen.
    """

    arrivals: FlowArrivals
    after: NDArray[np.int64]
    gap_s: NDArray[np.float64]


def ends_s(arrivals: FlowArrivals) -> NDArray[np.float64]:
    """When the end of each message arrived, as its samples suggest; inf while it is being sent."""
    arrived_s = arrivals.last_s + spacings_s(arrivals) + arrivals.way_s
    return np.where(np.isfinite(arrivals.wire_bytes), arrived_s, np.inf)


def spacings_s(arrivals: FlowArrivals) -> NDArray[np.float64]:
    """The time between two samples of each message."""
    return (arrivals.last_s - arrivals.start_s) / np.maximum(arrivals.n_samples, 1)


def slack_s(arrivals: FlowArrivals) -> NDArray[np.float64]:
    """How far the end of each message may be from where its samples suggest it: never as far as it lasts."""
    within_s = np.maximum(FOLLOWS_S, _SPACINGS * spacings_s(arrivals))
    return np.minimum(within_s, _OVERLAP * (ends_s(arrivals) - arrivals.start_s))


def not_begun(arrivals: FlowArrivals, at_s: float) -> FlowArrivals:
    """Such messages, of which none has been sent yet at ``at_s``."""
    return replace(
        arrivals,
        start_s=np.full(len(arrivals), at_s),
        last_s=np.full(len(arrivals), at_s),
        sent_bytes=np.zeros(len(arrivals)),
        n_samples=np.zeros(len(arrivals), np.int64),
        end_seen=np.zeros(len(arrivals), np.bool_),
        ran_before=np.zeros(len(arrivals), np.bool_),
    )


def chains_of(arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float]) -> frozenset[Pair]:
    """Senders and receivers of which most large messages follow one another.

    A pair is judged by its own messages, or, where it has few, by those of all pairs. What a sender begins in
    batches, as in a collective, waits for more than one message: it forms no chain. ``nic_bytes_per_s``: line
    rates by host.
    """
    alone = np.ones(len(arrivals), np.bool_)
    _, first_s = first_samples(arrivals, nic_bytes_per_s)
    for batch, _ in batches(arrivals, first_s, arrivals.start_s <= 0.0):
        alone[batch] = False
    arrivals = arrivals.take(np.flatnonzero(alone))
    after = _followed(arrivals)
    pairs = by_pair(arrivals)
    follow = {pair: int(np.count_nonzero(after[rows] >= 0)) for pair, rows in pairs.items()}
    may = {pair: len(rows) - 1 for pair, rows in pairs.items()}
    rest = [row for rows in pairs.values() for row in rows[1:]]
    # By bytes: messages that sampling alone made large are many, and small.
    of_all = arrivals.sent_bytes[rest]
    all_do = (
        sum(follow.values()) >= _LEAST_TURNS
        and float(of_all[after[rest] >= 0].sum()) >= _FOLLOWING_OF_ALL * of_all.sum()
    )
    return frozenset(
        pair
        for pair, n in follow.items()
        if n >= max(_LEAST_TURNS, _FOLLOWING * may[pair]) or (all_do and n > 0)
    )


def chained(
    arrivals: FlowArrivals,
    pairs: Collection[Pair],
    nic_bytes_per_s: Mapping[str, float],
    since_s: float,
    until_s: float,
) -> Chained | None:
    """The messages of ``pairs`` waiting for one another; None where there are none.

    Those of a chain that began between the two times come again until they are as many bytes as an even share
    of the NIC carries, at the sender or at the receiver, in ``_AHEAD`` times as long: a watermark under which
    they are faster does not run out of them. ``nic_bytes_per_s``: line rates by host.
    """
    after = _followed(arrivals, pairs)
    if not np.any(after >= 0):
        return None
    waits = np.flatnonzero(after >= 0)
    # Sampling shows the gap to some tens of microseconds where messages are fast, to milliseconds where slow.
    seen_s = arrivals.start_s[waits] - ends_s(arrivals)[after[waits]]
    pauses = seen_s > slack_s(arrivals)[after[waits]]
    usual_s = max(float(np.mean(seen_s[~pauses])), 0.0) if not pauses.all() else 0.0
    gap_s = np.full(len(arrivals), usual_s)
    gap_s[waits] = np.where(pauses, seen_s, usual_s)
    more: list[int] = []
    more_after: list[int] = []
    sending, receiving = (Counter(pair[end] for pair in pairs) for end in (0, 1))
    last_of_each = np.setdiff1d(waits, after).tolist()
    most = max(_MOST_AGAIN // max(len(last_of_each), 1), 1)
    for last in last_of_each:
        chain, at = [last], last
        while (at := int(after[at])) >= 0:
            chain.append(at)
        known = [row for row in reversed(chain) if np.isfinite(arrivals.wire_bytes[row])]
        again = [row for row in known if arrivals.start_s[row] >= since_s] or [last]
        # Of hosts that the topology lacks nothing is replayed.
        src, dst = arrivals.src_host[last], arrivals.dst_host[last]
        share = min(
            nic_bytes_per_s.get(src, 0.0) / sending[src], nic_bytes_per_s.get(dst, 0.0) / receiving[dst]
        )
        left_bytes = _AHEAD * (until_s - since_s) * share
        for row in islice(cycle(again), most):
            more_after.append(last)
            last = len(arrivals) + len(more)
            more.append(row)
            left_bytes -= arrivals.wire_bytes[row]
            if left_bytes <= 0.0:
                break
    added = not_begun(arrivals.take(np.array(more)), until_s)
    gap_s = np.concatenate((gap_s, np.full(len(more), usual_s)))
    return Chained(arrivals.and_then(added), np.concatenate((after, more_after)), gap_s)


def _followed(arrivals: FlowArrivals, pairs: Collection[Pair] | None = None) -> NDArray[np.int64]:
    """For each message the row of the large one of its pair that ended nearest to its start; −1 without one.

    Given the ``pairs`` of chains, one that began after a pause follows the last that had ended. None is
    followed by two, and one without end by none.
    """
    after = np.full(len(arrivals), -1)
    end_s = ends_s(arrivals)
    within_s = slack_s(arrivals)
    for pair, rows in by_pair(arrivals).items():
        if pairs is not None and pair not in pairs:
            continue
        free: list[tuple[float, int]] = []  # ends of those that nothing follows yet, in order
        for row in rows:
            starts_s = float(arrivals.start_s[row])
            at = bisect(free, (starts_s, len(arrivals)))
            near = free[max(at - 1, 0) : at + 1]
            before = min(near, key=lambda one: abs(one[0] - starts_s), default=None)
            if before is not None and abs(before[0] - starts_s) > within_s[before[1]]:
                before = free[at - 1] if pairs is not None and at else None
            if before is not None:
                after[row] = before[1]
                free.remove(before)
            if end_s[row] < np.inf:
                insort(free, (float(end_s[row]), row))
    return after


def by_pair(arrivals: FlowArrivals) -> dict[Pair, list[int]]:
    """The large messages of each pair in order of their start, but for those sent during a far larger one: a
    transfer does not end before that which came before it.
    """
    found: defaultdict[Pair, list[int]] = defaultdict(list)
    running: defaultdict[Pair, list[int]] = defaultdict(list)
    large = np.flatnonzero((arrivals.sent_bytes >= LARGE_BYTES) & (arrivals.n_samples >= LEAST_SAMPLES))
    start_s, end_s, sent = arrivals.start_s, ends_s(arrivals), arrivals.sent_bytes
    for row in large[np.argsort(start_s[large], kind="stable")].tolist():
        pair = arrivals.src_host[row], arrivals.dst_host[row]
        beside = [one for one in running[pair] if end_s[one] > start_s[row]]
        running[pair] = beside
        if not any(end_s[one] > end_s[row] and sent[row] < _FAR_SMALLER * sent[one] for one in beside):
            found[pair].append(row)
            beside.append(row)
    return found

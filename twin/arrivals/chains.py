"""Chains: large messages of which each starts once the one before it, of the same hosts, was delivered.

Storage and bulk copies send like that. A replay that started each when it was seen to start would pile them
up under a slower watermark, and leave gaps under a faster one; so those of a chain wait for each other, and
the chain goes on beyond what the window showed of it. Collectives wait in ``steps``. Messages that wait in
other ways are replayed when they were seen to start; ``waiting_share`` says how much of the traffic they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from twin.arrivals.bursts import batches, first_samples, usual_spacing
from twin.arrivals.steps import (
    FOLLOWS_S,
    LARGE_BYTES,
    LEAST_SAMPLES,
    OVERLAP,
    SPACINGS,
    Pair,
    by_pair,
    ends_s,
    stepping,
)

_LEAST_TURNS = 4  # of a pair, or of all: two messages may follow each other by chance
_FOLLOWING = 0.75  # of a pair's messages that have one before them: some resume after a pause
_FOLLOWING_OF_ALL = 0.4  # web search, data mining and Hadoop have 0.01 to 0.18, by chance
MOST_WAITING = 0.5  # of large messages' bytes: above, a long replay would pile up what would have waited
_FEW_LARGE = 20


@dataclass(frozen=True, slots=True, eq=False)
class Chained:
    """``arrivals`` with messages added that chains would send next, which start as the window ends.

    ``after`` [i] is the row that a message waits for, −1 for none, ``gap_s`` the usual time between.
    """

    arrivals: FlowArrivals
    after: NDArray[np.int64]
    gap_s: float


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
    alone &= ~stepping(arrivals, nic_bytes_per_s)
    arrivals = arrivals.take(np.flatnonzero(alone))
    after = _followed(arrivals)
    pairs = by_pair(arrivals)
    follow = {pair: int(np.count_nonzero(after[rows] >= 0)) for pair, rows in pairs.items()}
    may = {pair: len(rows) - 1 for pair, rows in pairs.items()}
    all_do = sum(follow.values()) >= max(_LEAST_TURNS, _FOLLOWING_OF_ALL * sum(may.values()))
    return frozenset(
        pair
        for pair, n in follow.items()
        if n >= max(_LEAST_TURNS, _FOLLOWING * may[pair]) or (all_do and n > 0)
    )


def chained(
    arrivals: FlowArrivals, pairs: Collection[Pair], since_s: float, until_s: float
) -> Chained | None:
    """The messages of ``pairs`` waiting for one another; None where there are none.

    A chain is given as many more messages as began between the two times, of the sizes that these have: a
    watermark under which they are faster does not run out of them.
    """
    after = _followed(arrivals, pairs)
    if not np.any(after >= 0):
        return None
    waits = np.flatnonzero(after >= 0)
    # Of one message sampling shows the gap to some tens of microseconds.
    usual_s = max(float(np.median(arrivals.start_s[waits] - ends_s(arrivals)[after[waits]])), 0.0)
    more: list[int] = []
    more_after: list[int] = []
    for last in np.setdiff1d(waits, after).tolist():
        chain, at = [last], last
        while (at := int(after[at])) >= 0:
            chain.append(at)
        again = [row for row in reversed(chain) if arrivals.start_s[row] >= since_s] or [last]
        for row in again:
            more_after.append(last)
            last = len(arrivals) + len(more)
            more.append(row)
    added = arrivals.take(np.array(more))
    added = replace(
        added,
        start_s=np.full(len(more), until_s),
        last_s=np.full(len(more), until_s),
        sent_bytes=np.zeros(len(more)),
        n_samples=np.zeros(len(more), np.int64),
        end_seen=np.zeros(len(more), np.bool_),
    )
    return Chained(arrivals.and_then(added), np.concatenate((after, more_after)), usual_s)


def _followed(arrivals: FlowArrivals, pairs: Collection[Pair] | None = None) -> NDArray[np.int64]:
    """For each message the row of the large one of its pair that ended nearest to its start; −1 without one.

    None is followed by two.
    """
    after = np.full(len(arrivals), -1)
    end_s = ends_s(arrivals)
    lasting_s = end_s - arrivals.start_s
    between_s = lasting_s / (arrivals.n_samples + 1)
    within_s = np.minimum(np.maximum(FOLLOWS_S, SPACINGS * between_s), OVERLAP * lasting_s)
    for pair, rows in by_pair(arrivals).items():
        if pairs is not None and pair not in pairs:
            continue
        free: list[int] = []
        for row in rows:
            starts_s = arrivals.start_s[row]
            before = min(free, key=lambda one: abs(end_s[one] - starts_s), default=-1)
            if before >= 0 and abs(end_s[before] - starts_s) <= within_s[before]:
                after[row] = before
                free.remove(before)
            free.append(row)
    return after


def waiting_share(arrivals: FlowArrivals, nic_bytes_per_s: Mapping[str, float]) -> float | None:
    """The share of large messages' bytes that wait for others and are not replayed so: 0.0 to 1.0, None where
    that is not known. Replayed for long, such traffic piles up as it never would.

    A message waits that begins as another of its sender to its receiver ends, or in a batch that its sender
    begins at one moment; those of chains and steps are replayed so. ``nic_bytes_per_s``: line rates by host.
    By chance it is up to 0.3.
    """
    large = arrivals.take(np.flatnonzero(arrivals.sent_bytes >= LARGE_BYTES))
    if len(large) < _FEW_LARGE or usual_spacing(arrivals) * LEAST_SAMPLES > LARGE_BYTES:
        return None
    pairs = list(zip(large.src_host, large.dst_host, strict=True))
    number = {pair: at for at, pair in enumerate(dict.fromkeys(pairs))}
    pair = np.array([number[one] for one in pairs])
    end_s = ends_s(large)
    apart = float(large.last_s.max()) + 1.0  # pairs out of each other's reach
    ended = np.sort((pair * apart + end_s)[np.isfinite(end_s)])
    began = pair * apart + large.start_s
    earliest, latest = (np.searchsorted(ended, began + at) for at in (-FOLLOWS_S, FOLLOWS_S))
    own = end_s < large.start_s + FOLLOWS_S
    waits = latest - earliest - own > 0
    _, first_s = first_samples(large, nic_bytes_per_s)
    for batch, _ in batches(large, first_s, np.zeros(len(large), np.bool_)):
        waits[batch] = True
    chains = chains_of(large, nic_bytes_per_s)
    waits &= np.array([one not in chains for one in pairs]) & ~stepping(large, nic_bytes_per_s)
    return float(large.sent_bytes[waits].sum() / large.sent_bytes.sum())

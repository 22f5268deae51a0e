"""Messages that start together at one receiver (incast): how many, judged by those that were seen.

Sampling each packet by itself thins a burst of m messages like any m messages, but leaves the times between
those seen. So the excess of close pairs at a receiver over the pairs further apart, per message seen, is
(m − 1) times the share of messages seen. Where most messages seen have companions, bursts are seen as such,
and those that differ by sampling alone are taken to be alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals

TOGETHER_S = 25e-6  # packets of one burst leave their senders within the time of a message or two
_BACKGROUND = 8  # times as long around it, where pairs are by chance
_LEAST_SIGNIFICANCE = 3.0
_BY_CHANCE = 0.05
_LEAST_BATCH = 8
_PAUSE, _LONGEST_LAG = 6.0, 1.7  # in mean spacings; of exponential times the mean lag is just below 1
_ALIKE_WITHIN = 2.0  # times the variance by chance: of fifteen messages alike one batch in a hundred has more


def companions(receiver: NDArray[np.int64], at_s: NDArray[np.float64]) -> float:
    """How many other messages were seen together with one seen, on average and beyond chance; 0 where it may
    be chance.

    Per message its ``receiver``'s number and when a packet of it left its sender. O(n log n).
    """
    close, by_chance = _pairs(receiver, at_s)
    return 2.0 * (close - by_chance) / len(at_s) if _beyond_chance(close, by_chance) else 0.0


def members(receiver: NDArray[np.int64], at_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which messages seen are in a burst: with more of them, each soon after the one before, than by chance.

    None where companions may all be there by chance. Arguments as of ``companions``.
    """
    close, by_chance = _pairs(receiver, at_s)
    if not _beyond_chance(close, by_chance):
        return np.zeros(len(at_s), np.bool_)
    next_is_close = -np.expm1(-by_chance / len(at_s))
    burst = _runs(receiver, at_s)
    return np.asarray(next_is_close ** (np.bincount(burst)[burst] - 1) < _BY_CHANCE)


def _pairs(receiver: NDArray[np.int64], at_s: NDArray[np.float64]) -> tuple[float, float]:
    """Pairs of messages at one receiver within ``TOGETHER_S``, and the number expected by chance."""
    if len(at_s) < 2:
        return 0.0, 0.0
    wide = (1 + _BACKGROUND) * TOGETHER_S
    apart = float(np.ptp(at_s)) + 2 * wide + 1e-9
    key = np.sort((at_s - at_s.min()) + receiver * apart)  # receivers out of each other's reach
    near, far = (np.searchsorted(key, key + reach, side="right") for reach in (TOGETHER_S, wide))
    after = np.arange(1, len(key) + 1)
    return float((near - after).sum()), float((far - near).sum()) / _BACKGROUND


def _beyond_chance(close: float, by_chance: float) -> bool:
    return bool(close - by_chance > _LEAST_SIGNIFICANCE * np.sqrt(close + by_chance / _BACKGROUND))


def _runs(receiver: NDArray[np.int64], at_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """The number of each message's run: messages at one receiver, each within ``TOGETHER_S`` of the next."""
    order = np.lexsort((at_s, receiver))
    apart = (np.diff(receiver[order]) != 0) | (np.diff(at_s[order]) > TOGETHER_S)
    run = np.empty(len(at_s), np.int64)
    run[order] = np.concatenate(([0], np.cumsum(apart)))
    return run


def started_together(
    sender: NDArray[np.int64], first_s: NDArray[np.float64], spacing_s: NDArray[np.float64]
) -> list[tuple[NDArray[np.int64], float]]:
    """Messages that a sender began at one moment, as a collective's are: their rows, and when.

    The first sample of a message leaves (``first_s``) an exponential time of mean ``spacing_s`` after its
    start. At least ``_LEAST_BATCH`` messages of one ``sender`` whose first samples differ by no more than
    such times would are taken to have begun together; the earliest tells when, to a fraction of a spacing.
    """
    found = []
    order = np.lexsort((first_s, sender))
    same = np.diff(sender[order]) == 0
    joins = same & (np.diff(first_s[order]) <= _PAUSE * spacing_s[order[1:]])
    for batch in np.split(order, np.flatnonzero(~joins) + 1):
        if len(batch) < _LEAST_BATCH:
            continue
        mean_s, earliest_s = float(spacing_s[batch].mean()), float(first_s[batch[0]])
        if float(first_s[batch].mean()) - earliest_s <= _LONGEST_LAG * mean_s:
            found.append((batch, earliest_s - mean_s / len(batch)))
    return found


def batches(
    seen: FlowArrivals, first_s: NDArray[np.float64], running: NDArray[np.bool_]
) -> list[tuple[NDArray[np.int64], float]]:
    """The rows of messages that one sender began together, and when."""
    rows = np.flatnonzero(~running & (seen.n_samples > 1))
    spacing_s = np.maximum(seen.last_s[rows] - first_s[rows], 0.0) / (seen.n_samples[rows] - 1)
    return _of_senders(seen, rows, first_s[rows], spacing_s)


def ended_together(seen: FlowArrivals, ran: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Of the messages ``ran``, which ran as the window began, the rows that one sender ended together."""
    rows = np.flatnonzero(ran)
    spacing_s = (seen.last_s[rows] - seen.start_s[rows]) / seen.n_samples[rows]
    return [batch for batch, _ in _of_senders(seen, rows, -seen.last_s[rows], spacing_s)]


def _of_senders(
    seen: FlowArrivals, rows: NDArray[np.int64], at_s: NDArray[np.float64], spacing_s: NDArray[np.float64]
) -> list[tuple[NDArray[np.int64], float]]:
    """``started_together`` of some messages, by their rows."""
    if not len(rows):
        return []
    together = started_together(numbered(seen.src_host)[rows], at_s, spacing_s)
    return [(rows[batch], when_s) for batch, when_s in together]


def alike(n_samples: NDArray[np.int64]) -> bool:
    """Whether messages may be of one size: sampling alone explains how their samples differ."""
    return len(n_samples) > 1 and float(n_samples.var()) <= _ALIKE_WITHIN * float(n_samples.mean())


def evened(receiver: NDArray[np.int64], at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each message seen how many times its share of unseen ones its burst should get.

    1 where bursts are not told from chance; else the spread of bursts that sampling alone explains is taken
    out (James and Stein).
    """
    if companions(receiver, at_s) < 1.0:
        return np.ones(len(at_s))
    burst = _runs(receiver, at_s)
    seen = np.bincount(burst).astype(np.float64)
    mean = float(seen.mean())
    real = max(float(seen.var()) - mean, 0.0)
    alike = (mean + (seen - mean) * real / (real + mean)) / seen
    return np.asarray(alike[burst])


def first_samples(
    seen: FlowArrivals, nic_bytes_per_s: Mapping[str, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The line rate of each message's sender, and when its first sample left, which is known."""
    nic = np.array([nic_bytes_per_s.get(name, np.inf) for name in seen.src_host])
    return nic, seen.start_s + seen.sent_bytes / (seen.n_samples + 1) / nic


def numbered(names: Sequence[str]) -> NDArray[np.int64]:
    """A number for each name, the same for the same name, in order of names."""
    number = {name: place for place, name in enumerate(sorted(set(names)))}
    return np.array([number[name] for name in names], np.int64)


def usual_spacing(arrivals: FlowArrivals) -> float:
    """Bytes between two samples, as half of all bytes were sampled at or below."""
    if not len(arrivals):
        return 0.0
    spacing = arrivals.sent_bytes / np.maximum(arrivals.n_samples, 1)
    order = np.argsort(spacing, kind="stable")
    carried = np.cumsum(arrivals.sent_bytes[order])
    return float(spacing[order[np.searchsorted(carried, carried[-1] / 2)]])

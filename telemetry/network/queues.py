"""Depth, marking and throughput of egress queues over a window.

Samples are per packet, but depth is wanted as a *time* average. While a queue is not empty its port sends at
line rate, so a packet of B bytes sampled at rate s stands for B / s / capacity seconds at the depth it saw;
the remaining time the queue was empty. Under PFC pause, or where queues share a port, a packet stands for
longer: where packets' stays show it, mean depth follows from them by Little's law; the percentile reads low.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.settings import NS_PER_S
from telemetry.state import RECENT_S, QueueRef, QueueSamples, QueueState
from telemetry.window.samples import Samples

_QUANTILE = 0.99
_GAPS_PER_BIN = 8
_BINS_AT_LEAST = 100
_DEEP_BYTES = 20_000
_DEEP_SAMPLES = 10
_DRAIN_ROUNDS = 4
_BOUND_ERRORS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class HopRows:
    """One row per hop with a known egress queue: the ``queue`` number, and columns of hop and report."""

    queue: NDArray[np.int32]
    ts_ns: NDArray[np.int64]
    true_bytes: NDArray[np.float64]
    true_packets: NDArray[np.float64]
    stands_for: NDArray[np.int32]
    queue_bytes: NDArray[np.float64]
    residence_ns: NDArray[np.int32]
    marked: NDArray[np.int8]


def hop_rows(samples: Samples, hop_queue: NDArray[np.int32]) -> HopRows:
    """Hops of the samples with a known queue (``hop_queue``, -1: unknown), in order."""
    hops = np.flatnonzero(hop_queue >= 0)
    row = samples.hop_row[hops]
    return HopRows(
        queue=hop_queue[hops],
        ts_ns=samples.ts_ns[row],
        true_bytes=samples.true_bytes[row],
        true_packets=samples.true_bytes[row] / samples.packet_bytes[row],
        stands_for=samples.stands_for[row],
        queue_bytes=samples.queue_bytes[hops],
        residence_ns=samples.residence_ns[hops],
        marked=samples.marked[hops],
    )


def queue_states(
    hops: HopRows,
    refs: Sequence[QueueRef],
    capacity_bytes_per_s: Mapping[int, float],
    lift: NDArray[np.float64],
    duration_s: float,
) -> tuple[QueueState, ...]:
    """One ``QueueState`` per queue in ``refs``, over a window of ``duration_s``; ``lift``: of ``lifts``.

    ``capacity_bytes_per_s`` by queue number. Where it is missing, the window is cut into bins of eight of the
    queue's usual gaps between samples; a bin counts with the mean depth seen in it, an empty bin as an empty
    queue (coarser, and a little high). Packets without a depth count for throughput only, and the others
    represent them for depth. Where no packet has one, the depth is NaN (unknown).
    """
    n = len(refs)
    all_bytes = _all_bytes(hops, n)
    known, held_s = _held(hops, all_bytes, capacity_bytes_per_s)
    queue, depth = hops.queue[known], hops.queue_bytes[known]
    rated = ~np.isnan(held_s)
    binned = _binned(queue[~rated], depth[~rated], hops.ts_ns[known][~rated], n, duration_s)
    mean, high = _time_averages(
        np.concatenate((queue[rated], binned[0])),
        np.concatenate((depth[rated], binned[1])),
        np.concatenate((held_s[rated], binned[2])),
        n,
        duration_s,
    )
    most = np.zeros(n)
    np.maximum.at(most, queue, depth)
    mean = np.minimum(mean * lift, most)  # scaling may round up
    unknown = np.bincount(queue, minlength=n) == 0
    mean[unknown] = high[unknown] = most[unknown] = np.nan
    with_mark = hops.marked >= 0
    packets = np.bincount(hops.queue[with_mark], hops.true_packets[with_mark], minlength=n)
    marked = np.bincount(
        hops.queue[with_mark], hops.true_packets[with_mark] * hops.marked[with_mark], minlength=n
    )
    ratio = np.divide(marked, packets, out=np.full(n, np.nan), where=packets > 0)
    marked_per_s = ratio * np.bincount(hops.queue, hops.true_packets, minlength=n) / duration_s
    samples = np.bincount(hops.queue, hops.stands_for, minlength=n)
    return tuple(
        QueueState(
            ref=ref,
            n_samples=int(samples[number]),
            depth_mean_bytes=float(mean[number]),
            depth_p99_bytes=float(high[number]),
            depth_max_bytes=float(most[number]),
            marked_ratio=float(ratio[number]) if packets[number] > 0 else None,
            throughput_bytes_per_s=float(all_bytes[number] / duration_s),
            capacity_bytes_per_s=capacity_bytes_per_s.get(number),
            marked_packets_per_s=float(marked_per_s[number]) if packets[number] > 0 else None,
        )
        for number, ref in enumerate(refs)
    )


def recent_samples(
    hops: HopRows,
    capacity_bytes_per_s: Mapping[int, float],
    lift: NDArray[np.float64],
    span_ns: tuple[int, int],
) -> QueueSamples:
    """The rows of the last ``RECENT_S`` of the window whose depth and capacity are known."""
    known, held_s = _held(hops, _all_bytes(hops, len(lift)), capacity_bytes_per_s)
    since_ns = span_ns[1] - round(RECENT_S * NS_PER_S)
    chosen = np.flatnonzero(~np.isnan(held_s) & (hops.ts_ns[known] >= since_ns))
    rows = known[chosen]
    return QueueSamples(
        queue=hops.queue[rows],
        at_s=(hops.ts_ns[rows] - span_ns[0]) / NS_PER_S,
        depth_bytes=hops.queue_bytes[rows],
        held_s=held_s[chosen] * lift[hops.queue[rows]],
    )


def _all_bytes(hops: HopRows, n_queues: int) -> NDArray[np.float64]:
    return np.bincount(hops.queue, hops.true_bytes, minlength=n_queues).astype(np.float64)


def _held(
    hops: HopRows, all_bytes: NDArray[np.float64], capacity_bytes_per_s: Mapping[int, float]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows with a known depth, and the seconds each stands for (NaN without a capacity); packets without a
    depth are represented by the others.
    """
    n = len(all_bytes)
    known = np.flatnonzero(~np.isnan(hops.queue_bytes))
    known_bytes = np.bincount(hops.queue[known], hops.true_bytes[known], minlength=n)
    capacity = np.array([capacity_bytes_per_s.get(number, np.nan) for number in range(n)])
    scale = np.divide(all_bytes, known_bytes * capacity, out=np.full(n, np.nan), where=known_bytes > 0)
    return known, hops.true_bytes[known] * scale[hops.queue[known]]


def lifts(hops: HopRows, capacity_bytes_per_s: Mapping[int, float], n: int) -> NDArray[np.float64]:
    """Mean depth of each queue by Little's law (bytes × stay) ÷ that from depths at line rate (bytes × depth
    ÷ capacity). Stays scatter more than depths: 1 unless larger by more than two standard errors and what
    packets that came before the window can add.

    Left out of a stay are the queue's shortest, as the switch's own latency, and the packet's wire time.
    """
    capacity = np.array([capacity_bytes_per_s.get(number, np.nan) for number in range(n)])
    rows = np.flatnonzero((hops.queue_bytes >= 0) & (hops.residence_ns >= 0) & (capacity[hops.queue] > 0))
    queue, weight, stay_s = hops.queue[rows], hops.true_bytes[rows], hops.residence_ns[rows] / NS_PER_S
    shortest_s = np.full(n, np.inf)
    np.minimum.at(shortest_s, queue, stay_s)
    own_s = weight / hops.true_packets[rows] / capacity[queue]
    at_line_rate = weight * hops.queue_bytes[rows] / capacity[queue]
    more = weight * (stay_s - shortest_s[queue] - own_s) - at_line_rate
    area, extra = (np.bincount(queue, column, minlength=n) for column in (at_line_rate, more))
    deepest = np.zeros(n)
    np.maximum.at(deepest, queue, hops.queue_bytes[rows])
    doubt = _BOUND_ERRORS * np.sqrt(np.bincount(queue, more**2, minlength=n)) + deepest**2 / capacity / 2
    sure = (area > 0) & (extra > doubt)
    return 1.0 + np.divide(extra, area, out=np.zeros(n), where=sure)


def service_rates(hops: HopRows, n_queues: int) -> dict[int, float]:
    """Drain rate of each queue, bytes/s: depth ÷ residence time of packets that met a deep queue.

    The median over at least ten packets that met 20 KB or more; queues with fewer are left out.
    """
    deep = np.flatnonzero((hops.queue_bytes >= _DEEP_BYTES) & (hops.residence_ns > 0))
    queue, rate = hops.queue[deep], hops.queue_bytes[deep] / (hops.residence_ns[deep] * 1e-9)
    order = np.lexsort((rate, queue))
    counts = np.bincount(queue, minlength=n_queues)
    starts = np.cumsum(counts) - counts
    middle = starts + counts // 2
    return {
        number: float(rate[order[middle[number]]])
        for number in np.flatnonzero(counts >= _DEEP_SAMPLES).tolist()
    }


class DrainRate(NamedTuple):
    """Bytes/s at which a queue drains, and the bounds that its packets leave open."""

    likely: float
    least: float
    most: float


def drain_rates(hops: HopRows, n_queues: int) -> dict[int, DrainRate]:
    """The rates of the queues that have one of ``service_rates``, which lies within the bounds.

    A depth told on leaving is what arrived during the stay: more than drained while a queue grows, less while
    it shrinks. Over a busy period both add up to the same, so the sum of depths ÷ the sum of stays is the
    rate. Packets are chosen by what they met and left together: by what they left alone, growing queues would
    weigh more. Pauses lower this ratio more than the median, and growing queues raise the median more, so the
    bounds hold both, and two standard errors of the ratio.
    """
    median = np.zeros(n_queues)
    for number, one in service_rates(hops, n_queues).items():
        median[number] = one
    rows = np.flatnonzero((hops.queue_bytes >= 0) & (hops.residence_ns > 0) & (median[hops.queue] > 0))
    queue, depth, stay_s = hops.queue[rows], hops.queue_bytes[rows], hops.residence_ns[rows] * 1e-9
    rate = median
    for _ in range(_DRAIN_ROUNDS):  # what a packet met follows from the rate
        deep = (rate[queue] > 0) & (depth + rate[queue] * stay_s >= 2 * _DEEP_BYTES)
        packets, left, stayed_s = (
            np.bincount(queue, column * deep, minlength=n_queues)
            for column in (np.ones(len(queue)), depth, stay_s)
        )
        rate = np.divide(left, stayed_s, out=np.zeros(n_queues), where=packets >= _DEEP_SAMPLES)
    off = np.sqrt(np.bincount(queue, ((depth - rate[queue] * stay_s) * deep) ** 2, minlength=n_queues))
    wide = np.exp(_BOUND_ERRORS * off / np.maximum(left, 1.0))
    least, most = np.minimum(rate / wide, median), np.maximum(rate * wide, median)
    return {
        number: DrainRate(float(rate[number]), float(least[number]), float(most[number]))
        for number in np.flatnonzero(rate).tolist()
    }


def _binned(
    queue: NDArray[np.int32], depth: NDArray[np.float64], ts_ns: NDArray[np.int64], n: int, duration_s: float
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Occupied bins as (queue, mean depth, seconds); rows are in time order."""
    if len(queue) == 0:
        return queue, depth, depth
    order = np.argsort(queue, kind="stable")
    queue, depth, ts_ns = queue[order], depth[order], ts_ns[order]
    same = queue[1:] == queue[:-1]
    gap_queue, gap = queue[1:][same], np.diff(ts_ns)[same]
    counts = np.bincount(gap_queue, minlength=n)
    by_gap = gap[np.lexsort((gap, gap_queue))]
    middle = np.minimum(np.cumsum(counts) - counts + counts // 2, max(len(gap) - 1, 0))
    usual = np.where(counts > 0, by_gap[middle] if len(gap) else 1, 1)
    width = np.clip(_GAPS_PER_BIN * usual, 1, max(int(duration_s * 1e9 / _BINS_AT_LEAST), 1))
    _, first, bin_of = np.unique(
        np.stack((queue, ts_ns // width[queue])), axis=1, return_index=True, return_inverse=True
    )
    mean = np.bincount(bin_of, depth) / np.bincount(bin_of)
    return queue[first], mean, width[queue[first]] * 1e-9


def _time_averages(
    queue: NDArray[np.int32],
    depth: NDArray[np.float64],
    held_s: NDArray[np.float64],
    n: int,
    duration_s: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and 99th percentile of depth over ``duration_s``; time without a row counts as depth 0."""
    busy_s = np.bincount(queue, held_s, minlength=n)
    # Sampling noise can add up to more time than there is.
    fit = np.minimum(1.0, np.divide(duration_s, busy_s, out=np.ones(n), where=busy_s > 0))
    held_s = held_s * fit[queue]
    mean = np.bincount(queue, held_s * depth, minlength=n) / duration_s
    order = np.lexsort((depth, queue))
    counts = np.bincount(queue, minlength=n)
    starts = np.cumsum(counts) - counts
    high = np.zeros(n)
    for number in np.flatnonzero(counts).tolist():
        rows = order[starts[number] : starts[number] + counts[number]]
        from_the_top = np.cumsum(held_s[rows][::-1])
        place = int(np.searchsorted(from_the_top, (1 - _QUANTILE) * duration_s))
        high[number] = depth[rows[::-1][place]] if place < len(rows) else 0.0
    return mean, high

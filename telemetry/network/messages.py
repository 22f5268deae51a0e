"""Messages from sampled packets: when each begins, how large it is, whether it ended; and their incast.

Each packet is sampled independently with the same probability s, so a message with n sampled packets has
about n / s packets (single samples stand for the many small messages of which none was sampled: the load is
right on average), and the first sampled one has on average (n / s) / (n + 1) before it, sent at line rate as
every message starts.

A sender is live to a receiver from a message's start to its end, both included; messages that overlap or
touch count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.settings import WindowSettings
from telemetry.state import Incast
from telemetry.topology import GBPS
from telemetry.window.samples import NEVER_NS, Samples

_MOST_KEY = 2**62  # of a key made of a number and a time


def incast_degrees(
    names: Sequence[str],
    sender: NDArray[np.int64],
    receiver: NDArray[np.int64],
    start_ns: NDArray[np.float64],
    end_ns: NDArray[np.float64],
) -> tuple[Incast, ...]:
    """The incast of each receiver, worst first (ties by name); O(n log n) in the number n of messages.

    Per message: ``sender`` and ``receiver`` into ``names``, and its begin and end (no earlier) on any one
    scale.
    """
    if len(sender) == 0:
        return ()
    codes, pair = np.unique(receiver.astype(np.int64) * len(names) + sender, return_inverse=True)
    receivers, receiver_of = np.unique(codes // len(names), return_inverse=True)
    start, end, length = _whole(start_ns, end_ns, most=len(codes))
    begins, ends = _live(pair * length + start, pair * length + end)
    # Sorted by receiver, then time: each earlier receiver has as many ends as begins, so counts start at 0.
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
    """Times as integers from 0, in nanoseconds (coarser where ``most`` spans would not fit into a key), and
    the length of a span.
    """
    zero = float(start_ns.min())
    unit = max(1.0, (float(end_ns.max()) - zero + 2) * most / _MOST_KEY)
    start, end = (np.rint((times - zero) / unit).astype(np.int64) for times in (start_ns, end_ns))
    return start, end, int(end.max()) + 1


def _live(start: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """When each pair becomes live and stops, as sorted keys of pair and time: overlapping and touching
    messages joined.
    """
    order = np.argsort(start)
    start, latest = start[order], np.maximum.accumulate(end[order])
    apart = start[1:] > latest[:-1]
    return start[np.concatenate(([True], apart))], latest[np.concatenate((apart, [True]))]


_GAP_MARGIN = 30.0
_GAP_QUANTILE = 0.75
_SLOWEST_FLOW_BYTES_PER_S = 0.1 * GBPS
_SLOWEST_MARGIN = 7.0
_RECENT_GAPS = 8
_STILL_SENDING_GAPS = 6.0
_MAY_BE_SENDING_GAPS = 12.0
# Of the window, at most: where large messages are slow, most others would seem to outlast it.
_EDGE, _LONGEST_EDGE_NS = 0.1, 5_000_000
_STILL_SENDING_SAMPLES = 3
_FEW_LARGE = 20


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages in order of flow and time, times in ns on the scale of ``sent_ns``.

    ``n_samples`` show it, from ``first_row`` to ``last_row``, one of them short where ``end_seen``.
    ``start_ns`` and ``end_ns`` are estimates for its first and last packet, seen or not; ``last_ns`` is the
    last one seen. ``running_at_open``: the message began before the window, ``ran_before``: or may have, as
    slow ones are silent for as long; ``sending_at_close``: it outlasts the window.
    """

    flow: NDArray[np.int64]
    first_row: NDArray[np.int64]
    last_row: NDArray[np.int64]
    n_samples: NDArray[np.int64]
    end_seen: NDArray[np.bool_]
    wire_bytes: NDArray[np.float64]
    start_ns: NDArray[np.float64]
    last_ns: NDArray[np.float64]
    end_ns: NDArray[np.float64]
    running_at_open: NDArray[np.bool_]
    ran_before: NDArray[np.bool_]
    sending_at_close: NDArray[np.bool_]


def messages(
    samples: Samples,
    flow: NDArray[np.int64],
    *,
    sent_ns: NDArray[np.float64],
    nic_bytes_per_s: NDArray[np.float64],
    last_before_ns: NDArray[np.int64],
    end_ns: int,
    settings: WindowSettings,
    short: NDArray[np.bool_] | None = None,
) -> Messages:
    """Messages of each flow, split where it was silent for longer than its usual gaps explain.

    Per sample: ``flow`` number, ``sent_ns`` when it left the sender, ``nic_bytes_per_s`` the sender's line
    rate, ``short`` whether it is below the sender's full packet (None: not known). ``last_before_ns[flow]``:
    when the flow was last seen before the window, negative if never.

    A silence ends a message when it exceeds ``idle_gap_ns`` and thirty times the flow's usual gap (its upper
    quartile), but at the latest at seven times the gap of a sender at 0.1 Gbit/s.
    """
    order = np.lexsort((sent_ns, flow))
    by_flow, sent = flow[order], sent_ns[order]
    n_flows = len(last_before_ns)
    spacing = samples.true_bytes[order]  # bytes a flow sends between two samples, on average
    gap = np.diff(sent)
    within = by_flow[1:] == by_flow[:-1]
    usual = _upper_quartile(by_flow[1:][within], gap[within], n_flows)
    longest_gap = np.minimum(
        _GAP_MARGIN * usual[by_flow], _SLOWEST_MARGIN * spacing / _SLOWEST_FLOW_BYTES_PER_S * 1e9
    )
    longest_gap = np.maximum(longest_gap, settings.idle_gap_ns)
    begins = np.concatenate(([True], ~within | (gap > longest_gap[1:])))
    first = np.flatnonzero(begins)
    message = np.cumsum(begins) - 1
    last = np.concatenate((first[1:], [len(sent)])) - 1
    count = last - first + 1
    wire_bytes = np.bincount(message, spacing).astype(np.float64)
    unseen_ns = wire_bytes / (count + 1) / nic_bytes_per_s[order[first]] * 1e9
    owner = by_flow[first]
    opens_flow = np.concatenate(([True], owner[1:] != owner[:-1]))
    before_ns = last_before_ns[owner]
    seen_before = opens_flow & (before_ns != NEVER_NS)
    silent_ns = samples.ts_ns[order[first]] - before_ns
    recent = np.minimum(count - 1, _RECENT_GAPS)
    pace_ns = (sent[last] - sent[last - recent]) / np.maximum(recent, 1)
    quiet_ns = end_ns - samples.ts_ns[order[last]]
    # At line rate at first, it may have been slowed down since.
    edge_ns = min(_EDGE * settings.length_ns, _LONGEST_EDGE_NS)
    usual_ns = min(_usual_pace_ns(pace_ns, count), edge_ns / _MAY_BE_SENDING_GAPS)
    at_close = (count >= _STILL_SENDING_SAMPLES) & (
        quiet_ns < _STILL_SENDING_GAPS * np.maximum(pace_ns, usual_ns)
    )
    return Messages(
        flow=owner,
        first_row=order[first],
        last_row=order[last],
        n_samples=count,
        end_seen=np.zeros(len(count), np.bool_) if short is None else np.bincount(message, short[order]) > 0,
        wire_bytes=wire_bytes,
        start_ns=sent[first] - unseen_ns,
        last_ns=sent[last],
        end_ns=sent[last] + unseen_ns,
        running_at_open=seen_before & (silent_ns <= longest_gap[first]),
        ran_before=seen_before
        & (silent_ns <= np.maximum(longest_gap[first], _MAY_BE_SENDING_GAPS * usual_ns)),
        sending_at_close=at_close,
    )


def _usual_pace_ns(pace_ns: NDArray[np.float64], count: NDArray[np.int64]) -> float:
    """Time between two samples of the median large message; 0 where there are few."""
    large = pace_ns[count > _RECENT_GAPS]
    return float(np.median(large)) if len(large) >= _FEW_LARGE else 0.0


def longest_gap_ns(settings: WindowSettings) -> int:
    """A silence that ends any flow's message: gaps are at most twice the window's length."""
    return max(round(_GAP_MARGIN * 2 * settings.length_ns), settings.idle_gap_ns)


def _upper_quartile(flow: NDArray[np.int64], gap: NDArray[np.float64], n_flows: int) -> NDArray[np.float64]:
    """Third quartile (lower of the two candidates) of each flow's gaps; 0 without any."""
    if len(gap) == 0:
        return np.zeros(n_flows)
    by_gap = gap[np.lexsort((gap, flow))]
    counts = np.bincount(flow, minlength=n_flows)
    starts = np.cumsum(counts) - counts
    place = starts + (_GAP_QUANTILE * np.maximum(counts - 1, 0)).astype(np.int64)
    return np.where(counts > 0, by_gap[np.minimum(place, len(gap) - 1)], 0.0)

"""Messages out of sampled packets: where each begins, how large it is, whether it ended; imports only
``telemetry``.

Each packet is sampled independently with the same probability s, so a message of which n packets were seen
has about n / s packets (single samples stand for the many small messages that were not seen at all: the load
is right on average), and the first one seen has on average (n / s) / (n + 1) of them before it, sent at line
rate as every message starts. When a packet left its sender follows from the sink's time, less the time it
spent in each switch (each by its own clock), less what the cables take: no two clocks are ever subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.settings import WindowSettings
from telemetry.topology import GBPS
from telemetry.window.samples import NEVER_NS, Samples

_GAP_MARGIN = 30.0
_GAP_QUANTILE = 0.75
_SLOWEST_FLOW_BYTES_PER_S = 0.1 * GBPS
_SLOWEST_MARGIN = 7.0
_RECENT_GAPS = 8
_STILL_SENDING_GAPS = 6.0
_STILL_SENDING_SAMPLES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages in order of flow and time: ``flow`` as the caller numbered the rows; times in ns on
    ``sent_ns``'s scale.

    ``start_ns`` and ``end_ns`` when its first and its last packet left, seen or not; ``last_ns`` the last one
    seen. ``running_at_open``: the flow was seen before the window; ``sending_at_close``: the window ends
    before it does.
    """

    flow: NDArray[np.int64]
    first_row: NDArray[np.int64]
    n_samples: NDArray[np.int64]
    wire_bytes: NDArray[np.float64]
    start_ns: NDArray[np.float64]
    last_ns: NDArray[np.float64]
    end_ns: NDArray[np.float64]
    running_at_open: NDArray[np.bool_]
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
) -> Messages:
    """Messages of each flow, cut where it fell silent for longer than its own pace explains.

    Per sample: ``flow`` its flow's number, ``sent_ns`` when it left the sender, ``nic_bytes_per_s`` the
    sender's line rate. ``last_before_ns[flow]``: last time the flow was seen before the window, negative if
    never.

    A silence ends a message if it exceeds ``idle_gap_ns``, thirty times the flow's usual gap (its upper
    quartile), and never later than seven times what a sender at 0.1 Gbit/s leaves between samples.
    """
    order = np.lexsort((sent_ns, flow))
    by_flow, sent = flow[order], sent_ns[order]
    n_flows = len(last_before_ns)
    spacing = samples.true_bytes[order]  # bytes a flow sends between two samples, on average
    gap = np.diff(sent)
    within = by_flow[1:] == by_flow[:-1]
    usual = _upper_quartile(by_flow[1:][within], gap[within], n_flows)
    patience = np.minimum(
        _GAP_MARGIN * usual[by_flow], _SLOWEST_MARGIN * spacing / _SLOWEST_FLOW_BYTES_PER_S * 1e9
    )
    patience = np.maximum(patience, settings.idle_gap_ns)
    begins = np.concatenate(([True], ~within | (gap > patience[1:])))
    first = np.flatnonzero(begins)
    message = np.cumsum(begins) - 1
    last = np.concatenate((first[1:], [len(sent)])) - 1
    count = last - first + 1
    wire_bytes = np.bincount(message, spacing).astype(np.float64)
    unseen_ns = wire_bytes / (count + 1) / nic_bytes_per_s[order[first]] * 1e9
    owner = by_flow[first]
    opens_flow = np.concatenate(([True], owner[1:] != owner[:-1]))
    before_ns = last_before_ns[owner]
    at_open = (
        opens_flow & (before_ns != NEVER_NS) & (samples.ts_ns[order[first]] - before_ns <= patience[first])
    )
    recent = np.minimum(count - 1, _RECENT_GAPS)
    pace_ns = (sent[last] - sent[last - recent]) / np.maximum(recent, 1)
    quiet_ns = end_ns - samples.ts_ns[order[last]]
    at_close = (count >= _STILL_SENDING_SAMPLES) & (quiet_ns < _STILL_SENDING_GAPS * pace_ns)
    return Messages(
        flow=owner,
        first_row=order[first],
        n_samples=np.bincount(message, samples.stands_for[order]).astype(np.int64),
        wire_bytes=wire_bytes,
        start_ns=sent[first] - unseen_ns,
        last_ns=sent[last],
        end_ns=sent[last] + unseen_ns,
        running_at_open=at_open,
        sending_at_close=at_close,
    )


def longest_patience_ns(settings: WindowSettings) -> int:
    """A silence that ends any flow's message: its gaps lie within the window, sent twice its length apart at
    most.
    """
    return max(round(_GAP_MARGIN * 2 * settings.length_ns), settings.idle_gap_ns)


def _upper_quartile(flow: NDArray[np.int64], gap: NDArray[np.float64], n_flows: int) -> NDArray[np.float64]:
    """Third quartile (lower of the two candidates) of each flow's gaps; 0 where it has none."""
    if len(gap) == 0:
        return np.zeros(n_flows)
    by_gap = gap[np.lexsort((gap, flow))]
    counts = np.bincount(flow, minlength=n_flows)
    starts = np.cumsum(counts) - counts
    place = starts + (_GAP_QUANTILE * np.maximum(counts - 1, 0)).astype(np.int64)
    return np.where(counts > 0, by_gap[np.minimum(place, len(gap) - 1)], 0.0)

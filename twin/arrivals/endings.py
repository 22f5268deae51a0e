"""Where messages end that were still being sent when the window closed.

Senders that a low watermark keeps slow have many of these. Taken for endless they would never drain, and a
watermark under which they do would gain too little.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowArrivals
from twin.arrivals.from_telemetry import RUNNING_FROM_S
from twin.arrivals.sizes import SizeFit

_EARLY = 0.1  # of the window
_FROM = 0.25  # of the bytes that one which outlasts the window sends in it: endings are counted from there on
_LARGE_SAMPLES, _FEW_LARGE, _APART, _LONGEST_EDGE_S = 9, 20, 12.0, 0.005
_FEW_ENDINGS = 20  # fewer tell how often messages end to no better than a quarter


def early(arrivals: FlowArrivals, duration_s: float) -> NDArray[np.bool_]:
    """Which messages of a window of ``duration_s`` ran before it, or may have: their first sample is in it,
    and their first packet need not be.
    """
    return np.asarray(arrivals.start_s <= max(_EARLY * duration_s, RUNNING_FROM_S))


def cut(arrivals: FlowArrivals, duration_s: float) -> NDArray[np.bool_]:
    """Of which messages a window of ``duration_s`` may show a part only: those that ran before it, and those
    whose last sample is at its edge.
    """
    return arrivals.ran_before | (arrivals.last_s > _sure_until_s(arrivals, duration_s))


def _sure_until_s(arrivals: FlowArrivals, duration_s: float) -> float:
    """When the window's edge begins: messages that showed no more from then on have ended.

    It is as long as samples of large messages may be apart, 5 ms or a tenth of the window at most; 0 s long
    where few are large.
    """
    large = arrivals.n_samples >= _LARGE_SAMPLES
    if np.count_nonzero(large) < _FEW_LARGE:
        return duration_s
    apart_s = float(np.median((arrivals.last_s - arrivals.start_s)[large] / arrivals.n_samples[large]))
    return duration_s - min(_APART * apart_s, _EARLY * duration_s, _LONGEST_EDGE_S)


def bytes_per_ending(arrivals: FlowArrivals, duration_s: float) -> float:
    """How many bytes early messages send for each of them that ends; if they end at random, one that outlasts
    the window sends as many more in the mean.

    Bytes and endings count beyond a quarter of what one that outlasts the window sends in it: small messages
    that end tell nothing of large ones. inf where they do not end: an application that never stops, or
    messages far larger than the window shows.
    """
    sent, outlasts = arrivals.sent_bytes, np.isinf(arrivals.wire_bytes)
    ran = early(arrivals, duration_s)
    if not (ran & outlasts).any():
        return math.inf
    least = _FROM * float(np.median(sent[ran & outlasts]))
    counted = ran & (sent > least)
    n_ended = np.count_nonzero(counted & ~outlasts)
    return float((sent[counted] - least).sum()) / n_ended if n_ended >= _FEW_ENDINGS else math.inf


def endless_share(arrivals: FlowArrivals, duration_s: float) -> float:
    """The share of the window's bytes in early messages that show no end."""
    if bytes_per_ending(arrivals, duration_s) < math.inf:
        return 0.0
    endless = np.isinf(arrivals.wire_bytes) & early(arrivals, duration_s)
    return float(arrivals.sent_bytes[endless].sum() / max(arrivals.sent_bytes.sum(), 1.0))


def ends(
    arrivals: FlowArrivals,
    fit: SizeFit,
    per_ending_bytes: float,
    duration_s: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Bytes of each message that outlasts the window, inf for one without an end, NaN for all others.

    Early ones send ``per_ending_bytes`` more in the mean (``bytes_per_ending`` of the whole window). Of those
    that began later the ended ones are the smaller, the more so the slower senders are: of all that got to a
    size of the ``fit`` before the window's edge, the share that ended there is what counts (Kaplan and
    Meier). One that ends at none of these sizes stays without an end.

    The ``fit`` is of messages that began in the window and ended before its edge, so of others too only what
    they had sent by then counts, if they began in the window.
    """
    sent, outlasts = arrivals.sent_bytes, np.isinf(arrivals.wire_bytes)
    found = np.where(outlasts, np.inf, np.nan)
    sure_s = _sure_until_s(arrivals, duration_s)
    lasting = ~arrivals.ran_before & (arrivals.start_s < sure_s) & (outlasts | (arrivals.last_s > sure_s))
    shown_s = np.maximum(arrivals.last_s - arrivals.start_s, 1e-9)[lasting]
    by_then = sent[lasting] * np.minimum((sure_s - arrivals.start_s[lasting]) / shown_s, 1.0)
    go_on = len(by_then) - np.searchsorted(np.sort(by_then), fit.size_bytes)
    stays = 1.0 - fit.messages / (np.cumsum(fit.messages[::-1])[::-1] + go_on)
    ran = early(arrivals, duration_s)
    rows = np.flatnonzero(outlasts & ran)
    for row in np.flatnonzero(outlasts & ~ran).tolist():
        larger = np.flatnonzero(fit.size_bytes > sent[row])
        ended = np.cumprod(stays[larger]) < rng.random()
        if ended.any():
            found[row] = max(float(fit.within(larger[ended.argmax()], rng.random(1))[0]), sent[row])
    if per_ending_bytes < math.inf:
        found[rows] = sent[rows] + rng.exponential(per_ending_bytes, len(rows))
    return found

"""Paraleon's utility of an interval, and its test of whether the traffic has changed.

    utility = w · (mean rate ÷ line rate, base RTT ÷ RTT, what pauses leave)

The weights w depend on whether large flows (from 1 MB; a growing one counts in part) outnumber small ones.
Paraleon divides by 100 Gbit/s and sets 40 µs in place of the base RTT, those of its own fabric; here they are
this fabric's. Its large flows are found by queues and hosts, here by the flow tables of switches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.rivals.tuner import FabricFacts, Seen, SeenFlows

LARGE_BYTES = 1_000_000
CHANGED_FROM_KL = 0.01
MONITORED_S = 1e-3
PAUSE_S = 5e-6  # what the first release takes a pause to last
_LEAST_SHARE = 1e-3  # keeps the divergence finite


@dataclass(frozen=True, slots=True)
class Weights:
    """Of rate, RTT and pauses; ``counts_links``: pauses count as the share of links paused, not by number."""

    large: tuple[float, float, float]
    small: tuple[float, float, float]
    counts_links: bool


RELEASED = Weights((0.5, 0.2, 0.3), (0.2, 0.5, 0.3), counts_links=False)
PLUS = Weights((0.6, 0.2, 0.2), (0.3, 0.5, 0.2), counts_links=True)


def large_share(flows: Sequence[tuple[Seen, SeenFlows]]) -> float | None:
    """Share of large flows among those seen to send in these intervals; None where none did."""
    sizes: dict[int, float] = {}
    for seen, table in flows:
        sent = table.last_s >= seen.begin_s
        for flow, size in zip(table.flow[sent].tolist(), table.payload_bytes[sent].tolist(), strict=True):
            sizes[flow] = max(sizes.get(flow, 0.0), size)
    if not sizes:
        return None
    return float(np.mean(np.minimum(np.array(list(sizes.values())) / LARGE_BYTES, 1.0)))


def utility(facts: FabricFacts, trial: Sequence[Seen], weights: Weights, share: float) -> float:
    """The utility over the intervals of ``trial``; ``share`` of flows are large."""
    lasted_s = sum(one.lasted_s for one in trial)
    ends = facts.to_host
    rate = sum(one.sent_bytes[ends].sum() for one in trial) / (facts.rate_bytes_per_s[ends].sum() * lasted_s)
    rtt_s = np.mean([_rtt_s(facts, one) for one in trial])
    if weights.counts_links:
        paused = sum((one.paused_s > 0) | (one.pausing_s > 0) for one in trial)
        left = 1.0 - float(np.mean(paused > 0))
    else:
        sent = sum(float(one.pauses_sent.mean()) for one in trial)
        left = 1.0 - sent * PAUSE_S / lasted_s
    chosen = weights.large if share >= 0.5 else weights.small
    parts = (float(rate), facts.base_rtt_s / float(rtt_s), left)
    return sum(weight * part for weight, part in zip(chosen, parts, strict=True))


def _rtt_s(facts: FabricFacts, seen: Seen) -> float:
    """Mean over flows of the base RTT and what its queues add to it."""
    flows = seen.flows
    if flows is None or not len(flows):
        return facts.base_rtt_s
    waits_s = (seen.depth_mean_bytes / facts.rate_bytes_per_s)[flows.queue]
    numbers, at = np.unique(flows.flow, return_inverse=True)
    return facts.base_rtt_s + float(np.bincount(at, weights=waits_s, minlength=len(numbers)).mean())


class ChangeOfTraffic:
    """Whether the shares of large and small flows differ from those of the millisecond before."""

    def __init__(self, facts: FabricFacts) -> None:
        self._each = max(1, round(MONITORED_S / facts.interval_s))
        self._seen: list[tuple[Seen, SeenFlows]] = []
        self.share = 0.5
        self._before: float | None = None

    def after(self, seen: Seen) -> bool:
        """Whether the traffic has changed; the first that is seen is a change."""
        if seen.flows is not None:
            self._seen.append((seen, seen.flows))
        if len(self._seen) < self._each:
            return False
        share, self._seen = large_share(self._seen), []
        if share is None:
            return False
        before, self._before, self.share = self._before, share, share
        return before is None or divergence(share, before) > CHANGED_FROM_KL


def divergence(now: float, before: float) -> float:
    """Kullback and Leibler's, of (share, 1 − share) now from before."""
    p, q = (min(max(one, _LEAST_SHARE), 1.0 - _LEAST_SHARE) for one in (now, before))
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

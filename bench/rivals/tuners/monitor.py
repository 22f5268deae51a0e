"""What learners see of a queue: PET's network condition monitor, states and rewards of PET and ACC.

[P] printed in the paper, [N] reading notes, [O] our choice where no source says.
"""

from __future__ import annotations

import numpy as np

from bench.rivals.tuner import FabricFacts, Floats, Seen, SeenFlows

# [P: PET Eq. 4-5; N: ACC] E(n) = 20 · 2^n KB.
LADDER_BYTES: Floats = np.array([20_000.0 * 2.0**n for n in range(10)])
SLOTS = 3  # [O] k of both: a state is the last k intervals
ELEPHANT_BYTES = 1_000_000.0  # [P: PET] once above it
MOST_FLOWS = 4_096  # [O] a port; one more, and ...
FORGOTTEN_SHARE = 0.25  # [O] ... this share of the port's goes, the oldest first

COUNTER_FEATURES = ("queue", "sent", "marked", "kmin", "kmax", "pmax")
FLOW_FEATURES = ("incast", "mice")


def rung(threshold_bytes: Floats) -> Floats:
    """n ÷ 9 of a threshold, also between rungs, in 0..1."""
    n = np.log2(np.maximum(threshold_bytes, 1.0) / LADDER_BYTES[0])
    found: Floats = np.clip(n / (len(LADDER_BYTES) - 1), 0.0, 1.0)
    return found


def delay_score(queue_bytes: Floats) -> Floats:
    """ACC's D(L) [N]: 1 − n ÷ 10 for the least n with E(n) ≥ L; 0 beyond 10.24 MB [O]."""
    return 1.0 - np.searchsorted(LADDER_BYTES, queue_bytes, side="left") / len(LADDER_BYTES)


def per_queue_score(queue_bytes: Floats) -> Floats:
    """PET's 1 ÷ q̄ (Eq. 8) [P], q̄ in KB and at least 1 [O]: neither its unit nor its value at 0 is printed."""
    return 1.0 / np.maximum(queue_bytes / 1e3, 1.0)


class Monitor:
    """States of the last ``SLOTS`` intervals [queue, feature], each about 0..1.

    With ``flows`` also PET's two features, which need ``Looks.FLOWS``. Flows not heard for ``SLOTS``
    intervals are forgotten; where a port has more than ``MOST_FLOWS``, so is the share of the oldest.
    """

    def __init__(self, facts: FabricFacts, *, flows: bool) -> None:
        self._facts = facts
        self._with_flows = flows
        self._slots: list[Floats] = []
        self._begins_s: list[float] = []
        # All that a port heard until then is forgotten.
        self._forgotten_s = np.full(len(facts.queues), -np.inf)

    def after(self, seen: Seen) -> Floats:
        """States once this interval is over [queue, SLOTS × features], the newest last."""
        now = np.stack(self._columns(seen), axis=1)
        # Before there are enough, the first one stands for those before it.
        self._slots = [*(self._slots or [now] * SLOTS), now][-SLOTS:]
        return np.concatenate(self._slots, axis=1)

    def remembered(self, seen: Seen) -> SeenFlows:
        """The flows not forgotten after this interval."""
        flows = seen.flows
        if flows is None:
            raise ValueError("the flow features need Looks.FLOWS")
        if not self._begins_s or seen.begin_s > self._begins_s[-1]:
            self._begins_s = [*self._begins_s, seen.begin_s][-SLOTS:]
        timer_s = np.nextafter(self._begins_s[0], -np.inf)
        self._forgotten_s = np.maximum(self._forgotten_s, timer_s)
        kept = flows.last_s > self._forgotten_s[flows.queue]
        counts = np.bincount(flows.queue[kept], minlength=len(self._forgotten_s))
        for queue in np.flatnonzero(counts > MOST_FLOWS).tolist():
            heard_s = np.sort(flows.last_s[kept & (flows.queue == queue)])
            self._forgotten_s[queue] = heard_s[int(FORGOTTEN_SHARE * len(heard_s)) - 1]
        kept = flows.last_s > self._forgotten_s[flows.queue]
        return SeenFlows(**{name: getattr(flows, name)[kept] for name in SeenFlows.__slots__})

    def _columns(self, seen: Seen) -> list[Floats]:
        facts = self._facts
        could_send = facts.rate_bytes_per_s * seen.lasted_s
        unit, buffer = LADDER_BYTES[0], facts.sizes.buffer_bytes
        marks = seen.watermarks
        found = [
            np.log2(1 + seen.depth_mean_bytes / unit) / np.log2(1 + buffer / unit),
            seen.sent_bytes / could_send,
            seen.marked_bytes / could_send,
            rung(np.array([mark.kmin_bytes for mark in marks], dtype=np.float64)),
            rung(np.array([mark.kmax_bytes for mark in marks], dtype=np.float64)),
            np.array([mark.pmax for mark in marks]),
        ]
        if self._with_flows:
            found += self.flow_features(seen)
        return found

    def flow_features(self, seen: Seen) -> list[Floats]:
        """D_incast and R_flow of the interval, a queue each [O: a port's; P: what they count].

        D_incast is the most senders heard by any receiver behind the port, as log2(1 + D) ÷ log2(1 + hosts);
        R_flow the share of mice among the flows heard, 0.5 without any.
        """
        flows, hosts = self.remembered(seen), len(self._facts.topology.hosts)
        count = len(self._facts.queues)
        heard = flows.last_s >= seen.begin_s
        queue = flows.queue[heard]
        senders = np.zeros(count)
        pairs = np.unique((queue * hosts + flows.dst[heard]) * hosts + flows.src[heard]) // hosts
        receivers, each = np.unique(pairs, return_counts=True)
        np.maximum.at(senders, receivers // hosts, each)
        everyone = np.bincount(queue, minlength=count)
        is_mouse = flows.payload_bytes[heard] <= ELEPHANT_BYTES
        mice = np.bincount(queue[is_mouse], minlength=count)
        share = np.where(everyone > 0, mice / np.maximum(everyone, 1), 0.5)
        return [np.log2(1 + senders) / np.log2(1 + hosts), share]


def feature_names(*, flows: bool) -> tuple[str, ...]:
    """The features of one interval, in order."""
    return COUNTER_FEATURES + (FLOW_FEATURES if flows else ())


def rewards(
    facts: FabricFacts, seen: Seen, weights: tuple[float, float], score: str = "delay"
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """w₁ · txRate ÷ C + w₂ · D(L) of ACC, or with ``score`` "per-queue" PET's; and which queues were busy.

    An idle queue earns w₂ whatever it does: learners leave it out [O].
    """
    used = seen.sent_bytes / (facts.rate_bytes_per_s * seen.lasted_s)
    depth = seen.depth_mean_bytes
    low = delay_score(depth) if score == "delay" else per_queue_score(depth)
    return weights[0] * used + weights[1] * low, (seen.sent_bytes > 0) | (depth > 0)

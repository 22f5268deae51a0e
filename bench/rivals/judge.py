"""The yardstick: J of each phase, what every millisecond suffered, regret, time to settle, paired bootstrap.

    J = −½ ln(mice p99 slowdown) − ½ ln(elephant mean slowdown) − share of port time paused

A flow belongs to the phase in which it started, so that all tuners are judged by the same flows; one that has
not ended counts at its age, and at 1 at least. A persistent flow counts among the elephants with line rate ÷
goodput. A part whose flows a phase lacks counts nothing.

Flows are too few to judge a millisecond by, so that has a score of its own, after the project's gain:

    I = ½ ln(payload delivered) − ½ ln(p99 slowdown of probes) − share of port time paused
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bench.rivals.scenarios import Scenario
from bench.rivals.tuner import Floats
from twin.packet.results import BIN_LOWER_BYTES, BIN_WIDTH_BYTES, Completions, Measured
from twin.prediction import ELEPHANT_FROM_BYTES, MOUSE_BELOW_BYTES, histogram_quantile
from twin.probe.figures import probe_mean, probes
from twin.traffic.base import Traffic

SLICE_S = 1e-3
SETTLED_WITHIN = 0.05  # of ln: 5 %
WORSE_BEYOND = 0.01  # what two runs differ by less is no difference
_RESAMPLES = 10_000
_INTERVAL = 0.95


class Judged(NamedTuple):
    """J of a span of time, what it is made of, and what claims of others are about; NaN where there is none.

    Slowdowns of flows that started in it: ``flow_mean`` of all ``n_flows`` that end, ``small`` those below
    1 MB, which are PET's mice. ``probe_mean`` is the probes' mean slowdown.
    """

    j: float
    mice_p99: float
    elephant_mean: float
    paused_share: float
    mice_mean: float
    n_flows: float
    flow_mean: float
    small_mean: float
    small_p99: float
    probe_mean: float


def judged(
    slowdown: Floats,
    payload_bytes: Floats,
    *,
    lasting: Floats | None = None,
    paused_share: float = 0.0,
    probe_mean: float = math.nan,
) -> Judged:
    """Judges flows by slowdown and size; ``lasting``: slowdowns of flows that never end, as elephants."""
    small = slowdown[payload_bytes < ELEPHANT_FROM_BYTES]
    mice = slowdown[payload_bytes < MOUSE_BELOW_BYTES]
    elephants = slowdown[payload_bytes >= ELEPHANT_FROM_BYTES]
    if lasting is not None:
        elephants = np.concatenate([elephants, lasting])
    p99, mean = _p99(mice), _mean(elephants)
    parts = [-0.5 * math.log(one) for one in (p99, mean) if not math.isnan(one)]
    return Judged(
        j=sum(parts) - paused_share,
        mice_p99=p99,
        elephant_mean=mean,
        paused_share=paused_share,
        mice_mean=_mean(mice),
        n_flows=float(slowdown.size),
        flow_mean=_mean(slowdown),
        small_mean=_mean(small),
        small_p99=_p99(small),
        probe_mean=probe_mean,
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if values.size else math.nan


def _p99(values: Floats) -> float:
    return float(np.percentile(values, 99)) if values.size else math.nan


@dataclass(frozen=True, eq=False, kw_only=True)
class Slices:
    """A run millisecond by millisecond; arrays have an entry a slice.

    ``mice_p99`` is of the mice that started in it (NaN: none), ``exploring`` the share of the slice under
    settings that were a trial, ``changed`` how many queues got another watermark.
    """

    delivered_bytes: Floats
    probe_p99: Floats
    paused_share: Floats
    pauses: Floats
    dropped_packets: Floats
    queue_mean_bytes: Floats
    marked_share: Floats
    mice_p99: Floats
    exploring: Floats
    changed: Floats

    @property
    def score(self) -> Floats:
        """The score I (see above) of each slice."""
        delivered = 0.5 * np.log(np.maximum(self.delivered_bytes, 1.0))
        found: Floats = delivered - 0.5 * np.log(self.probe_p99) - self.paused_share
        return found

    def columns(self) -> dict[str, Floats]:
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(slots=True)
class _Slice:
    """Sums over one slice so far."""

    probe_counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None = None
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, **amounts: float) -> None:
        for name, amount in amounts.items():
            self.sums[name] = self.sums.get(name, 0.0) + amount


class Judge:
    """Gathers the figures of one run of ``traffic``."""

    def __init__(self, scenario: Scenario, traffic: Traffic) -> None:
        endless = np.flatnonzero(np.isinf(traffic.payload_bytes))
        rate = {port.node: port.rate_bytes_per_s for port in scenario.plan.ports if port.port is None}
        hosts = scenario.plan.hosts
        self.persistent_flows = endless
        self._line_rate = np.array([rate[hosts[src]] for src in traffic.src[endless].tolist()])
        self._begun_s = traffic.start_s[endless]
        self._n_ports = len(scenario.plan.ports)
        self._n_queues = len(scenario.plan.switch_ports)
        self._slices = [_Slice() for _ in range(max(1, math.ceil(scenario.duration_s / SLICE_S - 1e-9)))]
        self._flows: list[Completions] = []
        self._histogram = np.zeros(len(BIN_LOWER_BYTES), dtype=np.int64)
        self._persistent: list[tuple[float, Floats]] = []

    def completed(self, completions: Completions) -> None:
        """Adds flows that are over, or still under way as the run ends."""
        if len(completions):
            self._flows.append(completions)

    def read(self, reading: Measured, lasted_s: float, *, exploring: bool) -> None:
        """Adds an interval that lies within one slice and ends with ``reading``."""
        one = self._slice(reading.now_s - lasted_s / 2)
        counts = reading.probe_counts
        one.probe_counts = counts if one.probe_counts is None else one.probe_counts + counts
        self._histogram += reading.queue_histogram
        one.add(
            lasted_s=lasted_s,
            delivered_bytes=reading.delivered_bytes,
            paused_s=float(reading.paused_s.sum()),
            pauses=float(reading.pauses.sum()),
            dropped_packets=float(reading.dropped_packets.sum()),
            depth_sum=float(reading.depth_sum_bytes.sum()) / self._n_queues,
            depth_samples=float(reading.depth_samples),
            sent=float(reading.sent_packets.sum()),
            marked=float(reading.marked_packets.sum()),
            exploring_s=lasted_s if exploring else 0.0,
        )

    def changed(self, at_s: float, queues: int) -> None:
        """Notes that this many queues got another watermark."""
        self._slice(at_s).add(changed=float(queues))

    def persistent(self, at_s: float, acknowledged_bytes: Floats) -> None:
        """Notes what ``persistent_flows`` have had acknowledged; to be told where spans begin and end."""
        self._persistent.append((at_s, acknowledged_bytes))

    @property
    def queue_p99_bytes(self) -> float:
        """Over the run and all queues."""
        return histogram_quantile(self._histogram, BIN_LOWER_BYTES, BIN_WIDTH_BYTES, 0.99)

    @property
    def queue_std_bytes(self) -> float:
        """Standard deviation over all samples of all queues, each at its bin's middle."""
        n = max(int(self._histogram.sum()), 1)
        middle = BIN_LOWER_BYTES + BIN_WIDTH_BYTES / 2
        mean = float(self._histogram @ middle) / n
        return math.sqrt(float(self._histogram @ (middle - mean) ** 2) / n)

    def slices(self) -> Slices:
        start_s, size, slowdown = self._columns()
        mice = size < MOUSE_BELOW_BYTES
        row = np.minimum((start_s[mice] / SLICE_S).astype(int), len(self._slices) - 1)
        mice_p99 = np.full(len(self._slices), math.nan)
        order = np.argsort(row, kind="stable")
        edges = np.searchsorted(row[order], np.arange(len(self._slices) + 1))
        for number, (first, end) in enumerate(pairwise(edges.tolist())):
            if end > first:
                mice_p99[number] = np.percentile(slowdown[mice][order[first:end]], 99)
        return Slices(
            delivered_bytes=self._sums("delivered_bytes"),
            probe_p99=np.array([_probe_p99(one) for one in self._slices]),
            paused_share=self._sums("paused_s") / self._n_ports / np.maximum(self._sums("lasted_s"), 1e-12),
            pauses=self._sums("pauses"),
            dropped_packets=self._sums("dropped_packets"),
            queue_mean_bytes=self._sums("depth_sum") / np.maximum(self._sums("depth_samples"), 1.0),
            marked_share=self._sums("marked") / np.maximum(self._sums("sent"), 1.0),
            mice_p99=mice_p99,
            exploring=self._sums("exploring_s") / np.maximum(self._sums("lasted_s"), 1e-12),
            changed=self._sums("changed"),
        )

    def span(self, begin_s: float, end_s: float) -> Judged:
        """Judges the flows that started in [``begin_s``, ``end_s``), and the pauses and probes in it."""
        start_s, size, slowdown = self._columns()
        inside = (start_s >= begin_s) & (start_s < end_s)
        slices = slice(round(begin_s / SLICE_S), max(round(end_s / SLICE_S), round(begin_s / SLICE_S) + 1))
        lasted_s = max(float(self._sums("lasted_s")[slices].sum()), 1e-12)
        counts = [one.probe_counts for one in self._slices[slices] if one.probe_counts is not None]
        return judged(
            slowdown[inside],
            size[inside],
            lasting=self._lasting(begin_s, end_s),
            paused_share=float(self._sums("paused_s")[slices].sum()) / self._n_ports / lasted_s,
            probe_mean=probe_mean(np.array(counts)) if counts else math.nan,
        )

    def _slice(self, at_s: float) -> _Slice:
        return self._slices[min(int(at_s / SLICE_S), len(self._slices) - 1)]

    def _sums(self, name: str) -> Floats:
        return np.array([one.sums.get(name, 0.0) for one in self._slices])

    def _columns(self) -> tuple[Floats, Floats, Floats]:
        """Start, size and slowdown of all finite flows."""
        if not self._flows:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        start_s, size, slowdown = (
            np.concatenate([getattr(one, name) for one in self._flows])
            for name in ("start_s", "payload_bytes", "slowdown")
        )
        return start_s, size, np.maximum(slowdown, 1.0)

    def _lasting(self, begin_s: float, end_s: float) -> Floats:
        """Line rate ÷ goodput of each persistent flow between two notes."""
        at_s = [noted_s for noted_s, _ in self._persistent]
        if not at_s or not len(self._line_rate):
            return np.zeros(0)
        first, last = (int(np.argmin(np.abs(np.array(at_s) - edge))) for edge in (begin_s, end_s))
        lasted_s = at_s[last] - np.maximum(at_s[first], self._begun_s)
        got = self._persistent[last][1] - self._persistent[first][1]
        found: Floats = np.maximum(self._line_rate * lasted_s / np.maximum(got, 1.0), 1.0)
        return found[lasted_s > 0]


def _probe_p99(one: _Slice) -> float:
    found = None if one.probe_counts is None else probes(one.probe_counts).get("all")
    return 1.0 if found is None else found.p99


def regret(j: Sequence[float], statics: Sequence[Sequence[float]]) -> float:
    """Σ over phases of (the best static's J − J): ``j[phase]``, ``statics[static][phase]``."""
    return sum(max(static[phase] for static in statics) - own for phase, own in enumerate(j))


def settled_after_s(own: Floats, best: Floats) -> float:
    """Seconds into a phase until a run stays within 5 % of the phase's best static; inf where it never does.

    ``own`` and ``best`` are scores by slice. From then on the shortfall is within that on the mean over the
    next five slices and over all that are left.
    """
    shortfall = best - own
    for first in range(len(shortfall)):
        left = shortfall[first:]
        if left[:5].mean() <= SETTLED_WITHIN and left.mean() <= SETTLED_WITHIN:
            return first * SLICE_S
    return math.inf


def bootstrap(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean of values paired by seed, and its 95 % interval by resampling; NaN without values."""
    given = np.array(values, dtype=np.float64)
    if not given.size:
        return math.nan, math.nan, math.nan
    drawn = np.random.default_rng(0).integers(len(given), size=(_RESAMPLES, len(given)))
    low, high = np.quantile(given[drawn].mean(axis=1), [(1 - _INTERVAL) / 2, (1 + _INTERVAL) / 2])
    return float(given.mean()), float(low), float(high)


def halves(spans_s: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The settled, second half of each phase."""
    return [((begin_s + end_s) / 2, end_s) for begin_s, end_s in spans_s]

"""Predictions, trajectories, slowdown by size class; predictions combined over seeds, windows and parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twin.scenario import Scenario
from twin.watermark import Setting

MOUSE_BELOW_BYTES = 100_000
ELEPHANT_FROM_BYTES = 1_000_000
SIZE_CLASSES = ("all", "mice", "medium", "elephant")
BLOCKS = 8  # equal parts of the metrics window, each left out once for the error of a gain


class SolveStatus(Enum):
    """How one candidate's run ended; the value is a sentence for people."""

    OK = "the run reached its end"
    DIVERGED = "a queue or a rate left the finite numbers; use a shorter step"
    BUDGET = "the run used up its event budget; shorten the scenario or merge its flows"

    @property
    def code(self) -> str:
        """The word used in JSON: ``ok``, ``diverged``, ``budget``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Completion time ÷ completion time alone on the path, over ``n`` flows; NaN where ``n`` is 0.

    Flows still running count at their age.
    """

    n: int
    mean: float
    p99: float


@dataclass(frozen=True, slots=True)
class Probe:
    """Slowdown of one full packet that crosses the fabric at a random moment, over ``n`` such packets.

    It takes the path of a random flow and waits in the switch queues as deep as they are then; alone on that
    path its slowdown is 1.
    """

    n: int
    p50: float
    p99: float


class GainFigures(NamedTuple):
    """What a gain compares between two runs; None where the run saw none of it."""

    goodput_bytes_per_s: float | None
    elephant_slowdown: float | None  # mean
    mice_p99_slowdown: float | None
    probe_p99_slowdown: float | None
    paused_share: float | None
    loss_share: float | None
    lasting_bytes_per_s: float | None = None  # mean rate of flows that never end


@dataclass(frozen=True, slots=True)
class Prediction:
    """One engine's figures for one watermark on one scenario, inside the scenario's metrics window.

    Queue figures pool samples, one each step or µs, over the monitored ports; ``port_queue_mean_bytes`` has
    one entry per monitored port, in the scenario's order. ``goodput_bytes_per_s`` is payload delivered.
    ``slowdown`` is keyed by size class (``SIZE_CLASSES``; mice < 100 KB ≤ medium < 1 MB ≤ elephant), absent
    classes left out. ``probe`` is keyed ``all`` and by path class (``1 hop``, ``3 hops``: switches crossed).
    ``paused_share`` is port-seconds paused ÷ (egress ports, NICs included × duration), ``loss_share`` bytes
    lost ÷ bytes sent, ``lasting_bytes_per_s`` the mean rate of flows that never end, None where the engine
    does not report them. ``without_block[b]`` are the same figures with block b left out (equal parts of the
    window, or of a class's flows by start), ``by_seed`` those of each run of a mean over seeds.
    ``watched`` has, of each of the scenario's watched flows, the payload bytes delivered and the seconds that
    took, of one run. Where ``status`` is not OK the figures are NaN.
    """

    watermark: Setting
    status: SolveStatus
    queue_mean_bytes: float
    queue_p99_bytes: float
    queue_peak_bytes: float
    goodput_bytes_per_s: float
    marked_fraction: float
    loss_bytes: float
    pfc_pause_s: float
    slowdown: Mapping[str, Slowdown] = field(default_factory=dict)
    port_queue_mean_bytes: tuple[float, ...] = ()
    probe: Mapping[str, Probe] = field(default_factory=dict)
    paused_share: float | None = None
    loss_share: float | None = None
    lasting_bytes_per_s: float | None = None
    without_block: tuple[GainFigures, ...] = ()
    by_seed: tuple[GainFigures, ...] = ()
    watched: tuple[tuple[float, float], ...] = ()

    @property
    def gain_figures(self) -> GainFigures:
        """The figures of the whole run that a gain compares."""
        elephant, mice = self.slowdown.get("elephant"), self.slowdown.get("mice")
        probe = self.probe.get("all")
        return GainFigures(
            self.goodput_bytes_per_s,
            elephant.mean if elephant and elephant.n else None,
            mice.p99 if mice and mice.n else None,
            probe.p99 if probe and probe.n else None,
            self.paused_share,
            self.loss_share,
            self.lasting_bytes_per_s,
        )

    @classmethod
    def failed(cls, watermark: Setting, status: SolveStatus) -> Prediction:
        """A failed run: every figure NaN."""
        nan = math.nan
        return cls(watermark, status, nan, nan, nan, nan, nan, nan, nan)

    def slowdown_figure(self, size_class: str, figure: str) -> float:
        """``mean`` or ``p99`` slowdown of a size class; NaN where no flow of it was seen."""
        entry = self.slowdown.get(size_class)
        return math.nan if entry is None else float(getattr(entry, figure))


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Time series of one watermark on one scenario: ``queue_bytes[port, time]`` over the monitored ports.

    Where ``status`` is not OK the depths mean nothing.
    """

    watermark: Setting
    time_s: NDArray[np.float64]
    queue_bytes: NDArray[np.float64]
    status: SolveStatus = SolveStatus.OK


_FIGURES = (
    "queue_mean_bytes",
    "queue_p99_bytes",
    "queue_peak_bytes",
    "goodput_bytes_per_s",
    "marked_fraction",
    "loss_bytes",
    "pfc_pause_s",
)


def averaged(predictions: Sequence[Prediction]) -> Prediction:
    """The mean over seeds of one watermark's predictions; the first failed one where a run failed."""
    failed = next((one for one in predictions if one.status is not SolveStatus.OK), None)
    if failed is not None or len(predictions) == 1:
        return failed or predictions[0]
    figures: dict[str, Any] = {
        name: float(np.mean([getattr(one, name) for one in predictions])) for name in _FIGURES
    }
    by_port = [one.port_queue_mean_bytes for one in predictions]
    # Slices of a fabric monitor different ports.
    ports = tuple(np.mean(by_port, axis=0).tolist()) if len(set(map(len, by_port))) == 1 else ()
    slowdown = {}
    for size_class in predictions[0].slowdown:
        entries = [one.slowdown[size_class] for one in predictions if size_class in one.slowdown]
        slowdown[size_class] = Slowdown(
            entries[0].n,
            float(np.mean([entry.mean for entry in entries])),
            float(np.mean([entry.p99 for entry in entries])),
        )
    return replace(
        predictions[0],
        **figures,
        slowdown=slowdown,
        port_queue_mean_bytes=ports,
        probe={
            name: Probe(
                entry.n,
                float(np.mean([one.probe[name].p50 for one in predictions])),
                float(np.mean([one.probe[name].p99 for one in predictions])),
            )
            for name, entry in predictions[0].probe.items()
            if all(name in one.probe for one in predictions)
        },
        paused_share=_mean([one.paused_share for one in predictions]),
        loss_share=_mean([one.loss_share for one in predictions]),
        lasting_bytes_per_s=_mean([one.lasting_bytes_per_s for one in predictions]),
        without_block=tuple(
            GainFigures(*(_mean(values) for values in zip(*block, strict=True)))
            for block in zip(*(one.without_block for one in predictions), strict=True)
        ),
        by_seed=tuple(one.gain_figures for one in predictions),
        watched=(),
    )


def over_moments(moments: Sequence[Prediction]) -> Prediction:
    """The mean over moments of traffic of one watermark's predictions; the first failed one where one failed.

    Slowdowns and the probe are weighted by flows and probes seen: means exactly, a percentile is the mean of
    the moments' percentiles.
    """
    found = averaged(moments)
    if found.status is not SolveStatus.OK or len(moments) == 1:
        return found

    def weighed(entries: Sequence[Slowdown | Probe], figure: str) -> float:
        seen = [entry for entry in entries if entry.n]
        if not seen:
            return math.nan
        values = [getattr(entry, figure) for entry in seen]
        return float(np.average(values, weights=[entry.n for entry in seen]))

    classes = dict.fromkeys(name for one in moments for name in one.slowdown)
    paths = dict.fromkeys(name for one in moments for name in one.probe)
    slowdown = {name: [one.slowdown[name] for one in moments if name in one.slowdown] for name in classes}
    probe = {name: [one.probe[name] for one in moments if name in one.probe] for name in paths}
    return replace(
        found,
        slowdown={
            name: Slowdown(sum(one.n for one in entries), weighed(entries, "mean"), weighed(entries, "p99"))
            for name, entries in slowdown.items()
        },
        probe={
            name: Probe(sum(one.n for one in entries), weighed(entries, "p50"), weighed(entries, "p99"))
            for name, entries in probe.items()
        },
        without_block=(),
        by_seed=(),
    )


def pooled(parts: Sequence[Prediction]) -> Prediction:
    """Joins predictions of independent parts for one watermark; the first failed one where a run failed.

    Goodput, losses and pauses add up; the mean queue pools the monitored ports and slowdown means the flows,
    exactly. A percentile cannot be pooled from percentiles: the largest part's stands for it, an upper bound.
    ``lasting_bytes_per_s`` is None: parts do not say how many flows it is the mean of.
    """
    failed = next((one for one in parts if one.status is not SolveStatus.OK), None)
    if failed is not None or len(parts) == 1:
        return failed or parts[0]
    ports = np.array([max(len(one.port_queue_mean_bytes), 1) for one in parts], dtype=np.float64)
    goodput = np.array([one.goodput_bytes_per_s for one in parts])
    by_traffic = goodput / goodput.sum() if goodput.sum() > 0 else np.full(len(parts), 1 / len(parts))
    classes = dict.fromkeys(name for one in parts for name in one.slowdown)
    slowdown = {
        name: _pooled_slowdown([one.slowdown[name] for one in parts if name in one.slowdown])
        for name in classes
    }
    return replace(
        parts[0],
        queue_mean_bytes=float(np.average([one.queue_mean_bytes for one in parts], weights=ports)),
        queue_p99_bytes=max(one.queue_p99_bytes for one in parts),
        queue_peak_bytes=max(one.queue_peak_bytes for one in parts),
        goodput_bytes_per_s=float(goodput.sum()),
        marked_fraction=float(np.dot(by_traffic, [one.marked_fraction for one in parts])),
        loss_bytes=sum(one.loss_bytes for one in parts),
        pfc_pause_s=sum(one.pfc_pause_s for one in parts),
        slowdown=slowdown,
        lasting_bytes_per_s=None,
        port_queue_mean_bytes=tuple(value for one in parts for value in one.port_queue_mean_bytes),
        probe={
            name: Probe(
                sum(one.n for one in found),
                float(np.average([one.p50 for one in found], weights=[one.n for one in found])),
                max(one.p99 for one in found),
            )
            for name in dict.fromkeys(name for one in parts for name in one.probe)
            if (found := [one.probe[name] for one in parts if name in one.probe])
        },
        paused_share=_mean([one.paused_share for one in parts], ports),
        loss_share=_mean([one.loss_share for one in parts], by_traffic),
        without_block=(),
        by_seed=(),
        watched=(),
    )


def stretched(short: Sequence[Prediction], full: Sequence[Prediction]) -> Callable[[Prediction], Prediction]:
    """Scales a short window's figures to a full one, each by the median ratio of watermarks run at both.

    The estimate keeps candidates dropped early comparable; it never makes one the winner.
    """
    both = [
        (a, b)
        for a, b in zip(short, full, strict=True)
        if a.status is SolveStatus.OK and b.status is SolveStatus.OK
    ]
    ratio = {
        name: _median_ratio([(getattr(a, name), getattr(b, name)) for a, b in both]) for name in _FIGURES
    }
    classes = dict.fromkeys(name for _, b in both for name in b.slowdown)
    means, tails = (
        {
            name: _median_ratio(
                [
                    (getattr(a.slowdown[name], figure), getattr(b.slowdown[name], figure))
                    for a, b in both
                    if name in a.slowdown and name in b.slowdown
                ]
            )
            for name in classes
        }
        for figure in ("mean", "p99")
    )
    reference = both[0][1].slowdown if both else {}

    def stretch(prediction: Prediction) -> Prediction:
        if prediction.status is not SolveStatus.OK:
            return prediction
        figures: dict[str, Any] = {name: getattr(prediction, name) * ratio[name] for name in _FIGURES}
        slowdown = dict(reference)  # a class without flows in the short window is taken as typical
        for name, full_entry in reference.items():
            if (entry := prediction.slowdown.get(name)) is not None:
                slowdown[name] = Slowdown(full_entry.n, entry.mean * means[name], entry.p99 * tails[name])
        return replace(prediction, **figures, slowdown=slowdown)

    return stretch


def _pooled_slowdown(entries: Sequence[Slowdown]) -> Slowdown:
    counts = [entry.n for entry in entries]
    if not sum(counts):
        return entries[0]
    seen = [entry for entry in entries if entry.n]
    mean = float(np.average([entry.mean for entry in seen], weights=[entry.n for entry in seen]))
    return Slowdown(sum(counts), mean, max(entry.p99 for entry in seen))


def _mean(
    values: Sequence[float | None], weights: Sequence[float] | NDArray[np.float64] | None = None
) -> float | None:
    """The mean; None where one of them is."""
    known = [value for value in values if value is not None]
    return float(np.average(known, weights=weights)) if len(known) == len(values) else None


def _median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    ratios = [after / before for before, after in pairs if before > 0 and math.isfinite(after / before)]
    return float(np.median(ratios)) if ratios else 1.0


def _p99(values: NDArray[np.float64]) -> float:
    """The 99th percentile, interpolated as by ``np.percentile`` but ten times as fast."""
    ordered = np.sort(values)
    rank = 0.99 * (ordered.size - 1)
    below = int(rank)
    above = min(below + 1, ordered.size - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (rank - below))


def slowdown_by_class(
    scenario: Scenario,
    completion_s: NDArray[np.float64],
    sent_bytes: NDArray[np.float64] | None = None,
    started_s: NDArray[np.float64] | None = None,
) -> dict[str, Slowdown]:
    """Slowdown per class of ``SIZE_CLASSES`` by payload bytes, classes without flows left out.

    Arguments as of ``slowdowns``. Persistent flows have no slowdown, nor have those that never started.
    """
    size = scenario.flows.payload_bytes
    slowdown = slowdowns(scenario, completion_s, sent_bytes, started_s)
    counted = np.isfinite(size) & ~np.isnan(slowdown)
    return by_class(slowdown[counted], size[counted])


def slowdowns(
    scenario: Scenario,
    completion_s: NDArray[np.float64],
    sent_bytes: NDArray[np.float64] | None = None,
    started_s: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Slowdown of each flow; of one that never ends, nothing that means anything.

    ``completion_s[flow]``: seconds from a flow's start to its end, NaN while it runs; such a flow counts at
    its age. ``started_s[flow]``: when it started, NaN if it never did; None: as the scenario says. The
    slowdown of one that has not started by the end is NaN. Where the traffic goes on, its age is held against
    the ``sent_bytes[flow]`` of payload that it sent by then: against the bytes that it sent under the
    watermark of that time, every slower watermark would look the same. What is left of a flow has none below
    the size of an elephant: it says nothing of messages so small.
    """
    running = np.isnan(completion_s)
    started_s = scenario.flows.start_s if started_s is None else started_s
    age_s = np.where(started_s < scenario.duration_s, scenario.duration_s - started_s, np.nan)
    taken_s = np.where(running, age_s, completion_s)
    alone_s = scenario.alone_s
    if scenario.goes_on and sent_bytes is not None:
        with np.errstate(invalid="ignore"):
            alone_s = np.where(running, scenario.so_far_alone_s(sent_bytes), alone_s)
    found: NDArray[np.float64] = taken_s / alone_s
    if scenario.flows.rest is not None:
        found[scenario.flows.rest & (scenario.flows.payload_bytes < ELEPHANT_FROM_BYTES)] = np.nan
    return found


def by_class(slowdown: NDArray[np.float64], size: NDArray[np.float64]) -> dict[str, Slowdown]:
    """As ``slowdown_by_class``, for known slowdowns of flows of ``size`` payload bytes."""
    members = {
        "all": slowdown,
        "mice": slowdown[size < MOUSE_BELOW_BYTES],
        "medium": slowdown[(size >= MOUSE_BELOW_BYTES) & (size < ELEPHANT_FROM_BYTES)],
        "elephant": slowdown[size >= ELEPHANT_FROM_BYTES],
    }
    return {
        name: Slowdown(values.size, float(values.mean()), _p99(values))
        for name, values in members.items()
        if values.size
    }


def bins_of(*tiers: tuple[float, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower edges and widths of a histogram's bins: each tier's, ``(width, count)``, begin at 0."""
    lower = np.concatenate([np.arange(count) * width for width, count in tiers])
    return lower, np.repeat(*np.array(tiers).T.astype(np.int64))


def histogram_quantile(
    histogram: NDArray[np.int64], lower: NDArray[np.float64], width: NDArray[np.float64], q: float
) -> float:
    """The q-quantile of binned samples, interpolated inside its bin; 0 without samples."""
    below = np.cumsum(histogram)
    if not below[-1]:
        return 0.0
    rank = q * below[-1]
    place = int(np.searchsorted(below, rank))
    before = below[place] - histogram[place]
    return float(lower[place] + width[place] * (rank - before) / max(int(histogram[place]), 1))

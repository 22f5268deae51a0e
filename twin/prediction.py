"""Predictions of one watermark combined over seeds, window lengths or parts; must import no engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twin.result import Prediction, Slowdown, SolveStatus

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
    """The mean of several seeds' predictions of one watermark; the first that failed, where one did."""
    failed = next((one for one in predictions if one.status is not SolveStatus.OK), None)
    if failed is not None or len(predictions) == 1:
        return failed or predictions[0]
    figures: dict[str, Any] = {
        name: float(np.mean([getattr(one, name) for one in predictions])) for name in _FIGURES
    }
    ports = tuple(np.mean([one.port_queue_mean_bytes for one in predictions], axis=0).tolist())
    slowdown = {}
    for size_class in predictions[0].slowdown:
        entries = [one.slowdown[size_class] for one in predictions if size_class in one.slowdown]
        slowdown[size_class] = Slowdown(
            entries[0].n,
            float(np.mean([entry.mean for entry in entries])),
            float(np.mean([entry.p99 for entry in entries])),
        )
    return replace(predictions[0], **figures, slowdown=slowdown, port_queue_mean_bytes=ports)


def pooled(parts: Sequence[Prediction]) -> Prediction:
    """The whole of parts that share nothing, of one watermark; the first part that failed, where one did.

    Rates, losses and pauses add up; the mean queue pools the monitored ports and slowdown means the flows,
    exactly. A percentile cannot be pooled from percentiles: the largest part's stands for it, an upper bound.
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
        port_queue_mean_bytes=tuple(value for one in parts for value in one.port_queue_mean_bytes),
    )


def stretched(short: Sequence[Prediction], full: Sequence[Prediction]) -> Callable[[Prediction], Prediction]:
    """Turns a short window's figures into a full one's, each by the median ratio of watermarks run at both.

    An estimate that puts candidates dropped early on the scale of those that went on; it never makes one a
    winner.
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
        slowdown = _stretched_slowdown(prediction.slowdown, means, tails, reference)
        return replace(prediction, **figures, slowdown=slowdown)

    return stretch


def _stretched_slowdown(
    seen: Mapping[str, Slowdown],
    means: Mapping[str, float],
    tails: Mapping[str, float],
    reference: Mapping[str, Slowdown],
) -> dict[str, Slowdown]:
    stretched_classes = {}
    for name, full in reference.items():
        # A class the short window held no flow of is taken as typical: it must not make the row incomparable.
        entry = seen.get(name)
        if entry is None:
            stretched_classes[name] = full
        else:
            stretched_classes[name] = Slowdown(full.n, entry.mean * means[name], entry.p99 * tails[name])
    return stretched_classes


def _pooled_slowdown(entries: Sequence[Slowdown]) -> Slowdown:
    counts = [entry.n for entry in entries]
    if not sum(counts):
        return entries[0]
    seen = [entry for entry in entries if entry.n]
    mean = float(np.average([entry.mean for entry in seen], weights=[entry.n for entry in seen]))
    return Slowdown(sum(counts), mean, max(entry.p99 for entry in seen))


def _median_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    ratios = [after / before for before, after in pairs if before > 0 and math.isfinite(after / before)]
    return float(np.median(ratios)) if ratios else 1.0

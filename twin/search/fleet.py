"""Scores over independent parts: each part's own and their traffic-weighted sum; must import no engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.result import Prediction
from twin.search.score import Scores, Weights, score


@dataclass(frozen=True)
class FleetScores:
    """``fleet`` over all parts, ``parts[part]`` alone, rows candidates; ``traffic_share[part]`` sums to 1."""

    fleet: Scores
    parts: tuple[Scores, ...]
    traffic_share: NDArray[np.float64]


def fleet_scores(
    predictions: Sequence[Sequence[Prediction]],
    incumbent: int,
    weights: Weights,
    pfc: bool,
    persistent_shares: Sequence[float | None],
) -> FleetScores:
    """Scores ``predictions[part][candidate]``.

    A part counts by the bytes it delivers under the incumbent (row ``incumbent``): a watermark that helps the
    job carrying nine tenths of the traffic is not outvoted by nine idle ones. A candidate must be feasible in
    every part.
    """
    parts = tuple(
        score(rows, weights, pfc, persistent_share=share)
        for rows, share in zip(predictions, persistent_shares, strict=True)
    )
    delivered = np.array([rows[incumbent].goodput_bytes_per_s for rows in predictions], dtype=np.float64)
    delivered = np.where(np.isfinite(delivered), delivered, 0.0)
    share = delivered / delivered.sum() if delivered.sum() > 0 else np.full(len(parts), 1 / len(parts))
    if len(parts) == 1:
        return FleetScores(parts[0], parts, share)
    feasible = np.all([part.feasible for part in parts], axis=0)

    def weighed(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        total = np.zeros(len(feasible))
        for weight, column in zip(share, columns, strict=True):
            total += weight * np.where(feasible, column, 0.0)
        return np.where(feasible, total, np.nan)

    return FleetScores(
        Scores(
            score=np.where(feasible, weighed([part.score for part in parts]), -np.inf),
            feasible=feasible,
            raw={name: weighed([part.raw[name] for part in parts]) for name in parts[0].raw},
            normalised={
                name: weighed([part.normalised[name] for part in parts]) for name in parts[0].normalised
            },
            queue_mean_bytes=weighed([part.queue_mean_bytes for part in parts]),
            throughput_is=" and ".join(dict.fromkeys(part.throughput_is for part in parts)),
            queue_is=" and ".join(dict.fromkeys(part.queue_is for part in parts)),
        ),
        parts,
        share,
    )

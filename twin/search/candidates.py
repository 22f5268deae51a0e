"""Truncated log-normal and log-uniform draws as watermarks inside hard bounds; numpy and SciPy only."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twin.errors import ParameterError
from twin.watermark import Watermark, WatermarkBounds

GRANULARITY_BYTES = 1_000


def truncated_log_normal(
    uniform: NDArray[np.float64], median: ArrayLike, sigma: float, low: ArrayLike, high: ArrayLike
) -> NDArray[np.float64]:
    """Log-normal values truncated to [low, high], by inverse CDF: one value per ``uniform`` in [0, 1).

    ``median`` is that of the untruncated law and may lie outside the bounds; ``sigma`` is the spread of the
    logarithm. Truncating (not clipping) leaves no heap of candidates at the bounds.
    """
    # It takes a second to import, and whoever only reads settings draws nothing.
    from scipy.stats import truncnorm

    centre = np.log(np.asarray(median, dtype=np.float64))
    low_log, high_log = np.log(np.asarray(low, np.float64)), np.log(np.asarray(high, np.float64))
    standard = truncnorm.ppf(uniform, (low_log - centre) / sigma, (high_log - centre) / sigma)
    # Over an interval too narrow for the law's arithmetic (NaN) its density is flat.
    drawn = np.where(
        np.isfinite(standard), centre + sigma * standard, low_log + uniform * (high_log - low_log)
    )
    # exp(log(x)) misses x by a rounding error; the bounds are hard.
    return np.asarray(np.clip(np.exp(drawn), low, high), dtype=np.float64)


def log_uniform(uniform: NDArray[np.float64], low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """Log-uniform values in [low, high], one per ``uniform`` in [0, 1)."""
    low_log, high_log = np.log(np.asarray(low, np.float64)), np.log(np.asarray(high, np.float64))
    return np.asarray(np.clip(np.exp(low_log + uniform * (high_log - low_log)), low, high), dtype=np.float64)


def draw_watermarks(
    rng: np.random.Generator,
    bounds: WatermarkBounds,
    *,
    kmin_median_bytes: NDArray[np.float64],
    kmax_median_bytes: NDArray[np.float64],
    sigma: float,
    pmax_base: NDArray[np.float64],
    pmax_factor: float,
) -> list[Watermark]:
    """One watermark per entry of the medians (arrays of equal length), inside ``bounds``, Kmin < Kmax.

    Kmin is drawn first, below the highest Kmax; Kmax then from its law truncated above that Kmin. Pmax is
    log-uniform within a factor ``pmax_factor`` of its base. Thresholds come in whole kilobytes where the
    bounds leave room for that: nobody configures 123 457 bytes.
    """
    count = len(kmin_median_bytes)
    uniform = rng.random((3, count))
    kmin = truncated_log_normal(
        uniform[0],
        np.maximum(kmin_median_bytes, 1.0),
        sigma,
        bounds.kmin_low_bytes,
        min(bounds.kmin_high_bytes, bounds.kmax_high_bytes - 1),
    )
    kmax_low = np.maximum(bounds.kmax_low_bytes, np.minimum(kmin + 1, bounds.kmax_high_bytes - 0.5))
    kmax = truncated_log_normal(uniform[1], kmax_median_bytes, sigma, kmax_low, bounds.kmax_high_bytes)
    centre = np.clip(pmax_base, bounds.pmax_low, bounds.pmax_high)
    pmax = log_uniform(
        uniform[2],
        np.maximum(centre / pmax_factor, bounds.pmax_low),
        np.minimum(centre * pmax_factor, bounds.pmax_high),
    )
    return [
        _rounded(float(low), float(high), float(probability), bounds)
        for low, high, probability in zip(kmin, kmax, pmax, strict=True)
    ]


def check_spread(where: str, sigma: float, pmax_factor: float) -> None:
    """Raises ``ParameterError`` unless ``sigma`` > 0 and ``pmax_factor`` ≥ 1, both finite."""
    if not (math.isfinite(sigma) and sigma > 0):
        raise ParameterError(f"{where} sigma", str(sigma), "the spread is above 0", "give such as 1.2")
    if not (math.isfinite(pmax_factor) and pmax_factor >= 1):
        raise ParameterError(
            f"{where} pmax_factor",
            str(pmax_factor),
            "a factor around the base is 1 or more",
            "give such as 10",
        )


def _rounded(kmin: float, kmax: float, pmax: float, bounds: WatermarkBounds) -> Watermark:
    readable = round(pmax, 4)
    probability = readable if bounds.pmax_low <= readable <= bounds.pmax_high else pmax
    low, high = (GRANULARITY_BYTES * round(value / GRANULARITY_BYTES) for value in (kmin, kmax))
    if low < high:
        watermark = Watermark(low, high, probability)
        if bounds.contains(watermark):
            return watermark
    return Watermark(math.floor(kmin), math.ceil(kmax), probability)

"""Companions: synchronised starts, thinned, against starts by chance."""

from __future__ import annotations

import numpy as np
import pytest

from twin.arrivals.bursts import companions


def bursts(size: int, seen: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """200 bursts over 60 ms to 20 receivers in turn, each message seen with one probability."""
    rng = np.random.default_rng(seed)
    at = np.repeat(np.arange(200) * 3e-4, size) + rng.uniform(0, 1e-5, 200 * size)
    receiver = np.repeat(np.arange(200) % 20, size)
    kept = rng.random(len(at)) < seen
    return receiver[kept], at[kept]


@pytest.mark.parametrize(("size", "seen"), [(16, 0.9), (16, 0.12), (64, 0.05)])
def test_thinning_leaves_a_share_of_each_ones_companions(size: int, seen: float) -> None:
    assert companions(*bursts(size, seen, 1)) == pytest.approx((size - 1) * seen, rel=0.2)


@pytest.mark.parametrize("count", [0, 1, 2, 500, 20_000])
def test_starts_by_chance_are_no_companions(count: int) -> None:
    rng = np.random.default_rng(count)
    assert companions(rng.integers(20, size=count), rng.uniform(0, 0.05, count)) == 0.0


def test_bursts_to_different_receivers_are_none() -> None:
    assert companions(np.arange(500), np.repeat(np.arange(50) * 1e-3, 10)) == 0.0

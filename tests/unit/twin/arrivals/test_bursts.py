"""Companions: synchronised starts, thinned, against starts by chance."""

from __future__ import annotations

import numpy as np
import pytest

from twin.arrivals.bursts import companions, evened


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


def test_bursts_that_differ_by_sampling_alone_are_taken_to_be_alike() -> None:
    receiver, at_s = bursts(64, 0.08, 1)
    _, burst, seen = np.unique(np.round(at_s / 3e-4), return_inverse=True, return_counts=True)
    assert np.std(seen) > 0.3 * np.mean(seen)
    shares = np.bincount(burst, evened(receiver, at_s))
    assert np.std(shares) < 0.05 * np.mean(shares)


def test_bursts_that_do_differ_keep_their_sizes() -> None:
    large, small = bursts(64, 0.9, 1), bursts(8, 0.9, 2)
    receiver = np.concatenate((large[0], small[0] + 20))
    at_s = np.concatenate((large[1], small[1]))
    share = evened(receiver, at_s)
    assert share[: len(large[0])] == pytest.approx(np.ones(len(large[0])), abs=0.05)
    assert share[len(large[0]) :].max() < 1.5  # of 64 ÷ 8


def test_without_bursts_nothing_is_evened() -> None:
    rng = np.random.default_rng(1)
    assert evened(rng.integers(20, size=500), rng.uniform(0, 0.05, 500)).tolist() == [1.0] * 500

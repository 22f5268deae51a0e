"""Companions: synchronised starts, thinned, against starts by chance."""

from __future__ import annotations

import numpy as np
import pytest

from twin.arrivals.bursts import alike, companions, evened, members, started_together


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


def test_members_of_bursts_are_told_from_messages_alone() -> None:
    receiver, at_s = bursts(12, 0.6, 1)
    rng = np.random.default_rng(2)
    alone = rng.integers(20, size=600), rng.uniform(0, 0.06, 600)
    found = members(np.concatenate((receiver, alone[0])), np.concatenate((at_s, alone[1])))
    assert found[: len(receiver)].mean() > 0.95
    assert found[len(receiver) :].mean() < 0.15
    assert not members(*alone).any(), "by chance"


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


def sampled(starts_s: np.ndarray, senders: np.ndarray, spacing_s: float, seed: int) -> tuple[np.ndarray, ...]:
    """What a sampler sees of messages: their first samples, and the mean time between samples."""
    rng = np.random.default_rng(seed)
    first_s = starts_s + rng.exponential(spacing_s, len(starts_s))
    return senders, first_s, np.full(len(starts_s), spacing_s)


def test_messages_of_a_collective_began_when_the_earliest_sample_says() -> None:
    at_s = np.repeat(np.arange(40) * 3e-3, 15)
    found = started_together(*sampled(at_s, np.repeat(np.arange(40) % 8, 15), 80e-6, 1))
    assert sum(len(batch) for batch, _ in found) > 0.95 * len(at_s)
    assert np.mean([abs(began - at_s[batch[0]]) for batch, began in found]) < 80e-6 / 10


def test_messages_that_began_by_chance_did_not_begin_together() -> None:
    rng = np.random.default_rng(3)
    starts_s = rng.uniform(0, 0.1, 4_000)
    found = started_together(*sampled(starts_s, rng.integers(8, size=4_000), 20e-6, 1))
    assert sum(len(batch) for batch, _ in found) < 0.01 * len(starts_s)


def test_counts_that_differ_by_chance_are_alike() -> None:
    rng = np.random.default_rng(4)
    assert np.mean([alike(rng.poisson(30, 15)) for _ in range(200)]) > 0.95
    assert not np.any([alike(rng.poisson(rng.uniform(10, 90, 15))) for _ in range(200)])
    assert not alike(np.array([30]))

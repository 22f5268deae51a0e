"""Sizes from counts of samples, against sizes that are known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.twin.arrivals.sampled import PACKET
from twin.arrivals.sizes import SizeFit, fit_sizes, one_size


def counts(wire_bytes: np.ndarray, spacing: float, seed: int = 1) -> np.ndarray:
    n = np.random.default_rng(seed).poisson(wire_bytes / spacing)
    return n[n > 0]


def bytes_between(fit: SizeFit, low: float, high: float) -> float:
    inside = (fit.size_bytes >= low) & (fit.size_bytes < high)
    return float((fit.messages * fit.size_bytes)[inside].sum())


@pytest.mark.parametrize("one_in", [64, 1024])
def test_heavy_tailed_sizes_are_found_decade_by_decade(one_in: int) -> None:
    rng = np.random.default_rng(5)
    size = 3e3 * rng.pareto(0.9, 200_000) + 3e3
    size = size[size < 3e7]
    spacing = one_in * PACKET
    fit = fit_sizes(counts(size, spacing), spacing, PACKET)
    assert (fit.messages * fit.size_bytes).sum() == pytest.approx(size.sum(), rel=0.03)
    for low in (1e5, 1e6, 1e7)[one_in > 64 :]:  # from about the spacing on
        true = size[(size >= low) & (size < 10 * low)].sum()
        assert bytes_between(fit, low, 10 * low) == pytest.approx(true, rel=0.25)


def test_messages_of_one_size_near_the_spacing_are_told_from_larger_ones() -> None:
    spacing = 64 * PACKET
    n = counts(np.full(8000, 2e5), spacing)
    fit = fit_sizes(n, spacing, PACKET)
    assert bytes_between(fit, 1e5, 4e5) > 0.9 * 8000 * 2e5
    large = (n * spacing) > 4e5  # taken one by one, a tenth of the messages look twice as large
    assert (n * spacing)[large].sum() > 0.15 * 8000 * 2e5


def test_sizes_far_from_the_guess_are_told_as_sharply_as_many_messages_show_them() -> None:
    # A collective's: all of one size, of which one sample and a half are seen.
    spacing = 64 * PACKET
    fit = fit_sizes(counts(np.full(20_000, 1e5), spacing), spacing, PACKET)
    assert bytes_between(fit, 6.4e4, 1.6e5) > 0.85 * 20_000 * 1e5
    assert fit.messages.sum() == pytest.approx(20_000, rel=0.2)


def test_few_messages_stay_near_the_guess() -> None:
    spacing = 64 * PACKET
    few, many = (fit_sizes(counts(np.full(n, 1e5), spacing), spacing, PACKET) for n in (20, 20_000))
    [shares_few], [shares_many] = (one.share_given(np.array([1])) for one in (few, many))
    widths = [
        float(np.ptp(one.quantile(shares, np.array([0.1, 0.9]))))
        for one, shares in ((few, shares_few), (many, shares_many))
    ]
    assert widths[0] > 1.5 * widths[1]


def test_how_many_left_no_sample_is_found() -> None:
    spacing = 64 * PACKET
    size = np.full(20_000, 5e4)
    fit = fit_sizes(counts(size, spacing), spacing, PACKET)
    true = 20_000 * np.exp(-5e4 / spacing)
    assert fit.unseen[fit.size_bytes > 1.5e4].sum() == pytest.approx(true, rel=0.3)


@pytest.mark.parametrize(("small", "many"), [(4e3, 6000), (3e4, 800)])
def test_short_packets_tell_how_many_small_messages_there_are(small: float, many: int) -> None:
    rng = np.random.default_rng(3)
    size = np.concatenate([small * rng.uniform(0.5, 1.5, many), 2e6 * rng.uniform(0.5, 1.5, 300)])
    others = rng.binomial((size / PACKET).astype(int), 1 / 64)
    end = rng.random(len(size)) < 1 / 64
    seen = others + end > 0
    n, end = (others + end)[seen], end[seen]
    spacing = 64 * PACKET
    fit = fit_sizes(n, spacing, PACKET, end_seen=end)
    blind = fit_sizes(n, spacing, PACKET)
    off, blindly_off = (abs(np.log(one.messages.sum() / len(size))) for one in (fit, blind))
    assert off < np.log(1.6)
    assert off < blindly_off
    # Of single samples, those that are ends are of the smaller messages.
    [apart, ends] = fit.share_given(np.array([1, 1]), np.array([False, True])) @ fit.size_bytes
    assert ends < apart


def test_without_a_short_packet_counts_alone_tell() -> None:
    spacing = 64 * PACKET
    n = counts(np.full(3000, 6.4e4), spacing)
    fit = fit_sizes(n, spacing, PACKET, end_seen=np.zeros(len(n), np.bool_))
    assert np.array_equal(fit.messages, fit_sizes(n, spacing, PACKET).messages)


def test_one_short_packet_among_blocks_of_full_ones_changes_little() -> None:
    # Storage: 16 full packets a block; once something else of a short last packet.
    n = np.random.default_rng(3).binomial(16, 1 / 64, 20_000)
    n = n[n > 0]
    once = np.arange(len(n)) == int(np.argmax(n == 1))
    without, with_one = (
        fit_sizes(n, 64 * PACKET, PACKET, end_seen=ends).messages.sum() for ends in (once & False, once)
    )
    assert with_one == pytest.approx(without, rel=0.15)


def test_below_a_bend_single_samples_are_many_small_messages() -> None:
    spacing = 4096 * PACKET
    n = np.ones(300, np.int64)
    usual, bent = (fit_sizes(n, spacing, PACKET, bend) for bend in (np.inf, spacing / 20))
    # Of 300 messages of a fifth of the spacing thirty would show a second sample.
    assert bytes_between(usual, 0, spacing / 5) > 0.9 * 300 * spacing
    assert bytes_between(bent, 0, spacing / 500) > 2 * bytes_between(usual, 0, spacing / 500)
    assert bent.messages.sum() > 2 * usual.messages.sum()


def test_many_samples_leave_no_doubt_and_no_small_messages() -> None:
    spacing = 64 * PACKET
    fit = fit_sizes(np.full(50, 400), spacing, PACKET)
    assert bytes_between(fit, 0, 100 * spacing) < 0.01 * 50 * 400 * spacing
    (given,) = fit.share_given(np.array([400]))
    assert fit.quantile(given, np.array([0.5]))[0] == pytest.approx(400 * spacing, rel=0.2)


def test_one_large_message_does_not_multiply_the_small_ones() -> None:
    spacing = 64 * PACKET
    few = [1, 1, 3, 3, 7]
    alone, beside = (
        bytes_between(fit_sizes(np.array(n), spacing, PACKET), 0, 16 * spacing)
        for n in (few, [*few, 27, 30, 700])
    )
    assert alone == pytest.approx(sum(few) * spacing, rel=0.1)
    assert beside == pytest.approx(sum(few) * spacing, rel=0.3)


@pytest.mark.parametrize("n", [[10**6], [1, 10**6], [3, 10**4, 10**6], [1]])
def test_counts_of_any_size_are_likely_somewhere(n: list[int]) -> None:
    spacing = 64 * PACKET
    fit = fit_sizes(np.array(n), spacing, PACKET)
    assert np.isfinite(fit.messages).all()
    assert (fit.messages * fit.size_bytes).sum() == pytest.approx(sum(n) * spacing)
    assert fit.share_given(np.array(n)).sum(axis=1) == pytest.approx(np.ones(len(n)))


def test_quantiles_rise_and_stay_on_the_grid() -> None:
    fit = fit_sizes(np.array([1, 1, 2, 9]), 64 * PACKET, PACKET)
    (given,) = fit.share_given(np.array([2]))
    assert given.sum() == pytest.approx(1)
    found = fit.quantile(given, np.linspace(0, 1, 50))
    assert np.all(np.diff(found) >= 0)
    assert found[0] >= PACKET / 1.2
    assert found[-1] <= 1.2 * fit.size_bytes[-1]


@pytest.mark.parametrize("samples_each", [0.5, 1.0, 5.0])
def test_one_size_is_found_among_a_few_larger_messages(samples_each: float) -> None:
    spacing = 64 * PACKET
    n = counts(np.full(2000, samples_each * spacing), spacing)
    larger = np.arange(8, 15)
    found = one_size(np.concatenate((n, np.repeat(larger, 1 + len(n) // 400))), spacing, PACKET)
    assert found is not None
    fit, of_it = found
    assert fit.size_bytes[0] == pytest.approx(samples_each * spacing, rel=0.15)
    assert fit.messages[0] == pytest.approx(2000, rel=0.15)
    assert of_it[: len(n)].mean() > 0.98
    assert fit.unseen[0] == pytest.approx(2000 - len(n), rel=0.3)


@pytest.mark.parametrize("count", [0, 20, 3000])
def test_many_sizes_and_few_messages_are_not_one_size(count: int) -> None:
    spacing = 64 * PACKET
    size = np.random.default_rng(1).exponential(2 * spacing, count)
    assert one_size(counts(size, spacing), spacing, PACKET) is None


def test_single_samples_do_not_tell_one_size() -> None:
    assert one_size(np.ones(500, np.int64), 64 * PACKET, PACKET) is None

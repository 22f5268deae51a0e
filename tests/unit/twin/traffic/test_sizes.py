"""The published sizes have the published shares and means; samples follow the table that is asked."""

from __future__ import annotations

import math

import numpy as np
import pytest

from twin.errors import ParameterError
from twin.traffic.sizes import PUBLISHED, SizeDistribution


def share_up_to(distribution: SizeDistribution, size_bytes: float) -> float:
    sizes, shares = zip(*distribution.points, strict=True)
    return float(np.interp(size_bytes, sizes, shares))


@pytest.mark.parametrize(
    ("name", "mean_bytes", "within"),
    [
        # pFabric (SIGCOMM 2013) counts in packets of 1460 bytes: means of 1138 and 5117 of them.
        ("websearch", 1138 * 1460, 0.04),
        ("data-mining", 5117 * 1460, 0.04),
    ],
)
def test_means_are_those_of_the_simulators_that_published_the_tables(
    name: str, mean_bytes: float, within: float
) -> None:
    assert SizeDistribution.named(name).mean_bytes == pytest.approx(mean_bytes, rel=within)


@pytest.mark.parametrize(
    ("name", "size_bytes", "share"),
    [
        ("websearch", 80_000, 0.53),
        ("websearch", 1_000_000, 0.70),
        ("data-mining", 10_000, 0.80),  # VL2: most flows are mice,
        ("data-mining", 100_000_000, 0.99),  # and 99 % are under 100 MB
        ("hadoop", 1_000, 0.60),  # most flows fit a packet
        ("hadoop", 10_000_000, 1.0),
    ],
)
def test_landmarks_of_the_papers(name: str, size_bytes: float, share: float) -> None:
    assert share_up_to(SizeDistribution.named(name), size_bytes) == pytest.approx(share)


def test_every_published_table_names_its_source() -> None:
    assert set(PUBLISHED) == {"websearch", "data-mining", "hadoop"}
    for name, distribution in PUBLISHED.items():
        assert distribution.name == name
        assert "SIGCOMM" in distribution.source


@pytest.mark.parametrize("name", PUBLISHED)
def test_samples_follow_the_table(name: str) -> None:
    distribution = SizeDistribution.named(name)
    drawn = distribution.sample(np.random.default_rng(1), 400_000)
    assert np.array_equal(drawn, np.floor(drawn))
    assert drawn.min() >= 1
    assert drawn.max() <= distribution.points[-1][0]
    for size, share in distribution.points:
        # Five standard deviations of a share of 400 000.
        within = 5 * math.sqrt(share * (1 - share) / 400_000) + 1e-9
        assert np.mean(drawn <= size) == pytest.approx(share, abs=within)
    error = 5 * float(drawn.std()) / math.sqrt(400_000)
    assert drawn.mean() == pytest.approx(distribution.mean_bytes, abs=error)
    packets = np.ceil(drawn / 1000)
    error = 5 * float(packets.std()) / math.sqrt(400_000)
    assert packets.mean() == pytest.approx(distribution.mean_packets(1000), abs=error)


def test_a_mean_is_exact() -> None:
    # Whole numbers 1 to 10 evenly: mean 5.5; in packets of 4: 4 of one, 4 of two, 2 of three.
    evenly = SizeDistribution("evenly", ((0, 0.0), (10, 1.0)))
    assert evenly.mean_bytes == pytest.approx(5.5)
    assert evenly.mean_packets(4) == pytest.approx((4 * 1 + 4 * 2 + 2 * 3) / 10)


def test_constant_is_constant() -> None:
    constant = SizeDistribution.constant(1500)
    assert set(constant.sample(np.random.default_rng(1), 100)) == {1500.0}
    assert constant.mean_bytes == 1500
    assert constant.mean_packets(1000) == 2


def test_a_cap_moves_what_is_above_it_and_nothing_else() -> None:
    whole = SizeDistribution.named("websearch")
    capped = whole.capped(100_000)
    drawn = whole.sample(np.random.default_rng(3), 10_000)
    assert np.array_equal(capped.sample(np.random.default_rng(3), 10_000), np.minimum(drawn, 100_000))
    assert capped.capped(200_000) is capped
    assert whole.capped(30_000_000) is whole


def test_a_cap_below_every_flow_makes_them_alike() -> None:
    capped = SizeDistribution.constant(1500).capped(1000)
    assert capped.mean_bytes == 1000


def test_a_cap_at_a_lump_keeps_it() -> None:
    lump = SizeDistribution("lump", ((100, 0.0), (200, 0.25), (200, 0.75), (400, 1.0)))
    drawn = lump.sample(np.random.default_rng(3), 1000)
    assert np.array_equal(lump.capped(200).sample(np.random.default_rng(3), 1000), np.minimum(drawn, 200))


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ((), "they run from 0 to 1"),
        (((5, 0.0),), "they run from 0 to 1"),
        (((0, 0.1), (5, 1.0)), "they run from 0 to 1"),
        (((0, 0.0), (5, 0.9)), "they run from 0 to 1"),
        (((5, 0.0), (4, 1.0)), "sizes never fall"),
        (((-5, 0.0), (4, 1.0)), "sizes never fall"),
        (((0, 0.0), (4, 0.6), (5, 0.5), (9, 1.0)), r"points\[2\].*shares always rise"),
        (((0, 0.0), (math.inf, 1.0)), "sizes never fall"),
        (((0, 0.0), (0, 1.0)), "a flow carries bytes"),
    ],
)
def test_a_table_that_is_none_is_refused(points: tuple[tuple[float, float], ...], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        SizeDistribution("mine", points)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="'web'; known: websearch, data-mining, hadoop"):
        SizeDistribution.named("web")

"""Watermarks no switch could run are refused in a sentence; the marking curve is the paper's."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.marking import marking_probability
from twin.errors import ParameterError, TwinError, WatermarkError
from twin.watermark import Watermark, WatermarkBounds


@st.composite
def watermarks(draw: st.DrawFn) -> Watermark:
    kmin = draw(st.integers(0, 10**9))
    pmax = draw(st.floats(0, 1, exclude_min=True))
    return Watermark(kmin, kmin + draw(st.integers(1, 10**9)), pmax)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((-1, 10, 0.1), "Kmin must not be negative"),
        ((10, 10, 0.1), "Kmin must be below Kmax"),
        ((20, 10, 0.1), "Kmin must be below Kmax"),
        ((1, 10, 0.0), r"Pmax must be in \(0, 1\]"),
        ((1, 10, 1.5), r"Pmax must be in \(0, 1\]"),
        ((1, 10, math.nan), "it must be finite"),
        ((math.inf, 10, 0.5), "it must be finite"),
        ((1, 10**400, 0.5), "it must be finite"),
        ((1.5, 10, 0.5), "a whole number of bytes"),
        (("5", 10, 0.5), "it must be a number"),
        ((True, 10, 0.5), "it must be a number"),
        ((None, 10, 0.5), "it must be a number"),
    ],
)
def test_what_no_switch_could_run_is_refused(values: tuple[Any, Any, Any], says: str) -> None:
    with pytest.raises(WatermarkError, match=says) as raised:
        Watermark(*values)
    assert raised.value.where.startswith("watermark")
    assert raised.value.remedy


def test_values_become_plain_numbers() -> None:
    watermark = Watermark(np.int64(5_000), 2e5, np.float32(0.5))  # type: ignore[arg-type]
    assert watermark == Watermark(5_000, 200_000, 0.5)
    assert (type(watermark.kmin_bytes), type(watermark.kmax_bytes), type(watermark.pmax)) == (int, int, float)
    assert hash(watermark) == hash(Watermark(5_000, 200_000, 0.5))


def test_it_says_itself_in_words() -> None:
    assert str(Watermark(5_000, 200_000, 0.1)) == "Kmin 5000 B, Kmax 200000 B, Pmax 0.1"


def test_an_error_crosses_processes_whole() -> None:
    with pytest.raises(WatermarkError) as raised:
        Watermark(10, 5, 0.1)
    copied = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(copied, WatermarkError)
    assert isinstance(copied, TwinError)
    assert (str(copied), copied.rule) == (str(raised.value), raised.value.rule)


@pytest.mark.parametrize(
    ("depth", "p"),
    [(0, 0.0), (100, 0.0), (150, 0.1), (200, 0.2), (200.001, 1.0), (10**12, 1.0)],
)
def test_the_curve_at_its_corners(depth: float, p: float) -> None:
    assert float(marking_probability(depth, Watermark(100, 200, 0.2))) == pytest.approx(p)


@given(watermarks(), st.lists(st.floats(0, 1e10), min_size=1, max_size=20))
def test_the_curve_never_falls_and_stays_a_probability(watermark: Watermark, depths: list[float]) -> None:
    p = marking_probability(np.sort(depths), watermark)
    assert p.shape == (len(depths),)
    assert np.all((p >= 0) & (p <= 1))
    assert np.all(np.diff(p) >= -1e-12)


def test_bounds_hold_their_ends() -> None:
    bounds = WatermarkBounds()
    assert bounds.contains(Watermark(bounds.kmin_low_bytes, bounds.kmax_low_bytes, bounds.pmax_low))
    assert bounds.contains(Watermark(bounds.kmin_high_bytes, bounds.kmax_high_bytes, bounds.pmax_high))
    assert not bounds.contains(Watermark(bounds.kmin_low_bytes - 1, bounds.kmax_low_bytes, 0.5))
    assert not bounds.contains(Watermark(bounds.kmin_high_bytes, bounds.kmax_high_bytes + 1, 0.5))
    assert not bounds.contains(Watermark(2_000, 4_000, bounds.pmax_low / 2))


@pytest.mark.parametrize(
    "values",
    [
        {"kmin_low_bytes": 0},
        {"kmin_high_bytes": 1_000},
        {"kmax_high_bytes": math.inf},
        {"pmax_high": 1.1},
        {"pmax_low": 0.5, "pmax_high": 0.4},
        {"kmin_low_bytes": 5_000, "kmax_low_bytes": 4_000, "kmax_high_bytes": 4_500},
    ],
)
def test_bounds_that_leave_nothing_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="bounds"):
        WatermarkBounds(**values)

"""The kernels' exp and log against the library's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.fluid._math import EXPONENT_CAP, expm1_positive, log_one_minus, to_power

pytestmark = pytest.mark.kernels

magnitudes = st.floats(-18, 1.5).map(lambda exponent: 10.0**exponent)


@given(magnitudes)
def test_expm1_keeps_its_digits_at_every_magnitude(x: float) -> None:
    expected = math.expm1(min(x, EXPONENT_CAP))
    assert math.isclose(expm1_positive(x), expected, rel_tol=1e-10)


def test_expm1_of_zero_and_beyond_the_cap() -> None:
    assert expm1_positive(0.0) == 0.0
    assert expm1_positive(1e9) == expm1_positive(EXPONENT_CAP)
    assert math.isnan(expm1_positive(math.nan))


@given(st.floats(-12, 0).map(lambda exponent: min(10.0**exponent, 1.0 - 2.0**-40)))
def test_log_keeps_its_digits_down_to_the_smallest_mark(p: float) -> None:
    assert math.isclose(log_one_minus(p), math.log1p(-p), rel_tol=1e-12)


@given(st.floats(0.0, 1.0), st.integers(0, 31))
def test_whole_powers(x: float, power: int) -> None:
    assert math.isclose(to_power(x, power), x**power, rel_tol=1e-13, abs_tol=1e-300)

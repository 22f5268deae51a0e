"""Branch-free exp and log for the kernels' lanes; floats only, must import nothing but numba and numpy.

LLVM vectorises neither ``math.expm1`` nor ``math.log1p`` (they are calls), and these two are most of a step.
See docs/adr/0003-fluid-scheme.md for the error budget.
"""

from __future__ import annotations

import numpy as np

from twin.jit import compiler

# FMA is the one liberty taken with the arithmetic; NaN must survive, it is how a diverged candidate shows.
kernel = compiler(fastmath={"contract"}, forceinline=True)
# The loop that calls them all; itself called from Python.
entry = compiler(fastmath={"contract"})

MOST_FAST_RECOVERY = 31
EXPONENT_CAP = 32.0  # beyond it 1 − exp(−x) is 1 and 1/expm1(x) is 0 to 14 digits
_SCALE = 1.0 / 128.0  # seven doublings below

# log: bits of √½, so that the mantissa lands in [√½, √2), and an exponent bias that keeps the shifted word
# positive.
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)
_BIAS = np.uint64(1024 << 52)
_MANTISSA = np.uint64((1 << 52) - 1)
_SHIFT = np.uint64(52)
_TWO_52 = np.uint64(0x4330000000000000)  # the double 2^52: OR-ing an integer in makes 2^52 + integer
_TWO_52_PLUS_BIAS = 4503599627370496.0 + 1024.0
_LN2 = 0.6931471805599453


@kernel
def expm1_positive(x: float) -> float:
    """exp(x) − 1 for x ≥ 0, cut off at x = 32; relative error below 1e-11.

    Taylor to degree 9 on x/128 ≤ 1/4, then seven times expm1(2y) = s(s + 2), which keeps the digits of a
    small x.
    """
    capped = EXPONENT_CAP if x > EXPONENT_CAP else x
    y = capped * _SCALE
    s = 1.0 / 362880.0
    s = s * y + 1.0 / 40320.0
    s = s * y + 1.0 / 5040.0
    s = s * y + 1.0 / 720.0
    s = s * y + 1.0 / 120.0
    s = s * y + 1.0 / 24.0
    s = s * y + 1.0 / 6.0
    s = s * y + 0.5
    s = (s * y + 1.0) * y
    s = s * (s + 2.0)
    s = s * (s + 2.0)
    s = s * (s + 2.0)
    s = s * (s + 2.0)
    s = s * (s + 2.0)
    s = s * (s + 2.0)
    return s * (s + 2.0)


@kernel
def split_exponent(word: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Words of a positive double's mantissa in [√½, √2) and of 2^52 + 1024 + its exponent."""
    moved = (word - _ROOT_HALF) + _BIAS
    return (moved & _MANTISSA) + _ROOT_HALF, (moved >> _SHIFT) | _TWO_52


@kernel
def log_one_minus(p: float, rest: float, mantissa: float, exponent: float) -> float:
    """log(1 − p) from ``rest`` = fl(1 − p) and its two parts; relative error below 1e-13 down to p = 0.

    The last term is what rounding 1 − p lost, so that log(1 − p)/p → −1 as p → 0.
    """
    z = (mantissa - 1.0) / (mantissa + 1.0)
    z2 = z * z
    s = 1.0 / 15.0
    s = s * z2 + 1.0 / 13.0
    s = s * z2 + 1.0 / 11.0
    s = s * z2 + 1.0 / 9.0
    s = s * z2 + 1.0 / 7.0
    s = s * z2 + 0.2
    s = s * z2 + 1.0 / 3.0
    s = s * z2 + 1.0
    return ((exponent - _TWO_52_PLUS_BIAS) * _LN2 + 2.0 * z * s) - (p - (1.0 - rest))


@kernel
def to_power(x: float, power: int) -> float:
    """x to a whole power from 0 to 31, by squaring.

    Selects, not branches, so that a loop of it vectorises.
    """
    x2 = x * x
    x4 = x2 * x2
    x8 = x4 * x4
    low = (x if power & 1 else 1.0) * (x2 if power & 2 else 1.0)
    high = (x4 if power & 4 else 1.0) * (x8 if power & 8 else 1.0)
    return low * high * (x8 * x8 if power & 16 else 1.0)

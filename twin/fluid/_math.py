"""Branch-free exp and log for the kernels' lanes, and bit casts of doubles.

LLVM vectorises neither ``math.expm1`` nor ``math.log1p`` (they are calls), which are most of a step. numba
has no bit cast of a scalar; a cast through an array would go through memory. See
docs/adr/0003-fluid-scheme.md for the error budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import lower_builtin, type_callable

from twin.jit import compiler


def word_of(x: float) -> np.uint64:
    """The bits of a double."""
    return np.float64(x).view(np.uint64)


def double_of(word: np.uint64) -> float:
    """The double of 64 bits."""
    return float(np.uint64(word).view(np.float64))


@type_callable(word_of)
def _type_of_word(context: Any) -> Callable[[Any], Any]:
    return lambda x: types.uint64 if x == types.float64 else None


@type_callable(double_of)
def _type_of_double(context: Any) -> Callable[[Any], Any]:
    return lambda word: types.float64 if word == types.uint64 else None


@lower_builtin(word_of, types.float64)  # type: ignore[no-untyped-call] # numba ships no types
def _lower_word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.bitcast(arguments[0], context.get_value_type(types.uint64))


@lower_builtin(double_of, types.uint64)  # type: ignore[no-untyped-call]
def _lower_double(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.bitcast(arguments[0], context.get_value_type(types.float64))


# FMA is the only deviation from IEEE arithmetic; NaN must survive, as it marks a diverged candidate.
kernel = compiler(fastmath={"contract"}, forceinline=True)
# For the main loop, called from Python.
entry = compiler(fastmath={"contract"})

MOST_FAST_RECOVERY = 31
EXPONENT_CAP = 32.0  # beyond it 1 − exp(−x) is 1 and 1/expm1(x) is 0 to 14 digits
_LN2 = 0.6931471805599453
_LOG2_E = 1.4426950408889634
# Added to a small number it leaves the nearest integer in the last bits, biased like a double's exponent.
_ROUNDER = 1.5 * 2.0**52 + 1023.0

# log: bits of √½, so that the mantissa lands in [√½, √2), and an exponent bias that keeps the shifted word
# positive.
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)
_BIAS = np.uint64(1024 << 52)
_MANTISSA = np.uint64((1 << 52) - 1)
_SHIFT = np.uint64(52)
_TWO_52 = np.uint64(0x4330000000000000)  # the double 2^52: OR-ing an integer in makes 2^52 + integer
_TWO_52_PLUS_BIAS = 4503599627370496.0 + 1024.0


@kernel
def expm1_positive(x: float) -> float:
    """exp(x) − 1 for x ≥ 0, cut off at x = 32; relative error below 2e-11.

    x = n ln 2 + r with |r| ≤ ½ ln 2; expm1(r) is a near-minimax polynomial (Chebyshev points, leading 1
    kept, so that a small x keeps its digits), and 2^n is added to the exponent.
    """
    capped = EXPONENT_CAP if x > EXPONENT_CAP else x
    biased = capped * _LOG2_E + _ROUNDER
    r = capped - (biased - _ROUNDER) * _LN2
    s = 2.486787206587467e-05
    s = s * r + 0.0001989927622238489
    s = s * r + 0.0013888839107173761
    s = s * r + 0.008333298480356209
    s = s * r + 0.04166666678628104
    s = s * r + 0.16666666719007714
    s = s * r + 0.49999999999955097
    scale = double_of(word_of(biased) << _SHIFT)
    return (r * r * s + r) * scale + (scale - 1.0)


@kernel
def log_one_minus(p: float) -> float:
    """log(1 − p) for p in [0, 1); relative error below 1e-12 down to p = 0.

    Exponent and mantissa of 1 − p apart, the mantissa's logarithm as 2 atanh z. The last term is what
    rounding 1 − p lost, so that log(1 − p)/p → −1 as p → 0.
    """
    rest = 1.0 - p
    moved = (word_of(rest) - _ROOT_HALF) + _BIAS
    mantissa = double_of((moved & _MANTISSA) + _ROOT_HALF)
    exponent = double_of((moved >> _SHIFT) | _TWO_52) - _TWO_52_PLUS_BIAS
    z = (mantissa - 1.0) / (mantissa + 1.0)
    z2 = z * z
    s = 0.09681722684229843
    s = s * z2 + 0.1109567713022279
    s = s * z2 + 0.14285877695866536
    s = s * z2 + 0.19999999396153842
    s = s * z2 + 0.3333333333368985
    s = s * z2 + 1.0
    return (exponent * _LN2 + 2.0 * z * s) - (p - (1.0 - rest))


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

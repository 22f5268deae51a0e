"""A double's 64 bits and back, free in compiled kernels; must import nothing but numba and numpy.

numba offers no such cast of a scalar, and one through an array would cost a trip to memory and a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import lower_builtin, type_callable


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

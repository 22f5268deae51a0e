"""Probes inside a kernel: which path one takes, and the bin of its slowdown; ``probe`` reads the bins."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from twin.jit import inlined, kernel

PROBES: Final = 8  # at each instant

# Bins of a double's top bits from the word of 1.0 on: 256 a doubling, 0.4 % wide at most, up to 4096.
PROBE_SHIFT: Final = 44
PROBE_FIRST: Final = 0x3FF0000000000000 >> PROBE_SHIFT
PROBE_BINS: Final = 12 * 256
_PROBE_TOP = 4095.0

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_TO_UNIT = 2.0**-53


Paths = NDArray[np.int32]  # [instant, probe]


class ProbePaths(NamedTuple):
    """The paths of traffic; ``queue`` is an engine's own number of each switch queue crossed.

    ``weight`` × depth is what that queue adds to a slowdown of 1: one over rate × time alone.
    """

    of_flow: NDArray[np.int32]  # [flow]: its path
    offset: NDArray[np.int32]  # [path + 1], into the next two
    queue: NDArray[np.int32]
    weight: NDArray[np.float64]


@kernel
def draw_paths(paths: ProbePaths, drawn: Paths) -> None:
    """Fill ``drawn[instant, k]``."""
    for instant in range(drawn.shape[0]):
        for k in range(drawn.shape[1]):
            drawn[instant, k] = probe_path(paths, instant, k)


@inlined
def probe_path(paths: ProbePaths, instant: int, k: int) -> int:
    """The path of a random flow, which depends on the arguments only: every candidate meets the same probes.

    splitmix64 (Steele et al., OOPSLA 2014) of one fixed stream.
    """
    x = uint64(instant * PROBES + k + 1) * uint64(_GOLDEN)
    x = (x ^ (x >> uint64(30))) * uint64(_MIX_1)
    x = (x ^ (x >> uint64(27))) * uint64(_MIX_2)
    x = x ^ (x >> uint64(31))
    return int(paths.of_flow[int((x >> uint64(11)) * _TO_UNIT * paths.of_flow.size)])


@inlined
def slowdown_bin(slowdown: float) -> int:
    """The bin of a slowdown of at least 1; what is not a number falls into the last."""
    seen = slowdown if slowdown < _PROBE_TOP else _PROBE_TOP
    return int(np.float64(seen).view(np.uint64) >> uint64(PROBE_SHIFT)) - PROBE_FIRST

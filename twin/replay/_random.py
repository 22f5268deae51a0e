"""Counter-based random numbers for kernels: a draw is a function of (seed, stream, index) and of nothing
else, so
every candidate sees the same draws whatever happened before.
"""

from __future__ import annotations

from numba import uint64

from twin.jit import inlined

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_STREAM = 0xD1342543DE82EF95
_TO_UNIT = 2.0**-53


@inlined
def uniform(seed: int, stream: int, index: int) -> float:
    """A draw in [0, 1): splitmix64's finaliser (Steele et al., OOPSLA 2014), once over the stream, once
    over both.
    """
    x = uint64(seed) * uint64(_GOLDEN) + uint64(stream) * uint64(_STREAM)
    x = (x ^ (x >> uint64(30))) * uint64(_MIX_1) + uint64(index) * uint64(_GOLDEN)
    x = (x ^ (x >> uint64(30))) * uint64(_MIX_1)
    x = (x ^ (x >> uint64(27))) * uint64(_MIX_2)
    x = x ^ (x >> uint64(31))
    return (x >> uint64(11)) * _TO_UNIT

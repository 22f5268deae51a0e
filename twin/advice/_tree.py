"""The kernel of the advice: the leaf of a row of features.

Legend: x features, low and high their trained ranges, f the feature that a node asks for (below 0: a leaf), t
its threshold. The left of a leaf is its place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.jit import kernel


@kernel
def leaf_of(
    x: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    f: NDArray[np.int32],
    t: NDArray[np.float64],
    left: NDArray[np.int32],
    right: NDArray[np.int32],
) -> int:
    """The place of the leaf; −1 − i where feature i is outside its range, or NaN."""
    for i in range(x.shape[0]):
        if not (low[i] <= x[i] <= high[i]):
            return -1 - i
    node = 0
    while f[node] >= 0:
        # scikit-learn compares in single precision, and what equals the threshold goes left.
        node = left[node] if np.float32(x[f[node]]) <= t[node] else right[node]
    return int(left[node])

"""The marking curve of a watermark, as the papers draw it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twin.watermark import Watermark


def marking_probability(queue_bytes: ArrayLike, watermark: Watermark) -> NDArray[np.float64]:
    """p(q): 0 below Kmin, Pmax·(q−Kmin)/(Kmax−Kmin) up to Kmax, 1 above (DCQCN, SIGCOMM 2015, figure 5).

    ``queue_bytes`` may have any shape; the result has the same.
    """
    queue = np.asarray(queue_bytes, dtype=np.float64)
    slope = watermark.pmax / (watermark.kmax_bytes - watermark.kmin_bytes)
    ramp = np.clip((queue - watermark.kmin_bytes) * slope, 0.0, watermark.pmax)
    return np.where(queue > watermark.kmax_bytes, 1.0, ramp)

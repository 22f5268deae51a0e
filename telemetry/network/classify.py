"""Elephant, potential elephant or mouse, and which of them carries the network; imports numpy and ``state``
only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from telemetry.state import FlowClass


def classify(
    window_bytes: NDArray[np.float64],
    active_periods: NDArray[np.int64],
    *,
    n_periods: int,
    elephant_bytes: float,
) -> NDArray[np.int8]:
    """``FlowClass`` of each flow from Φ(f), its bytes in the window, and the number of periods it was active
    in.

    Φ ≥ ``elephant_bytes``: elephant; below, but active in all ``n_periods`` of the window: potential
    elephant; otherwise mouse. A window of a single period says nothing about persistence, so it has no
    potential elephants.
    """
    classes = np.full(len(window_bytes), FlowClass.MOUSE, np.int8)
    if n_periods > 1:
        classes[active_periods >= n_periods] = FlowClass.POTENTIAL_ELEPHANT
    classes[window_bytes >= elephant_bytes] = FlowClass.ELEPHANT
    return classes


def dominant_class(bytes_by_class: Mapping[FlowClass, float]) -> FlowClass:
    """The class that carries the most bytes; of equals the one of larger flows."""
    return max(FlowClass, key=lambda flow_class: (bytes_by_class.get(flow_class, 0.0), flow_class))

"""Distinct values numbered as they first appear; imports only numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_they_appear(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each distinct value is first, in that order, and which of them each value is."""
    _, first, number = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[number]

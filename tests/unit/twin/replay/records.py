"""Small tables for the replay kernels' own tests, compiled or as plain Python alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twin.replay import layout
from twin.replay.layout import Params, Table

PACKET = 1_000.0


def table(record: np.dtype[np.void], rows: int) -> Table:
    """Empty records whose columns are attributes: plain Python needs that, the compiler does not mind."""
    return np.zeros(rows, dtype=record).view(np.recarray)


def parameters(**changed: Any) -> Params:
    """A sender of 100 clocks: cut 25 steps, α 27, increase 150."""
    values: dict[str, Any] = {
        "ai_rate": 10.0,
        "hai_rate": 50.0,
        "gain": 1 / 16,
        "cnp_steps": 25.0,
        "alpha_steps": 27.0,
        "increase_steps": 150.0,
        "byte_counter": math.inf,
        "fast_recovery_steps": 5,
        "min_rate": 1.0,
        "clamp_target": True,
        "initial_alpha": 1.0,
    }
    return Params(**(values | changed))


def fresh_slots(count: int) -> Table:
    """Slots of flows that have not been marked and sit in no bucket."""
    slots = table(layout.SLOT, count)
    slots.cut_at = slots.alpha_at = slots.increase_at = layout.NEVER
    slots.next_at = layout.NEVER
    slots.remaining = slots.counted = math.inf
    slots.marks_read = -1.0
    slots.draws = 1
    return slots


def segments_for(count: int) -> Table:
    """Room for the rate changes of ``count`` flows."""
    return np.zeros((count, layout.SEGMENTS), dtype=layout.SEGMENT).view(np.recarray)

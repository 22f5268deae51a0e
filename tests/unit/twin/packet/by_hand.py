"""Kernel functions called one at a time, compiled or not."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from twin.packet import _kernels, layout
from twin.packet._calendar import TIMER_KINDS, next_timer
from twin.packet.fabric import Fabric
from twin.packet.layout import State


def handed(state: State) -> Any:
    """A state as the kernels take it in this run; what they write is written to ``state``."""
    if not os.environ.get("NUMBA_DISABLE_JIT"):
        return state
    return State(*map(_as_records, state))


def _as_records(value: Any) -> Any:
    """A table whose columns are attributes, as in compiled code; a plain array or a tuple as it is."""
    return value.view(np.recarray) if isinstance(value, np.ndarray) and value.dtype.names else value


class Hand:
    """A fabric that nobody advances: its timers ring when the test says so."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.params = fabric._params
        self.state = handed(fabric._state)

    @property
    def next_s(self) -> float:
        """When the earliest timer rings."""
        return float(self.state.timer_at[0]) if self.state.clock["timers"][0] else np.inf

    @property
    def next_kind(self) -> int:
        return int(self.state.timer_what[0]) % TIMER_KINDS

    def ring(self) -> tuple[float, int]:
        """Takes the earliest timer and lets it ring; when, and which."""
        at, kind = self.next_s, self.next_kind
        self.fabric._state.clock["now"] = at
        _kernels.ring(self.state, self.params, next_timer(self.state), at)
        return at, kind

    def begin(self) -> None:
        """Starts flows whose start is due."""
        while self.next_s < np.inf and self.next_kind == layout.START:
            self.ring()

    def flow(self, row: int = 0) -> Any:
        return self.fabric._state.flows[row]

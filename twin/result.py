"""What a twin answers: status per candidate, predictions, trajectories; must import no engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from twin.watermark import Watermark

MOUSE_BELOW_BYTES = 100_000
ELEPHANT_FROM_BYTES = 1_000_000
SIZE_CLASSES = ("all", "mice", "medium", "elephant")


class SolveStatus(Enum):
    """How one candidate's run ended; the value is the sentence a person reads, ``name.lower()`` the code."""

    OK = "the run reached its end"
    DIVERGED = "a queue or a rate left the finite numbers; use a shorter step"
    BUDGET = "the run used up its event budget; shorten the scenario or merge its flows"
    LOST = "the worker process that ran this candidate died; run the round again"

    @property
    def code(self) -> str:
        """The word used in JSON: ``ok``, ``diverged``, ``budget``, ``lost``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Completion time ÷ completion time alone on the path, over ``n`` flows (flows still running count at
    their age).

    ``mean`` and ``p99`` are NaN where ``n`` is 0.
    """

    n: int
    mean: float
    p99: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one engine says of one watermark on one scenario, inside the scenario's metrics window.

    Queue figures pool 1 µs samples over the monitored ports; ``port_queue_mean_bytes`` has one entry per
    monitored port, in the scenario's order. ``goodput_bytes_per_s`` is payload delivered, all flows.
    ``slowdown`` is keyed by size class (``SIZE_CLASSES``; mice < 100 KB ≤ medium < 1 MB ≤ elephant), absent
    classes left out. Where ``status`` is not OK the figures are NaN.
    """

    watermark: Watermark
    status: SolveStatus
    queue_mean_bytes: float
    queue_p99_bytes: float
    queue_peak_bytes: float
    goodput_bytes_per_s: float
    marked_fraction: float
    loss_bytes: float
    pfc_pause_s: float
    slowdown: Mapping[str, Slowdown] = field(default_factory=dict)
    port_queue_mean_bytes: tuple[float, ...] = ()

    @classmethod
    def failed(cls, watermark: Watermark, status: SolveStatus) -> Prediction:
        """A prediction that could not be made: every figure NaN, the status saying why."""
        nan = float("nan")
        return cls(watermark, status, nan, nan, nan, nan, nan, nan, nan)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Time series of one watermark on one scenario: ``queue_bytes[port, time]`` over the monitored ports.

    Where ``status`` is not OK the depths mean nothing.
    """

    watermark: Watermark
    time_s: NDArray[np.float64]
    queue_bytes: NDArray[np.float64]
    status: SolveStatus = SolveStatus.OK

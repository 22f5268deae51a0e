"""ECN watermark of an egress queue, of ports by their role, and the bounds that candidates stay inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError, WatermarkError


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """(Kmin, Kmax, Pmax) of one egress queue: RED marking between Kmin and Kmax, certain marking beyond.

    ``kmin_bytes`` and ``kmax_bytes`` are bytes waiting in the queue, ``pmax`` a probability in (0, 1].
    Raises ``WatermarkError`` unless 0 ≤ Kmin < Kmax and 0 < Pmax ≤ 1, all finite.
    """

    kmin_bytes: int
    kmax_bytes: int
    pmax: float

    def __post_init__(self) -> None:
        for name in ("kmin_bytes", "kmax_bytes", "pmax"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise WatermarkError(f"watermark {name}", repr(value), "it must be a number", "give a number")
            if not _is_finite(value):
                rule = "it must be finite"
                raise WatermarkError(f"watermark {name}", str(value), rule, "give a finite number")
        for name in ("kmin_bytes", "kmax_bytes"):
            value = getattr(self, name)
            if value != int(value):
                rule = "a threshold is a whole number of bytes"
                raise WatermarkError(f"watermark {name}", str(value), rule, "round it")
            object.__setattr__(self, name, int(value))
        object.__setattr__(self, "pmax", float(self.pmax))
        if self.kmin_bytes < 0:
            rule = "Kmin must not be negative"
            raise WatermarkError("watermark kmin_bytes", str(self.kmin_bytes), rule, "give 0 or more")
        if self.kmin_bytes >= self.kmax_bytes:
            received = f"kmin_bytes={self.kmin_bytes}, kmax_bytes={self.kmax_bytes}"
            raise WatermarkError("watermark", received, "Kmin must be below Kmax", "lower Kmin or raise Kmax")
        if not 0.0 < self.pmax <= 1.0:
            rule = "Pmax must be in (0, 1]"
            raise WatermarkError("watermark pmax", str(self.pmax), rule, "give a probability such as 0.1")

    def distance_to(self, other: Watermark) -> float:
        """How far apart two watermarks are: Euclidean in ln Kmin, ln Kmax and ln Pmax."""
        return math.dist(self.logarithms, other.logarithms)

    @property
    def logarithms(self) -> tuple[float, float, float]:
        """ln Kmin (of a byte for 0), ln Kmax and ln Pmax."""
        return math.log(max(self.kmin_bytes, 1)), math.log(self.kmax_bytes), math.log(self.pmax)

    @property
    def usual(self) -> Watermark:
        """Itself: what ``RoleWatermarks`` have for the ports of most roles."""
        return self

    @property
    def exceptions(self) -> tuple[tuple[str, Watermark], ...]:
        """None: it is the same on every port."""
        return ()

    def __str__(self) -> str:
        return f"Kmin {self.kmin_bytes} B, Kmax {self.kmax_bytes} B, Pmax {self.pmax:g}"


@dataclass(frozen=True, slots=True)
class RoleWatermarks:
    """The ``usual`` watermark of all ports but those whose role is among the ``exceptions``.

    ``of`` makes one; exceptions are sorted by role (``telemetry.roles``), and differ from the usual one.
    """

    usual: Watermark
    exceptions: tuple[tuple[str, Watermark], ...]

    @classmethod
    def of(cls, usual: Watermark, by_role: Mapping[str, Watermark]) -> Setting:
        """A single watermark where no role has another."""
        others = tuple((role, mark) for role, mark in sorted(by_role.items()) if mark != usual)
        return cls(usual, others) if others else usual

    def __str__(self) -> str:
        return "; ".join([str(self.usual), *(f"{role}: {mark}" for role, mark in self.exceptions)])


Setting = Watermark | RoleWatermarks


def curves_of(setting: Setting, roles: Sequence[str | None]) -> NDArray[np.float64]:
    """Kmin and Kmax in bytes, and Pmax, of ports of these roles: ``[port, 3]``."""
    by_role = dict(setting.exceptions)
    marks = [setting.usual if role is None else by_role.get(role, setting.usual) for role in roles]
    return np.array([(mark.kmin_bytes, mark.kmax_bytes, mark.pmax) for mark in marks], dtype=np.float64)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # JSON allows whole numbers of any length
        return False


@dataclass(frozen=True, slots=True)
class WatermarkBounds:
    """Hard bounds of every candidate."""

    kmin_low_bytes: int = 2_000
    kmin_high_bytes: int = 4_000_000
    kmax_low_bytes: int = 4_000
    kmax_high_bytes: int = 16_000_000
    pmax_low: float = 0.001
    pmax_high: float = 1.0

    def __post_init__(self) -> None:
        ranges = {
            "kmin": (self.kmin_low_bytes, self.kmin_high_bytes),
            "kmax": (self.kmax_low_bytes, self.kmax_high_bytes),
            "pmax": (self.pmax_low, self.pmax_high),
        }
        for name, (low, high) in ranges.items():
            if not (math.isfinite(low) and math.isfinite(high) and 0 < low < high):
                rule = "bounds must satisfy 0 < low < high"
                raise ParameterError(f"bounds {name}", f"[{low}, {high}]", rule, "correct it")
        if self.pmax_high > 1.0:
            raise ParameterError("bounds pmax", str(self.pmax_high), "Pmax is a probability", "lower it to 1")
        if self.kmin_low_bytes >= self.kmax_high_bytes:
            received = f"lowest Kmin {self.kmin_low_bytes}, highest Kmax {self.kmax_high_bytes}"
            rule = "some Kmin must fit below some Kmax"
            raise ParameterError("bounds", received, rule, "lower the Kmin bound or raise the Kmax bound")

    def contains(self, watermark: Watermark) -> bool:
        """Whether all three values lie inside their bounds, ends included."""
        return (
            self.kmin_low_bytes <= watermark.kmin_bytes <= self.kmin_high_bytes
            and self.kmax_low_bytes <= watermark.kmax_bytes <= self.kmax_high_bytes
            and self.pmax_low <= watermark.pmax <= self.pmax_high
        )

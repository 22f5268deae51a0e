"""Biased Monte-Carlo: draws around μ_target = λ·μ_base, λ by the traffic; must not import telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from twin.errors import ParameterError
from twin.search.candidates import check_spread, draw_watermarks
from twin.watermark import Watermark, WatermarkBounds

# λ of design section 1.3: elephants want room in the queue, mice want it empty.
LAMBDA_BY_CLASS: Mapping[str, float] = MappingProxyType(
    {"elephant": 1.5, "potential_elephant": 1.25, "mouse": 0.8}
)


def lambda_for(dominant_class: str) -> float:
    """λ of the class that carries most bytes, by label; raises ``ParameterError`` naming the known."""
    try:
        return LAMBDA_BY_CLASS[dominant_class]
    except KeyError:
        known = ", ".join(sorted(LAMBDA_BY_CLASS))
        raise ParameterError(
            "dominant class", repr(dominant_class), f"known classes are {known}", "name one of them"
        ) from None


@dataclass(frozen=True, slots=True)
class BiasedSampler:
    """Kmin and Kmax truncated log-normal with median λ × the base's, Pmax log-uniform around the base's.

    ``sigma`` is the spread of ln K: at 1.2 two draws in three lie within a factor 3.3 of μ_target and one in
    a hundred beyond a factor 20, far enough to leave a base that is wrong by an order of magnitude.
    """

    base: Watermark
    lambda_: float
    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)
    sigma: float = 1.2
    pmax_factor: float = 10.0

    def __post_init__(self) -> None:
        check_spread("biased sampler", self.sigma, self.pmax_factor)
        if not self.lambda_ > 0:
            raise ParameterError("biased sampler λ", str(self.lambda_), "λ is above 0", "give such as 0.8")

    def draw(self, count: int, rng: np.random.Generator) -> list[Watermark]:
        """``count`` watermarks around μ_target, inside the bounds."""
        return draw_watermarks(
            rng,
            self.bounds,
            kmin_median_bytes=np.full(count, self.lambda_ * self.base.kmin_bytes),
            kmax_median_bytes=np.full(count, self.lambda_ * self.base.kmax_bytes),
            sigma=self.sigma,
            pmax_base=np.full(count, self.base.pmax),
            pmax_factor=self.pmax_factor,
        )

"""A second, narrower draw around the leaders of the first; must import only siblings and the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from twin.errors import ParameterError
from twin.search.candidates import check_spread, draw_watermarks
from twin.watermark import Watermark, WatermarkBounds


@dataclass(frozen=True, slots=True)
class NarrowedSampler:
    """Each draw is near one of ``leaders``, in turn: ln K by ``sigma``, Pmax within ``pmax_factor``."""

    leaders: Sequence[Watermark]
    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)
    sigma: float = 0.4
    pmax_factor: float = 2.5

    def __post_init__(self) -> None:
        check_spread("narrowed sampler", self.sigma, self.pmax_factor)
        if not self.leaders:
            raise ParameterError(
                "narrowed sampler leaders", "none", "it draws around leaders", "give at least one"
            )

    def draw(self, count: int, rng: np.random.Generator) -> list[Watermark]:
        """``count`` watermarks, the leaders' neighbourhoods in turn, inside the bounds."""
        near = [self.leaders[index % len(self.leaders)] for index in range(count)]
        return draw_watermarks(
            rng,
            self.bounds,
            kmin_median_bytes=np.array([leader.kmin_bytes for leader in near], dtype=np.float64),
            kmax_median_bytes=np.array([leader.kmax_bytes for leader in near], dtype=np.float64),
            sigma=self.sigma,
            pmax_base=np.array([leader.pmax for leader in near], dtype=np.float64),
            pmax_factor=self.pmax_factor,
        )

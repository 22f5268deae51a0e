"""Flow sizes of data centres, as published cumulative distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError, check_above_zero, check_count, check_known


@dataclass(frozen=True)
class SizeDistribution:
    """Payload bytes of a flow: ``points`` are (bytes, share of flows up to it), straight lines between.

    The shares rise from 0 to 1; equal sizes are a step. Interpolation is linear as in the published
    simulators, so that means and loads compare with theirs.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    source: str = ""

    def __post_init__(self) -> None:
        at = f"sizes {self.name!r}"
        sizes, shares = zip(*self.points, strict=True) if self.points else ((), ())
        if len(shares) < 2 or shares[0] != 0 or shares[-1] != 1:
            rule = "they run from 0 to 1"
            raise ParameterError(at, f"shares {list(shares)}", rule, "begin and end the table there")
        for index, (low, high) in enumerate(pairwise(self.points)):
            if not (high[0] >= low[0] >= 0 and high[1] > low[1] and math.isfinite(high[0])):
                rule = "sizes never fall, shares always rise"
                remedy = "correct or drop it"
                raise ParameterError(f"{at} points[{index + 1}]", f"{high} after {low}", rule, remedy)
        if not sizes[-1] > 0:
            raise ParameterError(at, "no size above 0", "a flow carries bytes", "give sizes in bytes")

    @classmethod
    def named(cls, name: str) -> SizeDistribution:
        """The distribution of that name in ``PUBLISHED``; raises ``ParameterError``."""
        check_known("sizes", name, PUBLISHED)
        return PUBLISHED[name]

    @classmethod
    def constant(cls, size_bytes: float) -> SizeDistribution:
        """All flows of one size."""
        check_above_zero("sizes constant", size_bytes)
        return cls(f"{size_bytes:g} bytes", ((size_bytes, 0.0), (size_bytes, 1.0)))

    def capped(self, largest_bytes: float) -> SizeDistribution:
        """The distribution with sizes above ``largest_bytes`` cut down to it."""
        check_above_zero("sizes largest_bytes", largest_bytes)
        above = next((i for i, (size, _) in enumerate(self.points) if size >= largest_bytes), None)
        if above is None or self.points[-1][0] == largest_bytes:
            return self
        name = f"{self.name} up to {largest_bytes:g} bytes"
        if above == 0:
            return replace(self.constant(largest_bytes), name=name, source=self.source)
        (low, share_low), (high, share_high) = self.points[above - 1 : above + 1]
        share = share_low + (share_high - share_low) * (largest_bytes - low) / (high - low)
        kept = (*self.points[:above], (largest_bytes, share), (largest_bytes, 1.0))
        return replace(self, name=name, points=kept)

    @property
    def mean_bytes(self) -> float:
        """The exact mean of ``sample``."""
        return self.mean_packets(1)

    def mean_packets(self, mtu_payload_bytes: int) -> float:
        """The exact mean number of packets a flow."""
        check_count("sizes mtu_payload_bytes", mtu_payload_bytes)
        mean = 0.0
        for (low, share_low), (high, share_high) in pairwise(self.points):
            if high > low:
                packets = (_area(high, mtu_payload_bytes) - _area(low, mtu_payload_bytes)) / (high - low)
            else:
                packets = math.ceil(low / mtu_payload_bytes)
            mean += (share_high - share_low) * packets
        return mean

    def sample(self, generator: np.random.Generator, n: int) -> NDArray[np.float64]:
        """n sizes in whole bytes, rounded up, at least 1."""
        sizes, shares = zip(*self.points, strict=True)
        drawn = np.ceil(np.interp(generator.random(n), shares, sizes))
        return np.asarray(np.maximum(drawn, 1.0), dtype=np.float64)


def _area(size: float, unit: int) -> float:
    """The integral of ceil(x / unit) from 0 to ``size``."""
    whole = math.floor(size / unit)
    return unit * whole * (whole + 1) / 2 + (whole + 1) * (size - whole * unit)


# fmt: off
PUBLISHED = MappingProxyType(
    {
        distribution.name: distribution
        for distribution in (
            SizeDistribution(
                "websearch",
                (
                    (0, 0.0), (10_000, 0.15), (20_000, 0.20), (30_000, 0.30), (50_000, 0.40),
                    (80_000, 0.53), (200_000, 0.60), (1_000_000, 0.70), (2_000_000, 0.80),
                    (5_000_000, 0.90), (10_000_000, 0.97), (30_000_000, 1.0),
                ),
                "Alizadeh and others, Data Center TCP (DCTCP), SIGCOMM 2010; the table of HPCC, SIGCOMM 2019 "
                "(alibaba-edu/High-Precision-Congestion-Control, WebSearch_distribution.txt)",
            ),
            SizeDistribution(
                "data-mining",
                (
                    (0, 0.0), (180, 0.1), (216, 0.2), (560, 0.3), (900, 0.4), (1_100, 0.5), (1_870, 0.6),
                    (3_160, 0.7), (10_000, 0.8), (400_000, 0.9), (3_160_000, 0.95), (100_000_000, 0.99),
                    (1_000_000_000, 1.0),
                ),
                "Greenberg and others, VL2, SIGCOMM 2009; the table in bytes of HKUST-SING/TrafficGenerator "
                "(VL2_CDF.txt), with 99 % of flows under 100 MB as VL2 and pFabric (SIGCOMM 2013) have it",
            ),
            SizeDistribution(
                "hadoop",
                (
                    (0, 0.0), (100, 0.01), (200, 0.02), (300, 0.05), (350, 0.15), (400, 0.20), (500, 0.30),
                    (600, 0.40), (700, 0.50), (1_000, 0.60), (2_000, 0.67), (7_000, 0.70), (30_000, 0.72),
                    (50_000, 0.82), (80_000, 0.87), (120_000, 0.90), (300_000, 0.95), (1_000_000, 0.975),
                    (2_000_000, 0.99), (10_000_000, 1.0),
                ),
                "Roy and others, Inside the Social Network's Network, SIGCOMM 2015; the table of "
                "HPCC, SIGCOMM 2019 (alibaba-edu/High-Precision-Congestion-Control, FbHdp_distribution.txt)",
            ),
        )
    }
)
# fmt: on

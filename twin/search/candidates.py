"""Candidate watermarks: biased Monte-Carlo draws around μ_target = λ·μ_base beside draws that fill the whole
space evenly, then narrower ones around leaders.

All draw in the space where a gain varies: ln Kmin, ln Kmax/Kmin and ln Pmax, inside hard bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twin.errors import ParameterError, check_above_zero, check_known
from twin.search.vendor_table import vendor_table
from twin.watermark import Watermark, WatermarkBounds

if TYPE_CHECKING:
    from twin.search.problem import SearchSettings, TuningProblem


class Origin(Enum):
    INCUMBENT = "incumbent"
    BASE = "base"
    STANDING = "standing"
    VENDOR = "vendor"
    DRAWN = "drawn"
    SPREAD = "spread"
    NARROWED = "narrowed"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A watermark to try, its origin, and its source: a vendor's row, or what a narrowed draw is near to."""

    watermark: Watermark
    origin: Origin
    source: str = ""


class CandidateSampler(Protocol):
    """Draws watermarks; the same ``rng`` state gives the same draws."""

    def draw(self, count: int, rng: np.random.Generator) -> list[Watermark]:
        """``count`` watermarks inside the hard bounds, perhaps with repeats."""
        ...


# Of a round's generators, one for each stage that draws.
DRAWN_STREAM, NARROWED_STREAM, ENGINE_STREAM, SPREAD_STREAM, TOGETHER_STREAM, CONFIRM_STREAM = range(6)


def generator(seed: int, stream: int) -> np.random.Generator:
    """The generator of one stage (``stream``) of a round, the same in every process."""
    return np.random.default_rng(np.random.SeedSequence([seed, stream]))


def without_repeats(proposals: Iterable[Proposal]) -> list[Proposal]:
    """The proposals in order, each watermark once, with its first origin."""
    first: dict[Watermark, Proposal] = {}
    for proposal in proposals:
        first.setdefault(proposal.watermark, proposal)
    return list(first.values())


def fill(
    known: list[Proposal],
    sampler: CandidateSampler,
    origin: Origin,
    total: int,
    rng: np.random.Generator,
    sources: Sequence[str] = ("",),
) -> list[Proposal]:
    """``known`` extended by draws to ``total`` different watermarks, fewer where bounds are too tight.

    Draws take their sources in turn, as ``NarrowedSampler`` takes its leaders.
    """
    proposals = without_repeats(known)
    for _ in range(8):
        missing = total - len(proposals)
        if missing <= 0:
            break
        drawn = (
            Proposal(watermark, origin, sources[place % len(sources)])
            for place, watermark in enumerate(sampler.draw(missing, rng))
        )
        proposals = without_repeats([*proposals, *drawn])
    return proposals


GRANULARITY_BYTES = 1_000


def truncated_log_normal(
    uniform: NDArray[np.float64], median: ArrayLike, sigma: float, low: ArrayLike, high: ArrayLike
) -> NDArray[np.float64]:
    """Log-normal values truncated to [low, high], by inverse CDF: one value per ``uniform`` in [0, 1).

    ``median`` is that of the untruncated distribution and may lie outside the bounds; ``sigma`` is the spread
    of the logarithm. Truncating, unlike clipping, does not pile candidates up at the bounds.
    """
    # Imported here: it takes a second, and reading settings draws nothing.
    from scipy.stats import truncnorm

    centre = np.log(np.asarray(median, dtype=np.float64))
    low_log, high_log = np.log(np.asarray(low, np.float64)), np.log(np.asarray(high, np.float64))
    standard = truncnorm.ppf(uniform, (low_log - centre) / sigma, (high_log - centre) / sigma)
    # NaN: the interval is too narrow for floating point; there the density is flat.
    drawn = np.where(
        np.isfinite(standard), centre + sigma * standard, low_log + uniform * (high_log - low_log)
    )
    # exp(log(x)) misses x by a rounding error; the bounds are hard.
    return np.asarray(np.clip(np.exp(drawn), low, high), dtype=np.float64)


def log_uniform(uniform: NDArray[np.float64], low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
    """Log-uniform values in [low, high], one per ``uniform`` in [0, 1)."""
    low_log, high_log = np.log(np.asarray(low, np.float64)), np.log(np.asarray(high, np.float64))
    return np.asarray(np.clip(np.exp(low_log + uniform * (high_log - low_log)), low, high), dtype=np.float64)


def draw_watermarks(
    rng: np.random.Generator,
    bounds: WatermarkBounds,
    *,
    kmin_median_bytes: NDArray[np.float64],
    kmax_to_kmin: NDArray[np.float64],
    sigma: float,
    pmax_base: NDArray[np.float64],
    pmax_factor: float,
) -> list[Watermark]:
    """One watermark per entry of the medians (arrays of equal length), inside ``bounds``, Kmin < Kmax.

    Kmin is drawn first, below the highest Kmax; then Kmax around that Kmin times its median ratio
    ``kmax_to_kmin``, truncated above that Kmin. Pmax is log-uniform within a factor ``pmax_factor`` of its
    base. Thresholds are whole kilobytes where the bounds allow.
    """
    count = len(kmin_median_bytes)
    uniform = rng.random((3, count))
    kmin = truncated_log_normal(
        uniform[0],
        np.maximum(kmin_median_bytes, 1.0),
        sigma,
        bounds.kmin_low_bytes,
        min(bounds.kmin_high_bytes, bounds.kmax_high_bytes - 1),
    )
    kmax_low = np.maximum(bounds.kmax_low_bytes, np.minimum(kmin + 1, bounds.kmax_high_bytes - 0.5))
    kmax = truncated_log_normal(uniform[1], kmin * kmax_to_kmin, sigma, kmax_low, bounds.kmax_high_bytes)
    centre = np.clip(pmax_base, bounds.pmax_low, bounds.pmax_high)
    pmax = log_uniform(
        uniform[2],
        np.maximum(centre / pmax_factor, bounds.pmax_low),
        np.minimum(centre * pmax_factor, bounds.pmax_high),
    )
    rows = zip(kmin.tolist(), kmax.tolist(), pmax.tolist(), strict=True)
    return [_rounded(*row, bounds) for row in rows]


def check_spread(where: str, sigma: float, pmax_factor: float) -> None:
    """Raises ``ParameterError`` unless ``sigma`` > 0 and ``pmax_factor`` ≥ 1, both finite."""
    check_above_zero(f"{where} sigma", sigma)
    if not (math.isfinite(pmax_factor) and pmax_factor >= 1):
        rule = "a factor is 1 or more"
        raise ParameterError(f"{where} pmax_factor", str(pmax_factor), rule, "give such as 10")


def _rounded(kmin: float, kmax: float, pmax: float, bounds: WatermarkBounds) -> Watermark:
    readable = round(pmax, 4)
    probability = readable if bounds.pmax_low <= readable <= bounds.pmax_high else pmax
    low, high = (GRANULARITY_BYTES * round(value / GRANULARITY_BYTES) for value in (kmin, kmax))
    high = max(high, low + GRANULARITY_BYTES)
    if low > 0:
        watermark = Watermark(low, high, probability)
        if bounds.contains(watermark):
            return watermark
    return Watermark(math.floor(kmin), math.ceil(kmax), probability)


# λ: elephants gain from a long queue, mice from a short one.
LAMBDA_BY_CLASS: Mapping[str, float] = MappingProxyType(
    {"elephant": 1.5, "mouse": 0.8, "potential_elephant": 1.25}
)


def lambda_for(dominant_class: str) -> float:
    """λ of the class that carries most bytes; raises ``ParameterError`` for an unknown label."""
    check_known("dominant class", dominant_class, LAMBDA_BY_CLASS, "classes")
    return LAMBDA_BY_CLASS[dominant_class]


@dataclass(frozen=True, slots=True)
class BiasedSampler:
    """Kmin truncated log-normal with median λ × the base's, Kmax/Kmin around the base's, Pmax log-uniform.

    ``sigma`` is the spread of ln Kmin and of ln Kmax/Kmin: at 1.2 two draws in three lie within a factor 3.3
    of μ_target and one in a hundred beyond a factor 20, enough to leave a base that is wrong by an order of
    magnitude.
    """

    base: Watermark
    lambda_: float
    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)
    sigma: float = 1.2
    pmax_factor: float = 10.0

    def __post_init__(self) -> None:
        check_spread("biased sampler", self.sigma, self.pmax_factor)
        check_above_zero("biased sampler λ", self.lambda_)

    def draw(self, count: int, rng: np.random.Generator) -> list[Watermark]:
        return draw_watermarks(
            rng,
            self.bounds,
            kmin_median_bytes=np.full(count, self.lambda_ * self.base.kmin_bytes),
            kmax_to_kmin=np.full(count, _kmax_to_kmin(self.base, self.bounds)),
            sigma=self.sigma,
            pmax_base=np.full(count, self.base.pmax),
            pmax_factor=self.pmax_factor,
        )


@dataclass(frozen=True, slots=True)
class SpaceFillingSampler:
    """Evenly over the bounds in ln Kmin, ln Kmax/Kmin and ln Pmax: a scrambled Sobol sequence.

    It finds what lies far from the base, where the biased draws have almost none.
    """

    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)

    def draw(self, count: int, rng: np.random.Generator) -> list[Watermark]:
        from scipy.stats import qmc  # imported here: see truncated_log_normal

        bounds, exponent = self.bounds, math.ceil(math.log2(max(count, 1)))
        points = qmc.Sobol(3, rng=rng).random_base2(exponent)[:count]
        kmin = log_uniform(
            points[:, 0], bounds.kmin_low_bytes, min(bounds.kmin_high_bytes, bounds.kmax_high_bytes - 1)
        )
        kmax = log_uniform(
            points[:, 1],
            np.maximum(bounds.kmax_low_bytes, np.minimum(kmin + 1, bounds.kmax_high_bytes - 0.5)),
            bounds.kmax_high_bytes,
        )
        pmax = log_uniform(points[:, 2], bounds.pmax_low, bounds.pmax_high)
        rows = zip(kmin.tolist(), kmax.tolist(), pmax.tolist(), strict=True)
        return [_rounded(*row, bounds) for row in rows]


@dataclass(frozen=True, slots=True)
class NarrowedSampler:
    """Draws near each of ``leaders`` in turn: ln Kmin and ln Kmax/Kmin by ``sigma``, Pmax by a factor."""

    leaders: Sequence[Watermark]
    bounds: WatermarkBounds = field(default_factory=WatermarkBounds)
    sigma: float = 0.4
    pmax_factor: float = 2.5

    def __post_init__(self) -> None:
        check_spread("narrowed sampler", self.sigma, self.pmax_factor)
        if not self.leaders:
            rule = "it draws around leaders"
            raise ParameterError("narrowed sampler leaders", "none", rule, "give at least one")

    def draw(self, count: int, rng: np.random.Generator) -> list[Watermark]:
        near = [self.leaders[index % len(self.leaders)] for index in range(count)]
        return draw_watermarks(
            rng,
            self.bounds,
            kmin_median_bytes=np.array([leader.kmin_bytes for leader in near], dtype=np.float64),
            kmax_to_kmin=np.array([_kmax_to_kmin(leader, self.bounds) for leader in near]),
            sigma=self.sigma,
            pmax_base=np.array([leader.pmax for leader in near], dtype=np.float64),
            pmax_factor=self.pmax_factor,
        )


def _kmax_to_kmin(watermark: Watermark, bounds: WatermarkBounds) -> float:
    """Kmax ÷ Kmin, of which Kmin is the nearest that may be drawn: 0 has no ratio, and too large a one puts
    Kmax at its upper bound.
    """
    kmin = min(max(watermark.kmin_bytes, bounds.kmin_low_bytes), bounds.kmin_high_bytes)
    return max(watermark.kmax_bytes / kmin, 1.0)


def propose(problem: TuningProblem, settings: SearchSettings, seed: int) -> list[Proposal]:
    """The first candidates: incumbent, base and vendor rows, then biased and space-filling draws, half each.

    The incumbent is first and stays even outside the bounds; everything else is inside.
    """
    fastest = float(problem.scenario.port_rate_bytes_per_s[list(problem.scenario.monitored)].max())
    known = [Proposal(problem.incumbent, Origin.INCUMBENT), Proposal(problem.base, Origin.BASE)]
    if problem.standing is not None:
        known.append(Proposal(problem.standing, Origin.STANDING))
    known += [Proposal(row.watermark, Origin.VENDOR, row.name) for row in vendor_table(fastest)]
    inside = [
        proposal
        for proposal in without_repeats(known)
        if proposal.origin is Origin.INCUMBENT or settings.bounds.contains(proposal.watermark)
    ]
    sampler = BiasedSampler(
        base=problem.base,
        lambda_=problem.lambda_,
        bounds=settings.bounds,
        sigma=settings.sigma,
        pmax_factor=settings.pmax_factor,
    )
    biased = len(inside) + math.ceil(max(settings.candidates - len(inside), 0) / 2)
    drawn = fill(inside, sampler, Origin.DRAWN, biased, generator(seed, DRAWN_STREAM))
    everywhere = SpaceFillingSampler(settings.bounds)
    return fill(drawn, everywhere, Origin.SPREAD, settings.candidates, generator(seed, SPREAD_STREAM))

"""What proposes candidates and what a proposal is; must import no engine, no scenario and no telemetry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from twin.watermark import Watermark


class Origin(Enum):
    """Where a candidate comes from."""

    INCUMBENT = "incumbent"
    BASE = "base"
    VENDOR = "vendor"
    DRAWN = "drawn"
    NARROWED = "narrowed"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A watermark to try, its origin, and for a vendor's row whose it is."""

    watermark: Watermark
    origin: Origin
    source: str = ""


class CandidateSampler(Protocol):
    """Draws watermarks; holds settings, never a generator: the same ``rng`` state gives the same draws."""

    def draw(self, count: int, rng: np.random.Generator) -> list[Watermark]:
        """``count`` watermarks inside the sampler's hard bounds; repeats are possible."""
        ...


def generator(seed: int, stream: int) -> np.random.Generator:
    """The generator of one stage (``stream``) of a round: the same in every process, apart from others'."""
    return np.random.default_rng(np.random.SeedSequence([seed, stream]))


def without_repeats(proposals: Iterable[Proposal]) -> list[Proposal]:
    """The proposals in order, each watermark once: the first origin named for it stands."""
    first: dict[Watermark, Proposal] = {}
    for proposal in proposals:
        first.setdefault(proposal.watermark, proposal)
    return list(first.values())


def fill(
    known: list[Proposal], sampler: CandidateSampler, origin: Origin, total: int, rng: np.random.Generator
) -> list[Proposal]:
    """``known`` extended by fresh draws to ``total`` different watermarks.

    Tight bounds may not hold that many different ones; then fewer come back, never a repeat.
    """
    proposals = without_repeats(known)
    for _ in range(8):
        missing = total - len(proposals)
        if missing <= 0:
            break
        drawn = (Proposal(watermark, origin) for watermark in sampler.draw(missing, rng))
        proposals = without_repeats([*proposals, *drawn])
    return proposals

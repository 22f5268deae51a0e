"""How long figures of the past are kept, and in steps of which lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

DAY_S = 86_400.0
RANKED_BY = 30


class Chosen(NamedTuple):
    """``width_s`` is a multiple of ``step_s``: so many steps are merged."""

    step_s: int
    width_s: int


@dataclass(frozen=True, slots=True)
class Steps:
    """``keep_s``: how long steps of each length are kept, the finest first; one length at least."""

    keep_s: Mapping[int, float]

    @property
    def finest_s(self) -> int:
        """The length that is written; the others are made of it."""
        return next(iter(self.keep_s))

    @property
    def folds(self) -> Iterator[tuple[int, int]]:
        """(finer, coarser) pairs of lengths to merge, the finest first."""
        return pairwise(self.keep_s)

    @property
    def longest_s(self) -> float:
        return max(self.keep_s.values())

    def ranked_by(self, chosen_s: int, *, span_s: float) -> int:
        """The step length for ranking ports: the coarsest with at least ``RANKED_BY`` steps in ``span_s``."""
        return max(
            (step_s for step_s in self.keep_s if step_s * RANKED_BY <= span_s and step_s >= chosen_s),
            default=chosen_s,
        )

    def chosen(self, *, span_s: float, age_s: float, most: int) -> Chosen:
        """The finest steps that reach ``age_s`` back and are ``most`` at most over ``span_s``; without such,
        the coarsest, merged.
        """
        for step_s, keep_s in self.keep_s.items():
            if age_s <= keep_s and span_s <= step_s * most:
                return Chosen(step_s, step_s)
        coarsest_s = max(self.keep_s)
        together = -(-span_s // (coarsest_s * most))
        return Chosen(coarsest_s, coarsest_s * max(int(together), 1))

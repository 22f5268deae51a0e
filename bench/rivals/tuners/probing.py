"""Searches that try settings on the live network: ask, wait until they run, measure, go on."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bench.rivals.tuner import FabricFacts, Seen, Settings, Tuner
from twin.watermark import Watermark, WatermarkBounds

# Yields settings to try, is sent what each was worth, returns those to stay with.
Search: TypeAlias = Generator[Settings, float, Settings]

BOUNDS = WatermarkBounds()


@dataclass(frozen=True, slots=True)
class Effort:
    """What a probe costs: ``measured_s`` under the settings, after ``discarded_s``; at least an interval."""

    measured_s: float
    discarded_s: float = 0.0


class Prober(Tuner):
    """Runs one search after another, each when ``starts`` says so, and keeps what the last one ended with."""

    effort = Effort(1e-3)

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self.facts = facts
        self.draws = np.random.default_rng(seed)
        self.exploring = False
        self.searches_ended = 0
        self._search: Search | None = None
        self._late = round(facts.delay_s / facts.interval_s)
        self._measured = max(1, round(self.effort.measured_s / facts.interval_s))
        self._discarded = self._late + round(self.effort.discarded_s / facts.interval_s)
        self._trial: list[Seen] = []
        self._passed = 0
        self._now = self.first()
        return self._now

    def act(self, seen: Seen) -> Settings:
        starts = self.starts(seen)
        if self._search is None:
            if starts:
                self._search = self.search()
                self._ask(next(self._search))
            return self._now
        self._passed += 1
        if self._passed > self._discarded:
            self._trial.append(seen)
        if len(self._trial) == self._measured:
            try:
                self._ask(self._search.send(self.worth(self._trial)))
            except StopIteration as ended:
                self._now = ended.value
                self._search, self.exploring = None, False
                self.searches_ended += 1
        return self._now

    def _ask(self, settings: Settings) -> None:
        self._now, self.exploring = settings, True
        self._trial, self._passed = [], 0

    @abstractmethod
    def first(self) -> Settings:
        """The settings before any search."""

    @abstractmethod
    def starts(self, seen: Seen) -> bool:
        """Whether to search, if no search is under way; called each interval."""

    @abstractmethod
    def search(self) -> Search:
        """A new search."""

    @abstractmethod
    def worth(self, trial: Sequence[Seen]) -> float:
        """What the settings of a probe were worth."""


def bounded(kmin_bytes: float, kmax_bytes: float, pmax: float) -> Watermark:
    """The nearest watermark within the bounds of all candidates, Kmax above Kmin."""
    kmin = round(float(np.clip(kmin_bytes, BOUNDS.kmin_low_bytes, BOUNDS.kmin_high_bytes)))
    kmax = round(float(np.clip(kmax_bytes, BOUNDS.kmax_low_bytes, BOUNDS.kmax_high_bytes)))
    return Watermark(kmin, max(kmax, kmin + 1_000), float(np.clip(pmax, BOUNDS.pmax_low, BOUNDS.pmax_high)))


def accepted(gain: float, temperature: float, draws: np.random.Generator) -> bool:
    """Metropolis: a gain always, a loss with probability exp(gain ÷ temperature)."""
    return gain >= 0 or bool(draws.random() < math.exp(gain / max(temperature, 1e-300)))

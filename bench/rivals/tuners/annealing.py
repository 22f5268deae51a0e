"""Plain annealing of one watermark for the whole fabric, by Paraleon+'s utility."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from bench.rivals.tuner import FabricFacts, Looks, Seen, Settings
from bench.rivals.tuners.probing import Effort, Prober, Search, accepted, bounded
from bench.rivals.tuners.utility import PLUS, ChangeOfTraffic, utility
from twin.watermark import Watermark

MOST_PROBES = 100
WARM_MOVES = 10
TRIES, COOLING = 4, 0.9
STEP = 0.5  # of ln
PROBED, DISCARDED = 20, 5  # intervals


class Annealing(Prober):
    """Moves ln Kmin, ln Kmax and ln Pmax at once; the first temperature takes half of the losing moves.

    Begins with the incumbent of the slowest port, on every port.
    """

    looks: ClassVar[Looks] = Looks.FLOWS

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self.effort = Effort((PROBED - DISCARDED) * facts.interval_s, DISCARDED * facts.interval_s)
        self._traffic = ChangeOfTraffic(facts)
        self._stands = min(facts.incumbent)
        return super().begin(facts, seed)

    def first(self) -> Settings:
        return Settings.flat(self.facts, self._stands)

    def starts(self, seen: Seen) -> bool:
        return self._traffic.after(seen)

    def worth(self, trial: Sequence[Seen]) -> float:
        return utility(self.facts, trial, PLUS, self._traffic.share)

    def search(self) -> Search:
        here = self._stands
        here_worth = yield Settings.flat(self.facts, here)
        best, best_worth = here, here_worth
        gains: list[float] = []
        temperature = math.inf
        for probe in range(1, MOST_PROBES):
            there = self._moved(here)
            worth = yield Settings.flat(self.facts, there)
            gain = worth - here_worth
            if len(gains) < WARM_MOVES:
                gains.append(abs(gain))
                temperature = statistics.median(gains) / math.log(2)
            elif (probe - WARM_MOVES) % TRIES == 0:
                temperature *= COOLING
            if accepted(gain, temperature, self.draws):
                here, here_worth = there, worth
            if worth > best_worth:
                best, best_worth = there, worth
        self._stands = best
        return Settings.flat(self.facts, best)

    def _moved(self, mark: Watermark) -> Watermark:
        by = np.exp(self.draws.uniform(-STEP, STEP, 3))
        return bounded(mark.kmin_bytes * by[0], mark.kmax_bytes * by[1], mark.pmax * by[2])

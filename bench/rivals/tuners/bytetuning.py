"""ByteTuning's climb (IEEE TCC 2025): one parameter of one port after the other, up and down, live.

Its objective is egress rate ÷ (queue + 1). It moves PFC's α and headroom too, which the fabric does not let
change, so three parameters a port are left and an epoch of P ports is 6P probes. A probe lasts 1 ms here, 35
s there. Its code raises the parameter up to five times a probe, this once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.rivals.tuner import Floats, Seen, Settings
from bench.rivals.tuners.probing import BOUNDS, Prober, Search, bounded

EPOCHS = 100
FIRST_STEP, LEAST_STEP, MOST_STEP = 0.2, 0.01, 1.0
MOVED_WITH_IT = 5
QUEUE_UNIT_BYTES = 1e3  # the 1 of queue + 1 has no unit in print
_LIMITS = np.log(
    [
        [BOUNDS.kmin_low_bytes, BOUNDS.kmax_low_bytes, BOUNDS.pmax_low],
        [BOUNDS.kmin_high_bytes, BOUNDS.kmax_high_bytes, BOUNDS.pmax_high],
    ]
)


class ByteTuning(Prober):
    """Climbs from the incumbent for 100 epochs once, then keeps the best."""

    def first(self) -> Settings:
        return Settings(self.facts.incumbent)

    def starts(self, seen: Seen) -> bool:
        return self.searches_ended == 0

    def worth(self, trial: Sequence[Seen]) -> float:
        lasted_s = sum(one.lasted_s for one in trial)
        rate = sum(float(one.sent_bytes.sum()) for one in trial) / lasted_s
        queue = float(np.mean([one.depth_mean_bytes.sum() for one in trial]))
        return rate / float(self.facts.rate_bytes_per_s.sum()) / (queue / QUEUE_UNIT_BYTES + 1.0)

    def search(self) -> Search:
        # [queue, parameter]: ln Kmin, ln Kmax, ln Pmax.
        best = np.log([[one.kmin_bytes, one.kmax_bytes, one.pmax] for one in self.facts.incumbent])
        best_worth = yield self._settings(best)
        step = FIRST_STEP
        for _ in range(EPOCHS):
            fruitless = True
            for place in range(best.size):
                for sign in (1.0, -1.0):
                    there = self._moved(best, place, sign, step)
                    worth = yield self._settings(there)
                    if worth >= best_worth:
                        best, best_worth, fruitless = there, worth, False
            step = min(2.0 * step, MOST_STEP) if fruitless else max(step / 2.0, LEAST_STEP)
        return self._settings(best)

    def _moved(self, at: Floats, place: int, sign: float, step: float) -> Floats:
        there = at.copy()
        by = np.log1p(step)
        there.flat[place] += sign * by
        others = [one for one in range(at.size) if one != place]
        chosen = self.draws.choice(others, min(MOVED_WITH_IT, len(others)), replace=False)
        there.flat[chosen] += by * self.draws.choice([-1.0, 1.0], len(chosen))
        return np.clip(there, *_LIMITS)

    def _settings(self, at: Floats) -> Settings:
        return Settings(tuple(bounded(*np.exp(row).tolist()) for row in at))

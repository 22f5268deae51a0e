"""The random control: what changing settings without looking costs."""

from __future__ import annotations

import math

import numpy as np

from bench.rivals.tuner import FabricFacts, Floats, Seen, Settings, Tuner
from twin.watermark import Watermark

HOLD_S = 1e-3
_KMIN_BYTES, _RATIO, _PMAX = (5_000, 2_000_000), (1.5, 40.0), (0.01, 1.0)


class RandomControl(Tuner):
    """Another random watermark on every queue each millisecond, log-uniform over what the statics span."""

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        self._draws = np.random.default_rng(seed)
        self._hold = max(1, round(HOLD_S / facts.interval_s))
        self._acts = 0
        self._queues = len(facts.queues)
        self._now = self._drawn()
        return self._now

    def act(self, seen: Seen) -> Settings:
        self._acts += 1
        if self._acts % self._hold == 0:
            self._now = self._drawn()
        return self._now

    def _drawn(self) -> Settings:
        kmin = self._log_uniform(*_KMIN_BYTES)
        kmax = kmin * self._log_uniform(*_RATIO)
        pmax = self._log_uniform(*_PMAX)
        return Settings(
            tuple(
                Watermark(round(k), round(x), min(p, 1.0))
                for k, x, p in zip(kmin.tolist(), kmax.tolist(), pmax.tolist(), strict=True)
            )
        )

    def _log_uniform(self, low: float, high: float) -> Floats:
        return np.exp(self._draws.uniform(math.log(low), math.log(high), self._queues))

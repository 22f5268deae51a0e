"""Rate limits by the generic cell rate algorithm: one number a client, and exact waiting times."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache


class RateLimit:
    """``rate_per_s`` on average and ``burst`` at once; ``clock_s`` is monotonic."""

    def __init__(self, rate_per_s: float, burst: float, *, clock_s: Callable[[], float]) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._clock_s = clock_s
        self._spent_until_s = clock_s()

    def wait_s(self, amount: float = 0.0) -> float:
        """Seconds until ``amount`` more is allowed; 0: now."""
        owed_s = max(self._spent_until_s - self._clock_s(), 0.0)
        return max(owed_s - (self._burst - amount) / self._rate_per_s, 0.0)

    def spend(self, amount: float) -> None:
        """Counts ``amount``, also beyond the limit."""
        self._spent_until_s = max(self._spent_until_s, self._clock_s()) + amount / self._rate_per_s

    def take(self, amount: float = 1.0) -> float:
        """Counts ``amount`` if it is allowed and returns 0, or else the seconds to wait."""
        wait_s = self.wait_s(amount)
        if wait_s == 0.0:
            self.spend(amount)
        return wait_s


class RateLimits:
    """A limit for each key, of which the ``most`` last used are remembered."""

    def __init__(self, rate_per_s: float, burst: float, *, most: int, clock_s: Callable[[], float]) -> None:
        self._cached = lru_cache(most)(lambda key: RateLimit(rate_per_s, burst, clock_s=clock_s))

    def of(self, key: str) -> RateLimit:
        return self._cached(key)

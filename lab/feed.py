"""Hands traffic to a fabric a little ahead of its time: a fabric looks at each flow that it has taken in."""

from __future__ import annotations

from twin.traffic.base import Traffic

AHEAD_S = 0.005


class Feed:
    """Portions of ``traffic``: the flows that start within each ``ahead_s``, at times that no caller moves.

    Traffic whose flows wait for others goes out whole: none of it may be missing when another ends.
    """

    def __init__(self, traffic: Traffic, *, ahead_s: float = AHEAD_S) -> None:
        self._traffic = traffic
        self._ahead_s = ahead_s
        self._whole = len(traffic.after) > 0
        self._portion = 0
        self.offered = 0

    @property
    def next_s(self) -> float:
        """When the next portion must be offered; inf where there is none."""
        return self._portion * self._ahead_s if self.offered < len(self._traffic) else float("inf")

    def take(self) -> Traffic:
        """The next portion, empty where nothing starts in its time."""
        begin = self._portion * self._ahead_s
        self._portion += 1
        if self._whole:
            self.offered = len(self._traffic)
            return self._traffic
        portion = self._traffic.between(begin, self._portion * self._ahead_s)
        self.offered += len(portion)
        return portion

"""FIFO queues that track every byte; independent of twin.

A step brings bytes, then the port sends up to its capacity from the front. A byte that leaves in a step is
marked with the probability that belongs to the mean of the depths before and after that step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass
class Port:
    """One egress queue; ``left_at`` and ``met`` hold, by arrival step, when each byte left and its p."""

    marking: Callable[[float], float]
    waiting: deque[tuple[int, int]] = field(default_factory=deque)  # (arrival step here, stream)
    left_at: dict[int, list[int]] = field(default_factory=dict)
    met: dict[int, list[float]] = field(default_factory=dict)
    depth: list[int] = field(default_factory=list)

    def step(self, now: int, arrivals: Sequence[tuple[int, int]], capacity: int) -> list[tuple[int, int]]:
        """Take ``arrivals`` [(stream, bytes)], evenly mixed; give back the (arrival step, stream) that leave.

        The streams of one step are interleaved as a fluid's would be: by their place in the step.
        """
        before = len(self.waiting)
        places = [(place / count, stream) for stream, count in arrivals for place in range(count)]
        self.waiting.extend((now, stream) for _, stream in sorted(places))
        out = [self.waiting.popleft() for _ in range(min(capacity, len(self.waiting)))]
        p = self.marking((before + len(self.waiting)) / 2)
        for arrived, _ in out:
            self.left_at.setdefault(arrived, []).append(now)
            self.met.setdefault(arrived, []).append(p)
        self.depth.append(len(self.waiting))
        return out


def red(kmin: float, kmax: float, pmax: float) -> Callable[[float], float]:
    """The marking curve."""

    def p(depth: float) -> float:
        if depth <= kmin:
            return 0.0
        return 1.0 if depth > kmax else pmax * (depth - kmin) / (kmax - kmin)

    return p


def one_queue(
    arrivals: Sequence[int], capacity: Sequence[int], marking: Callable[[float], float]
) -> tuple[Port, NDArray[np.float64]]:
    """A port fed step by step; with it the running sum of the mean marking each arrival step met."""
    port = Port(marking)
    for now, (count, room) in enumerate(zip(arrivals, capacity, strict=True)):
        port.step(now, [(0, count)], room)
    means = [float(np.mean(port.met[step])) if step in port.met else 0.0 for step in range(len(arrivals))]
    return port, np.concatenate([[0.0], np.cumsum(means)])

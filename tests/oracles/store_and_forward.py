"""One flow alone on its path, packet by packet, as store and forward defines it; independent of twin."""

from __future__ import annotations

from collections.abc import Sequence


def completion_s(
    packets: Sequence[int],
    hops: Sequence[tuple[float, float]],
    ack_bytes: int,
    back: Sequence[tuple[float, float]],
) -> float:
    """When the last acknowledgement is back, for packets of these wire bytes all there at 0.

    ``hops`` and ``back``: rate in bytes/s and delay in seconds of each cable of the two ways.
    """
    at = _through([0.0] * len(packets), packets, hops)
    return _through(at, [ack_bytes] * len(packets), back)[-1]


def _through(at: list[float], sizes: Sequence[int], hops: Sequence[tuple[float, float]]) -> list[float]:
    for rate, delay in hops:
        free, left = 0.0, []
        for arrived, size in zip(at, sizes, strict=True):
            free = max(free, arrived) + size / rate
            left.append(free + delay)
        at = left
    return at

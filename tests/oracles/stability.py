"""Local stability of the fluid model: which way small oscillations about the fixed point go.

The delayed system is linearised at the fixed point,

    dx/dt = A x(t) + D x(t − τ*),   x = (q, α, R_T, R_C),

and the rightmost roots of det(sI − A − D e^{−sτ*}) are found by collocating the delay operator on Chebyshev
points (Breda, Maset, Vermiglio, SIAM J. Sci. Comput. 27(2), 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvals

from tests.oracles.equilibrium import (
    Equilibrium,
    EquilibriumStatus,
    equilibrium,
    increases,
    marked_within,
)
from twin.errors import ParameterError
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

Floats = NDArray[np.float64]
_CHEBYSHEV_POINTS = 24


@dataclass(frozen=True, slots=True)
class Stability:
    """The rightmost characteristic root s = ``growth_per_s`` ± i·2π·``frequency_hz`` about a fixed point.

    ``margin_per_s`` = −growth: above 0 a small disturbance decays as exp(−margin·t), below 0 it grows until
    marking saturates and the queue keeps swinging. NaN where there is no fixed point on the ramp.
    """

    equilibrium: Equilibrium
    growth_per_s: float
    frequency_hz: float

    @property
    def margin_per_s(self) -> float:
        """How fast disturbances decay, 1/s; negative where they grow."""
        return -self.growth_per_s

    @property
    def stable(self) -> bool:
        """Whether small disturbances decay; False where there is no fixed point to return to."""
        return self.growth_per_s < 0.0


def stability(
    params: DcqcnParams,
    watermark: Watermark,
    *,
    capacity_bytes_per_s: float,
    line_rate_bytes_per_s: float,
    n_flows: int,
    packet_bytes: float,
    round_trip_s: float | None = None,
) -> Stability:
    """Local stability of ``n_flows`` like flows at one port.

    The delay is ``params.feedback_delay_s``, or where that is None ``round_trip_s`` plus the wait of the
    resting queue. Raises ``ParameterError`` where neither is given.
    """
    rest = equilibrium(
        params,
        watermark,
        capacity_bytes_per_s=capacity_bytes_per_s,
        line_rate_bytes_per_s=line_rate_bytes_per_s,
        n_flows=n_flows,
        packet_bytes=packet_bytes,
    )
    if rest.status is not EquilibriumStatus.RAMP:
        return Stability(rest, math.nan, math.nan)
    delay = params.feedback_delay_s
    if delay is None:
        if round_trip_s is None:
            raise ParameterError(
                "stability round_trip_s",
                "nothing",
                "without a given feedback delay it is needed",
                "give it in s",
            )
        delay = round_trip_s + rest.queue_bytes / capacity_bytes_per_s
    now, past = linearise(params, watermark, rest, n_flows=n_flows, packet_bytes=packet_bytes)
    root = rightmost_root(now, past, delay)
    return Stability(rest, root.real, abs(root.imag) / (2.0 * math.pi))


def linearise(
    params: DcqcnParams, watermark: Watermark, rest: Equilibrium, *, n_flows: int, packet_bytes: float
) -> tuple[Floats, Floats]:
    """The matrices A and D at a fixed point on the ramp; state (q, α, R_T, R_C) in packets and packets/s.

    In the present the equations are bilinear, so A is exact; the delayed factors are differentiated
    centrally.
    """
    rate = rest.current_rate_bytes_per_s / packet_bytes
    gap = (rest.target_rate_bytes_per_s - rest.current_rate_bytes_per_s) / packet_bytes
    p, alpha = rest.marking_probability, rest.alpha
    tau, pull = params.cnp_interval_s, params.gain / params.alpha_timer_s
    cut = marked_within(tau, rate, p)
    recovery, _ = increases(params, packet_bytes, rate, p)
    now = np.zeros((4, 4))
    now[0, 3] = n_flows
    now[1, 1] = -pull
    now[2, 2], now[2, 3] = -cut / tau, cut / tau
    now[3, 1] = -rate * cut / (2 * tau)
    now[3, 2] = 0.5 * recovery
    now[3, 3] = -alpha * cut / (2 * tau) - 0.5 * recovery

    def delayed(mark: float, past_rate: float) -> Floats:
        cut_then = marked_within(tau, past_rate, mark)
        aim_then = marked_within(params.alpha_timer_s, past_rate, mark)
        recovery_then, additive_then = increases(params, packet_bytes, past_rate, mark)
        step = params.ai_rate_bytes_per_s / packet_bytes
        return np.array(
            [
                0.0,
                pull * aim_then,
                -gap / tau * cut_then + step * additive_then,
                -rate * alpha / (2 * tau) * cut_then + 0.5 * gap * recovery_then,
            ]
        )

    slope = watermark.pmax / (watermark.kmax_bytes - watermark.kmin_bytes) * packet_bytes
    dp, dr = 1e-5 * min(p, 1.0 - p), 1e-5 * rate
    past = np.zeros((4, 4))
    past[:, 0] = slope * (delayed(p + dp, rate) - delayed(p - dp, rate)) / (2 * dp)
    past[:, 3] = (delayed(p, rate + dr) - delayed(p, rate - dr)) / (2 * dr)
    return now, past


def rightmost_root(now: Floats, past: Floats, delay_s: float, points: int = _CHEBYSHEV_POINTS) -> complex:
    """The characteristic root with the largest real part of dx/dt = now·x(t) + past·x(t − delay).

    Eigenvalues of the delay operator collocated on Chebyshev points of [−delay, 0]; they converge
    exponentially.
    """
    derivative = _chebyshev(points)
    size = len(now)
    # Balanced units: the state spans eight decades between α and rates.
    scale = np.maximum(np.abs(now).max(axis=1) + np.abs(past).max(axis=1), 1e-300)
    scale = np.where(scale > 1e-200, scale, 1.0)
    now, past = (m * (scale[None, :] / scale[:, None]) for m in (now, past))
    operator = np.kron(derivative * (2.0 / delay_s), np.eye(size))
    operator[:size] = 0.0
    operator[:size, :size] = now
    operator[:size, -size:] = past
    roots = eigvals(operator)
    roots = roots[np.isfinite(roots)]
    return complex(roots[np.argmax(roots.real)])


def _chebyshev(points: int) -> Floats:
    """The differentiation matrix on Chebyshev points from 1 down to −1 (Trefethen 2000, ch. 6)."""
    index = np.arange(points + 1)
    nodes = np.cos(np.pi * index / points)
    weights = np.where((index == 0) | (index == points), 2.0, 1.0) * (-1.0) ** index
    spread = nodes[:, None] - nodes[None, :] + np.eye(points + 1)
    matrix = np.outer(weights, 1.0 / weights) / spread
    return matrix - np.diag(matrix.sum(axis=1))

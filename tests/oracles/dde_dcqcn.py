"""A slow DCQCN delay-differential solver in plain NumPy, written from the equations, independent of twin.

Classical fourth-order Runge-Kutta by the method of steps; delayed values come from a cubic Hermite history.
One port, like flows in groups, a fixed feedback delay. Packets and seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Dcqcn:
    """Symbols of Zhu et al. 2016; ``byte_counter`` None leaves its terms out."""

    gain: float
    tau: float
    tau_prime: float
    timer: float
    byte_counter: float | None
    stages: int
    additive: float
    delay: float
    line_rate: float
    min_rate: float = 0.0
    initial_alpha: float = 1.0


@dataclass(frozen=True)
class Port:
    """Capacity in packets/s, thresholds and buffer in packets."""

    capacity: float
    kmin: float
    kmax: float
    pmax: float
    buffer: float = np.inf


def marking(queue: float, port: Port) -> float:
    """RED with a jump to 1 at Kmax."""
    if queue > port.kmax:
        return 1.0
    return port.pmax * max(queue - port.kmin, 0.0) / (port.kmax - port.kmin)


def slope(state: Floats, past: Floats, count: Floats, sender: Dcqcn, port: Port) -> Floats:
    """d/dt of (queue, α…, R_T…, R_C…) given the state now and one delay ago."""
    n = len(count)
    alpha, target, current = state[1 : 1 + n], state[1 + n : 1 + 2 * n], state[1 + 2 * n :]
    rate = past[1 + 2 * n :]
    p = marking(past[0], port)
    out = np.empty_like(state)
    out[0] = count @ current - port.capacity
    spans = [sender.timer * rate]
    if sender.byte_counter is not None:
        spans.append(np.full(n, sender.byte_counter))
    if p == 0.0:
        cut = aim = np.zeros(n)
        each = [rate / span for span in spans]
        outlived = [np.ones(n) for _ in spans]
    else:
        cut = 1.0 - np.power(1.0 - p, sender.tau * rate)
        aim = 1.0 - np.power(1.0 - p, sender.tau_prime * rate)
        # p → 1 sends the powers to infinity and the increases to 0.
        with np.errstate(over="ignore", divide="ignore"):
            each = [rate * p / (np.power(1.0 - p, -span) - 1.0) for span in spans]
            outlived = [np.power(1.0 - p, sender.stages * span) for span in spans]
    out[1 : 1 + n] = sender.gain / sender.tau_prime * (aim - alpha)
    out[1 + n : 1 + 2 * n] = -(target - current) / sender.tau * cut + sender.additive * sum(
        e * o for e, o in zip(each, outlived, strict=True)
    )
    out[1 + 2 * n :] = -current * alpha / (2 * sender.tau) * cut + (target - current) / 2 * sum(each)
    return out


def solve(
    sender: Dcqcn, port: Port, count: Floats, start_rate: Floats, *, duration: float, steps_a_delay: int
) -> tuple[Floats, Floats]:
    """Times and states [time, (queue, α…, R_T…, R_C…)] from an empty queue, rates constant before time 0."""
    n = len(count)
    dt = sender.delay / steps_a_delay
    steps = round(duration / dt)
    states = np.empty((steps + 1, 1 + 3 * n))
    slopes = np.zeros_like(states)
    states[0] = np.concatenate([[0.0], np.full(n, sender.initial_alpha), start_rate, start_rate])

    def before(step: int, half: bool) -> Floats:
        back = step - steps_a_delay
        if back < 0:
            return states[0]
        if not half:
            return states[back]
        ends = 0.5 * (states[back] + states[back + 1])
        return ends + dt / 8.0 * (slopes[back] - slopes[back + 1])

    for step in range(steps):
        now = states[step]
        early, middle, late = before(step, False), before(step, True), before(step + 1, False)
        k1 = slope(now, early, count, sender, port)
        k2 = slope(now + dt / 2 * k1, middle, count, sender, port)
        k3 = slope(now + dt / 2 * k2, middle, count, sender, port)
        k4 = slope(now + dt * k3, late, count, sender, port)
        after = now + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        after[0] = min(max(after[0], 0.0), port.buffer)
        after[1 + n :] = np.clip(after[1 + n :], sender.min_rate, sender.line_rate)
        slopes[step] = k1
        states[step + 1] = after
    return dt * np.arange(steps + 1), states

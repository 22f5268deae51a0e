"""The DCQCN delay differential equations for one sender and one port, all candidates at once.

Floats and arrays only; must import nothing but numba, numpy and its neighbours. Zhu et al., "ECN or Delay",
CoNEXT 2016, figure 6 and equations (3) to (7); DCQCN, SIGCOMM 2015. Packets of one MTU on the wire, and
seconds.

    q      queue of a port                     R_C, R_T  current and target rate of a sender
    p      marking probability, (3)            α         its reduction factor
    L      −log(1 − p), so (1−p)^n = e^{−nL}   R         R_C one feedback delay τ* ago
    τ      CNP interval     τ'  α timer        T         rate increase timer
    B      byte counter     F   fast recovery steps
    g      gain of α        A   R_AI, the additive step

    dq/dt   = Σ x R_C − C                                                                      (4)
    dα/dt   = (g/τ') ((1−(1−p)^{τ'R}) − α)                                                     (5)
    dR_T/dt = −(R_T−R_C)/τ · (1−(1−p)^{τR})
              + A R [(1−p)^{FB} p/((1−p)^{−B}−1) + (1−p)^{FTR} p/((1−p)^{−TR}−1)]              (6)
    dR_C/dt = −R_C α/(2τ) · (1−(1−p)^{τR})
              + (R_T−R_C)/2 · R [p/((1−p)^{−B}−1) + p/((1−p)^{−TR}−1)]                         (7)

Not in the paper: rates are kept in [R_min, line rate]; (4) is in ``_fabric``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.fluid._arrays import Floats, Sender
from twin.fluid._layout import (
    ADDITIVE,
    AIM,
    ALPHA,
    CURRENT,
    CUT,
    FRESH,
    KMAX,
    KMIN,
    LANES,
    LOG,
    MARK,
    NO_MARK,
    OF_AIM,
    OF_COUNTER,
    OF_CUT,
    OF_TIMER,
    PMAX,
    QUEUE,
    RATE_FLOOR,
    RECOVERY,
    SLOPE,
    SURE_MARK,
    TARGET,
    W0,
    W1,
    W2,
    L,
    P,
    R,
)
from twin.fluid._math import expm1_positive, kernel, log_one_minus, split_exponent, to_power

FRESH_CUT = FRESH
FRESH_AIM = FRESH + LANES
FRESH_RECOVERY = FRESH + 2 * LANES
FRESH_ADDITIVE = FRESH + 3 * LANES


@kernel
def mark_port(
    lanes: int, ports: Floats, port: int, candidates: Floats, scratch: Floats, words: NDArray[np.uint64]
) -> None:
    """p(q) and −log(1 − p) of one port, equation (3). ``words`` are the bits of ``scratch``."""
    for k in range(lanes):
        q = ports[port, QUEUE + k]
        ramp = (q - candidates[KMIN + k]) * candidates[SLOPE + k]
        ramp = candidates[PMAX + k] if ramp > candidates[PMAX + k] else ramp
        p = NO_MARK if ramp < NO_MARK else ramp
        p = SURE_MARK if q > candidates[KMAX + k] else p
        ports[port, MARK + k] = p
        scratch[W0 + k] = 1.0 - p
    for k in range(lanes):
        mantissa, exponent = split_exponent(words[W0 + k])
        words[W1 + k] = mantissa
        words[W2 + k] = exponent
    for k in range(lanes):
        ports[port, LOG + k] = -log_one_minus(
            ports[port, MARK + k], scratch[W0 + k], scratch[W1 + k], scratch[W2 + k]
        )


@kernel
def feedback_terms(lanes: int, sender: Sender, scratch: Floats) -> None:
    """The delayed factors of (5) to (7), rows FRESH, from rows P, L, R.

    p/((1−p)^{−n}−1) = p/expm1(nL) and (1−p)^{Fn} = (1 + expm1(nL))^{−F}: one exponential for both. The
    exponentials have a loop of their own, short enough for the processor to overlap several of their long
    chains.
    """
    tau, tau_prime, timer = sender.cnp_interval, sender.alpha_timer, sender.increase_timer
    counter = sender.byte_counter
    for k in range(lanes):
        rate = scratch[R + k]
        rate = RATE_FLOOR if rate < RATE_FLOOR else rate
        y = scratch[L + k] * rate
        scratch[R + k] = rate
        scratch[OF_CUT + k] = tau * y
        scratch[OF_TIMER + k] = timer * y
        scratch[OF_COUNTER + k] = counter * scratch[L + k]
        scratch[OF_AIM + k] = tau_prime * y
    # The row of α's timer comes last: it is that of the increase timer in every published setting.
    for row in range(3 if tau_prime == timer else 4):
        first = OF_CUT + row * LANES
        for k in range(lanes):
            scratch[first + k] = expm1_positive(scratch[first + k])
    for k in range(lanes):
        u = scratch[OF_CUT + k]
        w = scratch[OF_TIMER + k]
        # One division for u/(1+u), 1/(1+w) and 1/w.
        product = w * (1.0 + w)
        both = 1.0 / (product * (1.0 + u))
        scratch[FRESH_CUT + k] = u * product * both
        over = (1.0 + u) * both
        survive = w * over
        scratch[FRESH_AIM + k] = w * survive
        increase = scratch[R + k] * scratch[P + k] * (1.0 + w) * over
        scratch[FRESH_RECOVERY + k] = increase
        scratch[FRESH_ADDITIVE + k] = increase * to_power(survive, sender.fast_recovery)
    if tau_prime != timer:
        for k in range(lanes):
            v = scratch[OF_AIM + k]
            scratch[FRESH_AIM + k] = v / (1.0 + v)
    if counter > 0.0:
        for k in range(lanes):
            v = scratch[OF_COUNTER + k]
            over = 1.0 / (v * (1.0 + v))
            increase = scratch[R + k] * scratch[P + k] * (1.0 + v) * over
            scratch[FRESH_RECOVERY + k] += increase
            scratch[FRESH_ADDITIVE + k] += increase * to_power(v * over, sender.fast_recovery)


@kernel
def heun(
    lanes: int, sender: Sender, slots: Floats, slot: int, scratch: Floats, line: float, step: float
) -> None:
    """One step of α, R_T, R_C by Heun's rule; the delayed factors are those of both ends of the step.

    They depend on the past alone: the second stage costs no exponential, and they serve the next step again.
    """
    half = 0.5 * step
    pull = sender.gain / sender.alpha_timer
    low = sender.min_rate
    drop = 1.0 / sender.cnp_interval
    additive = sender.additive
    for k in range(lanes):
        alpha = slots[slot, ALPHA + k]
        target = slots[slot, TARGET + k]
        current = slots[slot, CURRENT + k]
        cut = slots[slot, CUT + k] * drop
        gap = target - current
        alpha_0 = pull * (slots[slot, AIM + k] - alpha)
        target_0 = additive * slots[slot, ADDITIVE + k] - gap * cut
        current_0 = 0.5 * (gap * slots[slot, RECOVERY + k] - current * alpha * cut)
        alpha_1 = alpha + step * alpha_0
        target_1 = target + step * target_0
        target_1 = line if target_1 > line else target_1
        current_1 = current + step * current_0
        current_1 = line if current_1 > line else (low if current_1 < low else current_1)
        cut = scratch[FRESH_CUT + k] * drop
        gap = target_1 - current_1
        alpha += half * (alpha_0 + pull * (scratch[FRESH_AIM + k] - alpha_1))
        target += half * (target_0 + additive * scratch[FRESH_ADDITIVE + k] - gap * cut)
        current += half * (current_0 + 0.5 * (gap * scratch[FRESH_RECOVERY + k] - current_1 * alpha_1 * cut))
        slots[slot, ALPHA + k] = alpha
        slots[slot, TARGET + k] = line if target > line else (low if target < low else target)
        slots[slot, CURRENT + k] = line if current > line else (low if current < low else current)
        slots[slot, CUT + k] = scratch[FRESH_CUT + k]
        slots[slot, AIM + k] = scratch[FRESH_AIM + k]
        slots[slot, RECOVERY + k] = scratch[FRESH_RECOVERY + k]
        slots[slot, ADDITIVE + k] = scratch[FRESH_ADDITIVE + k]


@kernel
def keep_terms(lanes: int, slots: Floats, slot: int, scratch: Floats) -> None:
    """The factors of a step's end become those of the next one's beginning."""
    for k in range(lanes):
        slots[slot, CUT + k] = scratch[FRESH_CUT + k]
        slots[slot, AIM + k] = scratch[FRESH_AIM + k]
        slots[slot, RECOVERY + k] = scratch[FRESH_RECOVERY + k]
        slots[slot, ADDITIVE + k] = scratch[FRESH_ADDITIVE + k]

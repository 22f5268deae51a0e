"""The DCQCN delay differential equations for one sender and one port, all candidates at once.

Zhu et al., "ECN or Delay", CoNEXT 2016, figure 6 and equations (3) to (7); DCQCN, SIGCOMM 2015. Units are
packets of one MTU on the wire, and seconds.

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

from twin.fluid._arrays import (
    ADDITIVE,
    AIM,
    ALPHA,
    CURRENT,
    CUT,
    KMAX,
    KMIN,
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
    Floats,
    L,
    P,
    R,
    Sender,
)
from twin.fluid._math import expm1_positive, kernel, log_one_minus, to_power


@kernel
def marking(q: float, kmin: float, slope: float, pmax: float, kmax: float) -> float:
    """p(q), equation (3), kept where neither p nor 1 − p vanishes."""
    ramp = (q - kmin) * slope
    ramp = pmax if ramp > pmax else ramp
    p = NO_MARK if ramp < NO_MARK else ramp
    return SURE_MARK if q > kmax else p


@kernel
def mark_port(lanes: int, ports: Floats, port: int, candidates: Floats) -> None:
    """p(q) and −log(1 − p) of one port."""
    for k in range(lanes):
        p = marking(
            ports[port, QUEUE + k],
            candidates[KMIN + k],
            candidates[SLOPE + k],
            candidates[PMAX + k],
            candidates[KMAX + k],
        )
        ports[port, MARK + k] = p
        ports[port, LOG + k] = -log_one_minus(p)


@kernel
def exponentials(lanes: int, sender: Sender, scratch: Floats) -> None:
    """expm1 of τRL, TRL, BL and, where α's timer is one of its own, 1 − (1−p)^{τ'R}; from rows L and R.

    Separate short loops, so that the processor overlaps several of their long dependency chains.
    """
    tau, tau_prime, timer = sender.cnp_interval, sender.alpha_timer, sender.increase_timer
    counter = sender.byte_counter
    for k in range(lanes):
        rate = scratch[R + k]
        rate = RATE_FLOOR if rate < RATE_FLOOR else rate
        y = scratch[L + k] * rate
        scratch[R + k] = rate
        scratch[OF_CUT + k] = expm1_positive(tau * y)
        scratch[OF_TIMER + k] = expm1_positive(timer * y)
    if counter > 0.0:
        for k in range(lanes):
            scratch[OF_COUNTER + k] = expm1_positive(counter * scratch[L + k])
    else:
        for k in range(lanes):
            scratch[OF_COUNTER + k] = 1.0
    # α's timer is the increase timer in every published setting.
    if tau_prime != timer:
        for k in range(lanes):
            v = expm1_positive(tau_prime * scratch[L + k] * scratch[R + k])
            scratch[OF_AIM + k] = v / (1.0 + v)


@kernel
def delayed_factors(sender: Sender, steps: int, scratch: Floats, k: int) -> tuple[float, float, float, float]:
    """The delayed factors of (5) to (7), CUT to ADDITIVE, from ``exponentials``; ``steps`` is F.

    p/((1−p)^{−n}−1) = p/expm1(nL) and (1−p)^{Fn} = (1 + expm1(nL))^{−F}: one exponential for both.
    """
    u, w, v = scratch[OF_CUT + k], scratch[OF_TIMER + k], scratch[OF_COUNTER + k]
    by_bytes = 1.0 if sender.byte_counter > 0.0 else 0.0
    # One division for 1/(1+u), 1/w, 1/(1+w), 1/v and 1/(1+v).
    more_u, more_w, more_v = 1.0 + u, 1.0 + w, 1.0 + v
    of_w, of_v = w * more_w, v * more_v
    both = of_w * of_v
    over = 1.0 / (both * more_u)
    over_w = of_v * more_u * over
    over_v = of_w * more_u * over
    cut = u * both * over
    survive = w * over_w
    aim = w * survive if sender.alpha_timer == sender.increase_timer else scratch[OF_AIM + k]
    marked = scratch[R + k] * scratch[P + k]
    timer = marked * more_w * over_w
    counter = marked * more_v * over_v * by_bytes
    additive = timer * to_power(survive, steps) + counter * to_power(v * over_v, steps)
    return cut, aim, timer + counter, additive


@kernel
def first_factors(lanes: int, sender: Sender, slots: Floats, slot: int, scratch: Floats) -> None:
    """The delayed factors at a sender's start."""
    exponentials(lanes, sender, scratch)
    steps = sender.fast_recovery
    for k in range(lanes):
        cut, aim, recovery, additive = delayed_factors(sender, steps, scratch, k)
        slots[slot, CUT + k] = cut
        slots[slot, AIM + k] = aim
        slots[slot, RECOVERY + k] = recovery
        slots[slot, ADDITIVE + k] = additive


@kernel
def heun(
    lanes: int,
    sender: Sender,
    steps: int,
    slots: Floats,
    slot: int,
    scratch: Floats,
    line: float,
    step: float,
) -> None:
    """One step of α, R_T, R_C by Heun's rule; the delayed factors are those of both ends of the step.

    These depend on the past alone, so the second stage needs no exponential, and the next step reuses them.
    ``steps`` is F.
    """
    half = 0.5 * step
    pull = sender.gain / sender.alpha_timer
    low = sender.min_rate
    drop = 1.0 / sender.cnp_interval
    a = sender.additive
    for k in range(lanes):
        fresh_cut, fresh_aim, fresh_recovery, fresh_additive = delayed_factors(sender, steps, scratch, k)
        alpha = slots[slot, ALPHA + k]
        target = slots[slot, TARGET + k]
        current = slots[slot, CURRENT + k]
        cut = slots[slot, CUT + k] * drop
        gap = target - current
        alpha_0 = pull * (slots[slot, AIM + k] - alpha)
        target_0 = a * slots[slot, ADDITIVE + k] - gap * cut
        current_0 = 0.5 * (gap * slots[slot, RECOVERY + k] - current * alpha * cut)
        alpha_1 = alpha + step * alpha_0
        target_1 = target + step * target_0
        target_1 = line if target_1 > line else target_1
        current_1 = current + step * current_0
        current_1 = line if current_1 > line else (low if current_1 < low else current_1)
        cut = fresh_cut * drop
        gap = target_1 - current_1
        alpha += half * (alpha_0 + pull * (fresh_aim - alpha_1))
        target += half * (target_0 + a * fresh_additive - gap * cut)
        current += half * (current_0 + 0.5 * (gap * fresh_recovery - current_1 * alpha_1 * cut))
        slots[slot, ALPHA + k] = alpha
        slots[slot, TARGET + k] = line if target > line else (low if target < low else target)
        slots[slot, CURRENT + k] = line if current > line else (low if current < low else current)
        slots[slot, CUT + k] = fresh_cut
        slots[slot, AIM + k] = fresh_aim
        slots[slot, RECOVERY + k] = fresh_recovery
        slots[slot, ADDITIVE + k] = fresh_additive

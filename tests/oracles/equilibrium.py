"""The fixed point of the fluid model: marking, queue, rates and α at which nothing moves any more.

Zhu et al., "ECN or Delay", CoNEXT 2016, section 3.2 (theorem 1: it is unique). Packets and seconds inside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from scipy.optimize import brentq

from twin.errors import ParameterError
from twin.senders.dcqcn import DcqcnParams
from twin.watermark import Watermark

_LEAST_MARK = 1e-12
_MOST_MARK = 1.0 - 1e-12


class EquilibriumStatus(Enum):
    """Where the fixed point lies; the value is a sentence for people."""

    RAMP = "the queue rests between Kmin and Kmax"
    BEYOND_RAMP = (
        "p* exceeds Pmax: marking enough would need a queue beyond Kmax, where every packet is marked; "
        "the queue swings about Kmax instead of resting, so raise Pmax or carry fewer flows"
    )
    NEVER_CONGESTED = "the senders together cannot fill the port, so the queue rests empty"
    FLOORED = (
        "the senders' minimum rates alone exceed the port's capacity: no watermark holds the queue, so "
        "lower the minimum rate or carry fewer flows"
    )


@dataclass(frozen=True, slots=True)
class Equilibrium:
    """A fixed point of ``n_flows`` like flows through one port; rates in bytes/s a flow, queue in bytes.

    ``queue_bytes`` is where the queue rests for RAMP alone; beyond it, Kmax. Where there is no fixed point
    (FLOORED, NEVER_CONGESTED) the marking is 1 or 0 and rates are at their bounds.
    """

    status: EquilibriumStatus
    marking_probability: float  # p*
    queue_bytes: float  # q*
    current_rate_bytes_per_s: float  # R_C*
    target_rate_bytes_per_s: float  # R_T*
    alpha: float  # α*


def equilibrium(
    params: DcqcnParams,
    watermark: Watermark,
    *,
    capacity_bytes_per_s: float,
    line_rate_bytes_per_s: float,
    n_flows: int,
    packet_bytes: float,
) -> Equilibrium:
    """The fixed point of ``n_flows`` like flows at one port of ``capacity_bytes_per_s``.

    At rest R_C = C/N; (5) gives α*, (6) the gap R_T − R_C, and (7) one equation for p*, which falls
    monotonically. Raises ``ParameterError`` unless capacity, line rate, flows and packet are positive.
    """
    for name, value in (
        ("capacity_bytes_per_s", capacity_bytes_per_s),
        ("line_rate_bytes_per_s", line_rate_bytes_per_s),
        ("n_flows", n_flows),
        ("packet_bytes", packet_bytes),
    ):
        if not (math.isfinite(value) and value > 0):
            raise ParameterError(
                f"equilibrium {name}", str(value), "it must be above 0", "give a positive number"
            )
    fair = capacity_bytes_per_s / n_flows
    if fair <= params.min_rate_bytes_per_s:
        low = params.min_rate_bytes_per_s
        return Equilibrium(EquilibriumStatus.FLOORED, 1.0, math.inf, low, low, 1.0)
    if fair >= line_rate_bytes_per_s:
        line = line_rate_bytes_per_s
        return Equilibrium(EquilibriumStatus.NEVER_CONGESTED, 0.0, 0.0, line, line, 0.0)
    rate = fair / packet_bytes
    most_gap = line_rate_bytes_per_s / packet_bytes - rate

    def drift(log_p: float) -> float:
        return _current_rate_drift(params, packet_bytes, rate, math.exp(log_p), most_gap)

    p = math.exp(brentq(drift, math.log(_LEAST_MARK), math.log(_MOST_MARK), xtol=1e-14, rtol=1e-14))
    beyond = p > watermark.pmax
    span = watermark.kmax_bytes - watermark.kmin_bytes
    queue = watermark.kmax_bytes if beyond else watermark.kmin_bytes + span * p / watermark.pmax
    gap = min(target_gap(params, packet_bytes, rate, p), most_gap)
    return Equilibrium(
        status=EquilibriumStatus.BEYOND_RAMP if beyond else EquilibriumStatus.RAMP,
        marking_probability=p,
        queue_bytes=float(queue),
        current_rate_bytes_per_s=fair,
        target_rate_bytes_per_s=(rate + gap) * packet_bytes,
        alpha=marked_within(params.alpha_timer_s, rate, p),
    )


def marked_within(duration_s: float, rate: float, p: float) -> float:
    """1 − (1−p)^{duration · rate}: whether a mark comes within a time; also α* of (5)."""
    return -math.expm1(duration_s * rate * math.log1p(-p))


def increases(params: DcqcnParams, packet_bytes: float, rate: float, p: float) -> tuple[float, float]:
    """Recovery and additive increases a second, the sums in (7) and (6), byte counter and timer together."""
    log = math.log1p(-p)
    spans = [params.increase_timer_s * rate]
    if params.byte_counter_bytes is not None:
        spans.append(params.byte_counter_bytes / packet_bytes)
    recovery = additive = 0.0
    for span in spans:
        # expm1 overflows where the increase is 0 anyway.
        each = rate * p / math.expm1(min(-span * log, 700.0))
        recovery += each
        additive += each * math.exp(params.fast_recovery_steps * span * log)
    return recovery, additive


def target_gap(params: DcqcnParams, packet_bytes: float, rate: float, p: float) -> float:
    """R_T − R_C at rest, packets/s: (6) = 0."""
    _, additive = increases(params, packet_bytes, rate, p)
    step = params.ai_rate_bytes_per_s / packet_bytes
    return params.cnp_interval_s * step * additive / marked_within(params.cnp_interval_s, rate, p)


def _current_rate_drift(
    params: DcqcnParams, packet_bytes: float, rate: float, p: float, most_gap: float
) -> float:
    """(7) with (5) and (6) at rest: above 0 where p is too small to hold the rate."""
    recovery, _ = increases(params, packet_bytes, rate, p)
    gap = min(target_gap(params, packet_bytes, rate, p), most_gap)
    alpha = marked_within(params.alpha_timer_s, rate, p)
    cut = marked_within(params.cnp_interval_s, rate, p)
    return 0.5 * gap * recovery - rate * alpha * cut / (2.0 * params.cnp_interval_s)

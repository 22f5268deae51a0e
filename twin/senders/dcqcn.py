"""DCQCN parameters of senders (reaction points), and presets with their sources."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry.topology import GBPS
from twin.errors import ParameterError, check_above_zero, check_count, check_known, check_not_negative

MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class DcqcnParams:
    """Parameters of a DCQCN sender; symbols of Zhu et al. 2016 in brackets.

    Rates are bytes/s of wire bytes, times seconds. ``byte_counter_bytes`` None switches the byte counter [B]
    off; ``feedback_delay_s`` [τ*] None derives the delay from the path and the queue ahead. Raises
    ``ParameterError`` for a value out of range.
    """

    ai_rate_bytes_per_s: float  # [R_AI]
    hai_rate_bytes_per_s: float  # [R_HAI]
    gain: float  # [g]
    cnp_interval_s: float  # [τ]
    alpha_timer_s: float  # [τ']
    increase_timer_s: float  # [T]
    byte_counter_bytes: float | None  # [B]
    fast_recovery_steps: int  # [F]
    min_rate_bytes_per_s: float
    clamp_target_rate: bool
    initial_alpha: float = 1.0
    feedback_delay_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("ai_rate_bytes_per_s", "cnp_interval_s", "alpha_timer_s", "increase_timer_s"):
            check_above_zero(f"dcqcn {name}", getattr(self, name))
        for name in ("hai_rate_bytes_per_s", "min_rate_bytes_per_s"):
            check_not_negative(f"dcqcn {name}", getattr(self, name))
        if not 0 < self.gain < 1:
            rule = "the gain lies in (0, 1)"
            raise ParameterError("dcqcn g", str(self.gain), rule, "give such as 0.00390625")
        if not 0 <= self.initial_alpha <= 1:
            rule = "α lies in [0, 1]"
            raise ParameterError("dcqcn initial_alpha", str(self.initial_alpha), rule, "give such as 1")
        check_count("dcqcn fast_recovery_steps", self.fast_recovery_steps)
        for name in ("byte_counter_bytes", "feedback_delay_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                rule = "it must be above 0, or null for none"
                raise ParameterError(f"dcqcn {name}", str(value), rule, "give a positive number")


# Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, table 2 and section 5 (the
# values tuned by its fluid model: timer 55 µs, byte counter 10 MB, F = 5, g = 1/256, R_AI = 40 Mbit/s).
PAPER = DcqcnParams(
    ai_rate_bytes_per_s=0.04 * GBPS,
    hai_rate_bytes_per_s=0.04 * GBPS,
    gain=1 / 256,
    cnp_interval_s=50 * MICROSECOND,
    alpha_timer_s=55 * MICROSECOND,
    increase_timer_s=55 * MICROSECOND,
    byte_counter_bytes=10_000_000,
    fast_recovery_steps=5,
    min_rate_bytes_per_s=0.0,
    clamp_target_rate=True,
)

# NVIDIA/Mellanox ConnectX-4 and later, as "DCQCN CC Parameters" (networking-docs.nvidia.com, DOCA 3.4) and
# Mellanox community DOC-2790 list them and mlxconfig prints them: rpg_time_reset 300 µs, rpg_byte_reset 32767
# B, rpg_threshold 1, rpg_ai_rate 5 Mbit/s, rpg_hai_rate 50 Mbit/s, rpg_min_rate 1 Mbit/s, dce_tcp_rtt 1 µs,
# rate_reduce_monitor_period 4 µs, initial_alpha_value 1023/1024, clamp_tgt_rate 0. dce_tcp_g 1019 is the
# weight of the *old* α: with a CNP α ← (1019/1024) α + 5/1024, without α ← (1019/1024) α (DOC-2790 version
# 19; its version 13 printed the second as (1024−1019)/1024 α, which would forget α in a period). rpg_gd 11
# divides α, itself in 1/1024, by 2^11: the paper's α/2.
VENDOR = DcqcnParams(
    ai_rate_bytes_per_s=0.005 * GBPS,
    hai_rate_bytes_per_s=0.05 * GBPS,
    gain=5 / 1024,
    cnp_interval_s=4 * MICROSECOND,
    alpha_timer_s=1 * MICROSECOND,
    increase_timer_s=300 * MICROSECOND,
    byte_counter_bytes=32_767,
    fast_recovery_steps=1,
    min_rate_bytes_per_s=0.001 * GBPS,
    clamp_target_rate=False,
    initial_alpha=1023 / 1024,
)

PRESETS: Mapping[str, DcqcnParams] = MappingProxyType({"paper": PAPER, "vendor": VENDOR})


def preset(name: str) -> DcqcnParams:
    """The named preset; raises ``ParameterError`` naming the known ones."""
    check_known("dcqcn preset", name, PRESETS, "presets")
    return PRESETS[name]

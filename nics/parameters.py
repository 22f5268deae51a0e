"""The DCQCN parameters of NVIDIA ConnectX: the kernel's names, units and ranges, and the twin's parameters.

Names of files: ``ecn/roce_rp`` and ``ecn/roce_np`` of MLNX_OFED (``mlx5e_sysfs_create``), and ``cc_params``
of the upstream driver in debugfs (``drivers/infiniband/hw/mlx5/cong.c``). Units, ranges and defaults: "DCQCN
CC Parameters" (networking-docs.nvidia.com, DOCA 3.4); where that gives no range, the widths of the fields
that mlxconfig stores (mstflint, ``tools_open_roce_cc_ecn``: ``rpg_time_reset`` 17 bits, ``rpg_byte_reset`` 15
bits with 0 for off, ``rpg_threshold`` 5 bits).

``dce_tcp_g`` is the weight of the old α: 1019 means a gain of 5/1024. Papers and HPCC's configuration give
the weight of the new sample: their g = 4 is 1020 here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from switches.errors import CapabilityError
from twin.senders.dcqcn import MICROSECOND, DcqcnParams

Values = Mapping[str, int]
"""Values of NIC parameters as their files hold them, by name."""

MBIT_BYTES_PER_S = 125_000
ONE = 1024  # α and g are in 1/1024
_UINT32 = 2**32 - 1
_TINY = 1e-9  # a value may have been through a text
HIGHEST_RATE_MBIT = 1_600_000
"""The line rate of the fastest port, where a port does not tell its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One file of a port: ``side`` rp is the sender's (reaction point), np the receiver's (notification
    point). ``debug_name`` is its name in debugfs. A NIC takes ``least`` to ``most`` (None: its line rate);
    ``default`` is the driver's. ``field`` is what it sets of ``DcqcnParams``; None: the twin has none.
    """

    name: str
    side: Literal["rp", "np"]
    debug_name: str
    unit: str
    least: int
    most: int | None
    default: int
    field: str | None = None

    def check(self, value: int, where: str, line_rate_mbit: int | None = None) -> None:
        """Raises ``CapabilityError`` for a value that a NIC does not take."""
        most = self.most if self.most is not None else line_rate_mbit or HIGHEST_RATE_MBIT
        if not self.least <= value <= most:
            known = self.text("the line rate" if self.most is None and line_rate_mbit is None else most)
            raise CapabilityError(
                f"{where} {self.name}",
                self.text(value),
                f"a NIC takes {self.least} to {known}",
                f"give a value in that range; {self.text(self.default)} is the driver's own",
            )

    def text(self, value: object) -> str:
        """The value with its unit."""
        return f"{value}{self.unit}" if self.unit.startswith("/") else f"{value} {self.unit}".rstrip()


def _rp(
    name: str,
    unit: str,
    least: int,
    most: int | None,
    default: int,
    field: str | None = None,
    debug: str = "",
) -> Parameter:
    debug_name = f"rp_{debug or name.removeprefix('rpg_')}"
    return Parameter(
        name=name,
        side="rp",
        debug_name=debug_name,
        unit=unit,
        least=least,
        most=most,
        default=default,
        field=field,
    )


def _np(name: str, unit: str, most: int, default: int, debug: str = "") -> Parameter:
    debug_name = f"np_{debug or name}"
    return Parameter(
        name=name, side="np", debug_name=debug_name, unit=unit, least=0, most=most, default=default
    )


PARAMETERS: Mapping[str, Parameter] = MappingProxyType(
    {
        one.name: one
        for one in (
            _rp("clamp_tgt_rate", "", 0, 1, 0, "clamp_target_rate"),
            _rp("clamp_tgt_rate_after_time_inc", "", 0, 1, 1, debug="clamp_tgt_rate_ati"),
            _rp("rpg_time_reset", "µs", 1, 131_071, 300, "increase_timer_s"),
            _rp("rpg_byte_reset", "bytes", 0, 32_767, 32_767, "byte_counter_bytes"),
            _rp("rpg_threshold", "steps", 1, 31, 1, "fast_recovery_steps"),
            _rp("rpg_max_rate", "Mbit/s", 0, None, 0),
            _rp("rpg_ai_rate", "Mbit/s", 1, None, 5, "ai_rate_bytes_per_s"),
            _rp("rpg_hai_rate", "Mbit/s", 1, None, 50, "hai_rate_bytes_per_s"),
            _rp("rpg_gd", "(log2)", 10, 11, 11),
            _rp("rpg_min_dec_fac", "%", 0, 100, 50),
            _rp("rpg_min_rate", "Mbit/s", 1, None, 1, "min_rate_bytes_per_s"),
            _rp("rate_to_set_on_first_cnp", "Mbit/s", 0, None, 0),
            _rp("dce_tcp_g", "/1024", 0, 1023, 1019, "gain"),
            _rp("dce_tcp_rtt", "µs", 1, 131_071, 1, "alpha_timer_s"),
            _rp("rate_reduce_monitor_period", "µs", 1, _UINT32, 4, "cnp_interval_s"),
            _rp("initial_alpha_value", "/1024", 1, 1023, 1023, "initial_alpha"),
            _np("min_time_between_cnps", "µs", 4095, 4),
            _np("cnp_dscp", "", 63, 48),
            _np("cnp_802p_prio", "", 7, 6, debug="cnp_prio"),
        )
    }
)


def value_text(name: str, value: object) -> str:
    """A value with its unit, where the parameter is one of the table."""
    return PARAMETERS[name].text(value) if name in PARAMETERS else str(value)


_MODELLED = {one.field: one for one in PARAMETERS.values() if one.field is not None}


def params_of(values: Values, where: str) -> DcqcnParams:
    """What a NIC of these values does, as the twin knows it.

    A sender cuts at most once in ``rate_reduce_monitor_period``, and is told at most once in the receiver's
    ``min_time_between_cnps``: the longer of both is the CNP interval. Raises ``CapabilityError`` for a
    missing value, and ``ParameterError`` for one that the twin cannot run (``dce_tcp_g`` 0).
    """
    missing = [one.name for one in _MODELLED.values() if one.name not in values]
    if missing:
        raise too_old(where, missing)
    cut_us = max(values["rate_reduce_monitor_period"], values.get("min_time_between_cnps", 0))
    return DcqcnParams(
        ai_rate_bytes_per_s=float(values["rpg_ai_rate"] * MBIT_BYTES_PER_S),
        hai_rate_bytes_per_s=float(values["rpg_hai_rate"] * MBIT_BYTES_PER_S),
        gain=(ONE - values["dce_tcp_g"]) / ONE,
        cnp_interval_s=cut_us * MICROSECOND,
        alpha_timer_s=values["dce_tcp_rtt"] * MICROSECOND,
        increase_timer_s=values["rpg_time_reset"] * MICROSECOND,
        byte_counter_bytes=float(values["rpg_byte_reset"]) or None,
        fast_recovery_steps=values["rpg_threshold"],
        min_rate_bytes_per_s=float(values["rpg_min_rate"] * MBIT_BYTES_PER_S),
        clamp_target_rate=values["clamp_tgt_rate"] != 0,
        initial_alpha=values["initial_alpha_value"] / ONE,
    )


def _exact(params: DcqcnParams) -> dict[str, float]:
    """The sender's values in the units of a NIC, not rounded."""
    return {
        "clamp_tgt_rate": float(params.clamp_target_rate),
        "rpg_time_reset": params.increase_timer_s / MICROSECOND,
        "rpg_byte_reset": params.byte_counter_bytes or 0.0,
        "rpg_threshold": float(params.fast_recovery_steps),
        "rpg_ai_rate": params.ai_rate_bytes_per_s / MBIT_BYTES_PER_S,
        "rpg_hai_rate": params.hai_rate_bytes_per_s / MBIT_BYTES_PER_S,
        "rpg_min_rate": params.min_rate_bytes_per_s / MBIT_BYTES_PER_S,
        "dce_tcp_g": ONE * (1 - params.gain),
        "dce_tcp_rtt": params.alpha_timer_s / MICROSECOND,
        "rate_reduce_monitor_period": params.cnp_interval_s / MICROSECOND,
        "initial_alpha_value": ONE * params.initial_alpha,
    }


def differing(one: DcqcnParams, other: DcqcnParams) -> tuple[str, ...]:
    """Where two senders differ, such as ``rpg_ai_rate 5 against 40 Mbit/s``."""
    first, second = _exact(one), _exact(other)
    return tuple(
        f"{name} {value:g} against {PARAMETERS[name].text(f'{second[name]:g}')}"
        for name, value in first.items()
        if not math.isclose(value, second[name], rel_tol=_TINY, abs_tol=_TINY)
    )


def values_text(values: Values) -> str:
    """Each as ``value_text``, such as ``rpg_ai_rate 5 Mbit/s``."""
    return ", ".join(f"{name} {value_text(name, value)}" for name, value in values.items())


def values_changed(before: DcqcnParams, after: DcqcnParams) -> Values:
    """The values to set where senders run ``before`` and are to run ``after``, in whole units of the NIC.

    Receivers are set to tell as often as senders are to cut.
    """
    first, second = _exact(before), _exact(after)
    found = {
        name: round(value)
        for name, value in second.items()
        if not math.isclose(value, first[name], rel_tol=_TINY, abs_tol=_TINY)
    }
    if "rate_reduce_monitor_period" in found:
        found["min_time_between_cnps"] = found["rate_reduce_monitor_period"]
    return found


def check_values(values: Values, where: str, line_rate_mbit: int | None = None) -> None:
    """Raises ``CapabilityError`` for an unknown name, or a value that a NIC does not take."""
    if not values:
        raise CapabilityError(where, None, "a change sets at least one parameter", "name one")
    for name, value in values.items():
        if name not in PARAMETERS:
            rule = f"parameters of a NIC are {', '.join(PARAMETERS)}"
            raise CapabilityError(where, repr(name), rule, "name one of them")
        PARAMETERS[name].check(value, where, line_rate_mbit)


_AS_MODELLED: Mapping[str, range] = {
    "clamp_tgt_rate_after_time_inc": range(1, 2),
    "rpg_max_rate": range(1),
    "rpg_gd": range(11, 12),
    "rpg_min_dec_fac": range(51),  # a cut is by α/2, so by half at most
    "rate_to_set_on_first_cnp": range(1),
}


def unmodelled(values: Values) -> tuple[str, ...]:
    """Sentences on values that change what a sender does, and that the twin has no parameter for."""
    return tuple(
        f"{name} is {values[name]}, and the twin takes it to be {PARAMETERS[name].default}."
        for name, modelled in _AS_MODELLED.items()
        if name in values and values[name] not in modelled
    )


def too_old(where: str, missing: Iterable[str]) -> CapabilityError:
    """The driver has no files of these names."""
    rule = "driver and firmware show DCQCN of ConnectX-4 and later under ecn/roce_rp, or in debugfs"
    remedy = (
        "install a newer driver or firmware; where only debugfs has them, log in as root or give sudo: true"
    )
    return CapabilityError(where, f"no file of {', '.join(missing)}", rule, remedy)

"""Bytes, durations, shares and changes as people write and read them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from twin.errors import ParameterError

BYTES: Mapping[str, float] = MappingProxyType({"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9})
SECONDS: Mapping[str, float] = MappingProxyType(
    {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
)
SHARE: Mapping[str, float] = MappingProxyType({"%": 0.01})
NO_UNIT: Mapping[str, float] = MappingProxyType({})

_NUMBER = re.compile(r"([-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|inf))\s*(\D*)")


def quantity(where: str, value: object, units: Mapping[str, float]) -> float:
    """A number, or a text of a number and perhaps one of ``units``; its range is not checked.

    Raises ``ParameterError`` naming ``where`` for anything else.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # YAML and JSON allow whole numbers of any length
            raise ParameterError(where, "a number of over 300 digits", "it is finite", "lower it") from None
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None and (found[2] == "" or found[2] in units):
        try:
            # Decimal, as 2.3MB is 2 300 000 bytes and 20ms the same float as 0.02.
            return float(Decimal(found[1]) * Decimal(repr(units.get(found[2], 1.0))))
        except ArithmeticError:
            pass
    known = f", which may end in {', '.join(units)}" if units else ""
    raise ParameterError(where, repr(value), f"it is a number{known}", "correct it")


def bytes_text(value: float) -> str:
    """Three significant digits in B, KB, MB or GB (powers of ten, as switches are configured)."""
    return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")))


def duration_text(value_s: float) -> str:
    """Three significant digits in s, ms or µs."""
    return _scaled(value_s, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")))


def percent_text(ratio: float) -> str:
    """A ratio as percent: 0.0125 is 1.25 %."""
    return f"{100 * ratio:.3g} %"


def change_text(relative: float) -> str:
    """A relative change with its sign in whole percent: −0.52 is −52 %."""
    return f"{100 * relative:+.0f} %".replace("-", "−")


def setting_text(value: float | None, unit: str) -> str:
    """A value of a NIC or a port role with its unit, such as ``12 µs``; None is off."""
    if value is None:
        return "off"
    return bytes_text(value) if unit == "B" else f"{value:g} {unit}".rstrip()


def gain_text(gain: float, error: float | None) -> str:
    """A gain with its standard error in percent, such as ``8.1 ± 1.9 %``."""
    if error is None or not math.isfinite(error):
        return f"{_percent(gain)} %"
    return f"{_percent(gain)} ± {_percent(error)} %"


def _percent(value: float) -> str:
    digits = 1 if abs(value) < 0.0995 else 0
    return f"{100 * value:.{digits}f}".replace("-", "−")


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    for scale, unit in units:
        # Half a digit early, so that 999 999 B reads 1 MB and not 1e+03 KB.
        if abs(value) >= scale * 0.9995:
            return f"{float(f'{value / scale:.3g}'):g} {unit}"
    scale, unit = units[-1]
    return f"{float(f'{value / scale:.3g}'):g} {unit}"

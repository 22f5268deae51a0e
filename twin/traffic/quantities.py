"""Numbers as people write them: ``64KB``, ``20ms``, ``0..7``; must import nothing but errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from twin.errors import ParameterError

BYTES: Mapping[str, float] = MappingProxyType({"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9})
SECONDS: Mapping[str, float] = MappingProxyType(
    {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
)
NO_UNIT: Mapping[str, float] = MappingProxyType({})

_NUMBER = re.compile(r"([-+]?(?:[0-9.]+(?:[eE][-+]?[0-9]+)?|inf))\s*(\D*)")


def quantity(where: str, value: object, units: Mapping[str, float] = NO_UNIT) -> float:
    """A number, or a text of a number and one of ``units``; without a unit it is in bytes or seconds already.

    Raises ``ParameterError`` naming ``where`` for anything else. Whether the number makes sense is not judged
    here.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # YAML and JSON allow whole numbers of any length
            raise ParameterError(where, "a number of over 300 digits", "it is finite", "lower it") from None
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None and (found[2] == "" or found[2] in units):
        try:
            number = float(found[1])
        except ValueError:
            pass
        else:
            # Dividing by the whole inverse keeps 20ms the same float as 0.02.
            scale = units.get(found[2], 1.0)
            return number * scale if scale >= 1 else number / round(1 / scale)
    known = f", which may end in {', '.join(units)}" if units else ""
    raise ParameterError(where, repr(value), f"it is a number{known}", "correct it")


def whole_number(where: str, value: object) -> int:
    """A whole number, also as text. Raises ``ParameterError`` naming ``where`` for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,18}", value.strip()):
        return int(value)
    raise ParameterError(where, repr(value), "it is a whole number", "correct it")


def host_numbers(where: str, value: object) -> tuple[int, ...]:
    """Hosts as a list of numbers, one number, or ``first..last``. Raises ``ParameterError`` for others."""
    if isinstance(value, str) and ".." in value:
        first, _, last = value.partition("..")
        low, high = whole_number(where, first), whole_number(where, last)
        if not 0 <= low <= high < 2**24:
            raise ParameterError(where, repr(value), "a range is first..last, from 0", "correct it")
        return tuple(range(low, high + 1))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(whole_number(f"{where}[{index}]", host) for index, host in enumerate(value))
    return (whole_number(where, value),)

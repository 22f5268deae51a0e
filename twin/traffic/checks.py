"""The rules that options of traffic patterns share; must import nothing but errors and numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twin.errors import ParameterError


def check_above_zero(where: str, value: float, *, endless: bool = False) -> None:
    """Raises ``ParameterError`` unless ``value`` is above 0, and finite unless ``endless``."""
    _check_number(where, value)
    if not value > 0 or (math.isinf(value) and not endless):
        rule = "it must be above 0" if endless else "it must be finite and above 0"
        raise ParameterError(where, str(value), rule, "give a positive number")


def check_not_negative(where: str, value: float) -> None:
    """Raises ``ParameterError`` unless ``value`` is finite and at least 0."""
    _check_number(where, value)
    if not (value >= 0 and math.isfinite(value)):
        raise ParameterError(where, str(value), "it must be finite and not negative", "give 0 or more")


def check_share(where: str, value: float) -> None:
    """Raises ``ParameterError`` unless 0 < ``value`` ≤ 1."""
    _check_number(where, value)
    if not 0 < value <= 1:
        raise ParameterError(
            where, str(value), "it is a share of the line rate, in (0, 1]", "give a number such as 0.6"
        )


def check_count(where: str, value: int, *, least: int = 1) -> None:
    """Raises ``ParameterError`` unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ParameterError(where, repr(value), "it is a whole number", "round it")
    if value < least:
        raise ParameterError(where, str(value), f"it must be at least {least}", f"give {least} or more")


def inside(where: str, refused: ParameterError) -> ParameterError:
    """The same refusal, said of a part of ``where``."""
    return ParameterError(f"{where}: {refused.where}", refused.received, refused.rule, refused.remedy)


def _check_number(where: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ParameterError(where, repr(value), "it must be a number", "give a number")
    try:
        float(value)
    except OverflowError:  # YAML and JSON allow whole numbers of any length
        raise ParameterError(where, "a number of over 300 digits", "it is finite", "lower it") from None

"""The twin's error tree, and the range checks of numbers that raise it."""

from __future__ import annotations

import errno
import math
import numbers
import re
from collections.abc import Collection
from typing import Any

from telemetry.errors import ExplainedError


class TwinError(ExplainedError, ValueError):
    """A caller's mistake or a round that could not finish."""


class WatermarkError(TwinError):
    """A (Kmin, Kmax, Pmax) that no switch could run."""


class ParameterError(TwinError):
    """A DCQCN or search parameter outside its meaning."""


class ScenarioError(TwinError):
    """A scenario that is malformed or cannot be simulated."""


class SearchError(TwinError):
    """A tuning round that could not finish."""


class ClusterError(SearchError):
    """Workers on other machines that cannot be reached, or do not answer."""


def what_did_not_fit(error: BaseException) -> str | None:
    """What there was no memory for, such as ``another 164 MiB``; None for any other error."""
    if isinstance(error, MemoryError):
        # NumPy goes on with the shape, and with every field of a record.
        amount = re.match(r"Unable to allocate ([\d.]+?)\.? (\w+)", str(error))
        return "what it needs" if amount is None else f"another {amount[1]} {amount[2]}"
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return "what it needs"
    # Without room for its stack a thread cannot start; CPython says so in a RuntimeError.
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "another thread"
    return None


def check_above_zero(
    where: str, value: float, *, endless: bool = False, error: type[TwinError] = ParameterError
) -> None:
    """Raises ``error`` unless ``value`` is above 0, and finite unless ``endless``."""
    _check_number(where, value, error)
    if not value > 0 or (math.isinf(value) and not endless):
        rule = "it must be above 0" if endless else "it must be above 0 and finite"
        raise error(where, str(value), rule, "give a positive number")


def check_not_negative(where: str, value: float, *, error: type[TwinError] = ParameterError) -> None:
    """Raises ``error`` unless ``value`` is finite and at least 0."""
    _check_number(where, value, error)
    if not (value >= 0 and math.isfinite(value)):
        raise error(where, str(value), "it must not be negative or infinite", "give 0 or more")


def check_share(where: str, value: float) -> None:
    """Raises ``ParameterError`` unless 0 < ``value`` ≤ 1."""
    _check_number(where, value, ParameterError)
    if not 0 < value <= 1:
        rule = "it is a share of the line rate, in (0, 1]"
        raise ParameterError(where, str(value), rule, "give a number such as 0.6")


def check_known(where: str, value: str, known: Collection[str], kind: str = "") -> None:
    """Raises ``ParameterError`` unless ``value`` is one of ``known``; ``kind`` says what these are."""
    if value not in known:
        names = ", ".join(known)
        if kind:
            raise ParameterError(where, repr(value), f"known {kind} are {names}", "name one of them")
        raise ParameterError(where, repr(value), f"known: {names}", "choose one of them")


def check_count(where: str, value: Any, *, least: int = 1) -> None:
    """Raises ``ParameterError`` unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ParameterError(where, repr(value), "it is a whole number", "round it")
    if value < least:
        raise ParameterError(where, str(value), f"it must be at least {least}", f"give {least} or more")


def _check_number(where: str, value: Any, error: type[TwinError]) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise error(where, repr(value), "it must be a number", "give a number")
    try:
        float(value)
    except OverflowError:  # YAML and JSON allow whole numbers of any length
        raise error(where, "a number of over 300 digits", "it is finite", "lower it") from None

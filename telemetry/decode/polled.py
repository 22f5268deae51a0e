"""What one look at a switch's own counters gave; imports only ``telemetry.counters``."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.counters.counters import MOST, CounterSample

_LONGEST = 40
_FITS = len(str(MOST))


@dataclass(frozen=True, slots=True)
class Polled:
    """``samples`` as the window takes them. ``problems`` are values that were left out, in sentences, the
    rest of their row kept. ``notes`` say what the switch does not count, why, and how that is changed; they
    are the same from look to look until something changes.
    """

    samples: tuple[CounterSample, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def count_of(value: object) -> int:
    """A counter as devices write it: a whole number, or one as decimal text.

    Raises ``ValueError`` for anything else and for one beyond ``MOST``: some devices write all ones (2⁶⁴ − 1)
    for a counter that they do not have.
    """
    if type(value) is str and len(value) < _FITS and value.isdecimal() and value.isascii():
        return int(value)  # nearly all
    if isinstance(value, str):
        if not (value.isascii() and value.isdecimal()) or len(value) > _LONGEST:
            raise ValueError(f"{value[:_LONGEST]!r}, which is no whole number")
        count = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        raise ValueError(f"{str(value)[:_LONGEST]!r}, which is no whole number")
    if not 0 <= count <= MOST:
        raise ValueError(f"{count}, which is not from 0 to {MOST}")
    return count

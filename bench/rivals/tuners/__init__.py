"""The tuners by name. A new one is a file here and an entry in ``TUNERS`` (docs/rivals.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from bench.rivals.tuner import Tuner
from bench.rivals.tuners.annealing import Annealing
from bench.rivals.tuners.bytetuning import ByteTuning
from bench.rivals.tuners.control import RandomControl
from bench.rivals.tuners.ecntwin import J_WEIGHTS, Ecntwin
from bench.rivals.tuners.learned import tuners as learned
from bench.rivals.tuners.paraleon import Paraleon, ParaleonPlus
from bench.rivals.tuners.statics import (
    PARALEON_EXPERT,
    SECN1,
    SECN2,
    flat,
    scaled,
    static_watermark,
    vendor_statics,
)
from twin.errors import check_known

NO_BUDGET = "none"  # of a tuner that does not look
INCUMBENT = "secn2-scaled"
_BOTH = ("collector", "box")


@dataclass(frozen=True, slots=True)
class Entry:
    """How to make a tuner, and the observation budgets it runs on."""

    make: Callable[[], Tuner]
    budgets: tuple[str, ...] = ("collector",)


def _static(make: Callable[[], Tuner]) -> Entry:
    return Entry(make, (NO_BUDGET,))


TUNERS: Mapping[str, Entry] = MappingProxyType(
    {
        "secn1": _static(partial(flat, SECN1)),
        "secn2": _static(partial(flat, SECN2)),
        INCUMBENT: _static(partial(scaled, SECN2)),
        "paraleon-expert": _static(partial(flat, PARALEON_EXPERT)),
        **{name: _static(partial(flat, mark)) for name, mark in vendor_statics().items()},
        "ecntwin": Entry(partial(Ecntwin, weights=J_WEIGHTS)),
        "ecntwin-balanced": Entry(Ecntwin),
        "ecntwin-nic": Entry(partial(Ecntwin, weights=J_WEIGHTS, what=("watermark", "nic"))),
        "random": Entry(RandomControl, _BOTH),
        "annealing": Entry(Annealing, _BOTH),
        "paraleon": Entry(Paraleon, _BOTH),
        "paraleon-plus": Entry(ParaleonPlus, _BOTH),
        "bytetuning": Entry(ByteTuning, _BOTH),
        **{name: Entry(make, _BOTH) for name, make in learned().items()},
    }
)


def tuner_named(name: str) -> Tuner:
    """A new tuner of that name, or a static of the oracle's grid; raises ``ParameterError``."""
    if name.startswith("static:"):
        return flat(static_watermark(name))
    return entry_named(name).make()


def entry_named(name: str) -> Entry:
    """Raises ``ParameterError`` for an unknown tuner."""
    check_known("tuner", name, TUNERS)
    return TUNERS[name]


def budgets_of(name: str) -> tuple[str, ...]:
    """The observation budgets that a tuner runs on, ``none`` for one that does not look."""
    if name.startswith("static:"):
        return (NO_BUDGET,)
    return entry_named(name).budgets

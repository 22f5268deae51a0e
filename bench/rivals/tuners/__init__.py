"""The tuners by name. A new one is a file here and an entry in ``TUNERS`` (docs/rivals.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    static_named,
    vendor_statics,
)
from twin.errors import check_known

NO_BUDGET = "none"  # of a tuner that does not look
INCUMBENT = "secn2-scaled"
_BOTH = ("collector", "box")


@dataclass(frozen=True, slots=True)
class Entry:
    """How to make a tuner, what it is, and the observation budgets it runs on."""

    make: Callable[[], Tuner]
    about: str
    budgets: tuple[str, ...] = ("collector",)


def _static(make: Callable[[], Tuner], about: str) -> Entry:
    return Entry(make, about, (NO_BUDGET,))


TUNERS: Mapping[str, Entry] = MappingProxyType(
    {
        "secn1": _static(lambda: flat(SECN1), "5 KB, 200 KB, 1 % on every port"),
        "secn2": _static(lambda: flat(SECN2), "100 KB, 400 KB, 20 % on every port"),
        INCUMBENT: _static(
            lambda: scaled(SECN2), "the same at 25G, in proportion to the rate: the incumbent"
        ),
        "paraleon-expert": _static(lambda: flat(PARALEON_EXPERT), "1.6 MB, 6.4 MB, 20 %"),
        **{
            name: _static(lambda mark=mark: flat(mark), f"vendor: {mark}")  # type: ignore[misc]
            for name, mark in vendor_statics().items()
        },
        "ecntwin": Entry(
            lambda: Ecntwin(weights=J_WEIGHTS),
            "this project's service: replays what telemetry shows, then changes; told what J weighs",
        ),
        "ecntwin-balanced": Entry(Ecntwin, "the same by its default policy, where bare packets count too"),
        "ecntwin-nic": Entry(
            lambda: Ecntwin(weights=J_WEIGHTS, what=("watermark", "nic")),
            "the first, and what it says of NICs followed as well",
        ),
        "random": Entry(RandomControl, "another random setting each millisecond", _BOTH),
        "annealing": Entry(Annealing, "plain annealing of one watermark, at most 100 probes", _BOTH),
        "paraleon": Entry(Paraleon, "ICNP 2024, as released: 130 probes", _BOTH),
        "paraleon-plus": Entry(ParaleonPlus, "its later code: 72 probes", _BOTH),
        "bytetuning": Entry(ByteTuning, "climbs port by port, parameter by parameter", _BOTH),
        **{name: Entry(make, about, _BOTH) for name, (make, about) in learned().items()},
    }
)


def tuner_named(name: str) -> Tuner:
    """A new tuner of that name, or a static of the oracle's grid; raises ``ParameterError``."""
    if name.startswith("static:"):
        return static_named(name)
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

"""Settings that stay: those that papers and vendors print, and the grid that the oracle chooses from."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from bench.phases import STATICS
from bench.rivals.tuner import FabricFacts, Looks, Seen, Settings, Tuner, by_rate
from twin.errors import ParameterError
from twin.search.vendor_table import VENDOR_TABLE
from twin.watermark import Watermark

SECN1 = Watermark(5_000, 200_000, 0.01)  # K: PET section 5.4; Pmax: the DCQCN paper
SECN2 = Watermark(100_000, 400_000, 0.2)  # K: PET section 5.4; Pmax: HPCC's table for DCQCN
PARALEON_EXPERT = Watermark(1_600_000, 6_400_000, 0.2)  # of 100G NICs; without its sender parameters

# Kmin from below the lowest that is published to near the largest, by steps of 2.5, ...
_KMIN_BYTES = (7_000, 18_000, 45_000, 110_000, 280_000, 700_000, 1_750_000)
# ... and Kmax as its multiple with a Pmax: a step, HPCC's ramp, the same but weak, a long ramp, a longer and
# weaker one. With those of bench/phases.py they are 47.
_SHAPES = ((1.5, 1.0), (4.0, 0.2), (4.0, 0.02), (10.0, 0.1), (40.0, 0.01))
_MOST_KMAX_BYTES = 16_000_000

QUICK_GRID: tuple[Watermark, ...] = STATICS
GRID: tuple[Watermark, ...] = (
    *STATICS,
    *(
        Watermark(kmin, min(round(kmin * ratio), _MOST_KMAX_BYTES), pmax)
        for kmin in _KMIN_BYTES
        for ratio, pmax in _SHAPES
    ),
)


@dataclass(eq=False)
class Static(Tuner):
    """Keeps one watermark a queue for ever."""

    of: Callable[[FabricFacts], tuple[Watermark, ...]]
    looks: ClassVar[Looks] = Looks.NOTHING

    def begin(self, facts: FabricFacts, seed: int) -> Settings:
        return Settings(self.of(facts))

    def act(self, seen: Seen) -> Settings:
        return Settings(seen.watermarks)


def flat(watermark: Watermark) -> Static:
    """The same on every port."""
    return Static(lambda facts: (watermark,) * len(facts.queues))


def scaled(mark: Watermark) -> Static:
    """Thresholds in proportion to each port's rate, those given at 25 Gbit/s."""
    return Static(lambda facts: by_rate(facts.rate_bytes_per_s, mark.kmin_bytes, mark.kmax_bytes, mark.pmax))


def vendor_statics() -> dict[str, Watermark]:
    """Rows of the vendor table by a name such as ``cisco-nexus-ai-blueprint``; flat on all ports."""
    return {re.sub(r"[^a-z0-9]+", "-", row.name.lower()): row.watermark for row in VENDOR_TABLE}


def static_name(watermark: Watermark) -> str:
    """A grid static's name: ``static:100000/400000/0.2``."""
    return f"static:{watermark.kmin_bytes}/{watermark.kmax_bytes}/{watermark.pmax:g}"


def static_watermark(name: str) -> Watermark:
    """The watermark of such a name; raises ``ParameterError``."""
    found = re.fullmatch(r"static:(\d+)/(\d+)/([0-9.e-]+)", name)
    if found is None:
        raise ParameterError("tuner", repr(name), "a static is static:KMIN/KMAX/PMAX", "write it so")
    return Watermark(int(found[1]), int(found[2]), float(found[3]))

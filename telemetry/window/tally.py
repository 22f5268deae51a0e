"""What the window says became of the reports it was given; imports only ``telemetry.report``."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.report import ReportProblem


@dataclass(frozen=True, slots=True)
class AddResult:
    """What became of one batch; ``accepted + rejected`` is its length, duplicates count as accepted.

    ``errors`` has one entry a rejected report, by its position in the body as sent.
    """

    accepted: int
    rejected: int
    errors: tuple[ReportProblem, ...]


@dataclass(frozen=True, slots=True)
class WindowCounters:
    """Totals since the window was made.

    ``duplicates`` came twice and count once; ``too_old`` came after the window had passed; ``skewed`` were
    too far away in time to believe; ``unknown_sites`` named a switch or port the declared topology lacks;
    ``overflowed`` found no room for yet another path or queue; ``evicted`` flows were merged with others of
    their class for want of room; ``thinned`` reports are stood for by others; ``negative_latencies`` are hops
    that left before they came.
    """

    accepted: int = 0
    rejected: int = 0
    duplicates: int = 0
    too_old: int = 0
    skewed: int = 0
    unknown_sites: int = 0
    overflowed: int = 0
    evicted: int = 0
    thinned: int = 0
    negative_latencies: int = 0

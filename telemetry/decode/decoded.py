"""What every decoder of INT reports gives back; imports only ``telemetry.report``."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.report import ReportBatch, ReportProblem


@dataclass(frozen=True, slots=True)
class Decoded:
    """The sound reports of a body, and the others by position. ``aside`` is how many more sound ones there
    were than the batch has: of packets that were dropped, and such that wait to be merged (below 0 where
    more come from waiting).
    """

    batch: ReportBatch
    errors: tuple[ReportProblem, ...]
    aside: int = 0

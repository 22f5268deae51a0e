"""What every decoder of INT reports gives back; imports only ``telemetry.report``."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.report import ReportBatch, ReportProblem


@dataclass(frozen=True, slots=True)
class Decoded:
    """The sound reports of a body, and the others by position. ``aside`` counts sound ones that are not in
    the batch, as they tell of no traffic: of packets that were dropped.
    """

    batch: ReportBatch
    errors: tuple[ReportProblem, ...]
    aside: int = 0

"""What every decoder of INT reports gives back; imports only ``telemetry.report``."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry.report import ReportBatch, ReportProblem


@dataclass(frozen=True, slots=True)
class Decoded:
    """The sound reports of a body, and the others by position."""

    batch: ReportBatch
    errors: tuple[ReportProblem, ...]

"""A scenario from a file of reports, for ``ecntwin whatif --reports``. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from service.tuning.round import Recording, read_fabric, read_recording, rebuilt
from twin.arrivals.calibrate import Calibrated
from twin.dcqcn import DcqcnParams
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording, and the scenario rebuilt from it with what is to be said about it."""

    recording: Recording
    found: Calibrated


def recorded_scenario(
    reports: Path, topology: Path, dcqcn: DcqcnParams | None, incumbent: Watermark | None
) -> Recorded:
    """The reports of a file as a scenario, as a round rebuilds it; ``topology`` may be a scenario file.

    ``incumbent`` is what ran then, None: no calibration. Raises ``InputError`` and ``TwinError``.
    """
    declared, fabric = read_fabric(topology, dcqcn)
    recording = read_recording(reports, declared)
    return Recorded(recording, rebuilt(recording.state, fabric, incumbent))

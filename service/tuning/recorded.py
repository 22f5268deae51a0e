"""A scenario from a file of reports, for ``ecntwin whatif --reports``. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from service.tuning.round import Recording, read_fabric, read_recording, scenario_of
from twin.dcqcn import DcqcnParams
from twin.scenario import Scenario
from twin.watermark import Watermark


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording and the scenario rebuilt from it."""

    recording: Recording
    scenario: Scenario


def recorded_scenario(
    reports: Path, topology: Path, dcqcn: DcqcnParams | None, incumbent: Watermark | None
) -> Recorded:
    """The reports of a file as a scenario on the topology of another (or of a scenario file), as a round
    rebuilds it; ``incumbent`` is what ran then, None where unknown. Raises ``InputError`` and ``TwinError``.
    """
    declared, fabric = read_fabric(topology, dcqcn)
    recording = read_recording(reports, declared)
    return Recorded(recording, scenario_of(recording.state, fabric))

"""A tuning round on files: what ``ecntwin tune`` and ``ecntwin demo`` share; must not print."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.documents.recommendation import RoundDocument, round_fields
from service.documents.telemetry import by_label
from service.tuning.round import Ask, Fabric, RoundResult, run_round
from settings.errors import InputError
from settings.validation import mistake
from telemetry.decode.json import decode
from telemetry.report import ReportProblem
from telemetry.settings import WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology, topology_from_json
from telemetry.window.window import Window
from twin.dcqcn import PRESETS, DcqcnParams, preset
from twin.errors import WatermarkError
from twin.scenario_file import dcqcn_from_json
from twin.search.round import Progress
from twin.watermark import Watermark
from twin.workers.pool import Workers

MOST_FILE_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of reports as one window: its state, and what was left out."""

    state: NetworkState
    accepted: int
    rejected: int
    problems: tuple[ReportProblem, ...]


class _FabricInScenario(BaseModel):
    """What a scenario file tells of the fabric besides its topology and traffic."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    mtu_payload_bytes: Annotated[int, Field(gt=0)] | None = None
    wire_overhead_bytes: Annotated[int, Field(ge=0)] = 48
    buffer_bytes: Annotated[float, Field(gt=0)] = 32_000_000
    pfc: bool = True


def read_json(path: Path, what: str) -> Any:
    """A JSON file; raises ``InputError`` naming the file and what is wrong with it."""
    try:
        return json.loads(read_bytes(path, what))
    except ValueError as error:
        raise InputError(f"{what} {path.name}", str(error), "the file must be JSON", "correct it") from error


def read_bytes(path: Path, what: str) -> bytes:
    """A file's bytes; raises ``InputError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        raise InputError(f"{what} {path}", said, "the file must be readable", "correct the path") from error


def read_fabric(path: Path, dcqcn: DcqcnParams | None) -> tuple[Topology, Fabric]:
    """The topology in a topology or scenario file, and what the latter says of the fabric.

    ``dcqcn`` given wins over the scenario's.
    """
    document = read_json(path, "topology")
    if not isinstance(document, dict) or "topology" not in document:
        return topology_from_json(document, where=path.name), Fabric(dcqcn=dcqcn or preset("paper"))
    topology = topology_from_json(document["topology"], where=f"{path.name} topology")
    try:
        said = _FabricInScenario.model_validate(document)
    except ValidationError as error:
        first = mistake(error.errors(include_url=False)[0], prefix=path.name)
        raise InputError(*first) from error
    params = dcqcn or dcqcn_from_json(document.get("dcqcn"), where=f"{path.name} dcqcn")
    return topology, Fabric(dcqcn=params, **said.model_dump())


def read_dcqcn(given: str) -> DcqcnParams:
    """A preset's name, or a JSON file with the keys of a scenario's ``dcqcn`` object (or a scenario)."""
    if given in PRESETS:
        return PRESETS[given]
    path = Path(given)
    if not path.exists():
        known = ", ".join(sorted(PRESETS))
        raise InputError(
            "--dcqcn", repr(given), f"it is a preset ({known}) or a JSON file", "name one of them"
        )
    document = read_json(path, "dcqcn")
    if isinstance(document, dict) and "dcqcn" in document:
        document = document["dcqcn"]
    return dcqcn_from_json(document, where=f"dcqcn {path.name}")


def parse_watermark(given: str, option: str) -> Watermark:
    """``KMIN,KMAX,PMAX``; raises ``InputError`` or ``WatermarkError``."""
    parts = [part.strip() for part in given.split(",")]
    try:
        kmin, kmax, pmax = (float(part) for part in parts)
    except ValueError as error:
        raise InputError(
            option,
            repr(given),
            "it is three numbers KMIN,KMAX,PMAX in bytes, bytes and probability",
            "give such as 400000,1600000,0.2",
        ) from error
    try:
        return Watermark(kmin, kmax, pmax)  # type: ignore[arg-type] # it checks
    except WatermarkError as error:
        raise InputError(f"{option} {error.where}", error.received, error.rule, error.remedy) from error


def read_recording(reports: Path, topology: Topology | None) -> Recording:
    """Every report of a file in one window that just holds them. Raises ``DecodeError``, ``WindowError``."""
    decoded = decode(read_bytes(reports, "reports"), max_body_bytes=MOST_FILE_BYTES)
    if decoded.errors and len(decoded.batch) == 0:
        raise _none_usable(reports, decoded.errors)
    window = Window(WindowSettings.covering(decoded.batch), topology)
    added = window.add(decoded.batch)
    problems = tuple(sorted([*decoded.errors, *added.errors]))
    if added.accepted == 0 and problems:
        raise _none_usable(reports, problems)
    return Recording(window.state(), added.accepted, len(decoded.errors) + added.rejected, problems)


def _none_usable(reports: Path, problems: Sequence[ReportProblem]) -> InputError:
    return InputError(
        f"reports {reports.name}",
        f"{len(problems)} reports of which none can be used, the first for this: {problems[0].detail}",
        "a round needs reports that can be used",
        "correct the exporter or the topology",
    )


def tune_recording(
    recording: Recording,
    ask: Ask,
    incumbent: Watermark,
    *,
    workers: Workers,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[RoundResult, RoundDocument]:
    """A round on a recording, and its document."""
    began_s = time.perf_counter()
    result = run_round(
        recording.state,
        ask,
        lambda _: incumbent,
        workers=workers,
        clock_s=time.perf_counter,
        progress=progress,
    )
    fields = round_fields(
        result.recommendation,
        flows=by_label(recording.state.flows_by_class),
        measured_queue_bytes=result.measured_queue_bytes,
        left_out=result.left_out,
        wall_s=time.perf_counter() - began_s,
    )
    return result, RoundDocument(**fields)


def with_candidates(ask: Ask, candidates: int | None) -> Ask:
    """The same with a budget of ``candidates``, its second draw no more than a quarter of the first."""
    if candidates is None:
        return ask
    narrowed = min(ask.search.narrowed, candidates // 4)
    return replace(ask, search=replace(ask.search, candidates=candidates, narrowed=narrowed))

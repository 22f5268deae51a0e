"""One tuning round, from a network state to a recommendation: what the service and the command share.

Blocking and without a loop or a clock of its own; must not know HTTP.

A tuning round on files: what ``ecntwin tune`` and ``ecntwin demo`` share; must not print.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from service.documents.recommendation import RoundDocument, round_fields
from service.documents.telemetry import by_label
from settings.errors import InputError
from settings.validation import mistake
from telemetry.decode.json import decode
from telemetry.report import ReportProblem
from telemetry.settings import NS_PER_S, WindowSettings
from telemetry.state import NetworkState
from telemetry.topology import Topology, topology_from_json
from telemetry.window.window import Window
from twin.dcqcn import PRESETS, DcqcnParams, preset
from twin.errors import WatermarkError
from twin.from_telemetry import REPLAY_S, scenario_from_state
from twin.scenario import FabricSizes, Scenario
from twin.scenario_file import dcqcn_from_json
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.recommendation import Recommendation
from twin.search.round import Progress, tune
from twin.watermark import Watermark
from twin.workers.pool import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """What reports do not tell; ``mtu_payload_bytes`` None derives it from the largest packets seen."""

    dcqcn: DcqcnParams
    mtu_payload_bytes: int | None = None
    wire_overhead_bytes: int = FabricSizes.wire_overhead_bytes
    buffer_bytes: float = FabricSizes.buffer_bytes
    pfc: bool = FabricSizes.pfc


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """How rounds are run: the fabric, the search, the base to draw around (None: the incumbent)."""

    fabric: Fabric
    search: SearchSettings
    base: Watermark | None
    seed: int
    version: str


@dataclass(frozen=True, slots=True)
class RoundResult:
    """A round's answer beside what it was asked on.

    ``measured_queue_bytes`` compares with the mean queue predicted for the incumbent.
    """

    recommendation: Recommendation
    state: NetworkState
    scenario: Scenario
    measured_queue_bytes: float | None
    stage_s: dict[str, float]

    @property
    def search_s(self) -> float:
        """Time spent searching."""
        return sum(seconds for stage, seconds in self.stage_s.items() if stage != "scenario")

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches whose queues it is about, sorted."""
        return switches_of(self.scenario)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The switches with hosts on them, sorted."""
        return leaves_of(self.state.topology)

    @property
    def window_s(self) -> float:
        """How much time the state spans."""
        return (self.state.window_end_ns - self.state.window_start_ns) / NS_PER_S

    @property
    def left_out(self) -> tuple[str, ...]:
        """The switches that it is not about, as no depth of their queues is known; sorted."""
        return self.state.switches_without_depth


def run_round(
    state: NetworkState,
    ask: Ask,
    incumbent: Callable[[Iterable[str]], Watermark],
    *,
    workers: Workers,
    clock_s: Callable[[], float],
    progress: Callable[[Progress], None] | None = None,
) -> RoundResult:
    """One round on this state. ``incumbent`` says what the switches it names run.

    Raises ``TwinError`` where the state makes no problem or the search cannot finish, and whatever
    ``progress`` raises.
    """
    stages = _Stages(clock_s)
    stages.enter("scenario")
    scenario = scenario_of(state, ask.fabric)
    running = incumbent(switches_of(scenario))
    problem = TuningProblem(
        scenario=scenario,
        incumbent=running,
        base=ask.base or running,
        dominant_class=state.dominant_class.label,
    )

    def told(step: Progress) -> None:
        stages.enter(step.stage)
        if progress is not None:
            progress(step)

    stages.enter("propose")
    answer = tune(problem, ask.search, seed=ask.seed, workers=workers, progress=told, version=ask.version)
    return RoundResult(answer, state, scenario, measured_queue_bytes(state, scenario), stages.close())


def scenario_of(state: NetworkState, fabric: Fabric, *, replay_s: float = REPLAY_S) -> Scenario:
    """The last ``replay_s`` seconds as a scenario; raises ``ScenarioError`` without traffic to replay."""
    payload = fabric.mtu_payload_bytes or max(1, state.packet_bytes - fabric.wire_overhead_bytes)
    return scenario_from_state(
        state,
        fabric.dcqcn,
        mtu_payload_bytes=payload,
        wire_overhead_bytes=fabric.wire_overhead_bytes,
        buffer_bytes=fabric.buffer_bytes,
        pfc=fabric.pfc,
        replay_s=replay_s,
    )


def switches_of(scenario: Scenario) -> tuple[str, ...]:
    """The switches of the monitored ports, sorted."""
    ports = (scenario.ports[index] for index in scenario.monitored)
    return tuple(sorted({port.node for port in ports if port.port is not None}))


def leaves_of(topology: Topology) -> tuple[str, ...]:
    """The switches with hosts on them, sorted."""
    hosts = {host.name for host in topology.hosts}
    return tuple(
        sorted({port.node for port in topology.ports if port.peer in hosts and port.node not in hosts})
    )


def measured_queue_bytes(state: NetworkState, scenario: Scenario) -> float | None:
    """Mean depth over the scenario's monitored ports as telemetry saw it, a port's queues added.

    None where none of them was seen.
    """
    depth: defaultdict[tuple[str, str], float] = defaultdict(float)
    for queue in state.queues:
        if queue.has_depth:
            depth[queue.ref.switch, queue.ref.port] += queue.depth_mean_bytes
    monitored = [scenario.ports[index] for index in scenario.monitored]
    seen = [(port.node, port.port) for port in monitored if port.port is not None]
    if not any(port in depth for port in seen):
        return None
    return sum(depth.get(port, 0.0) for port in seen) / len(seen)


class _Stages:
    """Adds up the time spent in each stage, one after the other."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._stage: str | None = None
        self._since_s = 0.0

    def enter(self, stage: str) -> None:
        now_s = self._clock_s()
        if self._stage is not None:
            self._spent[self._stage] += now_s - self._since_s
        self._stage, self._since_s = stage, now_s

    def close(self) -> dict[str, float]:
        if self._stage is not None:
            self.enter(self._stage)
        return dict(self._spent)


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
    wire_overhead_bytes: Annotated[int, Field(ge=0)] = FabricSizes.wire_overhead_bytes
    buffer_bytes: Annotated[float, Field(gt=0)] = FabricSizes.buffer_bytes
    pfc: bool = FabricSizes.pfc


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

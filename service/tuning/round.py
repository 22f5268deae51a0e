"""One tuning round, from a network state to a recommendation: what the service and the command share.

Blocking and without a loop or a clock of its own; must not know HTTP.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from telemetry.settings import NS_PER_S
from telemetry.state import NetworkState
from telemetry.topology import Topology
from twin.dcqcn import DcqcnParams
from twin.from_telemetry import REPLAY_S, scenario_from_state
from twin.scenario import Scenario
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
    wire_overhead_bytes: int = 48
    buffer_bytes: float = 32_000_000
    pfc: bool = True


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

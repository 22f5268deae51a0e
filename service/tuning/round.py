"""One tuning round, from a network state or a recording to a recommendation. Blocking."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from service.tuning.fabric import Fabric
from service.tuning.moments import Extent, Judged, Moments
from telemetry.settings import NS_PER_S
from telemetry.state import NetworkState
from telemetry.topology import Topology
from twin.arrivals.calibrate import Calibrated, calibrated
from twin.arrivals.from_telemetry import replayed_from_s, scenario_from_state
from twin.arrivals.links import MOST_WAITING, NO_LINKS, Links, links_of, waiting_share
from twin.paths.advice import advise
from twin.paths.result import PathAdvice
from twin.scenario import Scenario
from twin.search.explain import watermark_text
from twin.search.looks import LEAST_WINDOW_S, calibration_s
from twin.search.problem import SearchSettings, TuningProblem
from twin.search.push_gate import GateSettings, residual_ratio
from twin.search.recommendation import Recommendation
from twin.search.round import Progress, tune
from twin.units import duration_text, percent_text
from twin.watermark import RoleWatermarks, Setting, Watermark
from twin.workers.pool import Workers

RESIDUAL_LIMIT = GateSettings().residual_limit
ONE_FOR_ALL = "fluid"  # the engine with one watermark for all ports, and one DCQCN for all NICs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Parameters of a round; candidates are drawn around ``base`` (None: the incumbent).

    ``residual_limit``: the factor, either way, between predicted and measured queue beyond which nothing is
    recommended. ``notes`` are said with the recommendation. ``hash_settings``: by switch, what hashes its
    flows anew in the words of its platform.
    """

    fabric: Fabric
    search: SearchSettings
    base: Watermark | None
    seed: int
    version: str
    residual_limit: float = RESIDUAL_LIMIT
    notes: tuple[str, ...] = ()
    hash_settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round on ``n_moments`` moments of traffic, ``traffic_s`` seconds together.

    ``scenario`` is the newest moment, ``extent`` how much of the window that is. ``measured_queue_bytes`` is
    the mean queue measured in it, ``predicted_queue_bytes`` the one predicted for the incumbent; None where
    nothing was measured or predicted. ``paths`` is there where the search looks at paths.
    """

    recommendation: Recommendation
    state: NetworkState
    scenario: Scenario
    extent: Extent
    n_moments: int
    traffic_s: float
    predicted_queue_bytes: float | None
    measured_queue_bytes: float | None
    stage_s: dict[str, float]
    paths: PathAdvice | None

    @property
    def wall_s(self) -> float:
        return sum(self.stage_s.values())

    @property
    def search_s(self) -> float:
        return sum(seconds for stage, seconds in self.stage_s.items() if stage != "scenario")

    @property
    def switches(self) -> tuple[str, ...]:
        """The switches whose queues are tuned, sorted."""
        return switches_of(self.scenario)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The switches with hosts attached, sorted."""
        return leaves_of(self.state.topology)

    @property
    def window_s(self) -> float:
        return (self.state.window_end_ns - self.state.window_start_ns) / NS_PER_S

    @property
    def left_out(self) -> tuple[str, ...]:
        """Switches that are not tuned because the depth of their queues is unknown, sorted."""
        return self.state.switches_without_depth

    @property
    def residual_ratio(self) -> float | None:
        """Predicted ÷ measured − 1 of the newest moment's mean queue (``push_gate.residual_ratio``)."""
        if self.predicted_queue_bytes is None:
            return None
        return residual_ratio(self.predicted_queue_bytes, self.measured_queue_bytes)


IncumbentOf = Callable[[Iterable[str]], Watermark]
"""The watermark that most of these switches run."""
RunsByRole = Callable[[Iterable[tuple[str, str, str]]], Mapping[str, Watermark]]
"""What ports, given as switch, port and role, run by role; empty where ports of one role differ."""


class Standing(Protocol):
    """A recommendation that stays unless another answer is surely better."""

    def instead_of(self, running: Watermark) -> Watermark | None:
        """What it recommends instead of ``running``; None if it was made for another watermark."""


def run_round(
    state: NetworkState,
    ask: Ask,
    incumbent: IncumbentOf,
    *,
    workers: Workers,
    clock_s: Callable[[], float] = time.perf_counter,
    progress: Callable[[Progress], None] | None = None,
    moments: Moments | None = None,
    standing: Standing | None = None,
    by_role: RunsByRole | None = None,
    since_set_s: float = math.inf,
) -> RoundResult:
    """Runs a round on ``state``; ``standing`` is the recommendation now in force, if there is one.

    ``moments`` are other moments of this traffic to judge on as well; None: the window's alone. Predictions
    are for one watermark on all switches tuned; what runs is predicted by port role where ports of a role run
    the same (``by_role``). Where that is not so, as during a rollout, notes say so. What was set last runs
    for the last ``since_set_s`` seconds of the window: only these are replayed, or where they are too few,
    all, and a note says so.

    Raises ``TwinError`` where there is no traffic or the search fails, and whatever ``progress`` raises.
    """
    stage_s: defaultdict[str, float] = defaultdict(float)
    stage, since_s = "scenario", clock_s()

    def enter(next_stage: str) -> None:
        nonlocal stage, since_s
        now_s = clock_s()
        stage_s[stage] += now_s - since_s
        stage, since_s = next_stage, now_s

    def report(step: Progress) -> None:
        enter(step.stage)
        if progress is not None:
            progress(step)

    search = ask.search
    if ONE_FOR_ALL in (search.engine, search.second_engine) and ask.fabric.nic_class:
        ask = _alike(ask)
    first = scenario_of(state, ask.fabric)
    tuned = switches_of(first)
    running = incumbent(tuned)
    exceptions = () if by_role is None else by_role_of(first, running, by_role)
    mixed: tuple[str, ...] = ()
    if exceptions and ONE_FOR_ALL in (search.engine, search.second_engine):
        mixed = (_one_for_all_note(exceptions, running, f"the engine {ONE_FOR_ALL}"),)
        exceptions = ()
    elif exceptions:
        search = replace(search, max_parts=1)  # a part lacks ports, which make a port's role
    else:
        mixed = _mixed_note(tuned, running, incumbent)
    runs = RoleWatermarks.of(running, dict(exceptions))
    links = links_of(state.arrivals, state.topology.nic_bytes_per_s)
    waiting = waiting_share(state.arrivals, links, state.topology.nic_bytes_per_s)
    extent = Extent(None, None) if moments is None else moments.extent(state, waiting)
    just_set = since_set_s < LEAST_WINDOW_S
    if not just_set:
        extent = extent.within(since_set_s)
    found = rebuilt(
        state,
        ask.fabric,
        runs,
        replay_s=extent.length_s,
        budget_s=ask.search.budget_s,
        limit=ask.residual_limit,
        live=moments is not None,
        links=links,
    )
    judged = (
        Judged((found.scenario,), found.scenario.duration_s)
        if moments is None or found.failure is not None
        else moments.to_judge(found.scenario, extent, state)
    )
    # A moment that was kept may be of before the senders changed.
    newest, *earlier = (ask.fabric.sending(one, state.topology) for one in judged.moments)
    problem = TuningProblem(
        scenario=newest,
        incumbent=running,
        base=ask.base or running,
        dominant_class=state.dominant_class.label,
        earlier=tuple(earlier),
        long=tuple(ask.fabric.sending(one, state.topology) for one in judged.long),
        standing=None if standing is None else standing.instead_of(running),
        by_role=exceptions,
        notes=(
            *found.notes,
            *_waiting_note(waiting),
            *_strangers_note(state),
            *mixed,
            *_before_note(just_set),
            *ask.notes,
        ),
        unlike=found.failure and " ".join((found.failure, *mixed)),
    )
    if found.failure is not None:  # only the incumbent's figures are needed: nothing else will be recommended
        search = search.for_the_incumbent_alone()
    enter("propose")
    answer = tune(problem, search, seed=ask.seed, workers=workers, progress=report, version=ask.version)
    paths = None
    if "path" in ask.search.what:
        like = found.scenario if found.failure is None else None
        paths = advise(state, like, runs, ask.search, seed=ask.seed, workers=workers, progress=report)
        fixes = (one.with_setting(ask.hash_settings.get(one.collision.switch)) for one in paths.fixes)
        paths = replace(paths, fixes=tuple(fixes))
    predicted: float | None = answer.incumbent_prediction.queue_mean_bytes
    measured = found.measured_bytes
    if measured is None:
        measured = measured_queue_bytes(state, found.scenario)
    elif earlier or judged.long:
        predicted = found.predicted_bytes
    enter("")
    return RoundResult(
        recommendation=answer,
        state=state,
        scenario=found.scenario,
        extent=extent,
        n_moments=len(problem.moments),
        traffic_s=judged.traffic_s,
        predicted_queue_bytes=predicted if predicted is not None and math.isfinite(predicted) else None,
        measured_queue_bytes=measured,
        stage_s=dict(stage_s),
        paths=paths,
    )


def by_role_of(
    scenario: Scenario, running: Watermark, by_role: RunsByRole
) -> tuple[tuple[str, Watermark], ...]:
    """The roles of the tuned switches whose ports run another watermark than ``running``, sorted."""
    switches = set(switches_of(scenario))
    ports = [
        (port.node, port.port, role)
        for port, role in zip(scenario.ports, scenario.port_roles, strict=True)
        if port.port is not None and role is not None and port.node in switches
    ]
    return RoleWatermarks.of(running, by_role(ports)).exceptions


def _mixed_note(switches: Collection[str], running: Watermark, incumbent: IncumbentOf) -> tuple[str, ...]:
    others = [name for name in switches if incumbent([name]) != running]
    if not others:
        return ()
    return (
        f"{len(others)} of {len(switches)} switches run something else than {watermark_text(running)}, but "
        "the twin takes all to run that, and is surer once they do.",
    )


def _one_for_all_note(exceptions: Sequence[tuple[str, Watermark]], running: Watermark, who: str) -> str:
    roles, runs = " and ".join(role for role, _ in exceptions), watermark_text(running)
    return f"Ports of {roles} run something else than {runs}, but {who} takes all to run that."


def what_if_notes(
    scenario: Scenario, running: Watermark, incumbent: IncumbentOf, by_role: RunsByRole
) -> tuple[str, ...]:
    """What runs beside ``running``, which a what-if takes all switches and ports to run."""
    if exceptions := by_role_of(scenario, running, by_role):
        return (_one_for_all_note(exceptions, running, "a what-if"),)
    return _mixed_note(switches_of(scenario), running, incumbent)


def _alike(ask: Ask) -> Ask:
    """With one DCQCN for all NICs."""
    notes = ask.notes
    if others := sorted(ask.fabric.dcqcn_by_class):
        notes += (
            f"NICs of {', '.join(others)} run other DCQCN values than most, but the engine "
            f"{ONE_FOR_ALL} takes all to run what most do.",
        )
    return replace(ask, notes=notes, fabric=replace(ask.fabric, nic_class={}, dcqcn_by_class={}))


def _waiting_note(share: float | None) -> tuple[str, ...]:
    if share is None or share <= MOST_WAITING:
        return ()
    return (
        f"Large messages wait for others here ({percent_text(share)} of their bytes), but are replayed when "
        "they were seen to start: what a watermark does to bulk transfers is known less well than the error "
        "says.",
    )


def _before_note(just_set: bool) -> tuple[str, ...]:
    if not just_set:
        return ()
    return (
        "Nearly all of this traffic is of before switches or NICs were last set: what was measured need not "
        "be of what runs.",
    )


def _strangers_note(state: NetworkState) -> tuple[str, ...]:
    hosts = {host.name for host in state.topology.hosts}
    ends = zip(state.flows.src_host, state.flows.dst_host, strict=True)
    strangers = [next(end for end in both if end not in hosts) for both in ends if not hosts.issuperset(both)]
    if not strangers or not state.topology_declared:
        return ()
    return (
        f"The hosts of {len(strangers)} of {len(state.flows)} flows are not in the declared topology, such "
        f"as {strangers[0]}: the twin leaves these flows out until they are declared.",
    )


def scenario_of(
    state: NetworkState,
    fabric: Fabric,
    *,
    replay_s: float | None = None,
    begin_s: float | None = None,
    links: Links = NO_LINKS,
) -> Scenario:
    """The last ``replay_s`` seconds (None: as many as a round replays) as a scenario of flows as sampled: a
    sample stands for bytes of one flow.

    ``begin_s``: begins then instead, in seconds after the window's start. Large messages wait
    for one another as ``links`` says. Raises ``ScenarioError`` without traffic to replay.
    """
    found = scenario_from_state(
        state,
        fabric.dcqcn,
        mtu_payload_bytes=_payload_bytes(state, fabric),
        wire_overhead_bytes=fabric.wire_overhead_bytes,
        buffer_bytes=fabric.buffer_bytes,
        pfc=fabric.pfc,
        monitored=fabric.monitored,
        begin_s=replayed_from_s(state, replay_s) if begin_s is None else begin_s,
        links=links,
    )
    return fabric.sending(found, state.topology)


def rebuilt(
    state: NetworkState,
    fabric: Fabric,
    incumbent: Setting | None,
    *,
    replay_s: float | None = None,
    budget_s: float = math.inf,
    limit: float = RESIDUAL_LIMIT,
    live: bool = False,
    links: Links | None = None,
) -> Calibrated:
    """The last ``replay_s`` seconds as a scenario, with sampling undone; calibrated if ``incumbent``, which
    ran then, is known.

    Of a large fabric only as much as a round of ``budget_s`` has time for. ``live``: the traffic goes on
    after the window; ``links``: what its messages wait for, None: as its reports show. Raises
    ``ScenarioError`` without traffic to replay.
    """
    packet_bytes = float(_payload_bytes(state, fabric) + fabric.wire_overhead_bytes)
    most_s = calibration_s(state, packet_bytes, budget_s)
    begin_s = replayed_from_s(state, replay_s)
    short = state.duration_s - begin_s > most_s
    if short:
        begin_s = state.duration_s - most_s
    if links is None:
        links = links_of(state.arrivals, state.topology.nic_bytes_per_s)
    unmodelled = not fabric.senders_of(state.topology).keys().isdisjoint(state.arrivals.src_host)
    found = calibrated(
        state,
        None if unmodelled else incumbent,
        lambda modelled: replace(scenario_of(modelled, fabric, begin_s=begin_s, links=links), goes_on=live),
        since_s=begin_s,
        packet_bytes=packet_bytes,
        limit=limit,
    )
    if unmodelled and incumbent is not None:
        why = (
            f"{found.scenario.sending_text} act on round-trip times. What reports leave open is fitted by an "
            "engine that models DCQCN alone; on a scenario of such a fleet ecntwin kmin-floor finds the "
            "least Kmin, and ecntwin whatif --engine packet predicts watermarks."
        )
        found = replace(found, failure=why)
    return replace(found, notes=(*found.notes, _short_note(most_s, budget_s))) if short else found


def _short_note(looked_s: float, budget_s: float) -> str:
    return (
        f"For a budget of {duration_text(budget_s)} the newest moment of this fabric is its last "
        f"{duration_text(looked_s)}."
    )


def _payload_bytes(state: NetworkState, fabric: Fabric) -> int:
    return fabric.mtu_payload_bytes or max(1, state.packet_bytes - fabric.wire_overhead_bytes)


def switches_of(scenario: Scenario) -> tuple[str, ...]:
    """The switches of the monitored ports, sorted."""
    ports = (scenario.ports[index] for index in scenario.monitored)
    return tuple(sorted({port.node for port in ports if port.port is not None}))


def leaves_of(topology: Topology) -> tuple[str, ...]:
    hosts = {host.name for host in topology.hosts}
    return tuple(
        sorted({port.node for port in topology.ports if port.peer in hosts and port.node not in hosts})
    )


def measured_queue_bytes(state: NetworkState, scenario: Scenario) -> float | None:
    """Mean depth over the scenario's monitored ports as telemetry saw it, a port's queues added.

    None where no report shows any of them.
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

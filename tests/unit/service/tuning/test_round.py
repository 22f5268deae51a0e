"""What a round is asked on: the fabric's sizes, the queues compared, the base drawn around."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from service.documents.round import round_document
from service.tuning.fabric import Fabric
from service.tuning.moments import Moments
from service.tuning.round import (
    RoundResult,
    measured_queue_bytes,
    rebuilt,
    run_round,
    scenario_of,
    switches_of,
)
from telemetry.state import NetworkState
from telemetry.topology import Host, Link, Topology, topology_from_json
from tests.integration.service import TOPOLOGY
from tests.unit.service.tuning.rounds import INCUMBENT, ask, state
from tests.unit.twin.fabrics import after
from twin.arrivals.calibrate import Calibrated
from twin.replay.model import ReplayEngine
from twin.search.looks import calibration_s
from twin.search.push_gate import residual_ratio
from twin.search.recommendation import Recommendation, VerdictKind
from twin.senders.artefact import SWIFT
from twin.senders.dcqcn import PAPER, VENDOR
from twin.watermark import RoleWatermarks, Watermark
from twin.workers.pool import InProcessWorkers

STATE = state()
SCENARIO = scenario_of(STATE, Fabric(dcqcn=PAPER))
OTHER = replace(INCUMBENT, kmin_bytes=20_000)


def deeper(seen: NetworkState) -> NetworkState:
    """The same traffic, with queues that no replay of it shows."""
    assert seen.recent is not None
    return replace(seen, recent=replace(seen.recent, depth_bytes=seen.recent.depth_bytes * 100))


def test_the_mtu_is_the_largest_packet_less_the_overhead_unless_told() -> None:
    assert (SCENARIO.mtu_payload_bytes, SCENARIO.wire_overhead_bytes) == (1_000, 48)
    told = scenario_of(STATE, Fabric(dcqcn=PAPER, mtu_payload_bytes=900))
    assert told.mtu_payload_bytes == 900


def test_the_measured_queue_is_the_mean_over_monitored_ports() -> None:
    measured = measured_queue_bytes(STATE, SCENARIO)
    monitored = {(SCENARIO.ports[index].node, SCENARIO.ports[index].port) for index in SCENARIO.monitored}
    total = sum(queue.depth_mean_bytes for queue in STATE.queues if queue.ref[:2] in monitored)
    assert measured == pytest.approx(total / len(monitored))
    assert switches_of(SCENARIO) == ("leaf1",)


def test_queues_of_one_port_are_added() -> None:
    queue = max(STATE.queues, key=lambda one: one.depth_mean_bytes)
    twice = replace(STATE, queues=(*STATE.queues, replace(queue, ref=queue.ref._replace(queue=4))))
    once = measured_queue_bytes(STATE, SCENARIO)
    both = measured_queue_bytes(twice, SCENARIO)
    assert once is not None
    assert both is not None
    assert both - once == pytest.approx(queue.depth_mean_bytes / len(SCENARIO.monitored))


def test_a_twin_that_does_not_show_what_was_measured_recommends_nothing() -> None:
    """The three senders leave half of the port free, so that no replay has a queue."""
    result = run_round(deeper(STATE), ask(0.0), lambda _: INCUMBENT, workers=InProcessWorkers())
    answer = result.recommendation
    assert answer.verdict.kind is VerdictKind.UNCALIBRATED
    assert {part.verdict.kind for part in answer.parts} == {VerdictKind.UNCALIBRATED}
    assert (answer.changes, answer.watermark) == (False, INCUMBENT)
    assert answer.why.startswith("Keep Kmin 400 KB, Kmax 1.6 MB, Pmax 20 %: no recommendation: the twin puts")
    assert len(answer.candidates) < 12
    assert result.measured_queue_bytes is not None
    assert result.measured_queue_bytes > 1e6


def test_of_live_traffic_a_flow_is_what_it_sent_so_far() -> None:
    moments = Moments(8, moment_s=0.01, long_s=0.1, over_s=300.0)
    live = run_round(STATE, ask(0.0), lambda _: INCUMBENT, workers=InProcessWorkers(), moments=moments)
    assert live.scenario.goes_on
    assert not SCENARIO.goes_on


def test_traffic_of_before_the_last_change_is_not_replayed() -> None:
    moments = Moments(8, moment_s=0.01, long_s=0.1, over_s=300.0)
    since_set_s = 0.5 * SCENARIO.duration_s
    found = run_round(
        STATE,
        ask(0.0),
        lambda _: INCUMBENT,
        workers=InProcessWorkers(),
        moments=moments,
        since_set_s=since_set_s,
    )
    assert found.scenario.duration_s == pytest.approx(since_set_s)


def test_senders_of_the_inventory_reach_the_round() -> None:
    hosts = [host.name for host in STATE.topology.hosts]
    every = replace(ask(0.0), fabric=replace(ask(0.0).fabric, senders=dict.fromkeys([*hosts, "h99"], SWIFT)))
    answer = run_round(STATE, every, lambda _: INCUMBENT, workers=InProcessWorkers()).recommendation
    assert answer.verdict.kind is VerdictKind.NO_EFFECT
    assert "(swift on 3 of 3 hosts that send)" in answer.verdict.sentence
    one = replace(every, fabric=replace(every.fabric, senders={"h1": SWIFT}))
    answer = run_round(STATE, one, lambda _: INCUMBENT, workers=InProcessWorkers()).recommendation
    assert answer.verdict.kind is VerdictKind.UNCALIBRATED
    assert "swift on 1 of 3 hosts that send act on round-trip times" in answer.verdict.sentence
    assert answer.watermark == INCUMBENT


def test_classes_of_nics_reach_the_round_and_the_engine_fluid_takes_all_to_run_the_same() -> None:
    own = {"disk": VENDOR, "elsewhere": VENDOR}
    classes = {"h1": "disk", "h2": "gpu", "h99": "elsewhere"}
    plain = ask(0.0)
    fabric = replace(plain.fabric, nic_class=classes, dcqcn_by_class=own)

    def run(**search: str) -> RoundResult:
        asked = replace(plain, fabric=fabric, search=replace(plain.search, **search))  # type: ignore[arg-type]
        return run_round(STATE, asked, lambda _: INCUMBENT, workers=InProcessWorkers())

    scenario = run().scenario
    assert scenario.nic_class == {"h1": "disk", "h2": "gpu"}
    assert scenario.dcqcn_by_host == {"h1": VENDOR}
    alike = run(second_engine="fluid")
    assert alike.scenario.nic_class == alike.scenario.dcqcn_by_class == {}
    (said,) = [note for note in alike.recommendation.notes if "engine fluid" in note]
    assert said.startswith("NICs of disk, elsewhere run other DCQCN values than most")


def with_idle_hosts(seen: NetworkState, count: int) -> NetworkState:
    """The same traffic in a fabric of so many more hosts."""
    topology = seen.topology
    idle = [f"idle{number}" for number in range(count)]
    links = [Link(name, "leaf1", 100, 1, None, f"to-{name}") for name in idle]
    larger = Topology((*topology.hosts, *map(Host, idle)), topology.switches, (*topology.links, *links))
    return replace(seen, topology=larger)


def test_a_round_calibrates_a_large_fabric_on_as_much_as_its_budget_allows() -> None:
    large, fabric = with_idle_hosts(STATE, 128), Fabric(dcqcn=PAPER)

    def replayed(seen: NetworkState, budget_s: float) -> Calibrated:
        return rebuilt(seen, fabric, INCUMBENT, budget_s=budget_s)

    whole, tenth = replayed(large, 60.0), replayed(large, 1e-6)
    assert whole.scenario.duration_s == replayed(STATE, 1e-6).scenario.duration_s > 0.002
    assert tenth.scenario.duration_s == pytest.approx(0.002)
    said = "the newest moment of this fabric is its last 2 ms."
    assert tenth.notes[-1].endswith(said)
    assert not any(note.endswith(said) for note in whole.notes)
    assert calibration_s(large, 1_048.0, 2.0) == pytest.approx(2 * calibration_s(large, 1_048.0, 1.0))


LASTING_S = 1e6 / STATE.topology.ports[0].rate_bytes_per_s


def transfers(start_s: NDArray[np.float64]) -> NetworkState:
    """Transfers of 1 MB of one pair."""
    count = len(start_s)
    found = replace(
        STATE.arrivals.take(np.zeros(count, np.int64)),
        start_s=start_s,
        last_s=start_s + 0.95 * LASTING_S,
        wire_bytes=np.full(count, 1e6),
        sent_bytes=np.full(count, 1e6),
        n_samples=np.full(count, 15),
    )
    return replace(STATE, arrivals=found)


def round_on(state: NetworkState) -> RoundResult:
    return run_round(state, ask(0.0), lambda _: INCUMBENT, workers=InProcessWorkers())


class TestSwitchesThatRunSeveralWatermarks:
    """As in a canary's soak: one of two switches runs the change."""

    WIDER = topology_from_json(
        TOPOLOGY
        | {
            "hosts": [*TOPOLOGY["hosts"], {"name": "h9", "ip": "10.0.0.9"}],
            "switches": [{"name": "leaf1"}, {"name": "leaf2"}],
            "links": [
                *TOPOLOGY["links"],
                {"a": "h9", "b": "leaf2", "b_port": "Ethernet9", "rate_gbps": 100, "delay_us": 1},
                {
                    "a": "leaf1",
                    "b": "leaf2",
                    "a_port": "up",
                    "b_port": "down",
                    "rate_gbps": 100,
                    "delay_us": 1,
                },
            ],
        }
    )
    SEEN = replace(STATE, topology=WIDER)

    def answer(self, canary: Watermark, seen: NetworkState = SEEN) -> Recommendation:
        both = tuple(self.WIDER.port_index[one] for one in (("leaf1", "Ethernet0"), ("leaf2", "Ethernet9")))
        return run_round(
            seen,
            replace(ask(0.0), fabric=Fabric(dcqcn=PAPER, monitored=both)),
            lambda names: canary if list(names) == ["leaf2"] else INCUMBENT,
            workers=InProcessWorkers(),
        ).recommendation

    def test_a_note_says_what_the_twin_takes_them_to_run(self) -> None:
        (said,) = [one for one in self.answer(OTHER).notes if "something else" in one]
        assert said.startswith("1 of 2 switches run something else than Kmin 400 KB, Kmax 1.6 MB, Pmax 20 %,")
        assert not any("something else" in one for one in self.answer(INCUMBENT).notes)

    def test_it_may_be_why_the_twin_does_not_show_what_was_measured(self) -> None:
        answer = self.answer(OTHER, deeper(self.SEEN))
        assert answer.verdict.kind is VerdictKind.UNCALIBRATED
        assert "1 of 2 switches run something else" in answer.why


def test_where_messages_wait_for_others_a_note_says_what_that_means() -> None:
    """Thirty transfers that begin together, as a collective's do."""
    notes = round_on(transfers(1e-4 + 1e-6 * np.arange(30))).recommendation.notes
    assert any(one.startswith("Large messages wait for others here (100 %") for one in notes)
    assert not any("wait for others" in one for one in round_on(STATE).recommendation.notes)


def test_transfers_one_after_the_other_wait_for_each_other_in_the_replay_too() -> None:
    found = round_on(transfers(1e-4 + LASTING_S * np.arange(30)))
    assert not any("wait for others" in one for one in found.recommendation.notes)
    flows = found.scenario.flows
    assert flows.waits is not None
    transferred = np.flatnonzero(flows.payload_bytes > 5e5)[:30]  # between a few small ones that nobody saw
    waited_for = np.array(after(flows.waits))[transferred]
    assert waited_for.tolist() == [-1, *transferred[:-1]]


def test_without_a_measured_port_there_is_nothing_to_compare() -> None:
    assert measured_queue_bytes(replace(STATE, queues=()), SCENARIO) is None
    assert residual_ratio(5_000.0, None) is None


def test_the_residual_is_0_in_step_and_calm_near_empty_queues() -> None:
    assert residual_ratio(50_000.0, 50_000.0) == 0
    assert residual_ratio(9_000.0, 4_000.0) == pytest.approx(1.0)
    assert residual_ratio(10.0, 0.0) == pytest.approx(0.01)


class TestPortsThatRunSeveralWatermarksByRole:
    HOST, SIDE = "leaf-host-100G", "leaf-side-100G"
    SEEN = TestSwitchesThatRunSeveralWatermarks.SEEN

    def round_with(self, engine: str, by_role: dict[str, Watermark]) -> RoundResult:
        asked = ask(0.0)
        return run_round(
            self.SEEN,
            replace(asked, search=replace(asked.search, engine=engine, candidates=4, narrowed=0)),
            lambda _: INCUMBENT,
            workers=InProcessWorkers(),
            by_role=lambda ports: {role: by_role.get(role, INCUMBENT) for _, _, role in ports},
        )

    def test_what_runs_is_predicted_so_and_what_is_tried_on_all_ports(self) -> None:
        result = self.round_with("replay", {self.HOST: OTHER})
        answer, runs = result.recommendation, RoleWatermarks(INCUMBENT, ((self.HOST, OTHER),))
        [replayed] = ReplayEngine().predict(result.scenario, [runs], seed=1)
        assert answer.incumbent_prediction.watermark == runs
        assert answer.incumbent_prediction.queue_mean_bytes == replayed.queue_mean_bytes
        assert (answer.incumbent, answer.incumbent_by_role) == (INCUMBENT, ((self.HOST, OTHER),))
        others = [one for one in answer.candidates if one.watermark != INCUMBENT]
        assert {type(one.prediction.watermark) for one in others} == {Watermark}
        assert len(others) >= 3
        beside = (
            f", and what {self.HOST} ports run:" if not answer.changes else f" on all ports, {self.HOST} too"
        )
        assert beside in answer.why
        told = round_document(result, wall_s=1.0).model_dump(mode="json")
        assert told["incumbent"]["kmin_bytes"] == INCUMBENT.kmin_bytes
        assert [(one["role"], one["kmin_bytes"]) for one in told["incumbent_by_role"]] == [
            (self.HOST, 20_000)
        ]

    def test_where_all_roles_run_the_same_nothing_is_said_of_them(self) -> None:
        answer = self.round_with("replay", {}).recommendation
        assert answer.incumbent_by_role == ()
        assert "ports run" not in answer.why

    def test_an_engine_with_one_watermark_for_all_says_what_it_takes_them_to_run(self) -> None:
        answer = self.round_with("fluid", {self.HOST: OTHER}).recommendation
        assert answer.incumbent_by_role == ()
        (said,) = [note for note in answer.notes if "engine fluid" in note]
        assert said.startswith("Ports of leaf-host-100G run something else than Kmin 400 KB")

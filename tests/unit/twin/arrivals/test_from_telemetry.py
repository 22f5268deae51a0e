"""A window of telemetry as a traffic problem: paths as seen, what was running, which ports are watched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from bench.search import scenario_from_reports
from telemetry.state import (
    FlowArrivals,
    FlowClass,
    FlowTable,
    NetworkState,
    QueueRef,
    QueueState,
)
from telemetry.topology import Host, Link, Topology
from twin.arrivals.from_telemetry import REPLAY_S, WARM_UP, scenario_from_state
from twin.errors import ScenarioError
from twin.scenario import Scenario
from twin.scenario_file import load_scenario
from twin.senders.dcqcn import PAPER

GBPS = 125e6

# Two leaves, two spines: a and b on the left, c on the right.
TOPOLOGY = Topology(
    tuple(Host(name) for name in "abc"),
    ("left", "right", "up", "down"),
    (
        Link("a", "left", 100, 1, None, "1"),
        Link("b", "left", 25, 1, None, "2"),
        Link("c", "right", 100, 1, None, "1"),
        *(
            Link(leaf, spine, 100, 1, f"to-{spine}", f"to-{leaf}")
            for leaf in ("left", "right")
            for spine in ("up", "down")
        ),
    ),
)
VIA = {
    spine: (
        QueueRef("left", f"to-{spine}", 3),
        QueueRef(spine, "to-right", 3),
        QueueRef("right", "1", 3),
    )
    for spine in ("up", "down")
}


@dataclass(frozen=True)
class Seen:
    """One message telemetry saw; ``path`` an index into ``state``'s paths, −1 for none."""

    src: str
    dst: str
    wire_bytes: float
    start_s: float
    last_s: float
    path: int = 0
    sent_bytes: float | None = None
    ran_before: bool = False


def queue(switch: str, port: str, depth: float, busy: float = 0.1, number: int = 3) -> QueueState:
    return QueueState(
        QueueRef(switch, port, number), 10, depth, depth, depth, None, busy * 100 * GBPS, 100 * GBPS
    )


QUEUES = (queue("right", "1", 50_000.0), queue("left", "to-up", 400.0), queue("up", "to-right", 499.0))


def state(
    seen: Sequence[Seen],
    *,
    duration_s: float = 0.04,
    queues: Sequence[QueueState] = QUEUES,
    paths: Sequence[Sequence[QueueRef]] = (VIA["up"], VIA["down"]),
) -> NetworkState:
    ordered = sorted(seen, key=lambda one: one.start_s)
    nothing = np.array([], dtype=np.int64)
    return NetworkState(
        window_start_ns=1_000,
        window_end_ns=1_000 + round(duration_s * 1e9),
        n_reports=len(seen),
        topology=TOPOLOGY,
        topology_declared=True,
        paths=tuple(tuple(path) for path in paths),
        flows=FlowTable(
            (), (), (), nothing.astype(np.int32), nothing.astype(np.int8), nothing.astype(float),
            nothing.astype(float), nothing,
        ),
        flow_groups=0,
        queues=tuple(queues),
        arrivals=FlowArrivals(
            tuple(one.src for one in ordered),
            tuple(one.dst for one in ordered),
            np.array([one.path for one in ordered], dtype=np.int32),
            np.array([one.wire_bytes for one in ordered]),
            np.array([one.start_s for one in ordered]),
            np.array([one.last_s for one in ordered]),
            np.zeros(len(ordered)),
            np.array([one.wire_bytes if one.sent_bytes is None else one.sent_bytes for one in ordered]),
            np.ones(len(ordered), np.int64),
            np.zeros(len(ordered), np.bool_),
            np.array([one.ran_before for one in ordered], np.bool_),
        ),
        bytes_by_class=dict.fromkeys(FlowClass, 0.0),
        flows_by_class=dict.fromkeys(FlowClass, 0),
        dominant_class=FlowClass.ELEPHANT,
        packet_bytes=1048,
    )  # fmt: skip


def built(seen: NetworkState, **kept: float) -> Scenario:
    return scenario_from_state(
        seen, PAPER, mtu_payload_bytes=1000, wire_overhead_bytes=48, buffer_bytes=4e6, pfc=False, **kept
    )


def walk(scenario: Scenario, flow: int) -> list[str]:
    path = [scenario.ports[port] for port in scenario.flows.path(flow)]
    return [path[0].node, *(port.peer for port in path)]


def test_a_flow_follows_the_path_telemetry_saw() -> None:
    scenario = built(state([Seen("a", "c", 1e5, 0.01, 0.02, 0), Seen("b", "c", 1e5, 0.011, 0.02, 1)]))
    assert walk(scenario, 0) == ["a", "left", "up", "right", "c"]
    assert walk(scenario, 1) == ["b", "left", "down", "right", "c"]


@pytest.mark.parametrize(
    "paths",
    [
        (),
        ((),),
        ((QueueRef("left", "gone", 3),),),
        ((QueueRef("right", "1", 3), QueueRef("left", "to-up", 3)),),  # hops that do not join
        (VIA["up"][:2],),  # ends before the receiver
    ],
)
def test_a_path_that_does_not_fit_the_topology_is_routed_anew(paths: Sequence[Sequence[QueueRef]]) -> None:
    scenario = built(state([Seen("a", "c", 1e5, 0.01, 0.02, 0)], paths=paths))
    way = walk(scenario, 0)
    assert (way[:2], way[3:]) == (["a", "left"], ["right", "c"])
    assert way[2] in ("up", "down")


def test_one_that_began_inside_starts_at_line_rate_with_all_its_bytes() -> None:
    scenario = built(state([Seen("b", "c", 104_800.0, 0.01, 0.02)]))
    assert scenario.flows.start_s.tolist() == [0.01]
    assert scenario.flows.payload_bytes.tolist() == pytest.approx([100_000])
    assert scenario.flows.start_rate_bytes_per_s.tolist() == [25 * GBPS]
    assert scenario.duration_s == pytest.approx(0.04)
    assert scenario.window_s == (pytest.approx(WARM_UP * 0.04), pytest.approx(0.04))


def test_one_running_already_goes_on_above_its_average_rate() -> None:
    """Without a mark a flow never speeds up, so at its average it would not find out what is free."""
    # 10.48 MB over 20 ms is 524 MB/s; the slow NIC caps nothing here.
    scenario = built(state([Seen("a", "c", 10_480_000.0, 0.0, 0.02)]))
    assert scenario.flows.start_rate_bytes_per_s.tolist() == pytest.approx([2 * 524e6])
    capped = built(state([Seen("b", "c", 100_000_000.0, 0.0, 0.02)]))
    assert capped.flows.start_rate_bytes_per_s.tolist() == [25 * GBPS]


def test_one_still_sending_never_ends() -> None:
    endless = [Seen("a", "c", math.inf, 0.0, 0.04, sent_bytes=4e6)]
    scenario = built(state(endless))
    assert scenario.flows.payload_bytes.tolist() == [math.inf]
    # Nothing but its sender holds it back, unless a port on its way is full.
    assert scenario.flows.start_rate_bytes_per_s.tolist() == pytest.approx([1e8])
    full = built(state(endless, queues=(queue("right", "1", 50_000.0, 0.9),)))
    assert full.flows.start_rate_bytes_per_s.tolist() == pytest.approx([2e8])


def test_metrics_wait_for_the_alphas_of_those_that_ran_before() -> None:
    running, new = Seen("a", "c", math.inf, 0.0, 0.04, sent_bytes=4e6), Seen("b", "c", 1e6, 0.01, 0.02)
    assert built(state([running, new])).window_s == pytest.approx((0.02, 0.04))  # 56 ms would be enough
    # Of a long window twice as much is replayed, so that the warm-up fits.
    assert built(state([running, new], duration_s=0.4)).window_s == pytest.approx((0.05, 0.1))
    mostly_new = replace(new, wire_bytes=5e6)
    assert built(state([running, mostly_new])).window_s == pytest.approx((WARM_UP * 0.04, 0.04))


def test_of_a_long_window_the_end_is_replayed() -> None:
    seen = [
        Seen("a", "c", 1e6, 0.01, 0.02),  # over by then
        Seen("b", "c", 3_144_000.0, 0.08, 0.14),  # half of it left, at 52.4 MB/s
        Seen("a", "c", 1e5, 0.13, 0.15),
        Seen("a", "c", math.inf, 0.02, 0.15, sent_bytes=1.3e7),
    ]
    scenario = built(state(seen, duration_s=0.16), begin_s=0.11)
    assert scenario.duration_s == pytest.approx(0.05)
    sizes = dict(zip(scenario.flows.start_s.round(9).tolist(), scenario.flows.payload_bytes, strict=False))
    assert len(scenario.flows) == 3
    assert sizes[0.02] == pytest.approx(1e5 / 1.048)
    assert sorted(scenario.flows.payload_bytes[scenario.flows.start_s == 0.0].tolist()) == [
        pytest.approx(1_500_000, rel=1e-6),
        math.inf,
    ]
    assert scenario.flows.rest is not None
    assert scenario.flows.rest.tolist() == (scenario.flows.start_s == 0.0).tolist()
    assert REPLAY_S == 0.05


def test_what_ran_before_the_window_is_a_rest_there_too() -> None:
    seen = [
        Seen("a", "c", 5e4, 0.0, 0.001, ran_before=True),
        Seen("b", "c", 5e4, 0.0, 0.001),
        Seen("b", "c", 5e4, 0.002, 0.003, ran_before=True),
    ]
    flows = built(state(seen)).flows
    assert flows.rest is not None
    assert flows.rest.tolist() == [True, False, True]


def test_flows_between_strangers_are_left_out() -> None:
    seen = [Seen("a", "c", 1e5, 0.01, 0.02), Seen("10.9.9.9", "c", 1e5, 0.01, 0.02, -1)]
    assert len(built(state(seen)).flows) == 1
    with pytest.raises(ScenarioError, match="1 flows, none of them between hosts") as raised:
        built(state(seen[1:]))
    assert "declare the hosts" in raised.value.remedy


def test_a_window_of_a_single_report_is_no_matter_of_addresses() -> None:
    with pytest.raises(ScenarioError, match="1 flows, all over when the replay begins") as raised:
        built(state([Seen("a", "c", 1e3, 0.0, 0.0)]))
    assert "longer time" in raised.value.remedy


def monitored(*queues: QueueState) -> set[tuple[str, str]]:
    scenario = built(state([Seen("a", "c", 1e5, 0.01, 0.02)], queues=queues))
    return {(scenario.ports[port].node, scenario.ports[port].peer) for port in scenario.monitored}


def test_ports_that_queue_are_watched_and_the_idle_are_not() -> None:
    assert monitored(*QUEUES) == {("right", "c")}
    near = (QUEUES[0], queue("left", "to-up", 500.0))
    assert monitored(*near) == {("right", "c"), ("left", "up")}


def test_a_nearly_full_port_is_watched_however_short_its_queue() -> None:
    assert monitored(QUEUES[0], queue("left", "to-up", 10.0, 0.85)) == {("right", "c"), ("left", "up")}
    # Queues of one port count together.
    both = (queue("left", "to-up", 10.0, 0.45, 3), queue("left", "to-up", 10.0, 0.45, 4))
    assert monitored(QUEUES[0], *both) == {("right", "c"), ("left", "up")}


def test_where_nothing_queues_all_are_watched() -> None:
    assert monitored(queue("right", "1", 0.0), queue("left", "to-up", 0.0)) == {
        ("right", "c"),
        ("left", "up"),
    }


def test_the_fabric_s_figures_are_handed_on() -> None:
    scenario = built(state([Seen("a", "c", 1e5, 0.01, 0.02)]))
    assert scenario.dcqcn is PAPER
    assert (scenario.packet_wire_bytes, scenario.buffer_bytes, scenario.pfc) == (1048, 4e6, False)
    assert scenario.ports == TOPOLOGY.ports


@pytest.mark.accuracy
def test_a_sampled_recording_carries_the_load_of_its_problem(reference: Path) -> None:
    """One packet in 64: the mice are mostly unseen, the bytes are not."""
    told = load_scenario(reference / "websearch-16.scenario.json")
    rebuilt, dominant = scenario_from_reports("websearch-16")
    assert dominant == "elephant"
    assert len(rebuilt.monitored) == 16

    def offered(scenario: Scenario) -> float:
        """Bytes a second of the flows that start and could end within the time replayed."""
        finite = np.isfinite(scenario.flows.payload_bytes)
        rows = finite & (scenario.flows.start_s < scenario.duration_s)
        return float(scenario.flow_wire_bytes[rows].sum()) / scenario.duration_s

    span = replace(told, duration_s=rebuilt.duration_s, window_s=(0.0, rebuilt.duration_s))
    still_running = float(np.count_nonzero(np.isinf(rebuilt.flows.payload_bytes)))
    assert still_running / len(rebuilt.flows) < 0.1
    assert offered(rebuilt) == pytest.approx(offered(span), rel=0.25)

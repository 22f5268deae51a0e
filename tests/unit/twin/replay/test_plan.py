"""A scenario compiled into tables: what is a queue, a stream, a feeder, and every unit in steps and bytes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from telemetry.topology import GBPS
from tests.unit.twin.fluid.problems import CHURNING, flow, line, star
from twin.errors import ScenarioError
from twin.replay import layout, plan
from twin.replay.plan import allocate, compile_params, compile_tables, queue_ports
from twin.scenario import Scenario
from twin.senders.dcqcn import PAPER, VENDOR

STEP_S = 2e-6


def three_switches() -> Scenario:
    """Two flows share s0→s1→s2→a2 from different NICs; one turns off at s1."""
    rows = [
        flow("a0", "a2", 1e5),
        flow("b0", "a2", 1e5),
        flow("a0", "b1", 1e5, 3.3e-6),
        flow("a0", "a2", 2e5),
    ]
    return line(rows, rates_gbps=(40.0, 10.0), duration_s=1e-3, wire_overhead_bytes=48)


def names(scenario: Scenario, ports: list[int]) -> list[tuple[str, str]]:
    return [(scenario.ports[port].node, scenario.ports[port].peer) for port in ports]


def test_records_of_large_tables_do_not_straddle_cache_lines() -> None:
    for record in (layout.QUEUE, layout.ENTRY, layout.INLET, layout.SUFFIX, layout.CELL, layout.PARCEL):
        rows = layout.records(5, record)
        assert rows.shape == (5,)
        assert rows.ctypes.data % layout.LINE == 0
        assert record.itemsize % layout.LINE == 0 or layout.LINE % record.itemsize == 0


def test_queues_are_the_switch_ports_crossed_and_the_monitored() -> None:
    scenario = three_switches()
    ports = names(scenario, queue_ports(scenario))
    assert set(ports) == {("s0", "s1"), ("s1", "s2"), ("s2", "a2"), ("s1", "b1")}
    idle = line([flow("a0", "b0", 1e5)], duration_s=1e-3)
    assert {("s0", "s1"), ("s1", "s2"), ("s0", "b0")} == set(names(idle, queue_ports(idle)))


def test_flows_with_the_same_rest_of_path_are_one_stream() -> None:
    scenario = three_switches()
    tables = compile_tables(scenario, STEP_S)
    assert tables.entries.size == 3  # a0→a2, b0→a2, a0→b1
    assert tables.nics.size == 2
    assert tables.flows["entry"].tolist() == [0, 1, 0, 2]
    first = {int(tables.entries[entry]["suffix"]) for entry in tables.flows["entry"][:2]}
    assert len(first) == 1  # from s0 on nothing tells a0's bytes to a2 from b0's
    # s0→s1→s2→a2, s1→s2→a2, s2→a2, and s0→s1→b1, s1→b1.
    assert tables.suffixes.size == 5
    ports = queue_ports(scenario)
    walk, suffix = [], first.pop()
    while suffix >= 0:
        row = tables.suffixes[suffix]
        walk.append(names(scenario, [ports[row["queue"]]])[0])
        suffix = int(row["onward"])
    assert walk == [("s0", "s1"), ("s1", "s2"), ("s2", "a2")]


def test_everything_that_feeds_a_queue_is_found_by_ingress() -> None:
    scenario = three_switches()
    tables = compile_tables(scenario, STEP_S)
    ports = queue_ports(scenario)
    fed = {
        names(scenario, [ports[q]])[0]: tables.feeders[queue["feeder_first"] : queue["feeder_end"]]
        for q, queue in enumerate(tables.queues)
    }
    assert {link: len(feeders) for link, feeders in fed.items()} == {
        ("s0", "s1"): 3, ("s1", "s2"): 1, ("s1", "b1"): 1, ("s2", "a2"): 1,
    }  # fmt: skip
    assert sorted(fed["s0", "s1"]["entry"].tolist()) == [0, 1, 2]
    assert set(fed["s1", "s2"]["entry"].tolist()) == {-1}
    # The two streams between s0 and s1 come in by one port.
    assert fed["s1", "s2"]["ingress"][0] == fed["s1", "b1"]["ingress"][0]
    ingress = tables.ingresses[fed["s1", "s2"]["ingress"][0]]
    assert names(scenario, [ports[ingress["queue"]]]) == [("s0", "s1")]
    assert ingress["nic"] == -1


def test_units_are_steps_and_bytes() -> None:
    scenario = replace(three_switches(), buffer_bytes=5e6, pfc=True)
    tables = compile_tables(scenario, STEP_S)
    assert tables.n_steps == 500
    assert (tables.window_first, tables.window_last) == (0, 500)
    assert tables.nics["rate"].tolist() == [40 * GBPS * STEP_S] * 2
    assert tables.flows["rate"].tolist() == [40 * GBPS * STEP_S] * 4
    assert tables.flows["bytes"].tolist() == [104_800, 104_800, 209_600, 104_800]
    assert tables.flows["start"].tolist() == pytest.approx([0, 0, 0, 1.65])
    assert tables.ack_ratio == 0.0
    slow = [q for q, port in enumerate(queue_ports(scenario)) if names(scenario, [port]) == [("s1", "s2")]]
    assert tables.queues["rate"][slow].tolist() == [10 * GBPS * STEP_S]


def test_the_way_back_is_what_the_kernel_has_not_walked() -> None:
    one_way = star([flow("h0", "h1", 1e5)], delay_us=10.0, dcqcn=CHURNING, duration_s=1e-3)
    [entry] = compile_tables(one_way, STEP_S).entries
    # There and back is 40 µs, 20 steps, the NIC's cable 5 of them. A packet is stored and forwarded twice,
    # counted from when half of it has been sent, and its acknowledgement too.
    byte_s = 1.0 / one_way.ports[0].rate_bytes_per_s
    stored_s = (1.5 * one_way.packet_wire_bytes + 2 * one_way.ack_wire_bytes) * byte_s
    assert entry["delay"] == 5
    assert entry["return_delay"] == pytest.approx(15 + stored_s / STEP_S)
    fixed = replace(one_way, dcqcn=replace(CHURNING, feedback_delay_s=100e-6))
    [entry] = compile_tables(fixed, STEP_S).entries
    assert entry["return_delay"] == pytest.approx(50 - 5)
    # Shorter than the way there: at least a step.
    fixed = replace(one_way, dcqcn=replace(CHURNING, feedback_delay_s=1e-6))
    assert compile_tables(fixed, STEP_S).entries[0]["return_delay"] == 1


def test_acknowledgements_load_the_other_direction() -> None:
    rows = [flow("h0", "h1", 1e5), flow("h1", "h2", 1e5)]
    scenario = star(rows, ack_wire_bytes=60, wire_overhead_bytes=48, duration_s=1e-3)
    tables = compile_tables(scenario, STEP_S)
    assert tables.ack_ratio == 60 / 1048
    ports = queue_ports(scenario)
    to_h1, to_h2, to_h3 = (
        next(q for q, port in enumerate(ports) if scenario.ports[port].peer == host)
        for host in ("h1", "h2", "h3")
    )
    # h1's NIC carries the acknowledgements of what the switch sends to h1, and the other way round.
    nics = {
        int(entry["nic"]) for entry in tables.entries if tables.suffixes[entry["suffix"]]["queue"] == to_h2
    }
    assert tables.nics[nics.pop()]["reverse_queue"] == to_h1
    assert tables.queues["reverse_nic"][to_h1] >= 0
    assert tables.queues["reverse_nic"][to_h3] == -1
    assert np.all(tables.queues["reverse_queue"] == -1)


def test_the_shared_buffer_is_what_reserves_and_headroom_leave() -> None:
    scenario = star([flow("h0", "h1", 1e5)], duration_s=1e-3, buffer_bytes=2e6)
    [switch] = compile_tables(scenario, STEP_S).switches
    headroom = 4 * plan.HEADROOM_BDP * 40 * GBPS * 1e-6
    assert switch["shared"] == pytest.approx(2e6 - headroom - 4 * plan.RESERVE_BYTES)
    tiny = replace(scenario, buffer_bytes=20_000.0)
    assert compile_tables(tiny, STEP_S).switches[0]["shared"] == pytest.approx(2_000.0)


def test_parameters_in_steps() -> None:
    fast = replace(VENDOR, cnp_interval_s=1e-6)
    params = compile_params([PAPER, CHURNING, VENDOR, replace(PAPER, cnp_interval_s=26e-6), fast], STEP_S)
    assert params["ai_rate"][0] == pytest.approx(0.04 * GBPS * STEP_S)
    assert params[["cnp_steps", "alpha_steps", "increase_steps"]][0].tolist() == (25.0, 27.5, 27.5)
    assert params["byte_counter"].tolist() == [10e6, math.inf, 32_767, 10e6, 32_767]
    # Three looks for the first mark a CNP interval, none longer than eight steps.
    assert params["look_steps"].tolist() == [8, 8, 1, 4, 1]
    # A clock faster than the step: rate clocks tick once a step, α is caught up.
    assert params[["cnp_steps", "alpha_steps"]][4].tolist() == (1.0, 0.5)


def test_every_switch_knows_its_queues_and_ingress_ports() -> None:
    tables = compile_tables(three_switches(), STEP_S)
    for s, switch in enumerate(tables.switches):
        own = tables.queues_of[switch["queue_first"] : switch["queue_end"]]
        assert sorted(own.tolist()) == np.flatnonzero(tables.queues["switch"] == s).tolist()
        into = tables.ingresses_of[switch["ingress_first"] : switch["ingress_end"]]
        assert sorted(into.tolist()) == np.flatnonzero(tables.ingresses["switch"] == s).tolist()
    assert tables.switches["queue_end"].max() == tables.queues.size
    assert tables.switches["ingress_end"].max() == tables.ingresses.size


def test_below_its_calm_no_ingress_of_a_switch_reaches_its_threshold() -> None:
    tables = compile_tables(replace(three_switches(), pfc=True), STEP_S)
    for s, switch in enumerate(tables.switches):
        used = switch["calm"]
        shares = tables.ingresses["share"][tables.ingresses["switch"] == s]
        # One port that holds all there is, without a reserve, is the first to pause.
        assert used == pytest.approx((switch["shared"] - used) * shares.min(initial=1.0))


def test_flows_that_enter_the_same_way_share_an_inlet() -> None:
    tables = compile_tables(three_switches(), STEP_S)
    # a0 and b0 to a2 by equal cables; a0 to b1 turns off.
    assert tables.inlets.size == 2
    for entry in tables.entries:
        inlet = tables.inlets[entry["inlet"]]
        assert (inlet["suffix"], inlet["delay"]) == (entry["suffix"], entry["delay"])
    assert tables.entries["inlet"][0] == tables.entries["inlet"][1] != tables.entries["inlet"][2]


def test_a_flow_asks_the_queues_of_its_path_in_their_order() -> None:
    scenario = three_switches()
    tables, ports = compile_tables(scenario, STEP_S), queue_ports(scenario)
    hops, offset = tables.probed.queue, tables.probed.offset
    for entry, row in enumerate(tables.entries):
        walk, suffix = [], int(row["suffix"])
        while suffix >= 0:
            walk.append(int(tables.suffixes[suffix]["queue"]))
            suffix = int(tables.suffixes[suffix]["onward"])
        assert hops[offset[entry] : offset[entry + 1]].tolist() == walk
    assert names(scenario, [ports[q] for q in hops[offset[2] : offset[3]]]) == [("s0", "s1"), ("s1", "b1")]


def test_room_for_every_step_and_cable() -> None:
    scenario = three_switches()
    tables = compile_tables(scenario, STEP_S)
    work = allocate(tables)
    assert work.slots.size == len(scenario.flows)
    assert work.reads.shape == (len(scenario.flows), 3)
    furthest = max(tables.queues["delay"].max(), tables.inlets["delay"].max())
    assert work.pages.shape[0] * layout.PAGE > tables.n_steps + furthest
    assert work.pages.shape == work.marks.shape == work.losses.shape
    assert work.cells.size == work.free_pages.size * layout.PAGE
    assert work.lost.size == work.cells.size
    # Where packets may not be lost, nothing is kept of losses.
    paused = allocate(compile_tables(replace(scenario, pfc=True), STEP_S))
    assert (paused.lost.size, paused.losses.size) == (0, 1)


def test_a_path_without_a_switch_is_refused() -> None:
    scenario = star([flow("h0", "h1", 1e5)], duration_s=1e-3)
    bare = replace(
        scenario,
        flows=replace(
            scenario.flows,
            path_offset=np.array([0, 1], dtype=np.int32),
            path_ports=scenario.flows.path_ports[:1],
        ),
    )
    with pytest.raises(ScenarioError, match=r"flow 0.*1 ports"):
        compile_tables(bare, STEP_S)

"""Priority flow control by numbers worked out by hand: what an ingress holds, when it pauses and resumes."""

from __future__ import annotations

import pytest

from tests.unit.twin.fluid.problems import flow, line, star
from tests.unit.twin.replay.records import STEP_S, Bench
from twin.replay._cells import cell_of
from twin.replay._pfc import apply_pauses, decide, hold, log_feeders, sent_until, total
from twin.replay.layout import LOG_STEPS, NEVER

pytestmark = pytest.mark.kernels

RESERVE, RESUME = 4_000.0, 3_000.0  # as the bench has them


def fed(hosts: int = 1) -> Bench:
    """One switch and its queue; from each of ``hosts`` a feeder, by an ingress port of its own."""
    rows = [flow(f"h{i}", f"h{hosts}", 1e6) for i in range(hosts)]
    scenario = star(rows, hosts=hosts + 1, duration_s=200 * STEP_S, pfc=True)
    bench = Bench(scenario)
    bench.tables.ingresses["delay"], bench.tables.ingresses["share"] = 5, 0.125
    bench.tables.switches["shared"] = 100_000.0
    return bench


def test_a_feeder_s_past_is_interpolated_between_logs_and_exact_now() -> None:
    bench = fed()
    bench.tables.entries["rate"] = 100.0
    for step in range(0, 41, LOG_STEPS):
        log_feeders(bench.tables, bench.work, step)
    step = 40  # it ends with 41 steps sent
    for position in (-3.0, 0.0, 7.25, 16.0, 30.5, 38.5, 41.0):
        sent = sent_until(bench.tables, bench.work, 0, position, step)
        assert sent == pytest.approx(max(position, 0.0) * 100.0)


def test_a_change_of_rate_between_two_logs_is_spread_over_them() -> None:
    bench = fed()
    log_feeders(bench.tables, bench.work, 0)
    [entry] = bench.tables.entries
    entry["total"], entry["since"], entry["rate"] = 0.0, 8, 200.0  # silent until step 8
    log_feeders(bench.tables, bench.work, 16)
    assert bench.work.logs[1, 0] == 8 * 200.0
    assert sent_until(bench.tables, bench.work, 0, 8.0, 20) == 800.0


def test_what_is_older_than_the_logs_counts_from_the_oldest() -> None:
    bench = fed()
    bench.tables.entries["rate"] = 100.0
    bench.work = bench.work._replace(logs=bench.work.logs[:4])
    for step in range(0, 161, LOG_STEPS):
        log_feeders(bench.tables, bench.work, step)
    # Four rows hold steps 112, 128, 144 and 160.
    assert sent_until(bench.tables, bench.work, 0, 120.0, 161) == pytest.approx(12_000.0)
    assert sent_until(bench.tables, bench.work, 0, 40.0, 161) == pytest.approx(11_200.0)


def test_a_stream_that_goes_on_feeds_the_next_switch() -> None:
    scenario = line([flow("a0", "a1", 1e6)], rates_gbps=(40.0,), duration_s=200 * STEP_S, pfc=True)
    bench = Bench(scenario)
    bench.bring(0, 0, 70.0)
    bench.advance(0, [1e9, 1e9])
    [f] = [f for f, feeder in enumerate(bench.tables.feeders) if feeder["suffix"] >= 0]
    assert total(bench.tables, f, 1) == 70.0


def crowded() -> Bench:
    """One queue, fed at 300 and 100 bytes a step over cables of 2 and 1 steps for 16 steps."""
    bench = fed(2)
    tables, work = bench.tables, bench.work
    tables.entries["rate"] = [300.0, 100.0]
    tables.feeders["delay"] = [2 - feeder["entry"] for feeder in tables.feeders]
    log_feeders(tables, work, 0)
    for step in range(16):
        work.cells[cell_of(work, tables.queues[0], 0, step)]["arrived"] = 400.0
    return bench


def held_by(bench: Bench) -> list[float]:
    """What the ingress of each entry holds."""
    ports = {int(feeder["entry"]): int(feeder["ingress"]) for feeder in bench.tables.feeders}
    return [float(bench.tables.ingresses[ports[entry]]["held"]) for entry in sorted(ports)]


def test_what_an_ingress_holds_is_what_came_by_it_and_has_not_left() -> None:
    bench = crowded()
    # The queue stands in its arrival step 10, a quarter of it already gone, at the end of step 15.
    queue = bench.tables.queues[0]
    queue["head"], queue["left"], queue["backlog"] = 10, 300.0, 5.75 * 400.0
    hold(bench.tables, bench.work, 0, 15)
    assert held_by(bench) == pytest.approx([5.75 * 300.0, 5.75 * 100.0])
    queue["backlog"] = 0.0
    hold(bench.tables, bench.work, 0, 15)
    assert held_by(bench) == [0.0, 0.0]


def test_another_switch_s_queues_are_none_of_its_business() -> None:
    scenario = line([flow("a0", "a1", 1e6)], rates_gbps=(40.0,), duration_s=200 * STEP_S, pfc=True)
    bench = Bench(scenario)
    tables = bench.tables
    first = int(tables.suffixes[tables.entries[0]["suffix"]]["queue"])
    bench.bring(0, 0, 900.0)
    bench.advance(0, {first: 100.0})
    tables.entries["total"] = 900.0
    log_feeders(tables, bench.work, 0)
    tables.ingresses["held"] = 7.0
    other = 1 - int(tables.queues[first]["switch"])
    hold(tables, bench.work, other, 0)
    assert sorted(tables.ingresses["held"].tolist()) == [0.0, 7.0]


def ports(*held: float, paused: int = 0) -> Bench:
    bench = fed(len(held))
    bench.tables.ingresses["held"] = held
    bench.tables.ingresses[0]["paused"] = bench.tables.switches[0]["paused"] = paused
    return bench


def decided(bench: Bench, step: int = 50) -> list[int]:
    """Which ports are paused once the switch has decided; it counts them."""
    decide(bench.tables, bench.work, 0, step)
    found = [int(paused) for paused in bench.tables.ingresses["paused"]]
    assert bench.tables.switches[0]["paused"] == sum(found)
    return found


def test_it_pauses_at_an_eighth_of_what_is_free() -> None:
    # x beyond the reserve reaches (100 000 − x) / 8 at x = 100 000 / 9 = 11 111.1.
    for beyond, paused in ((11_111.0, 0), (11_112.0, 1)):
        bench = ports(RESERVE + beyond)
        assert decided(bench) == [paused]
        assert bench.tables.ingresses[0]["change_at"] == (55 if paused else NEVER)


def test_a_faster_port_may_hold_more() -> None:
    # x beyond the reserve reaches (100 000 − x) / 2 at x = 33 333.3.
    for beyond, paused in ((33_333.0, 0), (33_334.0, 1)):
        bench = ports(RESERVE + beyond)
        bench.tables.ingresses["share"] = 0.5
        assert decided(bench) == [paused]


def test_what_others_hold_lowers_the_threshold() -> None:
    # (100 000 − 30 000 − 9 000) / 8 = 7 625: the small one pauses too.
    assert decided(ports(RESERVE + 30_000.0, RESERVE + 9_000.0, RESERVE - 1.0)) == [1, 1, 0]
    assert decided(ports(RESERVE + 30_000.0, RESERVE + 7_000.0)) == [1, 0]


def test_it_resumes_three_kilobytes_below() -> None:
    # x + 3 000 ≤ (100 000 − x) / 8 holds up to x = 8 444.4.
    for beyond, paused in ((8_445.0, 1), (8_444.0, 0)):
        assert decided(ports(RESERVE + beyond, paused=1)) == [paused]


def test_an_empty_ingress_resumes_however_full_the_switch() -> None:
    assert decided(ports(RESERVE, RESERVE + 200_000.0, paused=1)) == [0, 1]


def test_a_pause_takes_effect_a_cable_later_and_only_once() -> None:
    bench = ports(RESERVE + 50_000.0)
    tables, work = bench.tables, bench.work
    decided(bench)
    [nic] = tables.nics
    assert apply_pauses(tables, work, 54, 0) == 0
    assert nic["paused"] == 0
    assert apply_pauses(tables, work, 55, 0) == 1
    assert (nic["paused"], nic["dirty"], work.dirty[0]) == (1, 1, 0)
    assert work.pool[0]["n_changes"] == 0
    assert apply_pauses(tables, work, 56, 1) == 1


def test_a_change_of_mind_on_the_way_travels_with_the_first() -> None:
    bench = ports(RESERVE + 50_000.0)
    decided(bench, 50)
    bench.tables.ingresses["held"] = 0.0
    decided(bench, 52)
    assert bench.work.pool[0]["n_changes"] == 1
    apply_pauses(bench.tables, bench.work, 55, 0)
    assert bench.tables.nics[0]["paused"] == 0
    assert bench.tables.ingresses[0]["change_at"] == NEVER


def test_a_pause_stops_the_port_of_the_switch_before() -> None:
    scenario = line([flow("a0", "a1", 1e6)], rates_gbps=(40.0,), duration_s=200 * STEP_S, pfc=True)
    bench = Bench(scenario)
    tables, work = bench.tables, bench.work
    tables.ingresses["delay"] = 5
    [port] = [port for port in tables.ingresses if port["queue"] >= 0]
    queue, s = tables.queues[port["queue"]], int(port["switch"])
    port["held"] = 1e9
    decide(tables, work, s, 50)
    apply_pauses(tables, work, 55, 0)
    assert queue["paused"] == 1
    assert queue["light_rate"] < 0  # no short cut past the pause
    port["held"] = 0.0
    decide(tables, work, s, 60)
    apply_pauses(tables, work, 65, 0)
    assert queue["paused"] == 0
    assert queue["light_rate"] > 0

"""Flows that start once another has been delivered: in both engines that replay flows, and cut short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.twin.fabrics import after, chained, star
from twin.engine import Engine
from twin.packet.model import PacketEngine
from twin.prediction import Prediction
from twin.replay.model import ReplayEngine
from twin.scenario import Flows, Scenario, Waits
from twin.watermark import Watermark

ENGINES = pytest.mark.parametrize("engine", [ReplayEngine(), PacketEngine()], ids=["replay", "packet"])
LOW, HIGH = Watermark(5_000, 20_000, 1.0), Watermark(800_000, 3_200_000, 0.1)


def predicted(engine: Engine, scenario: Scenario, watermark: Watermark = HIGH) -> Prediction:
    [found] = engine.predict(scenario, [watermark], seed=1)
    return found


@ENGINES
def test_transfers_of_a_chain_do_not_share_their_link(engine: Engine) -> None:
    scenario = star([(0, 1)] * 6, duration_s=3e-3)
    assert predicted(engine, chained(scenario)).slowdown["all"].mean == pytest.approx(1.0, abs=1e-6)
    assert predicted(engine, scenario).slowdown["all"].mean > 3.0


@ENGINES
def test_what_has_not_started_by_the_end_is_not_counted(engine: Engine) -> None:
    """A transfer takes 168 µs on the wire and some 4 on its way: with a gap of 500, three begin in 1.6 ms."""
    found = predicted(engine, chained(star([(0, 1)] * 20, duration_s=1.6e-3), gap_s=500e-6))
    assert found.slowdown["all"].n == 3


@ENGINES
def test_several_may_wait_for_the_same(engine: Engine) -> None:
    scenario = star([(0, 1), (2, 3), (4, 5)], duration_s=1e-3)
    waits = Waits.of([(), (0,), (0,)], np.zeros(3))
    found = predicted(engine, replace(scenario, flows=replace(scenario.flows, waits=waits)))
    assert found.slowdown["all"].n == 3
    assert found.slowdown["all"].mean == pytest.approx(1.0, abs=1e-6)


@ENGINES
def test_one_without_end_may_wait(engine: Engine) -> None:
    scenario = star([(0, 1), (0, 1)], payload_bytes=[1e6, np.inf], duration_s=2e-3)
    found = predicted(engine, chained(scenario))
    assert found.lasting_bytes_per_s == pytest.approx(100e9 / 8, rel=0.1)


@ENGINES
def test_one_without_end_that_hardly_starts_sends_nothing(engine: Engine) -> None:
    scenario = star([(0, 1), (2, 3)], payload_bytes=[np.inf, np.inf], duration_s=2.0009e-3)
    flows = replace(scenario.flows, start_s=np.array([0.0, 2.0005e-3]))
    found = predicted(engine, replace(scenario, flows=flows))
    assert found.lasting_bytes_per_s is not None
    assert 0.0 < found.lasting_bytes_per_s <= 100e9 / 8


def waiting_at(scenario: Scenario, barrier: list[int], awaited: list[list[int]]) -> Scenario:
    """Each flow waits at a barrier, or −1, until those awaited there are delivered."""
    waits = Waits(
        barrier=np.array(barrier),
        gap_s=np.zeros(len(barrier)),
        offset=np.cumsum([0, *map(len, awaited)]),
        row=np.array([row for rows in awaited for row in rows]),
    )
    return replace(scenario, flows=replace(scenario.flows, waits=waits))


@ENGINES
def test_one_may_wait_for_several(engine: Engine) -> None:
    """The third shares its receiver with the second: it meets it if it waits for the first alone."""
    scenario = star([(0, 3), (1, 4), (2, 4)], payload_bytes=[5e5, 2e6, 2e6], duration_s=2e-3)
    both = predicted(engine, waiting_at(scenario, [-1, -1, 0], [[0, 1]]))
    first = predicted(engine, waiting_at(scenario, [-1, -1, 0], [[0]]))
    assert both.slowdown["all"].n == first.slowdown["all"].n == 3
    assert both.slowdown["all"].mean == pytest.approx(1.0, abs=1e-6)
    assert first.slowdown["all"].mean > 1.2


def all_to_all(steps: int = 12) -> Scenario:
    """Of five hosts: each sends to the others when it has sent and received all of the step before."""
    pairs = [(src, dst) for src in range(5) for dst in range(5) if src != dst]
    every = pairs * steps
    awaited = [
        [20 * step + row for row, pair in enumerate(pairs) if host in pair]
        for step in range(steps - 1)
        for host in range(5)
    ]
    barrier = [-1] * 20 + [5 * step + src for step in range(steps - 1) for src, _ in pairs]
    sizes = [1e6 + 2e5 * src for src, _ in every]
    return waiting_at(star(every, payload_bytes=sizes, duration_s=8e-3), barrier, awaited)


@ENGINES
def test_steps_of_an_all_to_all_come_one_after_the_other(engine: Engine) -> None:
    """Each takes at least 4 MB at 100 Gbit/s: 340 µs on the wire."""
    found = predicted(engine, replace(all_to_all(), duration_s=1.3e-3, window_s=(0.0, 1.3e-3)))
    assert found.slowdown["all"].n <= 80


def three_chains() -> Scenario:
    """Of larger and smaller transfers, to one receiver."""
    pairs, sizes = [(0, 3), (1, 3), (2, 3)] * 40, [3e6, 2.2e6, 1.7e6] * 40
    scenario = star(pairs, payload_bytes=sizes, duration_s=0.02)
    waits = Waits.of([(), (), (), *((row,) for row in range(117))], np.full(120, 20e-6))
    return replace(scenario, flows=replace(scenario.flows, waits=waits))


@ENGINES
def test_a_slow_watermark_delays_the_next_transfer_instead_of_piling_up(engine: Engine) -> None:
    """With starts as seen nearly all would be under way at once: fifty times as slow as alone on average."""
    slow, fast = (predicted(engine, three_chains(), one).slowdown["all"] for one in (LOW, HIGH))
    assert slow.n < 0.8 * fast.n
    assert fast.mean < slow.mean < 25.0


@pytest.mark.parametrize("watermark", [LOW, HIGH], ids=["low", "high"])
@pytest.mark.parametrize(
    ("scenario", "mean_within"),
    [(three_chains(), 0.2), (all_to_all(), 0.15)],
    ids=["chains", "an all-to-all"],
)
def test_the_engines_agree(scenario: Scenario, mean_within: float, watermark: Watermark) -> None:
    replay, packet = (predicted(engine, scenario, watermark) for engine in (ReplayEngine(), PacketEngine()))
    assert replay.slowdown["all"].n == pytest.approx(packet.slowdown["all"].n, rel=0.15)
    assert replay.slowdown["all"].mean == pytest.approx(packet.slowdown["all"].mean, rel=mean_within)
    assert replay.goodput_bytes_per_s == pytest.approx(packet.goodput_bytes_per_s, rel=0.15)


def test_the_next_run_starts_anew() -> None:
    for scenario in (chained(star([(0, 1)] * 6, duration_s=3e-3), gap_s=20e-6), all_to_all(6)):
        first, _, again = ReplayEngine().predict(scenario, [LOW, HIGH, LOW], seed=1)
        assert first == again


def waiting(flows: Flows) -> list[int] | None:
    return None if flows.waits is None else after(flows.waits)


def test_rows_left_out_are_waited_for_no_more() -> None:
    flows = chained(star([(0, 1)] * 6)).flows
    assert waiting(flows.only(np.array([1, 1, 0, 1, 1, 1], np.bool_))) == [-1, 0, -1, 2, 3]
    assert waiting(flows.only(np.array([1, 0, 1, 0, 1, 0], np.bool_))) is None
    assert waiting(star([(0, 1)] * 6).flows.only(np.ones(6, np.bool_))) is None


def test_of_several_waited_for_those_left_are() -> None:
    flows = waiting_at(star([(0, 1)] * 6), [-1, -1, 0, 0, 1, 2], [[0, 1], [1, 2], [2]]).flows
    waits = flows.only(np.array([0, 1, 0, 1, 1, 1], np.bool_)).waits
    assert waits is not None
    assert waits.barrier.tolist() == [-1, 0, 1, -1]
    assert (waits.offset.tolist(), waits.row.tolist()) == ([0, 1, 2], [0, 0])
    assert flows.waits is not None
    begin, after = flows.waits.of_each_flow()
    assert np.diff(begin).tolist() == [0, 0, 2, 2, 2, 1]
    assert after.tolist() == [0, 1, 0, 1, 1, 2, 2]
    turned = flows.waits.only(np.array([3, 1, 0]))
    assert turned is not None
    assert (turned.barrier.tolist(), turned.row.tolist()) == ([0, -1, -1], [2, 1])


def test_cut_short_a_chain_keeps_one_that_may_start_sooner() -> None:
    """The flows were seen a microsecond apart."""
    cut = chained(star([(0, 1)] * 6)).until(2.5e-6)
    assert len(cut.flows) == 4
    assert waiting(cut.flows) == [-1, 0, 1, 2]

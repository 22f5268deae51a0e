"""Flows that start once another has been delivered: in both engines that replay flows, and cut short."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.twin.fabrics import chained, star
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
    waits = Waits(after=np.array([-1, 0, 0]), gap_s=np.zeros(3))
    found = predicted(engine, replace(scenario, flows=replace(scenario.flows, waits=waits)))
    assert found.slowdown["all"].n == 3
    assert found.slowdown["all"].mean == pytest.approx(1.0, abs=1e-6)


@ENGINES
def test_a_flow_that_waits_for_several_starts_after_the_last(engine: Engine) -> None:
    """A small one and one of 168 µs on the wire; what begins before would share the third one's link."""
    scenario = star([(0, 1), (2, 3), (2, 3)], payload_bytes=[1e5, 2e6, 2e6], duration_s=1e-3)
    waits = Waits.of(np.array([[-1, -1], [-1, -1], [0, 1]]), np.zeros(3))
    found = predicted(engine, replace(scenario, flows=replace(scenario.flows, waits=waits)))
    assert found.slowdown["all"].n == 3
    assert found.slowdown["all"].mean == pytest.approx(1.0, abs=1e-6)


def all_to_all(ranks: int = 8, steps: int = 12) -> Scenario:
    """Each rank begins its next step once it sent and received all of the one before."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    count = len(pairs)
    of_rank = [[at for at, pair in enumerate(pairs) if rank in pair] for rank in range(ranks)]
    before = np.array([of_rank[src] for src, _ in pairs])
    every = np.concatenate([np.full_like(before, -1), *(before + step * count for step in range(steps - 1))])
    scenario = star(pairs * steps, payload_bytes=1e6, duration_s=0.015)
    waits = Waits.of(every, np.zeros(len(every)))
    start_s = np.zeros(len(every))
    return replace(scenario, flows=replace(scenario.flows, waits=waits, start_s=start_s))


@pytest.mark.parametrize("watermark", [LOW, HIGH], ids=["low", "high"])
def test_the_engines_agree_on_steps(watermark: Watermark) -> None:
    replay, packet = (
        predicted(engine, all_to_all(), watermark) for engine in (ReplayEngine(), PacketEngine())
    )
    assert replay.slowdown["all"].mean == pytest.approx(packet.slowdown["all"].mean, rel=0.15)
    assert replay.goodput_bytes_per_s == pytest.approx(packet.goodput_bytes_per_s, rel=0.1)


def three_chains() -> Scenario:
    """Of larger and smaller transfers, to one receiver."""
    pairs, sizes = [(0, 3), (1, 3), (2, 3)] * 40, [3e6, 2.2e6, 1.7e6] * 40
    scenario = star(pairs, payload_bytes=sizes, duration_s=0.02)
    waits = Waits(after=np.arange(-3, 117).clip(-1), gap_s=np.full(120, 20e-6))
    return replace(scenario, flows=replace(scenario.flows, waits=waits))


@ENGINES
def test_a_slow_watermark_delays_the_next_transfer_instead_of_piling_up(engine: Engine) -> None:
    """With starts as seen nearly all would be under way at once: fifty times as slow as alone on average."""
    slow, fast = (predicted(engine, three_chains(), one).slowdown["all"] for one in (LOW, HIGH))
    assert slow.n < 0.8 * fast.n
    assert fast.mean < slow.mean < 25.0


@pytest.mark.parametrize("watermark", [LOW, HIGH], ids=["low", "high"])
def test_the_engines_agree_on_chains(watermark: Watermark) -> None:
    replay, packet = (
        predicted(engine, three_chains(), watermark) for engine in (ReplayEngine(), PacketEngine())
    )
    assert replay.slowdown["all"].n == pytest.approx(packet.slowdown["all"].n, rel=0.15)
    assert replay.slowdown["all"].mean == pytest.approx(packet.slowdown["all"].mean, rel=0.2)
    assert replay.goodput_bytes_per_s == pytest.approx(packet.goodput_bytes_per_s, rel=0.15)


def test_the_next_run_starts_anew() -> None:
    scenario = chained(star([(0, 1)] * 6, duration_s=3e-3), gap_s=20e-6)
    first, _, again = ReplayEngine().predict(scenario, [LOW, HIGH, LOW], seed=1)
    assert first == again


def waiting(flows: Flows) -> list[int] | None:
    return None if flows.waits is None else flows.waits.after.tolist()


def test_rows_left_out_are_waited_for_no_more() -> None:
    flows = chained(star([(0, 1)] * 6)).flows
    assert waiting(flows.only(np.array([1, 1, 0, 1, 1, 1], np.bool_))) == [-1, 0, -1, 2, 3]
    assert waiting(flows.only(np.array([1, 0, 1, 0, 1, 0], np.bool_))) is None
    assert waiting(star([(0, 1)] * 6).flows.only(np.ones(6, np.bool_))) is None


def test_cut_short_a_chain_keeps_one_that_may_start_sooner() -> None:
    """The flows were seen a microsecond apart."""
    cut = chained(star([(0, 1)] * 6)).until(2.5e-6)
    assert len(cut.flows) == 4
    assert waiting(cut.flows) == [-1, 0, 1, 2]

"""What the engines tell for a gain: probes of the queues, shares paused and lost, blocks left out."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from telemetry.topology import GBPS
from tests.unit.twin.fluid.problems import CHURNING, flow, line, star
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from twin.engine import ENGINE_NAMES, engine
from twin.prediction import BLOCKS, Prediction
from twin.probe._draws import PROBE_BINS
from twin.probe.figures import Blocks, gain_parts, probes
from twin.scenario import Scenario
from twin.watermark import Watermark

NEVER = Watermark(30_000_000, 31_000_000, 0.01)
LOW = Watermark(5_000, 200_000, 0.1)

pytestmark = pytest.mark.kernels


def predicted(name: str, scenario: Scenario, watermark: Watermark = NEVER) -> Prediction:
    [prediction] = engine(name).predict(scenario, [watermark], seed=1)
    return prediction


def crowd(**kept: object) -> Scenario:
    """Three hosts send a megabyte each to the fourth."""
    settings: dict[str, object] = {"dcqcn": CHURNING, "duration_s": 1.2e-3}
    return star([flow(f"h{i}", "h3", 1_000_000) for i in range(3)], **(settings | kept))  # type: ignore[arg-type]


def test_a_packet_alone_takes_as_long_as_a_flow_of_one_packet() -> None:
    rows = [flow("a0", "b0", 1_000), flow("a0", "b2", 1_000), flow("a0", "b2", 9_000)]
    scenario = line(rows, rates_gbps=(10.0, 100.0), wire_overhead_bytes=48)
    assert scenario.packet_alone_s[scenario.flows.routes[1]][:2] == pytest.approx(scenario.alone_s[:2])


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_a_probe_waits_as_long_as_the_queue_is_deep(name: str) -> None:
    scenario = crowd(duration_s=0.55e-3)  # when the queue is nearly empty again
    prediction = predicted(name, scenario)
    [alone_s] = set(scenario.packet_alone_s.tolist())
    probe = prediction.probe["all"]
    assert probe.p99 == pytest.approx(1 + prediction.queue_p99_bytes / (40 * GBPS * alone_s), rel=0.02)
    assert 1.5 < probe.p50 < probe.p99
    assert prediction.probe == {"all": probe, "1 hop": probe}


@long_uncompiled
@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_probes_take_the_paths_of_the_flows(name: str) -> None:
    # Three of four flows cross one switch, and meet no queue.
    rows = [flow("a0", "b0"), flow("a1", "b1"), flow("b1", "a1"), flow("a0", "a1", rate_gbps=1.0)]
    probe = predicted(name, line(rows, duration_s=2e-3)).probe
    assert set(probe) == {"all", "1 hop", "2 hops"}
    assert probe["1 hop"].n + probe["2 hops"].n == probe["all"].n
    assert probe["1 hop"].n == pytest.approx(0.75 * probe["all"].n, rel=0.05)
    assert probe["2 hops"].p99 >= 1.0


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_every_candidate_meets_the_same_probes(name: str) -> None:
    one, other = engine(name).predict(crowd(), [LOW, LOW], seed=1)
    assert (one.probe, one.without_block) == (other.probe, other.without_block)


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_pauses_are_a_share_of_all_ports(name: str) -> None:
    scenario = crowd(buffer_bytes=300_000, pfc=True, window_s=(0.0, 1.2e-3))
    prediction = predicted(name, scenario)
    assert prediction.pfc_pause_s > 0
    assert prediction.paused_share == pytest.approx(prediction.pfc_pause_s / (8 * 1.2e-3), rel=1e-3)
    assert prediction.loss_share == 0


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_losses_are_a_share_of_what_was_sent(name: str) -> None:
    scenario = crowd(buffer_bytes=300_000, pfc=False, window_s=(0.0, 1.2e-3))
    prediction = predicted(name, scenario)
    assert prediction.loss_share is not None
    sent = prediction.loss_bytes / prediction.loss_share
    assert 3_000_000 * 0.999 <= sent <= 3 * 40 * GBPS * 1.2e-3
    assert prediction.paused_share == 0


@pytest.mark.parametrize("name", ENGINE_NAMES)
def test_each_block_is_left_out_once(name: str) -> None:
    scenario = crowd(window_s=(0.0, 0.8e-3), duration_s=0.8e-3)
    prediction = predicted(name, scenario)
    assert len(prediction.without_block) == BLOCKS
    goodputs = [one.goodput_bytes_per_s or 0.0 for one in prediction.without_block]
    assert fmean(goodputs) == pytest.approx(prediction.goodput_bytes_per_s, rel=0.01)
    # The flows start in the first block, and all has arrived before the last.
    assert goodputs[0] < prediction.goodput_bytes_per_s < goodputs[-1]
    # However early they start, no block holds every elephant.
    elephants = [one.elephant_slowdown or 0.0 for one in prediction.without_block]
    assert min(elephants) <= prediction.slowdown["elephant"].mean <= max(elephants)
    p99 = [one.probe_p99_slowdown or 0.0 for one in prediction.without_block]
    assert min(p99) < prediction.probe["all"].p99 <= max(p99)


@long_uncompiled
@pytest.mark.parametrize("name", ["replay", "packet"])
def test_flows_that_never_end_have_a_rate_of_their_own(name: str) -> None:
    # Two of them share a port of 40 Gbit/s with a flow that ends after a tenth of the time.
    rows = [flow("h0", "h3"), flow("h1", "h3"), flow("h2", "h3", 1_000_000)]
    prediction = predicted(name, star(rows, dcqcn=CHURNING, duration_s=5e-3), LOW)
    all_of_it = prediction.goodput_bytes_per_s
    assert prediction.lasting_bytes_per_s == pytest.approx((all_of_it - 1_000_000 / 5e-3) / 2, rel=0.1)
    assert predicted(name, crowd()).lasting_bytes_per_s is None
    left = [one.lasting_bytes_per_s or 0.0 for one in prediction.without_block]
    assert min(left) < prediction.lasting_bytes_per_s < max(left)


def counted(**changed: object) -> Blocks:
    ones = np.ones(BLOCKS)
    fresh = Blocks(
        probes=np.zeros((BLOCKS, 3, PROBE_BINS), dtype=np.int64),
        delivered_bytes=ones,
        paused_s=0 * ones,
        lost_bytes=0 * ones,
        sent_bytes=ones,
        window_s=ones,
        counted_s=ones,
    )
    return replace(fresh, **changed)  # type: ignore[arg-type]


def test_flows_are_left_out_in_the_order_they_start() -> None:
    starts_s = [0.0, 1.1e-3, 2.5e-3, 2.6e-3, 8.9e-3, 9.5e-3]
    rows = [flow("h0", "h3", 50_000, start_s) for start_s in starts_s]
    scenario = star(rows, duration_s=0.01, window_s=(1e-3, 9e-3))
    slowdown = np.array([2.0, 3.0, 50.0, 40.0, 5.0, 6.0])
    parts = gain_parts(scenario, slowdown * scenario.alone_s, counted())
    left = [one.mice_p99_slowdown for one in parts["without_block"]]
    for block, gone in ((0, [0]), (1, [1]), (2, [2]), (3, []), (4, [3]), (7, [])):
        rest = np.delete(slowdown, gone)
        assert left[block] == pytest.approx(np.quantile(rest, 0.99))
    assert {one.elephant_slowdown for one in parts["without_block"]} == {None}


def test_shares_leave_out_time_and_bytes_of_a_block() -> None:
    scenario = star([flow("h0", "h3", 50_000)])
    last = np.arange(BLOCKS) == BLOCKS - 1
    parts = gain_parts(
        scenario, np.array([1e-3]), counted(paused_s=8.0 * last, lost_bytes=0.5 * last, sent_bytes=1.0 + last)
    )
    assert parts["paused_share"] == pytest.approx(1 / 8)  # of eight ports, one all the time
    assert parts["loss_share"] == pytest.approx(0.5 / 9)
    assert [one.paused_share for one in parts["without_block"]] == [pytest.approx(1 / 7)] * 7 + [0.0]
    assert parts["without_block"][-1].loss_share == 0.0
    assert parts["without_block"][0].loss_share == pytest.approx(0.5 / 8)
    assert {one.probe_p99_slowdown for one in parts["without_block"]} == {None}


def test_counts_become_slowdowns_by_path() -> None:
    counts = np.zeros((3, PROBE_BINS), dtype=np.int64)
    assert probes(counts) == {}
    counts[0, 0] = 98  # empty queues
    counts[2, 256] = 2  # twice the time alone
    found = probes(counts)
    assert list(found) == ["all", "1 hop", "3 hops"]
    assert found["1 hop"].p99 == 1.0
    assert found["all"].p50 == 1.0
    assert found["all"].p99 == pytest.approx(2.0, rel=0.004)

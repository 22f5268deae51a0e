"""What the replay engine says of small problems whose answers are known without it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from telemetry.topology import GBPS
from tests.unit.twin.fluid.problems import CHURNING, flow, line, star
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from twin.engine import engine
from twin.prediction import Prediction, SolveStatus, histogram_quantile
from twin.replay import layout, model
from twin.replay.model import ReplayEngine
from twin.scenario import Scenario
from twin.senders.dcqcn import PAPER, VENDOR
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels

ROOT = Path(__file__).resolve().parents[4]
LOW = Watermark(5_000, 200_000, 0.1)
HIGH = Watermark(400_000, 1_600_000, 0.2)
NEVER = Watermark(30_000_000, 31_000_000, 0.01)
PACKET = 1_000


def one(scenario: Scenario, watermark: Watermark = HIGH, seed: int = 1) -> Prediction:
    [prediction] = ReplayEngine().predict(scenario, [watermark], seed=seed)
    return prediction


def crowd(larger: int = 1, **kept: object) -> Scenario:
    """Three hosts send a megabyte each to the fourth, or so many at so many times the rate."""
    settings: dict[str, object] = {"dcqcn": CHURNING, "duration_s": 3e-3, "rate_gbps": 40.0 * larger}
    flows = [flow(f"h{i}", "h3", 1_000_000 * larger) for i in range(3)]
    return star(flows, **(settings | kept))  # type: ignore[arg-type]


def test_a_queue_without_marks_is_what_arrives_less_what_leaves() -> None:
    # Three times 40 Gbit/s into 40: the queue grows at 80 until the flows end, then drains at 40.
    scenario = crowd(window_s=(0.0, 1e-3))
    prediction = one(scenario, NEVER)
    sent_s = 1_000_000 / (40 * GBPS)
    peak = 2 * 40 * GBPS * sent_s
    assert prediction.queue_peak_bytes == pytest.approx(peak, rel=0.02)
    area = peak * sent_s / 2 + peak * (2 * sent_s) / 2
    assert prediction.queue_mean_bytes == pytest.approx(area / 1e-3, rel=0.02)
    assert prediction.marked_fraction == 0
    # Every one is done when the last byte has left: all three nearly together.
    assert prediction.slowdown["elephant"].mean == pytest.approx(3.0, rel=0.02)


def test_a_step_is_at_most_half_the_interval_between_cuts() -> None:
    fast = replace(PAPER, cnp_interval_s=1e-6)
    assert model.step_of([PAPER]) == model.step_of([VENDOR]) == model.STEP_S == 2e-6
    assert model.step_of([fast]) == model.step_of([PAPER, fast]) == 0.5e-6
    assert model.step_of([replace(PAPER, cnp_interval_s=1e-9)]) == model.LEAST_STEP_S
    # Ticks fall where they fall inside a step: α and increases may be faster than it.
    assert model.step_of([replace(PAPER, alpha_timer_s=1e-7, increase_timer_s=1e-6)]) == 2e-6


@long_uncompiled
def test_under_fast_clocks_half_the_step_is_the_same_queue() -> None:
    rows = [flow(f"h{i}", "h3", 1_000_000, i * 1e-5) for i in range(3)]
    scenario = star(rows, dcqcn=replace(VENDOR, byte_counter_bytes=None), duration_s=2e-3)
    coarse, fine = (
        np.array([
            (found.queue_mean_bytes, found.goodput_bytes_per_s, found.slowdown["all"].mean)
            for found in (ReplayEngine(step_s).predict(scenario, [LOW], seed=seed)[0] for seed in range(4))
        ])
        for step_s in (2e-6, 1e-6)
    )  # fmt: skip
    noise = np.sqrt((coarse.var(axis=0, ddof=1) + fine.var(axis=0, ddof=1)) / 4)
    apart = np.abs(coarse.mean(axis=0) - fine.mean(axis=0))
    assert np.all(apart < 3 * noise + 0.02 * fine.mean(axis=0))


def test_flows_of_a_host_share_its_nic() -> None:
    apart = star([flow("h0", "h2", 1_000_000), flow("h1", "h3", 1_000_000)], dcqcn=CHURNING, duration_s=2e-3)
    shared = star([flow("h0", "h2", 1_000_000), flow("h0", "h3", 1_000_000)], dcqcn=CHURNING, duration_s=2e-3)
    assert one(apart).slowdown["all"].mean == pytest.approx(1.0, abs=0.01)
    assert one(shared).slowdown["all"].mean == pytest.approx(2.0, abs=0.03)
    assert one(shared).queue_peak_bytes < 1_000


@long_uncompiled
def test_packets_of_one_nic_never_meet_behind_it() -> None:
    from_one = [flow("h0", "h3", rate_gbps=1.2) for _ in range(32)]
    alone = one(star(from_one, dcqcn=CHURNING, duration_s=1e-3), LOW)
    assert (alone.queue_peak_bytes, alone.marked_fraction) == (0.0, 0.0)
    from_two = [flow(f"h{i % 2}", "h3", rate_gbps=1.2) for i in range(32)]
    assert one(star(from_two, dcqcn=CHURNING, duration_s=1e-3), LOW).queue_mean_bytes > 500
    # Nor do they behind a slower port, but they wait there.
    slower = line([flow("a0", "a1", rate_gbps=0.6) for _ in range(16)], rates_gbps=(10.0,), duration_s=1e-3)
    assert one(slower, LOW).queue_mean_bytes > 500


@long_uncompiled
def test_flows_that_send_packet_by_packet_share_their_nic_too() -> None:
    # 54 Gbit/s at rates so low that each packet goes by itself, out of 40, to two receivers with room.
    rows = [flow("h0", f"h{1 + i % 2}", start_s=i * 1e-6, rate_gbps=0.45) for i in range(120)]
    scenario = star(rows, hosts=3, duration_s=1e-3, window_s=(3e-4, 1e-3))
    assert one(scenario, NEVER).goodput_bytes_per_s == pytest.approx(40 * GBPS, rel=0.01)


def test_acknowledgements_take_their_part_of_the_way_back() -> None:
    rows = [flow("h0", "h1"), flow("h1", "h0")]
    free = star(rows, hosts=2, duration_s=1e-3)
    loaded = star(rows, hosts=2, duration_s=1e-3, ack_wire_bytes=60)
    ratio = one(loaded, NEVER).goodput_bytes_per_s / one(free, NEVER).goodput_bytes_per_s
    assert ratio == pytest.approx(1 / 1.06, abs=4e-3)


def test_a_nic_keeps_up_with_the_acknowledgements_it_sends() -> None:
    # Everyone sends to everyone: what acknowledgements take of a port they take of its senders' NICs too.
    rows = [flow(f"h{i}", f"h{j}", 400_000) for i in range(4) for j in range(4) if i != j]
    scenario = star(rows, dcqcn=CHURNING, ack_wire_bytes=60, duration_s=4e-4)
    assert one(scenario, NEVER).queue_peak_bytes < 20_000  # 67 KB where NICs send as if there were none


def test_a_busy_nic_does_not_idle_before_a_flow_that_starts_within_a_step() -> None:
    # Eight flows of one host, 0.7 µs apart; all it can send at 40 Gbit/s arrives at the others.
    rows = [flow("h0", f"h{1 + k % 3}", 100_000, 0.7e-6 * k) for k in range(8)]
    scenario = star(rows, dcqcn=CHURNING, duration_s=1e-4, window_s=(0.0, 1e-4))
    assert one(scenario, NEVER).goodput_bytes_per_s > 0.995 * 40 * GBPS


@long_uncompiled
def test_a_flow_held_back_by_its_own_rate_gains_nothing_from_its_hosts_short_flows() -> None:
    slow = flow("h0", "h3", 400_000, rate_gbps=1.0)
    mice = [flow("h0", "h1", 20_000, at_us * 1e-6) for at_us in range(20, 3_000, 10)]
    [alone], [beside] = (
        ReplayEngine().predict(star(rows, duration_s=5e-3), [NEVER], seed=1)
        for rows in ([slow], [slow, *mice])
    )
    # Its packets wait for those of the mice now and then; what mice leave of a step does not speed it up.
    assert beside.slowdown["medium"].mean == pytest.approx(alone.slowdown["medium"].mean, rel=0.05)


@long_uncompiled
def test_a_burst_of_many_senders_is_marked_while_it_drains() -> None:
    # 32 hosts at line rate fill 3 MB at once: under fast clocks all are quiet before that has left.
    rows = [flow(f"h{i}", "h32") for i in range(32)]
    clocks = replace(VENDOR, byte_counter_bytes=None, min_rate_bytes_per_s=0.1 * GBPS)
    scenario = star(rows, hosts=33, dcqcn=clocks, duration_s=1e-3, pfc=True, buffer_bytes=16e6)
    for name in ("replay", "packet"):
        depths = engine(name).trajectory(scenario, LOW, seed=1, sample_s=1e-4).queue_bytes[0]
        assert depths[1] > 2e6
        assert np.all(np.diff(depths[1:8]) < 0)
        assert depths[9] < 0.05 * depths[1]


@long_uncompiled
def test_senders_near_their_least_rate_are_slow_as_packets_are() -> None:
    # At 1 Mbit/s a packet takes 8 ms: a rate that is raised meanwhile is that of the packets after it.
    clocks = replace(VENDOR, byte_counter_bytes=None)
    found = []
    for draw in range(16):
        starts_s = np.sort(np.random.default_rng(draw).uniform(0.0, 1.6e-4, 8))
        rows = [flow(f"h{i}", "h8", 600_000, at_s) for i, at_s in enumerate(starts_s)]
        scenario = star(rows, hosts=9, dcqcn=clocks, duration_s=20e-3, pfc=True)
        for name in ("replay", "packet"):
            [one] = engine(name).predict(scenario, [Watermark(5_000, 200_000, 0.1)], seed=draw)
            found.append(one.slowdown["all"].mean)
    ours, packets = np.reshape(found, (16, 2)).mean(axis=0)
    assert 0.6 < ours / packets < 1.4


def test_more_marks_make_shorter_queues_and_slower_elephants() -> None:
    low, high = one(crowd(), LOW), one(crowd(), NEVER)
    assert low.queue_mean_bytes < 0.6 * high.queue_mean_bytes
    assert low.marked_fraction > 0.1
    assert high.slowdown["elephant"].mean < low.slowdown["elephant"].mean


@long_uncompiled
def test_a_flow_that_a_pause_kept_from_sending_is_not_over() -> None:
    """No flow is faster than alone: what has sent nothing as the run ends has all of it left."""
    slowdowns = []
    for end_s in np.arange(1.0e-3, 1.06e-3, 6e-6).tolist():
        lasting = [flow(f"h{host}", "h0", None, 0.0) for host in range(1, 9)]
        late = flow("h1", "h8", 10_000_000, end_s - 12e-6)
        sizes = {"wire_overhead_bytes": 48, "ack_wire_bytes": 60, "buffer_bytes": 300_000.0, "pfc": True}
        scenario = star([*lasting, late], dcqcn=CHURNING, hosts=9, to="h0", duration_s=end_s, **sizes)
        slowdowns.append(one(replace(scenario, goes_on=True)).slowdown["elephant"].mean)
    assert min(slowdowns) >= 1.0


def test_what_overflows_is_lost_and_comes_again() -> None:
    rows = [flow(f"h{i}", "h3", 10_000_000) for i in range(3)]
    scenario = star(rows, dcqcn=CHURNING, duration_s=20e-3, buffer_bytes=300_000.0)
    prediction = one(scenario, NEVER)
    assert prediction.loss_bytes > 10_000_000
    # Only what is lost in the last queue's time before a flow ends is not made up for.
    delivered = prediction.goodput_bytes_per_s * 20e-3
    assert 30_000_000 - 3 * 300_000 < delivered < 30_010_000
    step = 40 * GBPS * model.STEP_S
    assert 300_000 * 0.95 < prediction.queue_peak_bytes < 300_000 + 3 * step


def test_the_byte_counter_alone_raises_rates_too() -> None:
    # No timer within the run: after the first cut only bytes sent bring a rate back.
    silent = replace(CHURNING, increase_timer_s=1.0)
    counted = one(crowd(dcqcn=replace(silent, byte_counter_bytes=50_000)), LOW)
    without = one(crowd(dcqcn=silent), LOW)
    assert counted.slowdown["all"].mean < 3.2
    assert without.slowdown["all"].mean > 5


@long_uncompiled
def test_vendor_parameters_stay_finite() -> None:
    rows = [flow(f"h{i}", "h3") for i in range(3)]
    scenario = star(rows, dcqcn=VENDOR, duration_s=3e-3, pfc=True)
    for prediction in ReplayEngine().predict(scenario, [LOW, HIGH], seed=1):
        assert prediction.status is SolveStatus.OK
        assert 0 < prediction.goodput_bytes_per_s <= 5e9 * 1.001


def test_depths_that_leave_the_finite_numbers_are_a_status() -> None:
    ports = tuple(
        replace(port, rate_bytes_per_s=1e30) if port.port is None else port for port in crowd().ports
    )
    wild = replace(
        crowd(),
        ports=ports,
        flows=replace(crowd().flows, start_rate_bytes_per_s=np.full(3, 1e30), payload_bytes=np.full(3, 1e25)),
        pfc=True,
        buffer_bytes=1e40,
    )
    prediction = one(wild, NEVER)
    assert prediction.status is SolveStatus.DIVERGED
    assert np.isnan(prediction.queue_mean_bytes)
    assert ReplayEngine().trajectory(wild, NEVER, seed=1).status is SolveStatus.DIVERGED


def test_metrics_are_taken_inside_the_window() -> None:
    whole = crowd()
    quiet = replace(whole, window_s=(2e-3, 3e-3))
    assert one(whole, NEVER).queue_mean_bytes > 0
    prediction = one(quiet, NEVER)
    assert prediction.queue_peak_bytes == prediction.goodput_bytes_per_s == 0
    assert prediction.queue_p99_bytes < layout.FINE_BYTES
    # Completions count over the whole run.
    assert prediction.slowdown == one(whole, NEVER).slowdown


def test_quantiles_come_out_of_their_bin() -> None:
    histogram = np.zeros(len(model.BIN_LOWER_BYTES), dtype=np.int64)
    bins = (model.BIN_LOWER_BYTES, model.BIN_WIDTH_BYTES)
    histogram[10] = 100
    assert histogram_quantile(histogram, *bins, 0.5) == 16.0 * 10.5
    histogram[layout.FINE_BINS + 20] = 100
    assert histogram_quantile(histogram, *bins, 0.75) == 20 * 4096 + 2048
    assert histogram_quantile(histogram, *bins, 0.25) == 16.0 * 10.5


@pytest.mark.parametrize("larger", [1, 400])
def test_the_histogram_knows_the_trajectory_s_p99(larger: int) -> None:
    scenario = crowd(larger, window_s=(0.0, 3e-3), buffer_bytes=1e9)
    depths = ReplayEngine().trajectory(scenario, LOW, seed=1, sample_s=model.STEP_S)
    prediction = one(scenario, LOW)
    assert prediction.queue_p99_bytes == pytest.approx(np.percentile(depths.queue_bytes, 99), rel=0.02)
    assert prediction.queue_mean_bytes == pytest.approx(depths.queue_bytes.mean(), rel=1e-9)
    assert prediction.queue_peak_bytes == depths.queue_bytes.max()


def test_trajectory_samples_every_monitored_port() -> None:
    scenario = line([flow("a0", "a2"), flow("b0", "b1")], duration_s=1e-3)
    found = ReplayEngine().trajectory(scenario, HIGH, seed=1, sample_s=9e-6)
    assert found.watermark == HIGH
    assert found.queue_bytes.shape == (2, 125)  # 9 µs are 4 steps of 2 µs, rounded
    assert np.diff(found.time_s) == pytest.approx(8e-6)


def test_seeds_differ_and_repeat() -> None:
    assert one(crowd(), LOW, seed=1) == one(crowd(), LOW, seed=1)
    assert one(crowd(), LOW, seed=1) != one(crowd(), LOW, seed=2)


def repeated() -> str:
    """Every bit of a small problem's predictions, in words."""
    predictions = ReplayEngine().predict(crowd(buffer_bytes=400_000.0, pfc=True), [LOW, HIGH], seed=4)
    return repr(predictions)


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_another_process_gives_the_same_bits(hash_seed: str) -> None:
    if os.environ.get("NUMBA_DISABLE_JIT"):
        pytest.skip("the record views of this process are not the other's")
    done = subprocess.run(
        [sys.executable, "-c", "from tests.unit.twin.replay.test_model import repeated; print(repeated())"],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == repeated()

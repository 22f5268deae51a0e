"""Queue depth as a time average from packets."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.network import queues
from telemetry.network.queues import HopRows, drain_rates, lifts, service_rates
from telemetry.state import QueueRef, QueueSamples, QueueState

QUEUES = [QueueRef("s", "a", 0), QueueRef("s", "b", 0)]


def hops(
    depth: list[float],
    *,
    ts_ns: list[int] | None = None,
    queue: list[int] | None = None,
    true_bytes: float = 1e6,
    residence_ns: list[int] | None = None,
    marked: list[int] | None = None,
) -> HopRows:
    n = len(depth)
    return HopRows(
        queue=np.array(queue or [0] * n, np.int32),
        ts_ns=np.array(ts_ns if ts_ns is not None else range(n), np.int64),
        true_bytes=np.full(n, true_bytes),
        true_packets=np.full(n, true_bytes / 1000),
        stands_for=np.ones(n, np.int32),
        queue_bytes=np.array(depth, np.float64),
        residence_ns=np.array(residence_ns or [-1] * n, np.int32),
        marked=np.array(marked or [-1] * n, np.int8),
    )


def queue_states(
    rows: HopRows, refs: list[QueueRef], capacity: dict[int, float], duration_s: float
) -> tuple[QueueState, ...]:
    lift = lifts(rows, capacity, len(refs))
    return queues.queue_states(rows, refs, capacity, lift, duration_s)


def recent_samples(
    rows: HopRows, n_queues: int, capacity: dict[int, float], span_ns: tuple[int, int]
) -> QueueSamples:
    return queues.recent_samples(rows, capacity, lifts(rows, capacity, n_queues), span_ns)


def test_idle_time_counts_as_empty() -> None:
    # Ten samples of 1 MB at 1 GB/s keep the port busy 10 ms of 40.
    (state,) = queue_states(hops([4000.0] * 10), QUEUES[:1], {0: 1e9}, 0.04)
    assert state.depth_mean_bytes == pytest.approx(1000)
    assert state.depth_p99_bytes == 4000
    assert state.depth_max_bytes == 4000
    assert state.throughput_bytes_per_s == pytest.approx(250e6)
    assert state.marked_ratio is None


def test_the_percentile_is_of_time_not_of_packets() -> None:
    deep_for_half_a_percent = queue_states(hops([9000.0] + [10.0] * 199), QUEUES[:1], {0: 1e9}, 0.2)[0]
    assert deep_for_half_a_percent.depth_p99_bytes == 10
    for_two_percent = queue_states(hops([9000.0] * 4 + [10.0] * 196), QUEUES[:1], {0: 1e9}, 0.2)[0]
    assert for_two_percent.depth_p99_bytes == 9000
    hardly_used = queue_states(hops([9000.0]), QUEUES[:1], {0: 1e9}, 1.0)[0]
    assert hardly_used.depth_p99_bytes == 0


def test_more_samples_than_time_are_scaled_to_fit() -> None:
    (state,) = queue_states(hops([100.0] * 60 + [300.0] * 60), QUEUES[:1], {0: 1e9}, 0.1)
    assert state.depth_mean_bytes == pytest.approx(200)


def test_packets_that_told_no_depth_are_stood_for_by_the_others() -> None:
    nan = float("nan")
    (state,) = queue_states(hops([4000.0, nan] * 5), QUEUES[:1], {0: 1e9}, 0.04)
    assert state.depth_mean_bytes == pytest.approx(1000)
    assert state.n_samples == 10
    (silent,) = queue_states(hops([nan] * 3), QUEUES[:1], {0: 1e9}, 0.04)
    assert not silent.has_depth  # not known is not empty
    assert np.isnan([silent.depth_mean_bytes, silent.depth_p99_bytes, silent.depth_max_bytes]).all()
    assert silent.throughput_bytes_per_s > 0


def test_the_latest_samples_say_when_and_for_how_long() -> None:
    nan, second = float("nan"), 1_000_000_000
    rows = hops(
        [10.0, 4000.0, nan, 6000.0, 50.0],
        ts_ns=[second, 2 * second - 50_000_000, 2 * second - 40_000_000, 2 * second - 1, 2 * second - 1],
        queue=[0, 0, 0, 0, 1],
    )
    recent = recent_samples(rows, 2, {0: 1e9}, (second, 2 * second))
    assert recent.queue.tolist() == [0, 0]  # the first is too old, of queue 1 no capacity is known
    assert recent.at_s.tolist() == pytest.approx([0.95, 1.0])
    assert recent.depth_bytes.tolist() == [4000.0, 6000.0]
    assert recent.held_s.tolist() == pytest.approx([1e-3 * 4 / 3] * 2)  # one of four told no depth


def test_without_a_capacity_time_is_cut_into_bins() -> None:
    # A sample every microsecond for 1 ms at 5000 bytes, then 9 ms of silence.
    times = list(range(0, 1_000_000, 1000))
    (state,) = queue_states(hops([5000.0] * 1000, ts_ns=times), QUEUES[:1], {}, 0.01)
    assert state.capacity_bytes_per_s is None
    assert state.depth_mean_bytes == pytest.approx(500, rel=0.02)
    assert state.depth_p99_bytes == 5000


def test_queues_do_not_mix_and_capacities_may_differ() -> None:
    rows = hops([1000.0, 8000.0, 1000.0, 8000.0], queue=[0, 1, 0, 1], ts_ns=[0, 0, 500, 1_000_000])
    first, second = queue_states(rows, QUEUES, {0: 1e9}, 0.01)
    assert first.depth_mean_bytes == pytest.approx(200)
    assert first.capacity_bytes_per_s == 1e9
    assert second.capacity_bytes_per_s is None
    assert second.depth_max_bytes == 8000


def test_marks_are_counted_over_the_packets_that_say() -> None:
    rows = hops([0.0] * 5, marked=[1, 0, 0, 0, -1])
    (state,) = queue_states(rows, QUEUES[:1], {0: 1e9}, 2.0)
    assert state.marked_ratio == pytest.approx(0.25)
    assert state.marked_packets_per_s == pytest.approx(0.25 * rows.true_packets.sum() / 2.0)
    (told_nothing,) = queue_states(hops([0.0]), QUEUES[:1], {0: 1e9}, 1.0)
    assert told_nothing.marked_packets_per_s is None


def test_the_rate_of_a_port_shows_in_how_long_deep_packets_stay() -> None:
    depth = [50_000.0] * 20 + [100.0] * 20
    stay = [4000] * 20 + [1] * 20
    assert service_rates(hops(depth, residence_ns=stay), 2) == {0: pytest.approx(12.5e9)}
    assert service_rates(hops(depth[:5], residence_ns=stay[:5]), 2) == {}


def bursts(seed: int, *, mixed: bool, rate: float) -> tuple[HopRows, HopRows, float]:
    """Bursts of packets through one queue: depth at each packet's arrival and departure, and the duration."""
    draw = np.random.default_rng(seed)
    begin = np.cumsum(draw.exponential(50e-6, 400))
    size = draw.integers(1, 60, 400)
    arrival = np.sort(np.repeat(begin, size) + draw.uniform(0, 2e-6, size.sum()))
    wire = draw.integers(64, 4096, len(arrival)).astype(float) if mixed else np.full(len(arrival), 1048.0)
    departure = np.empty(len(arrival))
    free = 0.0
    for number in range(len(arrival)):
        free = departure[number] = max(free, arrival[number]) + wire[number] / rate
    sent = np.concatenate(([0.0], np.cumsum(wire)))
    met = sent[:-1] - sent[np.searchsorted(departure, arrival)]
    left = sent[np.searchsorted(arrival, departure, side="right")] - sent[1:]
    stay_ns = ((departure - arrival) * 1e9).astype(np.int32)
    enqueue, dequeue = (
        HopRows(
            queue=np.zeros(len(depth), np.int32),
            ts_ns=(departure * 1e9).astype(np.int64),
            true_bytes=wire,
            true_packets=np.ones(len(depth)),
            stands_for=np.ones(len(depth), np.int32),
            queue_bytes=depth,
            residence_ns=stay_ns,
            marked=np.full(len(depth), -1, np.int8),
        )
        for depth in (met, left)
    )
    return enqueue, dequeue, float(departure[-1])


@pytest.mark.parametrize("seed", range(3))
def test_depths_are_the_same_whether_packets_tell_what_they_met_or_what_they_left(seed: int) -> None:
    for mixed, tolerance in ((False, 1e-9), (True, 0.02)):
        met, left, lasted_s = bursts(seed, mixed=mixed, rate=12.5e9)
        (one,), (other,) = (queue_states(rows, QUEUES[:1], {0: 12.5e9}, lasted_s) for rows in (met, left))
        assert one.depth_mean_bytes == pytest.approx(other.depth_mean_bytes, rel=tolerance)
        assert one.depth_p99_bytes == pytest.approx(other.depth_p99_bytes, rel=tolerance)
        assert one.depth_max_bytes == pytest.approx(other.depth_max_bytes, abs=4096)


def test_what_a_packet_met_over_its_stay_is_the_rate_of_the_port() -> None:
    met, _, _ = bursts(1, mixed=False, rate=12.5e9)
    assert service_rates(met, 1)[0] == pytest.approx(12.5e9, rel=0.05)


@pytest.mark.parametrize("latency_ns", [0, 700])
def test_a_paused_queue_is_as_deep_as_its_packets_stays_say(latency_ns: int) -> None:
    # Ten packets of 1 MB met 8 KB: 10 ms of 40 at 1 GB/s, but they waited 28 µs and not 8.
    rows = hops([8000.0, 0.0] * 10, residence_ns=[29_000 + latency_ns, 1000 + latency_ns] * 10)
    (state,) = queue_states(rows, QUEUES[:1], {0: 1e9}, 0.04)
    assert state.depth_mean_bytes == pytest.approx((10 * 28e-6 - 20 * 1e-6) * 1e6 / 0.04)
    recent = recent_samples(rows, 1, {0: 1e9}, (0, 40_000_000))
    assert float(recent.held_s @ recent.depth_bytes) / 0.04 == pytest.approx(state.depth_mean_bytes)


def test_stays_within_noise_or_of_one_packet_change_no_depth() -> None:
    for stay_ns in ([8000 + 4000, 8000 - 3500] * 10, [8000] * 19 + [2_000_000_000], [9000] * 20):
        (state,) = queue_states(hops([8000.0] * 20, residence_ns=stay_ns), QUEUES[:1], {0: 1e9}, 0.04)
        assert state.depth_mean_bytes == pytest.approx(4000)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_port_drains_at_one_rate_whether_packets_tell_what_they_met_or_what_they_left(
    seed: int, mixed: bool
) -> None:
    for rows in bursts(seed, mixed=mixed, rate=3.125e9)[:2]:
        found = drain_rates(rows, 1)[0]
        assert found.likely == pytest.approx(3.125e9, rel=0.05)
        assert found.least <= found.likely <= found.most
        assert found.least <= service_rates(rows, 1)[0] <= found.most


def test_pauses_leave_a_rate_open() -> None:
    paused = hops([50_000.0] * 30, residence_ns=[4000] * 20 + [40_000] * 10)
    found = drain_rates(paused, 1)[0]
    assert found.likely < 6e9
    assert found.most == pytest.approx(12.5e9)


def test_packets_that_differ_leave_a_rate_more_open_the_fewer_they_are() -> None:
    def open_by(n: int) -> float:
        found = drain_rates(hops([30_000.0, 60_000.0] * n, residence_ns=[4000] * 2 * n), 1)[0]
        return found.likely / found.least

    assert open_by(5) > open_by(500) > 1
    assert drain_rates(hops([30_000.0] * 9, residence_ns=[4000] * 9), 1) == {}

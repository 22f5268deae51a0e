"""Messages from sampled packets: number, size, start, and whether they ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from telemetry.network.messages import Messages, messages
from telemetry.settings import WindowSettings
from telemetry.window.samples import Samples

MS = 1_000_000
RATE = 12.5e9
SAMPLED = 64_000.0  # bytes a sample stands for: 5.12 µs at line rate


def found(
    times: list[int],
    *,
    flow: list[int] | None = None,
    before_ns: list[int] | None = None,
    end_ns: int = 100 * MS,
    short: list[bool] | None = None,
) -> Messages:
    n = len(times)
    samples = Samples(
        ts_ns=np.array(times),
        fingerprint=np.arange(n, dtype=np.uint64),
        flow=np.zeros(n, np.int32),
        path=np.zeros(n, np.int32),
        packet_bytes=np.full(n, 1000, np.int32),
        true_bytes=np.full(n, SAMPLED),
        stands_for=np.ones(n, np.int32),
        hop_offset=np.arange(n + 1),
        queue_bytes=np.zeros(n),
        residence_ns=np.zeros(n, np.int32),
        marked=np.zeros(n, np.int8),
    )
    numbers: Any = np.array(flow or [0] * n, np.int64)
    return messages(
        samples,
        numbers,
        sent_ns=np.array(times, np.float64),
        nic_bytes_per_s=np.full(n, RATE),
        last_before_ns=np.array(before_ns or [-1] * (int(numbers.max()) + 1)),
        end_ns=end_ns,
        settings=WindowSettings(period_ns=10 * MS),
        short=None if short is None else np.array(short),
    )


def test_a_message_is_its_samples_and_starts_before_the_first() -> None:
    message = found([10 * MS, 10 * MS + 5000, 10 * MS + 10_000])
    assert message.n_samples.tolist() == [3]
    assert message.wire_bytes.tolist() == [3 * SAMPLED]
    assert message.start_ns[0] == pytest.approx(10 * MS - 3 * SAMPLED / 4 / RATE * 1e9)


def test_a_short_packet_among_its_samples_is_a_message_s_end() -> None:
    two = found([MS, MS + 5000, 10 * MS], short=[False, True, False])
    assert two.end_seen.tolist() == [True, False]
    assert found([MS]).end_seen.tolist() == [False]


def test_a_single_sample_stands_for_a_message_around_it() -> None:
    message = found([10 * MS])
    assert message.wire_bytes.tolist() == [SAMPLED]
    assert message.start_ns[0] == pytest.approx(10 * MS - SAMPLED / 2 / RATE * 1e9)
    assert not message.sending_at_close[0]


def test_bursts_of_one_flow_are_messages_of_their_own() -> None:
    times = [burst * 5 * MS + packet * 5000 for burst in range(4) for packet in range(10)]
    message = found(times)
    assert message.n_samples.tolist() == [10] * 4
    assert message.flow.tolist() == [0] * 4


def test_a_slow_flow_is_not_cut_at_its_own_pace() -> None:
    rng = np.random.default_rng(5)
    times = np.cumsum(rng.exponential(600_000, 150)).astype(np.int64)
    assert found(times.tolist(), end_ns=int(times[-1]) + 1).n_samples.tolist() == [150]


def test_flows_are_kept_apart_whatever_the_order() -> None:
    message = found([3000, 1000, 2000, 9000], flow=[1, 0, 1, 0])
    assert message.flow.tolist() == [0, 1]
    assert message.n_samples.tolist() == [2, 2]


def test_what_was_sending_at_the_end_is_told_from_what_had_ended() -> None:
    times = list(range(0, 20 * MS, MS // 10))
    assert found(times, end_ns=times[-1] + MS // 10).sending_at_close.tolist() == [True]
    assert found(times, end_ns=times[-1] + 10 * MS).sending_at_close.tolist() == [False]


def test_what_was_seen_before_the_window_was_running_when_it_opened() -> None:
    times = list(range(100 * MS, 120 * MS, MS // 10))
    kept_on = found(times, before_ns=[100 * MS - MS // 10], end_ns=200 * MS)
    assert kept_on.running_at_open.tolist() == [True]
    came_back = found(times, before_ns=[40 * MS], end_ns=200 * MS)
    assert came_back.running_at_open.tolist() == [False]
    assert found(times, end_ns=200 * MS).running_at_open.tolist() == [False]


def test_the_usual_pace_tells_of_a_slow_message_s_few_samples() -> None:
    pace = MS // 3
    large = [at for flow in range(20) for at in range(10 * MS + flow, 90 * MS, pace)]
    flows = [flow for flow in range(20) for _ in range(10 * MS + flow, 90 * MS, pace)]
    slowed = [98 * MS, 98 * MS + 5000, 98 * MS + 10_000]  # at line rate, and since then more slowly
    made = found(
        [*large, MS, *slowed],
        flow=[*flows, 20, 21, 21, 21],
        before_ns=[-1] * 20 + [MS - 8 * pace, -1],
    )
    assert made.sending_at_close.tolist() == [False] * 21 + [True]
    assert made.ran_before.tolist() == [False] * 20 + [True, False]
    assert not made.running_at_open.any(), "a message that began long ago: it is not put back to the start"
    few = found([MS, *slowed], flow=[0, 1, 1, 1], before_ns=[MS - 8 * pace, -1])
    assert not few.sending_at_close.any()
    assert not few.ran_before.any()


def test_slow_messages_leave_nine_tenths_of_the_window_to_others() -> None:
    pace = 4 * MS
    large = [at for flow in range(20) for at in range(MS + flow, 99 * MS, pace)]
    flows = [flow for flow in range(20) for _ in range(MS + flow, 99 * MS, pace)]
    short = [80 * MS, 80 * MS + 5000, 80 * MS + 10_000]
    made = found(
        [*large, 20 * MS, *short],
        flow=[*flows, 20, 21, 21, 21],
        before_ns=[-1] * 20 + [-2 * MS, -1],
    )
    assert made.sending_at_close.tolist() == [True] * 20 + [False] * 2
    assert not made.ran_before.any()


def test_the_estimates_are_right_on_average() -> None:
    rng = np.random.default_rng(11)
    packet_ns, packets, rate = 80.0, 640, 1 / 64
    start_errors, sizes = [], []
    for _ in range(400):
        seen = np.flatnonzero(rng.random(packets) < rate)
        if len(seen) == 0:
            sizes.append(0.0)
            continue
        message = found((10 * MS + seen * packet_ns).astype(np.int64).tolist())
        sizes.append(float(message.wire_bytes.sum()) / SAMPLED * 64)
        start_errors.append(float(message.start_ns[0]) - 10 * MS)
    assert np.mean(sizes) == pytest.approx(packets, rel=0.04)
    assert abs(np.mean(start_errors)) < 8 * packet_ns

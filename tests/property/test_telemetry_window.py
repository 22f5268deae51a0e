"""The window's state does not depend on the reports' order, duplicates or batches."""

from __future__ import annotations

import dataclasses
import math
from math import nan
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.columns import Ragged
from telemetry.report import FlowKeys, HopSite, ReportBatch
from telemetry.settings import WindowSettings
from telemetry.state import FlowKey, NetworkState
from telemetry.window.window import Window

START_NS = 1_767_225_600_000_000_000
# A lone report may be ahead by the whole window: when the end waits for more is the timeline's own test.
SETTINGS = WindowSettings(period_ns=1_000_000, n_periods=4, max_jump_periods=4)
FLOWS = tuple(FlowKey(f"10.0.0.{k % 3}", f"10.0.1.{k % 2}", 10_000 + k, 4791, 17) for k in range(6))
SITES = (
    HopSite("leaf1", "1", "9", 3),
    HopSite("spine", "1", "2", 3),
    HopSite("leaf2", "9", "1", 3),
    HopSite("leaf2", None, None, None),
)

ROWS = st.tuples(
    st.integers(0, 4_000_000 - 1),  # time
    st.integers(0, len(FLOWS) - 1),
    st.sampled_from([64, 1000, 1048]),
    st.sampled_from([1.0, 1 / 64, 0.3]),
    st.lists(
        st.tuples(
            st.integers(0, len(SITES) - 1),
            st.sampled_from([float("nan"), 0.0, 1500.0, 80_000.0]),
            st.sampled_from([-1, 0, 700, 6_400]),  # residence
            st.sampled_from([-1, 0, 1]),
        ),
        min_size=1,
        max_size=3,
    ),
)
Row = Any


def batch_of(rows: list[Row]) -> ReportBatch:
    hops = [hop for row in rows for hop in row[4]]
    hop_ts_ns = np.array([START_NS + row[0] for row in rows for _ in row[4]], np.int64)
    stay_ns = np.array([hop[2] for hop in hops], np.int64)
    return ReportBatch(
        index=np.arange(len(rows)),
        ts_ns=np.array([START_NS + row[0] for row in rows], np.int64),
        flow=np.array([row[1] for row in rows], np.int32),
        packet_bytes=np.array([row[2] for row in rows], np.int64),
        sampling_rate=np.array([row[3] for row in rows], np.float64),
        hop_offset=np.concatenate(([0], np.cumsum([len(row[4]) for row in rows]))).astype(np.int64),
        hop_site=np.array([hop[0] for hop in hops], np.int32),
        queue_bytes=np.array([hop[1] for hop in hops], np.float64),
        ingress_ns=np.where(stay_ns < 0, -1, hop_ts_ns - stay_ns),
        egress_ns=hop_ts_ns,
        marked=np.array([hop[3] for hop in hops], np.int8),
        flow_keys=FlowKeys.of(FLOWS),
        sites=SITES,
    )


def window_of(batches: list[list[Row]], settings: WindowSettings = SETTINGS) -> Window:
    window = Window(settings)
    for rows in batches:
        if rows:
            result = window.add(batch_of(rows))
            assert (result.accepted, result.rejected) == (len(rows), 0)
    return window


def comparable(state: NetworkState) -> dict[str, Any]:
    """Every figure of a state as plain values, exactly."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.tolist()
        if isinstance(value, FlowKeys | Ragged):
            return [plain(part) for part in value]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
            return {name: plain(getattr(value, name)) for name in names}
        if isinstance(value, tuple):
            return [plain(part) for part in value]
        return "not told" if isinstance(value, float) and math.isnan(value) else value

    shown = plain(state)
    assert isinstance(shown, dict)
    return shown


@given(st.lists(ROWS, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_order_copies_and_batches_change_nothing(rows: list[Row], random: Any) -> None:
    once = comparable(window_of([rows]).state())
    shuffled = rows + random.choices(rows, k=len(rows) // 2)
    random.shuffle(shuffled)
    cuts = sorted(random.randint(0, len(shuffled)) for _ in range(3))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(shuffled)], strict=True)]
    assert comparable(window_of(parts).state()) == once


@given(st.lists(ROWS, min_size=1, max_size=60))
def test_every_byte_is_somewhere(rows: list[Row]) -> None:
    window = window_of([rows])
    state = window.state()
    distinct = {repr(row) for row in rows}
    assert window.counters.duplicates == len(rows) - len(distinct)
    assert state.n_reports == len(distinct)
    sent = sum(row[2] / row[3] for row in {repr(row): row for row in rows}.values())
    assert sum(state.bytes_by_class.values()) == pytest.approx(sent)
    assert state.flows.window_bytes.sum() == pytest.approx(sent)
    assert sum(state.flows_by_class.values()) == len(state.flows) == len({row[1] for row in rows})
    assert state.flow_groups == len(set(zip(state.flows.dst_host, state.flows.path.tolist(), strict=True)))
    for queue in state.queues:
        if not math.isnan(queue.depth_max_bytes):
            assert 0 <= queue.depth_mean_bytes <= queue.depth_max_bytes
            assert 0 <= queue.depth_p99_bytes <= queue.depth_max_bytes
        assert queue.marked_ratio is None or 0 <= queue.marked_ratio <= 1
    arrivals = state.arrivals
    assert np.all(arrivals.start_s >= 0)
    assert np.all(np.diff(arrivals.start_s) >= 0)
    assert np.all(arrivals.wire_bytes > 0)
    assert arrivals.wire_bytes[np.isfinite(arrivals.wire_bytes)].sum() <= sent * (1 + 1e-9)
    if not np.isinf(arrivals.wire_bytes).any():
        assert arrivals.wire_bytes.sum() == pytest.approx(sent)


@given(st.lists(ROWS, min_size=1, max_size=60), st.integers(1, 4))
def test_merging_flows_loses_no_byte_of_a_queue_or_a_class_total(rows: list[Row], max_flows: int) -> None:
    whole = window_of([rows]).state()
    tight = window_of([rows[:20], rows[20:40], rows[40:]], dataclasses.replace(SETTINGS, max_flows=max_flows))
    state = tight.state()
    assert len(state.flows) <= max_flows
    assert sum(state.bytes_by_class.values()) == pytest.approx(sum(whole.bytes_by_class.values()))
    assert [queue.ref for queue in state.queues] == [queue.ref for queue in whole.queues]
    for one, other in zip(state.queues, whole.queues, strict=True):
        assert one.throughput_bytes_per_s == pytest.approx(other.throughput_bytes_per_s)
        assert one.n_samples == other.n_samples


@example(
    # The newest period's only report finds no room: the window ends where the one before does.
    [((0, 0, 64, 1.0, [(0, nan, -1, -1)]), 1), ((0, 0, 64, 1.0, [(0, nan, -1, -1)] * 3), 0)],
    1,
)
@example(
    # The newest period is thinned out, and what is left lies more than a window before it.
    [
        *([((0, 0, 64, 1.0, [(0, nan, -1, -1)]), 0)] * 5),
        ((0, 0, 64, 1.0, [(0, nan, -1, -1)]), 129),
        ((0, 0, 64, 1.0, [(0, nan, -1, -1)]), 133),
    ],
    1,
)
@given(
    st.lists(st.tuples(ROWS, st.integers(0, 400)), min_size=1, max_size=80),
    st.integers(1, 30),
)
def test_memory_is_bounded_whatever_comes(rows: list[tuple[Row, int]], max_reports: int) -> None:
    settings = dataclasses.replace(SETTINGS, max_reports=max_reports, max_flows=3, max_paths=4, max_queues=2)
    window = Window(settings)
    for start in range(0, len(rows), 7):
        part = [(row[0] + shift * 1_000_000, *row[1:]) for row, shift in rows[start : start + 7]]
        result = window.add(batch_of(part))
        assert result.accepted + result.rejected == len(part)
        assert len(result.errors) == result.rejected
        assert len(window) <= max_reports
        if len(window):
            state = window.state()
            assert len(state.flows) <= 3
            assert len(state.queues) <= 2
            assert len(state.paths) <= 4


@given(st.lists(ROWS, min_size=1, max_size=30), st.integers(-(10**15), 10**15))
def test_the_sinks_epoch_does_not_matter(rows: list[Row], shift_ns: int) -> None:
    """Moving every clock by whole periods moves the window and nothing else."""
    shift_ns -= shift_ns % SETTINGS.period_ns
    moved = [(row[0] + shift_ns, *row[1:]) for row in rows]
    here, there = comparable(window_of([rows]).state()), comparable(window_of([moved]).state())
    for state, off_ns in ((here, 0), (there, shift_ns)):
        state["window_start_ns"] -= off_ns
        state["window_end_ns"] -= off_ns
    # Rows of one nanosecond go by fingerprint, which has the time in it: sums may differ in the last bit.
    assert here["flows"]["keys"] == there["flows"]["keys"]
    assert here["window_start_ns"] == there["window_start_ns"]
    assert np.allclose(here["flows"]["window_bytes"], there["flows"]["window_bytes"])
    assert np.allclose(here["arrivals"]["start_s"], there["arrivals"]["start_s"])

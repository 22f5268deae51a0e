"""Flows outside a slice: what a run records of them, and what they do to the flows that a slice keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.replay import fabric_under
from tests.unit.twin.fluid.problems import flow, line, star
from twin.prediction import Prediction
from twin.replay.model import ReplayEngine
from twin.scenario import Background, Scenario
from twin.search.slices import cut, deal, last_ports, slices
from twin.watermark import Watermark

NEVER_MARKS = Watermark(30_000_000, 31_000_000, 0.01)
MARKS = Watermark(50_000, 200_000, 0.1)


def predict(scenario: Scenario, watermark: Watermark = NEVER_MARKS) -> Prediction:
    [found] = ReplayEngine().predict(scenario, [watermark], seed=1)
    return found


def brings(scenario: Scenario, port: int, bytes_per_s: float, n_flows: float = 0.0) -> Scenario:
    """As much background at a port all the time."""
    bins = np.full((1, 100), bytes_per_s * scenario.duration_s / 100, dtype=np.float32)
    background = Background(
        ports=np.array([port], dtype=np.int32),
        bin_s=scenario.duration_s / 100,
        wire_bytes=bins,
        n_flows=np.full((1, 100), n_flows, dtype=np.float32),
    )
    return replace(scenario, background=background)


def test_bins_of_any_length_hold_the_same_bytes() -> None:
    own = Background(
        ports=np.array([3, 5], dtype=np.int32),
        bin_s=1e-3,
        wire_bytes=np.array([[10.0, 0.0, 30.0], [0.0, 6.0, 0.0]], dtype=np.float32),
        n_flows=np.array([[2.0, 0.0, 3.0], [0.0, 1.0, 0.0]], dtype=np.float32),
    )
    edges_s = np.array([0.0, 0.5e-3, 2.5e-3, 3e-3])
    assert own.bytes_in(edges_s).tolist() == [
        [5.0, pytest.approx(20.0), pytest.approx(15.0)],
        [0.0, 6.0, 0.0],
    ]
    assert own.flows_in(np.arange(4) * 1e-3).tolist() == [[2.0, 1.0, 3.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize(("load", "n_flows", "share"), [(1.0, 1, 0.5), (1.0, 3, 0.25), (0.3, 1, 0.7)])
def test_a_nic_gives_a_flow_its_round_robin_share_of_what_others_leave(
    load: float, n_flows: int, share: float
) -> None:
    alone = star([flow("h0", "h1")], duration_s=2e-3)
    rate = predict(alone).goodput_bytes_per_s
    nic = alone.flows.path(0)[0]
    shared = brings(alone, nic, load * alone.port_rate_bytes_per_s[nic], n_flows)
    # Less half a packet's wait at a busy NIC.
    assert predict(shared).goodput_bytes_per_s == pytest.approx(share * rate, rel=0.05)


def test_a_queue_holds_what_others_bring_and_marks_by_it() -> None:
    alone = line([flow("a0", "a1", 200_000.0)], rates_gbps=(40.0,), duration_s=1e-3)
    first = alone.flows.path(0)[1]
    rate = float(alone.port_rate_bytes_per_s[first])
    full = brings(alone, first, 1.2 * rate)
    before, after = predict(alone), predict(full)
    assert after.slowdown["all"].mean > 1.5 * before.slowdown["all"].mean
    depth = dict(zip(full.monitored, after.port_queue_mean_bytes, strict=True))[first]
    assert depth == pytest.approx(200_000.0 + 0.5 * 0.2 * rate * full.duration_s, rel=0.05)
    assert predict(full, MARKS).queue_mean_bytes == pytest.approx(after.queue_mean_bytes, rel=0.1)


def test_a_run_records_every_byte_once() -> None:
    offered = fabric_under(4, 2, 8, 400.0, 0.4, 1e-3, "paper")
    scenario = replace(offered, duration_s=2e-2, window_s=(0.0, 2e-2))  # all flows end
    whole = predict(scenario, MARKS)
    prediction, [*groups, everything] = ReplayEngine().record(
        scenario, MARKS, seed=1, group_of=deal(scenario, 2)
    )
    assert prediction == whole
    brought = np.zeros(len(scenario.ports))
    brought[everything.ports] = everything.wire_bytes.sum(axis=1)
    together = sum(one.wire_bytes.sum(axis=1) for one in groups)
    assert together == pytest.approx(everything.wire_bytes.sum(axis=1), rel=1e-5, abs=1.0)
    offered_bytes = np.zeros(len(scenario.ports))
    for number, wire in enumerate(scenario.flow_wire_bytes.tolist()):
        offered_bytes[list(scenario.flows.path(number))] += wire
    assert brought == pytest.approx(offered_bytes, rel=1e-4, abs=1.0)


def test_a_slice_of_everything_is_the_whole() -> None:
    scenario = fabric_under(4, 2, 8, 400.0, 0.4, 1e-3, "paper")
    _, [group, total] = ReplayEngine().record(
        scenario, MARKS, seed=1, group_of=dict.fromkeys(last_ports(scenario).tolist(), 0)
    )
    everything = cut(scenario, np.ones(len(scenario.flows), dtype=np.bool_), total.without(group))
    assert everything.slice_share == 1.0
    whole, alike = predict(scenario, MARKS), predict(everything, MARKS)
    assert alike.slowdown == whole.slowdown
    assert alike.probe == whole.probe
    assert alike.goodput_bytes_per_s == whole.goodput_bytes_per_s


def test_slices_show_what_the_whole_shows_at_their_ports() -> None:
    scenario = fabric_under(8, 4, 16, 400.0, 0.6, 2e-3, "paper")
    whole, parts, own = slices(scenario, deal(scenario, 4), range(4), MARKS, 1)
    assert sum(len(one.flows) for one in parts) == len(scenario.flows)
    assert sum(one.slice_share for one in parts) == pytest.approx(1.0)
    assert own > 0.95
    of_port = dict(zip(scenario.monitored, whole.port_queue_mean_bytes, strict=True))
    found = [predict(one, MARKS) for one in parts]
    for part, prediction in zip(parts, found, strict=True):
        own = np.mean([of_port[port] for port in part.monitored])
        assert prediction.queue_mean_bytes == pytest.approx(own, rel=0.2)
    elephants = sum(one.slowdown["elephant"].mean * one.slowdown["elephant"].n for one in found)
    total = whole.slowdown["elephant"]
    assert elephants / total.n == pytest.approx(total.mean, rel=0.05)
    assert sum(one.goodput_bytes_per_s for one in found) == pytest.approx(whole.goodput_bytes_per_s, rel=0.02)


def test_leaving_the_rest_out_would_not_do() -> None:
    scenario = fabric_under(8, 4, 16, 400.0, 0.6, 2e-3, "paper")
    _, parts, _ = slices(scenario, deal(scenario, 4), range(4), MARKS, 1)
    with_rest = np.mean([predict(one, MARKS).queue_mean_bytes for one in parts])
    without = np.mean([predict(replace(one, background=None), MARKS).queue_mean_bytes for one in parts])
    assert without > 1.15 * with_rest

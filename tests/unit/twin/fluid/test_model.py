"""What the fluid engine says of small problems whose answers are known without it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from telemetry.topology import GBPS, Host, Link, Topology
from tests.unit.twin.fluid.problems import CHURNING, STEADY, flow, line, problem, star
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from twin.errors import ParameterError, ScenarioError
from twin.fluid import model
from twin.fluid.model import FluidEngine
from twin.prediction import Prediction, SolveStatus
from twin.scenario import Scenario
from twin.senders.dcqcn import VENDOR
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels

LOW = Watermark(5_000, 200_000, 0.1)
HIGH = Watermark(400_000, 1_600_000, 0.2)
NEVER = Watermark(30_000_000, 31_000_000, 0.01)


def one(scenario: Scenario, watermark: Watermark = HIGH) -> Prediction:
    [prediction] = FluidEngine().predict(scenario, [watermark], seed=1)
    return prediction


@pytest.mark.parametrize("size", [500, 1_000, 20_000, 500_000, 5_000_000])
def test_a_flow_alone_takes_the_time_alone(size: int) -> None:
    scenario = star(
        [flow("h0", "h1", size, 13.4e-6)],
        dcqcn=CHURNING,
        duration_s=2e-3,
        wire_overhead_bytes=48,
        ack_wire_bytes=60,
    )
    assert one(scenario).slowdown["all"].mean == pytest.approx(1.0, abs=0.01)


def test_flows_of_a_host_share_its_nic() -> None:
    apart = star([flow("h0", "h2", 1_000_000), flow("h1", "h3", 1_000_000)], dcqcn=CHURNING, duration_s=2e-3)
    shared = star([flow("h0", "h2", 1_000_000), flow("h0", "h3", 1_000_000)], dcqcn=CHURNING, duration_s=2e-3)
    assert one(apart).slowdown["all"].mean == pytest.approx(1.0, abs=0.02)
    assert one(shared).slowdown["all"].mean == pytest.approx(2.0, abs=0.03)
    assert one(shared).queue_peak_bytes < 1_000


def test_flows_that_begin_at_once_share_their_nic_from_the_first_step() -> None:
    like = [flow("h0", "h3", 100_000) for _ in range(16)]
    unlike = [flow("h0", "h3", 100_000 + i, i * 1e-8) for i in range(16)]
    for rows in (like, unlike):
        found = one(star(rows, dcqcn=CHURNING, duration_s=2e-3))
        # A NIC sends no more than the port behind it carries; it was half a step of each flow, 37 KB.
        assert found.queue_peak_bytes < 1_000


def test_acknowledgements_take_their_part_of_the_way_back() -> None:
    rows = [flow("h0", "h1", rate_gbps=40), flow("h1", "h0", rate_gbps=40)]
    free = star(rows, hosts=2, duration_s=1e-3)
    loaded = star(rows, hosts=2, duration_s=1e-3, ack_wire_bytes=60)
    ratio = one(loaded, NEVER).goodput_bytes_per_s / one(free, NEVER).goodput_bytes_per_s
    assert ratio == pytest.approx(1 / 1.06, abs=2e-3)


def test_acknowledgements_go_back_on_the_cable_that_brought_the_data() -> None:
    hosts, cables = tuple(map(Host, "abcd")), ("u", "v")
    links = [Link(host.name, "lm"[i // 2], 40.0, 1.0, None, host.name) for i, host in enumerate(hosts)]
    links += [Link("l", "m", 10.0, 1.0, cable, cable) for cable in cables]
    topology = Topology(hosts, ("l", "m"), tuple(links))
    port = topology.port_index
    nic = {name: topology.ports_of[name][0] for name in "abcd"}
    # Both ways over u, one way over v.
    paths = [
        (nic["a"], port["l", "u"], port["m", "c"]),
        (nic["b"], port["l", "v"], port["m", "d"]),
        (nic["c"], port["m", "u"], port["l", "a"]),
    ]
    rows = [flow("a", "c"), flow("b", "d"), flow("c", "a")]
    routed = problem(topology, rows, [("l", "m")], CHURNING, 1e-3, None, ack_wire_bytes=60)
    flows = replace(routed.flows, path_ports=np.array(paths, dtype=np.int32).ravel())
    found = one(replace(routed, flows=flows, window_s=(5e-4, 1e-3)), NEVER)
    assert found.goodput_bytes_per_s == pytest.approx(10 * GBPS * (1 + 2 / 1.06), rel=2e-3)


@long_uncompiled
def test_like_flows_merge_without_a_change() -> None:
    merged = star([flow(f"h{i}", "h8") for i in range(8)], hosts=9, dcqcn=CHURNING, duration_s=3e-3)
    apart = star(
        [flow(f"h{i}", "h8", start_s=i * 1e-9) for i in range(8)], hosts=9, dcqcn=CHURNING, duration_s=3e-3
    )
    a, b = one(merged), one(apart)
    assert a.queue_mean_bytes == pytest.approx(b.queue_mean_bytes, rel=2e-3)
    assert a.goodput_bytes_per_s == pytest.approx(b.goodput_bytes_per_s, rel=1e-3)
    c, d = (one(replace(s, pfc=True, buffer_bytes=2_000_000.0)) for s in (merged, apart))
    assert d.pfc_pause_s > 0
    assert c.pfc_pause_s == pytest.approx(d.pfc_pause_s, rel=0.1)


def test_what_overflows_is_lost_and_the_queue_drains_again() -> None:
    rows = [flow(f"h{i}", "h3", 1_000_000) for i in range(3)]
    scenario = star(rows, dcqcn=CHURNING, duration_s=3e-3, buffer_bytes=300_000.0)
    prediction = one(scenario, NEVER)
    assert prediction.queue_peak_bytes == pytest.approx(300_000, rel=1e-6)
    delivered = prediction.goodput_bytes_per_s * 3e-3
    assert prediction.loss_bytes > 1_000_000
    assert prediction.loss_bytes + delivered == pytest.approx(3_000_000, rel=1e-3)
    ends = FluidEngine().trajectory(scenario, NEVER, seed=1).queue_bytes[0]
    assert ends.max() == pytest.approx(300_000, rel=1e-6)
    assert ends[-1] == 0


@long_uncompiled
def test_two_bottlenecks_mark_the_long_way_more() -> None:
    # Both links are shared: the flow over both sees both marks and gets less than those over one.
    rows = [flow("a0", "a2"), flow("b0", "b1"), flow("b1", "b2")]
    scenario = line(rows, duration_s=0.03, window_s=(0.015, 0.03))
    together = one(scenario, LOW)
    ends = sum(together.port_queue_mean_bytes)
    assert together.queue_mean_bytes == pytest.approx(ends / 2)
    # Two links of 40G: the more the short flows get, the more is delivered in all.
    long_way = 10e9 - together.goodput_bytes_per_s
    assert 0.1e9 < long_way < 2.4e9


def test_marking_is_certain_beyond_kmax_and_absent_below_kmin() -> None:
    rows = [flow(f"h{i}", "h3", rate_gbps=30) for i in range(3)]
    stubborn = replace(STEADY, min_rate_bytes_per_s=30 * GBPS)
    scenario = star(rows, dcqcn=stubborn, duration_s=2e-3, window_s=(1e-3, 2e-3))
    assert one(scenario, LOW).marked_fraction == pytest.approx(1.0, abs=1e-9)
    assert one(scenario, NEVER).marked_fraction < 1e-9


def test_vendor_parameters_stay_finite() -> None:
    rows = [flow(f"h{i}", "h3") for i in range(3)]
    scenario = star(rows, dcqcn=VENDOR, duration_s=3e-3, pfc=True)
    for prediction in FluidEngine().predict(scenario, [LOW, HIGH], seed=1):
        assert prediction.status is SolveStatus.OK
        assert 0 < prediction.goodput_bytes_per_s <= 5e9 * 1.001


@long_uncompiled
def test_a_step_too_long_is_a_status() -> None:
    rows = [flow(f"h{i}", "h3") for i in range(3)]
    wild = replace(STEADY, gain=0.9, alpha_timer_s=1e-6)
    scenario = star(rows, dcqcn=wild, duration_s=20e-3)
    [prediction] = FluidEngine(step_s=42.5e-6).predict(scenario, [LOW], seed=1)
    assert prediction.status is SolveStatus.DIVERGED
    assert math.isnan(prediction.queue_mean_bytes)
    assert one(scenario, LOW).status is SolveStatus.OK


def test_more_live_flows_than_memory_allows_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [flow("h0", "h3", 1_000_000, i * 1e-6) for i in range(50)]
    monkeypatch.setattr(model, "HISTORY_LIMIT_BYTES", 20_000_000)
    scenario = star(rows, dcqcn=CHURNING, duration_s=2e-3)
    assert one(scenario).status is SolveStatus.BUDGET
    with pytest.raises(ScenarioError, match="at once"):
        FluidEngine().trajectory(scenario, HIGH, seed=1)


def test_slots_are_used_again_after_flows_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [flow("h0", "h3", 20_000, i * 150e-6) for i in range(30)]
    scenario = star(rows, dcqcn=CHURNING, duration_s=5e-3, pfc=True)
    roomy = one(scenario)
    ring_bytes = model._allocate(model.build(scenario, None), trace=False).rates.nbytes // 30
    monkeypatch.setattr(model, "HISTORY_LIMIT_BYTES", 2 * ring_bytes)
    tight = one(scenario)
    assert tight == roomy
    assert tight.slowdown["mice"].n == 30


def test_trajectory_samples_every_monitored_port() -> None:
    scenario = line([flow("a0", "a2"), flow("b0", "b1")], duration_s=1e-3)
    found = FluidEngine().trajectory(scenario, LOW, seed=3, sample_s=20e-6)
    assert found.queue_bytes.shape == (2, 51)
    assert found.time_s == pytest.approx(np.arange(51) * 20e-6)
    assert np.all(found.queue_bytes >= 0)
    assert found.queue_bytes[0].max() == pytest.approx(one(scenario, LOW).queue_peak_bytes, rel=0.05)


@pytest.mark.parametrize("step_s", [0.0, -1e-6, math.nan, math.inf, 1.0])
def test_a_step_must_fit_the_scenario(step_s: float) -> None:
    with pytest.raises(ParameterError, match="step"):
        FluidEngine(step_s=step_s).predict(star([flow("h0", "h1")]), [LOW], seed=1)


@pytest.mark.parametrize("sample_s", [0.0, -1.0, math.nan])
def test_a_sampling_period_is_positive(sample_s: float) -> None:
    with pytest.raises(ParameterError, match="sample_s"):
        FluidEngine().trajectory(star([flow("h0", "h1")]), LOW, seed=1, sample_s=sample_s)


def test_a_nic_is_no_queue_to_monitor() -> None:
    scenario = star([flow("h0", "h1")])
    with pytest.raises(ScenarioError, match="NIC"):
        FluidEngine().predict(replace(scenario, monitored=(0,)), [LOW], seed=1)


def test_a_path_crosses_a_switch() -> None:
    scenario = star([flow("h0", "h1")])
    flows = replace(
        scenario.flows, path_offset=np.array([0, 1], np.int32), path_ports=scenario.flows.path_ports[:1]
    )
    with pytest.raises(ScenarioError, match="at least one switch"):
        FluidEngine().predict(replace(scenario, flows=flows), [LOW], seed=1)


def test_more_stages_than_hardware_knows_are_refused() -> None:
    scenario = star([flow("h0", "h1")], dcqcn=replace(STEADY, fast_recovery_steps=32))
    with pytest.raises(ParameterError, match="fast_recovery_steps"):
        FluidEngine().predict(scenario, [LOW], seed=1)


def test_no_watermarks_no_predictions() -> None:
    assert FluidEngine().predict(star([flow("h0", "h1")]), [], seed=1) == []

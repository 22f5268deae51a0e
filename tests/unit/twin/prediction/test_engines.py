"""What the engines say alike of small problems whose answers are known without them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from telemetry.topology import GBPS
from tests.unit.twin.fluid.problems import CHURNING, flow, line, star
from tests.unit.twin.kernels.uncompiled import long_uncompiled
from twin.engine import engine
from twin.fluid.model import FluidEngine
from twin.prediction import Prediction, SolveStatus
from twin.replay.model import ReplayEngine
from twin.scenario import Scenario
from twin.watermark import Watermark

pytestmark = pytest.mark.kernels

LOW = Watermark(5_000, 200_000, 0.1)
HIGH = Watermark(400_000, 1_600_000, 0.2)
NEVER = Watermark(30_000_000, 31_000_000, 0.01)
ENGINES = ("fluid", "replay")


def one(name: str, scenario: Scenario, watermark: Watermark = HIGH) -> Prediction:
    [prediction] = engine(name).predict(scenario, [watermark], seed=1)
    return prediction


@pytest.mark.parametrize(("name", "kind"), [("fluid", FluidEngine), ("replay", ReplayEngine)])
def test_each_is_the_engine_of_its_name(name: str, kind: type) -> None:
    assert isinstance(engine(name), kind)
    assert engine(name).name == name


@pytest.mark.parametrize(("name", "rel"), [("fluid", 1e-3), ("replay", 2e-3)])
def test_goodput_and_classes_count_payload(name: str, rel: float) -> None:
    rows = [flow("h0", "h3", 60_000), flow("h1", "h3", 400_000), flow("h2", "h3", 2_000_000)]
    prediction = one(name, star(rows, dcqcn=CHURNING, duration_s=4e-3, wire_overhead_bytes=48))
    assert prediction.status is SolveStatus.OK
    assert prediction.goodput_bytes_per_s * 4e-3 == pytest.approx(2_460_000, rel=rel)
    assert {name: kind.n for name, kind in prediction.slowdown.items()} == {
        "all": 3, "mice": 1, "medium": 1, "elephant": 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
def test_a_flow_still_running_counts_at_its_age(name: str) -> None:
    scenario = star([flow("h0", "h3", 50_000_000, 1e-3)], dcqcn=CHURNING, duration_s=3e-3)
    slowdown = one(name, scenario).slowdown["elephant"]
    assert slowdown.mean == pytest.approx(2e-3 / scenario.alone_s[0], rel=1e-9)


@pytest.mark.parametrize(("name", "rel"), [("fluid", 1e-3), ("replay", 2e-3)])
def test_pfc_pauses_instead_of_losing(name: str, rel: float) -> None:
    rows = [flow(f"h{i}", "h3", 1_000_000) for i in range(3)]
    scenario = star(rows, dcqcn=CHURNING, duration_s=3e-3, buffer_bytes=600_000.0, pfc=True)
    prediction = one(name, scenario, NEVER)
    assert prediction.loss_bytes == 0
    assert prediction.pfc_pause_s > 10e-6
    assert prediction.queue_peak_bytes < 600_000
    assert prediction.goodput_bytes_per_s * 3e-3 == pytest.approx(3_000_000, rel=rel)
    assert one(name, replace(scenario, buffer_bytes=32_000_000.0), NEVER).pfc_pause_s == 0


@pytest.mark.parametrize("name", [*ENGINES, "packet"])
def test_no_quantile_of_a_queue_is_above_its_peak(name: str) -> None:
    idle = one(name, star([flow("h0", "h3", 1_000_000, 2e-3)], dcqcn=CHURNING, duration_s=1e-3))
    assert idle.queue_p99_bytes == idle.queue_peak_bytes == 0


@pytest.mark.parametrize("name", ENGINES)
def test_a_window_shorter_than_a_step_is_that_step(name: str) -> None:
    rows = [flow(f"h{i}", "h3", 1_000_000) for i in range(3)]
    scenario = star(rows, dcqcn=CHURNING, duration_s=5e-4)
    for begin_s in (1e-4, 5e-4 - 2e-9):
        found = one(name, replace(scenario, window_s=(begin_s, begin_s + 1e-9)), NEVER)
        assert found.queue_mean_bytes > 100_000
        assert found.goodput_bytes_per_s == pytest.approx(40 * GBPS, rel=0.01)


@pytest.mark.parametrize("name", ENGINES)
def test_an_upstream_port_shapes_what_the_next_receives(name: str) -> None:
    # 40G into a 10G port, then a 40G port: the queue stands at the first, none at the second.
    scenario = line([flow("a0", "a2", 2_000_000)], rates_gbps=(10.0, 40.0), duration_s=3e-3)
    first, second = one(name, scenario, NEVER).port_queue_mean_bytes
    assert first > 100_000
    assert second < 1_000
    # The other way round the first lets everything through.
    scenario = line([flow("a0", "a2", 2_000_000)], rates_gbps=(40.0, 10.0), duration_s=3e-3)
    first, second = one(name, scenario, NEVER).port_queue_mean_bytes
    assert first < 1_000
    assert second > 100_000


@long_uncompiled
@pytest.mark.parametrize(("name", "most_bytes"), [("fluid", 100), ("replay", 10_000)])
def test_backpressure_reaches_the_switch_before(name: str, most_bytes: int) -> None:
    # 10G and 20G cross a 40G link with room to spare; one of them meets a 5G link after it.
    rows = [flow("a0", "a2", rate_gbps=20), flow("b0", "b1", rate_gbps=10)]
    small = line(rows, rates_gbps=(40.0, 5.0), duration_s=2e-3, buffer_bytes=800_000.0)
    losing, pausing = one(name, small, NEVER), one(name, replace(small, pfc=True), NEVER)
    assert losing.port_queue_mean_bytes[0] < most_bytes
    assert losing.loss_bytes > 1_000_000
    # Head-of-line blocking: the queue before, and the flow that never crosses the slow link, suffer too.
    assert pausing.loss_bytes == 0
    assert pausing.port_queue_mean_bytes[0] > 10_000
    assert pausing.goodput_bytes_per_s < 0.8 * losing.goodput_bytes_per_s


@pytest.mark.parametrize("name", ENGINES)
def test_a_longer_way_reacts_later(name: str) -> None:
    rows = [flow(f"h{i}", "h3") for i in range(3)]
    near, far = (
        one(name, star(rows, dcqcn=CHURNING, duration_s=2e-3, delay_us=delay), LOW).queue_peak_bytes
        for delay in (1.0, 40.0)
    )
    assert far > 1.2 * near

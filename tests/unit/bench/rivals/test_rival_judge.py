"""The judge's arithmetic, on numbers made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bench.rivals.judge import (
    Judge,
    Slices,
    bootstrap,
    halves,
    judged,
    regret,
    settled_after_s,
)
from bench.rivals.scenarios import Phase, Scenario
from lab.setup import LeafSpine
from twin.packet.fabric import Fabric
from twin.packet.results import Completions, Measured
from twin.traffic.base import Traffic
from twin.watermark import Watermark

SCENARIO = Scenario(
    name="by hand",
    phases=(Phase("one", 0.0, "hadoop:0.1"), Phase("two", 0.002, "hadoop:0.1")),
    duration_s=0.004,
    fabric=LeafSpine(leaves=1, spines=0, hosts=2, rate_gbps=25.0),
)
NO_FLOWS = Traffic.independent([], [], [], [])


def completions(*rows: tuple[float, float, float]) -> Completions:
    """Of (size, start in ms, slowdown); each would take 10 µs alone."""
    size, start_ms, slowdown = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    none = np.zeros(len(rows), dtype=np.int32)
    start_s = start_ms * 1e-3
    alone_s = np.full(len(rows), 1e-5)
    return Completions(
        flow=np.arange(len(rows)),
        src=none,
        dst=none + 1,
        payload_bytes=size,
        start_s=start_s,
        end_s=start_s + slowdown * alone_s,
        alone_s=alone_s,
    )


def reading(at_s: float, *, paused_s: float = 0.0, delivered: float = 0.0, drops: int = 0) -> Measured:
    """Of an idle fabric, with these on its first port."""
    idle = Fabric(SCENARIO.plan, watermark=Watermark(1_000, 2_000, 0.1), seed=1).measured()
    first = np.eye(1, len(idle.paused_s))[0]
    return replace(
        idle,
        now_s=at_s,
        delivered_bytes=delivered,
        paused_s=paused_s * first,
        pauses=(first * (paused_s > 0)).astype(np.int64),
        dropped_packets=(first * drops).astype(np.int64),
    )


def test_j_is_the_yardstick() -> None:
    slowdown, size = np.array([4.0, 6.0, 8.0, 10.0]), np.array([1e3, 5e5, 1e6, 9e6])
    found = judged(slowdown, size, paused_share=0.25)
    assert found.j == pytest.approx(-math.log(2) - math.log(3) - 0.25)
    assert (found.mice_p99, found.elephant_mean) == (4.0, 9.0)
    assert (found.n_flows, found.flow_mean, found.mice_mean) == (4.0, 7.0, 4.0)
    assert (found.small_mean, found.small_p99) == pytest.approx((5.0, 5.98))
    lasting = judged(slowdown[2:], size[2:], lasting=np.array([9.0, 9.0]))
    assert (lasting.elephant_mean, lasting.n_flows) == (9.0, 2.0)
    assert lasting.j == pytest.approx(-math.log(3))
    assert judged(np.zeros(0), np.zeros(0), paused_share=0.5).j == -0.5


def test_a_flow_belongs_to_the_phase_in_which_it_started() -> None:
    judge = Judge(SCENARIO, NO_FLOWS)
    # The third ends in the second phase; the last has only just begun and counts at 1.
    judge.completed(completions((1e3, 0.5, 2.0), (2e6, 0.5, 4.0), (1e3, 1.9, 50.0), (2e6, 2.5, 9.0)))
    judge.completed(completions((1e3, 3.999, 0.1)))
    for ms in range(4):
        judge.read(reading((ms + 1) * 1e-3, paused_s=1e-3 if ms == 0 else 0.0), 1e-3, exploring=ms == 1)
    one, two = (judge.span(*span) for span in SCENARIO.spans_s)
    assert one.mice_p99 == pytest.approx(2.0 + 0.99 * 48.0)
    assert one.elephant_mean == pytest.approx(4.0)
    assert one.paused_share == pytest.approx(0.5 / 4)  # one of four ports, half of the time
    assert (two.mice_p99, two.elephant_mean, two.paused_share) == pytest.approx((1.0, 9.0, 0.0))
    settled = judge.span(*halves(SCENARIO.spans_s)[0])
    assert (settled.mice_p99, settled.paused_share) == (pytest.approx(50.0), 0.0)
    assert math.isnan(settled.elephant_mean)


def test_a_persistent_flow_counts_as_an_elephant_at_line_rate_by_goodput() -> None:
    judge = Judge(SCENARIO, Traffic.independent([0, 1], [1, 0], [math.inf, 1e3], [0.001, 0.001]))
    assert judge.persistent_flows.tolist() == [0]
    line = 25 * 125e6
    for at_s, got in ((0.0, 0.0), (0.001, 0.0), (0.002, line * 0.001 / 4), (0.003, line * 0.001 / 4)):
        judge.persistent(at_s, np.array([got]))
    assert judge.span(0.0, 0.002).elephant_mean == pytest.approx(4.0)  # from its start at 1 ms on
    assert judge.span(0.001, 0.002).elephant_mean == pytest.approx(4.0)
    assert judge.span(0.002, 0.003).elephant_mean > 1e5  # it stood still


def test_milliseconds_add_up() -> None:
    judge = Judge(SCENARIO, NO_FLOWS)
    judge.completed(completions((1e3, 1.5, 3.0), (1e3, 1.2, 3.0), (2e6, 1.2, 8.0)))
    for tenth in range(40):
        exploring, drops = tenth in (10, 11, 12, 13, 14), int(tenth == 25)
        judge.read(
            reading((tenth + 1) * 1e-4, paused_s=1e-4 * (tenth < 10), delivered=100.0, drops=drops),
            1e-4,
            exploring=exploring,
        )
    judge.changed(0.0031, 7)
    found = judge.slices()
    assert found.delivered_bytes.tolist() == [1_000.0] * 4
    assert found.paused_share == pytest.approx([0.25, 0.0, 0.0, 0.0])
    assert found.pauses.tolist() == [10.0, 0.0, 0.0, 0.0]
    assert found.dropped_packets.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert found.exploring == pytest.approx([0.0, 0.5, 0.0, 0.0])
    assert found.changed.tolist() == [0.0, 0.0, 0.0, 7.0]
    assert np.isnan(found.mice_p99).tolist() == [True, False, True, True]
    assert found.mice_p99[1] == pytest.approx(3.0)


def test_depths_and_probes_of_a_run() -> None:
    judge = Judge(SCENARIO, NO_FLOWS)
    one = reading(1e-3)
    depths = np.zeros_like(one.queue_histogram)
    depths[[0, 100]] = 3, 1  # three samples of 0 to 64 bytes, one 6.4 KB deeper
    probes = np.zeros_like(one.probe_counts)
    probes[0, 0], probes[2, 256] = 3, 1  # three at 1, one at 2 or little above
    judge.read(replace(one, queue_histogram=depths, probe_counts=probes), 1e-3, exploring=False)
    assert judge.queue_std_bytes == pytest.approx(6_400 * math.sqrt(0.25 * 0.75))
    assert judge.span(0.0, 0.002).probe_mean == pytest.approx(1.25, abs=0.002)
    assert math.isnan(judge.span(0.002, 0.004).probe_mean)


def test_the_score_of_a_millisecond() -> None:
    columns = {name: np.zeros(2) for name in Slices.__dataclass_fields__}
    columns |= {
        "delivered_bytes": np.array([math.e**4, 0.0]),
        "probe_p99": np.array([math.e**2, 1.0]),
        "paused_share": np.array([0.5, 0.0]),
    }
    assert Slices(**columns).score == pytest.approx([2.0 - 1.0 - 0.5, 0.0])


def test_regret_is_to_the_best_static_of_each_phase() -> None:
    statics = [(-1.0, -3.0), (-2.0, -1.5)]
    assert regret((-1.0, -3.0), statics) == pytest.approx(1.5)
    assert regret((-0.5, -1.5), statics) == pytest.approx(-0.5)  # better than any static


@pytest.mark.parametrize(
    ("shortfall", "after_ms"),
    [
        ([0.0] * 20, 0.0),
        ([0.5] * 3 + [0.0] * 17, 3.0),
        ([0.04] * 20, 0.0),
        ([0.06] * 20, math.inf),
        ([0.0] * 10 + [0.5] * 10, math.inf),  # good at first, and then no more
        ([-1.0] * 20, 0.0),
    ],
)
def test_time_to_settle(shortfall: list[float], after_ms: float) -> None:
    best = np.full(20, -2.0)
    assert settled_after_s(best - np.array(shortfall), best) * 1e3 == pytest.approx(after_ms)


def test_the_bootstrap_holds_the_mean_and_no_more_than_the_values() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    mean, low, high = bootstrap(values)
    assert mean == 3.0
    assert 1.0 < low < 2.5 < 3.5 < high < 5.0
    assert bootstrap(values) == (mean, low, high)
    assert bootstrap([2.0]) == (2.0, 2.0, 2.0)
    assert all(map(math.isnan, bootstrap([])))
    # The standard error of a mean of n is σ/√n: ±1.96 of them hold 95 %.
    many = np.random.default_rng(1).normal(0.0, 1.0, 400).tolist()
    _, low, high = bootstrap(many)
    assert high - low == pytest.approx(2 * 1.96 / 20, rel=0.1)

"""The figures of a stretch are what the fabric counted in it."""

from __future__ import annotations

import numpy as np
import pytest

from lab.documents import FiguresDocument
from lab.figures import Stretch
from telemetry.topology import GBPS
from tests.unit.lab.labs import NEW, fabric_of, parts_of
from tests.unit.twin.packet.plans import active_flows
from twin.watermark import Watermark


def test_two_stretches_add_up_to_the_whole() -> None:
    parts = parts_of()
    fabric = fabric_of(parts)
    fabric.offer(parts.feed.take())
    first, whole = Stretch(fabric.measured()), Stretch(fabric.measured())
    found = []
    stretch = first
    for until_s in (0.002, 0.005):
        happened = fabric.advance(until_s)
        stretch.add(happened.completions)
        whole.add(happened.completions)
        found.append(stretch.figures(fabric.measured()))
        stretch = Stretch(fabric.measured())
    total = whole.figures(fabric.measured())
    assert [(one.begin_s, one.end_s) for one in found] == [(0.0, 0.002), (0.002, 0.005)]
    for name in ("completions", "cnps", "pauses", "dropped_packets"):
        assert getattr(total, name) == sum(getattr(one, name) for one in found)
    carried = sum(one.goodput_gbps * GBPS * (one.end_s - one.begin_s) for one in found)
    assert total.goodput_gbps * GBPS * 0.005 == pytest.approx(carried)
    assert carried == pytest.approx(fabric.measured().delivered_bytes)
    looks = sum(one.queue_mean_bytes * (one.end_s - one.begin_s) for one in found)
    assert total.queue_mean_bytes * 0.005 == pytest.approx(looks, rel=1e-3)
    assert total.slowdown["all"].n == total.completions > 0
    assert total.slowdown["all"].mean >= 1.0


@pytest.mark.parametrize("pfc", [True, False])
def test_pauses_and_losses_are_shares_of_the_stretch_alone(pfc: bool) -> None:
    parts = parts_of(buffer_bytes=600_000.0 if pfc else 100_000.0, pfc=pfc, traffic="websearch:0.9")
    fabric = fabric_of(parts)
    fabric.offer(parts.feed.take())
    fabric.advance(0.003)
    before = fabric.measured()
    stretch = Stretch(before)
    fabric.advance(0.005)
    now = fabric.measured()
    found = stretch.figures(now)
    paused_s = (now.paused_s - before.paused_s).sum()
    lost = (now.dropped_wire_bytes - before.dropped_wire_bytes).sum()
    assert found.paused_share == pytest.approx(paused_s / (len(parts.plan.ports) * 0.002))
    assert found.loss_share == pytest.approx(lost / (now.injected_wire_bytes - before.injected_wire_bytes))
    assert (found.paused_share > 0, found.loss_share > 0) == (pfc, not pfc)
    assert before.paused_s.sum() + before.dropped_wire_bytes.sum() > 0  # which must not count


def test_a_lower_watermark_marks_more_and_queues_less() -> None:
    def figures(watermark: Watermark) -> FiguresDocument:
        parts = parts_of()
        fabric = fabric_of(parts, watermark=watermark)
        fabric.offer(parts.feed.take())
        stretch = Stretch(fabric.measured())
        stretch.add(fabric.advance(0.005).completions)
        return stretch.figures(fabric.measured())

    high, low = figures(Watermark(400_000, 1_600_000, 0.2)), figures(NEW)
    assert low.marked_fraction > high.marked_fraction
    assert low.queue_mean_bytes < high.queue_mean_bytes
    assert low.queue_p99_bytes < high.queue_p99_bytes
    probes = [figures.probe_slowdown.p99 for figures in (low, high)]
    assert 1.0 < (probes[0] or 0.0) < (probes[1] or 0.0)


def test_nothing_yet_is_noughts_and_nulls() -> None:
    fabric = fabric_of(parts_of())
    document = Stretch(fabric.measured()).figures(fabric.measured())
    assert (document.completions, document.goodput_gbps, document.queue_mean_bytes) == (0, 0.0, 0.0)
    assert document.slowdown["mice"].p99 is None
    assert (document.probe_slowdown.n, document.probe_slowdown.p99) == (0, None)
    assert (document.paused_share, document.loss_share) == (0.0, 0.0)
    assert np.isfinite(document.marked_fraction)


def test_flows_under_way_count_at_their_age() -> None:
    parts = parts_of()
    fabric = fabric_of(parts)
    fabric.offer(parts.feed.take())
    stretch = Stretch(fabric.measured())
    stretch.add(fabric.advance(0.003).completions)
    under_way = fabric.under_way()
    assert 0 < len(under_way) <= active_flows(fabric)
    assert np.all(under_way.start_s < under_way.end_s)
    assert np.all(under_way.end_s == fabric.now_s)
    alone, both = stretch.figures(fabric.measured()), stretch.figures(fabric.measured(), under_way)
    assert both.completions == alone.completions
    late = under_way.slowdown[under_way.slowdown >= 1.0]
    assert 0 < len(late) < len(under_way)
    assert both.slowdown["all"].n == alone.completions + len(late)
    total = alone.slowdown["all"].mean * alone.completions + late.sum()
    assert both.slowdown["all"].mean * both.slowdown["all"].n == pytest.approx(total)

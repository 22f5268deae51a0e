"""What learners see: features, rewards, and what the monitor forgets."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from bench.rivals.arena import facts_of
from bench.rivals.observe import BUDGETS
from bench.rivals.scenarios import scenario_named
from bench.rivals.tuner import FabricFacts, Seen, SeenFlows
from bench.rivals.tuners import monitor as monitor_module
from bench.rivals.tuners.monitor import (
    LADDER_BYTES,
    SLOTS,
    Monitor,
    delay_score,
    feature_names,
    per_queue_score,
    rewards,
    rung,
)

INTERVAL_S = 100e-6


@pytest.fixture(scope="module")
def facts() -> FabricFacts:
    return facts_of(scenario_named("websearch-20+small"), BUDGETS["box"])


def table(rows: list[tuple[int, int, int, int, float, float]]) -> SeenFlows:
    """Of flow, queue, src, dst, bytes, last seen."""
    flow, queue, src, dst, size, last_s = (
        np.array(column) for column in (zip(*rows, strict=True) if rows else [[]] * 6)
    )
    numbers = [one.astype(np.int64) for one in (flow, queue, src, dst)]
    names = ("flow", "queue", "src", "dst")
    return SeenFlows(
        **dict(zip(names, numbers, strict=True)),
        payload_bytes=size.astype(float),
        last_s=last_s.astype(float),
    )


def interval(facts: FabricFacts, number: int, flows: SeenFlows | None = None, *, depth: float = 0.0) -> Seen:
    count = len(facts.queues)
    none = np.zeros(count, dtype=np.int64)
    depths = np.full(count, depth)
    return Seen(
        begin_s=number * INTERVAL_S,
        end_s=(number + 1) * INTERVAL_S,
        depth_mean_bytes=depths,
        depth_peak_bytes=depths,
        sent_bytes=0.5 * facts.rate_bytes_per_s * INTERVAL_S,
        marked_bytes=0.25 * facts.rate_bytes_per_s * INTERVAL_S,
        dropped_packets=none,
        paused_s=np.zeros(count),
        pausing_s=np.zeros(count),
        pauses_sent=none,
        watermarks=facts.incumbent,
        dcqcn=facts.dcqcn,
        flows=flows,
    )


def test_a_state_is_the_last_intervals_the_newest_last(facts: FabricFacts) -> None:
    one = Monitor(facts, flows=True)
    width = len(feature_names(flows=True))
    flows = table([])
    first = one.after(interval(facts, 0, flows))
    assert first.shape == (len(facts.queues), SLOTS * width)
    assert (first[:, :width] == first[:, -width:]).all()  # nothing was before it
    deep = one.after(interval(facts, 1, flows, depth=facts.sizes.buffer_bytes))
    assert (deep[:, :-width] == first[:, width:]).all()
    queue, sent, marked, _, _, pmax, incast, mice = deep[0, -width:]
    assert (queue, sent, marked, incast, mice) == pytest.approx((1.0, 0.5, 0.25, 0.0, 0.5))
    assert pmax == facts.incumbent[0].pmax
    assert Monitor(facts, flows=False).after(interval(facts, 0)).shape[1] == SLOTS * (width - 2)


def test_rungs_are_ninths_of_the_ladder() -> None:
    assert rung(LADDER_BYTES) == pytest.approx(np.arange(10) / 9)
    assert rung(np.array([0.0, 1e9])).tolist() == [0.0, 1.0]


def test_incast_is_the_most_senders_of_a_receiver_and_mice_are_counted_by_bytes(facts: FabricFacts) -> None:
    now_s = 0.5 * INTERVAL_S
    rows = [(flow, 2, flow, 9, 1e3, now_s) for flow in range(5)]  # five to host 9, ...
    rows += [(10 + flow, 2, flow, 8, 1e3, now_s) for flow in range(2)]  # ... two to host 8, ...
    rows += [(20, 2, 0, 9, 2e6, now_s)]  # ... and an elephant of one of the five
    incast, mice = Monitor(facts, flows=True).flow_features(interval(facts, 0, table(rows)))
    hosts = len(facts.topology.hosts)
    assert incast[2] == pytest.approx(math.log2(6) / math.log2(1 + hosts))
    assert mice[2] == 7 / 8
    assert (incast[0], mice[0]) == (0.0, 0.5)


def test_a_flow_that_was_not_heard_counts_for_nothing(facts: FabricFacts) -> None:
    rows = [(1, 2, 1, 9, 1e3, 0.5 * INTERVAL_S), (2, 2, 2, 9, 1e3, 1.5 * INTERVAL_S)]
    one = Monitor(facts, flows=True)
    one.flow_features(interval(facts, 0, table(rows[:1])))
    incast, _ = one.flow_features(interval(facts, 1, table(rows)))
    assert incast[2] == pytest.approx(1.0 / math.log2(1 + len(facts.topology.hosts)))


def test_the_monitor_forgets_flows_after_its_slots(facts: FabricFacts) -> None:
    one, rows = Monitor(facts, flows=True), [(1, 2, 1, 9, 1e3, 0.5 * INTERVAL_S)]
    kept = [len(one.remembered(interval(facts, number, table(rows)))) for number in range(SLOTS + 2)]
    assert kept == [1] * SLOTS + [0, 0]


def test_the_monitor_forgets_the_oldest_quarter_of_a_port_that_is_full(
    facts: FabricFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "MOST_FLOWS", 8)
    last_s = np.linspace(0.1, 0.9, 12) * INTERVAL_S
    rows = [(flow, 2, flow, 9, 1e3, last_s[flow]) for flow in range(12)]
    rows += [(flow, 3, flow, 9, 1e3, last_s[0]) for flow in range(8)]
    one = Monitor(facts, flows=True)
    kept = one.remembered(interval(facts, 0, table(rows)))
    assert kept.flow[kept.queue == 2].tolist() == list(range(3, 12))
    assert (kept.queue == 3).sum() == 8  # at the mark, not beyond it
    again = one.remembered(interval(facts, 0, table(rows)))
    assert again.flow[again.queue == 2].tolist() == list(range(5, 12))  # 9 are still more than 8


def test_acc_scores_a_queue_by_the_rung_above_it_and_pet_by_its_inverse() -> None:
    depths = np.array([0.0, 20e3, 20_001.0, 10.24e6, 10.25e6])
    assert delay_score(depths) == pytest.approx([1.0, 1.0, 0.9, 0.1, 0.0])
    assert per_queue_score(np.array([0.0, 500.0, 1e3, 4e3])).tolist() == [1.0, 1.0, 1.0, 0.25]


def test_a_reward_weighs_rate_and_queue_and_an_idle_queue_is_not_busy(facts: FabricFacts) -> None:
    seen = interval(facts, 0)
    sent = seen.sent_bytes.copy()
    sent[0] = 0.0
    earned, busy = rewards(facts, replace(seen, sent_bytes=sent), (0.3, 0.7))
    assert earned[:2] == pytest.approx([0.7, 0.85])
    assert busy.tolist() == [False] + [True] * (len(sent) - 1)
    of_pet, _ = rewards(facts, interval(facts, 0, depth=10e3), (0.3, 0.7), "per-queue")
    assert of_pet == pytest.approx(np.full(len(sent), 0.15 + 0.07))

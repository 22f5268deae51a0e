"""Priority flow control by numbers worked out by hand: what an ingress holds, when it pauses and resumes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.twin.replay.records import table
from twin.replay import layout
from twin.replay._kernels import apply_pauses
from twin.replay._pfc import decide, hold, log_feeders, sent_until
from twin.replay.layout import LOG_STEPS, NEVER, Table

pytestmark = pytest.mark.kernels

RESERVE, RESUME = 4_000.0, 3_000.0


def test_a_feeder_s_past_is_interpolated_between_logs_and_exact_now() -> None:
    feeders, entries = table(layout.FEEDER, 1), table(layout.ENTRY, 1)
    entries.rate = 100.0
    logs = np.zeros((10, 1))
    for step in range(41):
        if step % LOG_STEPS == 0:
            log_feeders(feeders, entries, logs, step)
    step = 40  # it ends with 41 steps sent
    for position in (-3.0, 0.0, 7.25, 16.0, 30.5, 38.5, 41.0):
        sent = sent_until(feeders, 0, entries, logs, position, step)
        assert sent == pytest.approx(max(position, 0.0) * 100.0)


def test_a_change_of_rate_between_two_logs_is_spread_over_them() -> None:
    feeders, entries = table(layout.FEEDER, 1), table(layout.ENTRY, 1)
    logs = np.zeros((4, 1))
    log_feeders(feeders, entries, logs, 0)
    entries.total, entries.since, entries.rate = 0.0, 8, 200.0  # silent until step 8
    log_feeders(feeders, entries, logs, 16)
    assert logs[1, 0] == 8 * 200.0
    assert sent_until(feeders, 0, entries, logs, 8.0, 20) == 800.0


def crowded() -> tuple[Table, Table, Table, Table, np.ndarray, np.ndarray]:
    """One queue of switch 0, fed at 300 and 100 bytes a step over cables of 2 and 1 steps for 16 steps."""
    queues, feeders = table(layout.QUEUE, 1), table(layout.FEEDER, 2)
    entries, ingresses = table(layout.ENTRY, 2), table(layout.INGRESS, 2)
    entries.rate = [300.0, 100.0]
    feeders.entry, feeders.ingress, feeders.delay = [0, 1], [0, 1], [2, 1]
    ingresses.change_at = NEVER
    ingresses.delay = 5
    logs = np.zeros((4, 2))
    log_feeders(feeders, entries, logs, 0)
    arrived = np.zeros((40, 1))
    arrived[:16, 0] = 400.0
    queues.feeder_end = 2
    return queues, feeders, entries, ingresses, arrived, logs


def test_what_an_ingress_holds_is_what_came_by_it_and_has_not_left() -> None:
    queues, feeders, entries, ingresses, arrived, logs = crowded()
    # The queue stands in its arrival step 10, a quarter of it already gone, at the end of step 15.
    queue = queues[0]
    queue.head, queue.left, queue.backlog = 10, 300.0, 5.75 * 400.0
    hold(queues, feeders, entries, ingresses, arrived, logs, 0, 15)
    assert ingresses.held.tolist() == pytest.approx([5.75 * 300.0, 5.75 * 100.0])
    # Another switch's queues are none of its business.
    hold(queues, feeders, entries, ingresses, arrived, logs, 1, 15)
    assert ingresses.held.tolist() == pytest.approx([5.75 * 300.0, 5.75 * 100.0])
    queue.backlog = 0.0
    hold(queues, feeders, entries, ingresses, arrived, logs, 0, 15)
    assert ingresses.held.tolist() == [0.0, 0.0]


def ports(*held: float, paused: int = 0, shared: float = 100_000.0) -> tuple[Table, Table]:
    ingresses, switches = table(layout.INGRESS, len(held)), table(layout.SWITCH, 1)
    ingresses.held = held
    ingresses.change_at, ingresses.delay = NEVER, 5
    ingresses.share = 0.125
    ingresses[0].paused = switches[0].paused = paused
    switches.shared = shared
    return ingresses, switches


def test_it_pauses_at_an_eighth_of_what_is_free() -> None:
    # x beyond the reserve reaches (100 000 − x) / 8 at x = 100 000 / 9 = 11 111.1.
    for beyond, paused in ((11_111.0, 0), (11_112.0, 1)):
        ingresses, switches = ports(RESERVE + beyond)
        decide(ingresses, switches, 0, 50, RESERVE, RESUME)
        assert (ingresses[0].paused, switches[0].paused) == (paused, paused)
        assert ingresses[0].change_at == (55 if paused else NEVER)


def test_a_faster_port_may_hold_more() -> None:
    # x beyond the reserve reaches (100 000 − x) / 2 at x = 33 333.3.
    for beyond, paused in ((33_333.0, 0), (33_334.0, 1)):
        ingresses, switches = ports(RESERVE + beyond)
        ingresses.share = 0.5
        decide(ingresses, switches, 0, 50, RESERVE, RESUME)
        assert ingresses[0].paused == paused


def test_what_others_hold_lowers_the_threshold() -> None:
    # (100 000 − 30 000 − 9 000) / 8 = 7 625: the small one pauses too.
    ingresses, switches = ports(RESERVE + 30_000.0, RESERVE + 9_000.0, RESERVE - 1.0)
    decide(ingresses, switches, 0, 50, RESERVE, RESUME)
    assert ingresses.paused.tolist() == [1, 1, 0]
    assert switches[0].paused == 2
    ingresses, switches = ports(RESERVE + 30_000.0, RESERVE + 7_000.0)
    decide(ingresses, switches, 0, 50, RESERVE, RESUME)
    assert ingresses.paused.tolist() == [1, 0]


def test_it_resumes_three_kilobytes_below() -> None:
    # x + 3 000 ≤ (100 000 − x) / 8 holds up to x = 8 444.4.
    for beyond, paused in ((8_445.0, 1), (8_444.0, 0)):
        ingresses, switches = ports(RESERVE + beyond, paused=1)
        decide(ingresses, switches, 0, 50, RESERVE, RESUME)
        assert (ingresses[0].paused, switches[0].paused) == (paused, paused)


def test_an_empty_ingress_resumes_however_full_the_switch() -> None:
    ingresses, switches = ports(RESERVE, RESERVE + 200_000.0, paused=1)
    decide(ingresses, switches, 0, 50, RESERVE, RESUME)
    assert ingresses.paused.tolist() == [0, 1]


def test_a_pause_takes_effect_a_cable_later_and_only_once() -> None:
    ingresses, switches = ports(RESERVE + 50_000.0)
    ingresses.nic, ingresses.queue = 0, -1
    nics, queues = table(layout.NIC, 1), table(layout.QUEUE, 1)
    dirty = np.zeros(1, dtype=np.int64)
    decide(ingresses, switches, 0, 50, RESERVE, RESUME)
    assert apply_pauses(ingresses, nics, queues, 54, dirty, 0) == 0
    assert nics[0].paused == 0
    assert apply_pauses(ingresses, nics, queues, 55, dirty, 0) == 1
    assert (nics[0].paused, nics[0].dirty, dirty[0]) == (1, 1, 0)
    assert apply_pauses(ingresses, nics, queues, 56, dirty, 1) == 1


def test_a_pause_stops_the_port_of_the_switch_before() -> None:
    ingresses, switches = ports(RESERVE + 50_000.0)
    ingresses.nic, ingresses.queue = -1, 0
    nics, queues = table(layout.NIC, 1), table(layout.QUEUE, 1)
    queues.rate = 1_000.0
    dirty = np.zeros(1, dtype=np.int64)
    decide(ingresses, switches, 0, 50, RESERVE, RESUME)
    apply_pauses(ingresses, nics, queues, 55, dirty, 0)
    assert queues[0].paused == 1
    assert queues[0].light_rate < 0  # no short cut past the pause
    ingresses.held = 0.0
    decide(ingresses, switches, 0, 60, RESERVE, RESUME)
    apply_pauses(ingresses, nics, queues, 65, dirty, 0)
    assert queues[0].paused == 0
    assert queues[0].light_rate > 0

"""The counter window: rejections, eviction, and growth over a time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from telemetry.counters.model import Counters, CounterSample, CounterSettings, SeriesKey
from telemetry.counters.window import CountersAdded, CounterWindow

S = 1_000_000_000


def sample(
    ts_ns: int, switch: str = "leaf1", port: str = "Ethernet0", queue: int | None = 3, **counts: int
) -> CounterSample:
    return CounterSample(SeriesKey(switch, port, queue), ts_ns, Counters(**(counts or {"tx_bytes": ts_ns})))


def holding(*samples: CounterSample) -> CounterWindow:
    window = CounterWindow()
    assert window.add(samples).accepted == len(samples)
    return window


def test_increases_add_up_over_the_switches_asked_for() -> None:
    window = holding(
        *(
            sample(at * S, switch, f"Ethernet{port}", pfc_rx_frames=at * weight, dropped_packets=0)
            for switch, weight in (("leaf1", 1), ("leaf2", 10))
            for port in range(2)
            for at in (1, 2, 3)
        )
    )
    found = window.increase(["leaf1"], 1 * S, 3 * S)
    assert (found.counters.pfc_rx_frames, found.counters.dropped_packets) == (4, 0)
    assert found.counters.tx_bytes is None
    assert (found.covered_s, found.ports) == (2.0, 2)
    assert window.increase(None, 1 * S, 3 * S).counters.pfc_rx_frames == 44
    assert window.increase(["leaf1", "leaf2"], 2 * S, 3 * S).counters.pfc_rx_frames == 22
    assert window.increase([], 1 * S, 3 * S).ports == 0


def test_a_switch_that_says_nothing_covers_nothing() -> None:
    window = holding(sample(1 * S), sample(3 * S), sample(1 * S, "leaf2"))
    found = window.increase(["leaf1", "leaf2", "leaf3"], 0, 3 * S)
    assert (found.covered_s, found.ports) == (0.0, 1)
    assert found.counters.tx_bytes == 2 * S
    assert window.increase(["leaf3"], 0, 3 * S).counters == Counters()


def test_what_is_covered_is_inside_what_was_asked_for_and_of_the_worst_switch() -> None:
    window = holding(
        *(sample(at * S) for at in (0, 10, 20)),
        *(sample(at * S, port="Ethernet1") for at in (0, 4)),
        *(sample(at * S, "leaf2") for at in (0, 10)),
    )
    assert window.increase(["leaf1"], 5 * S, 25 * S).covered_s == 15.0
    assert window.increase(None, 5 * S, 25 * S).covered_s == 5.0


def test_a_port_s_own_count_stands_in_only_where_its_queues_give_none() -> None:
    window = holding(
        *(sample(at, queue=None, dropped_packets=100 * at, tx_bytes=1_000 * at) for at in (1, 2)),
        *(sample(at, queue=3, dropped_packets=3 * at) for at in (1, 2)),
        *(sample(at, queue=4, dropped_packets=4 * at) for at in (1, 2)),
        *(sample(at, port="Ethernet1", queue=None, dropped_packets=50 * at) for at in (1, 2)),
    )
    found = window.increase(None, 1, 2).counters
    assert (found.dropped_packets, found.tx_bytes) == (3 + 4 + 50, 1_000)


def test_a_queue_with_one_reading_does_not_hide_the_port() -> None:
    window = holding(*(sample(at, queue=None) for at in (1, 2)), sample(2, queue=3))
    assert window.increase(None, 1, 2).counters.tx_bytes == 1


def test_late_samples_are_named_by_their_place_in_the_body() -> None:
    window = holding(sample(5))
    added = window.add([sample(6), sample(6), sample(4), sample(7)], positions=[0, 2, 3, 9])
    assert added.accepted == 2
    assert [problem.index for problem in added.late] == [2, 3]
    assert "sample 3 ts_ns: received 4; samples of leaf1 Ethernet0 queue 3" in added.late[1].detail


@pytest.mark.parametrize("glitch", [0, 4_999_999])
def test_one_reading_that_went_down_drops_nothing(glitch: int) -> None:
    window = holding(
        *(sample(at * S, dropped_packets=count) for at, count in ((10, 5_000_000), (20, glitch)))
    )
    assert window.increase(["leaf1"], 10 * S, 20 * S).counters.dropped_packets is None  # not known yet
    assert window.lately(10 * S) == []
    assert len(window.add([sample(15 * S, dropped_packets=5_000_000)]).late) == 1  # and tells nothing
    assert window.add([sample(30 * S, dropped_packets=5_000_001)]).accepted == 1
    found = window.increase(["leaf1"], 10 * S, 30 * S)
    assert (found.counters.dropped_packets, found.covered_s) == (1, 20.0)
    ((_, lately),) = window.lately(10 * S)
    assert (lately.begin_ns, lately.end_ns) == (10 * S, 30 * S)  # at the rate of all that time


def test_a_clock_set_back_tells_nothing_of_what_went_down_before() -> None:
    window = CounterWindow(CounterSettings(horizon_ns=100, confirm_samples=1))
    window.add([sample(10_000, tx_bytes=50), sample(10_010, tx_bytes=5)])
    window.add([sample(20, tx_bytes=9), sample(30, tx_bytes=60)])
    assert window.increase(None, 0, 10**6).counters.tx_bytes == 51


def test_over_a_clock_set_forward_nothing_is_known() -> None:
    year_ns = 365 * 86_400 * S
    window = holding(sample(1 * S, dropped_packets=0), sample(year_ns, dropped_packets=1_000_000))
    assert window.increase(None, 0, year_ns).counters.dropped_packets is None
    assert window.lately(2 * year_ns) == []
    window.add([sample(year_ns + 10 * S, dropped_packets=1_000_500)])
    assert window.increase(None, 0, year_ns + 10 * S).counters.dropped_packets == 500
    kept = holding(sample(1 * S, dropped_packets=0), sample(3_601 * S, dropped_packets=7))
    assert kept.increase(None, 0, 3_601 * S).counters.dropped_packets == 7


def test_a_clock_set_back_is_believed_once_enough_agree() -> None:
    window = CounterWindow(CounterSettings(horizon_ns=100))
    window.add([sample(10_000, tx_bytes=5), sample(10_010, tx_bytes=9)])
    assert [window.add([sample(at, tx_bytes=at)]).accepted for at in (20, 30, 40, 50)] == [0, 0, 1, 1]
    assert window.newest_ns() == 50
    assert window.increase(None, 0, 10**6).counters.tx_bytes == 10


@pytest.mark.parametrize("times", [(9_950, 9_960, 9_970, 9_980), (20, 30, 10_020, 40, 50), (20, 20, 20, 20)])
def test_bodies_sent_again_are_no_clock_set_back(times: tuple[int, ...]) -> None:
    window = CounterWindow(CounterSettings(horizon_ns=100))
    window.add([sample(10_000), sample(10_010)])
    for at in times:
        assert window.add([sample(at)]).accepted == (at == 10_020)
    assert (window.newest_ns() or 0) >= 10_010


def test_memory_is_bounded_and_the_ended_make_room() -> None:
    window = CounterWindow(CounterSettings(max_series=2, horizon_ns=100))
    assert window.add([sample(10, "a"), sample(10, "b")], arrived_ns=0).accepted == 2
    full = window.add([sample(11, "c"), sample(11, "a")], positions=[4, 5], arrived_ns=1)
    assert (full.accepted, [problem.index for problem in full.no_room]) == (1, [4])
    assert "counters of 2 ports and queues are kept" in full.no_room[0].detail
    assert window.add([sample(12, "c")], arrived_ns=101).accepted == 1
    assert (len(window), window.switches) == (2, ("a", "c"))


def test_a_clock_off_from_the_others_neither_ends_their_series_nor_its_own() -> None:
    window = CounterWindow(CounterSettings(max_series=3, horizon_ns=100))
    for arrived_ns in (0, 50):
        ahead, behind, right = sample(9_000 + arrived_ns, "a"), sample(arrived_ns, "b"), sample(4_000, "c")
        window.add([ahead, behind, *([] if arrived_ns else [right])], arrived_ns=arrived_ns)
    assert len(window.add([sample(4_100, "d"), sample(99_000, "e")], arrived_ns=100).no_room) == 2
    assert window.switches == ("a", "b", "c")
    assert window.add([sample(1, "d")], arrived_ns=101).accepted == 1  # c has sent nothing since 0
    assert window.switches == ("a", "b", "d")


class Searching(CounterWindow):
    """Counts searches for series that have ended; ``always``: forgets what the one before found."""

    searches = 0
    always = False

    def add(self, *samples: Any, **arrived: Any) -> CountersAdded:
        if self.always:
            self._none_ended_ns = -1
        return super().add(*samples, **arrived)

    def _drop_ended(self, now_ns: int) -> None:
        self.searches += 1
        super()._drop_ended(now_ns)


def test_a_full_window_is_searched_only_when_a_series_may_have_ended() -> None:
    window = Searching(CounterSettings(max_series=2, horizon_ns=100))
    for at_ns, switch in ((10, "a"), (20, "b")):
        window.add([sample(at_ns, switch)], arrived_ns=at_ns)
    for at_ns in range(21, 111):
        refused = window.add([sample(at_ns, "c"), sample(at_ns, "d")], arrived_ns=at_ns)
        assert len(refused.no_room) == 2
    assert window.searches == 1
    assert window.add([sample(111, "c")], arrived_ns=111).accepted == 1


@pytest.mark.parametrize("seed", range(40))
def test_a_full_window_keeps_what_it_would_if_it_always_searched(seed: int) -> None:
    choose = random.Random(seed)
    settings = CounterSettings(max_series=3, horizon_ns=100, confirm_samples=2)
    window, always = Searching(settings), Searching(settings)
    always.always = True
    for number in range(300):
        now_ns = 1_000 + 10 * number
        one = sample(now_ns - choose.choice([0, 5, 90, 400]), choose.choice("abcdef"))
        added = (each.add([one], arrived_ns=now_ns) for each in (window, always))
        assert next(added) == next(added)
    assert window.switches == always.switches
    assert window.searches < always.searches


def test_the_newest_reading() -> None:
    window = holding(sample(5), sample(9, "leaf2"))
    assert (window.newest_ns(), window.newest_ns(["leaf1"]), window.newest_ns(["leaf3"])) == (9, 5, None)

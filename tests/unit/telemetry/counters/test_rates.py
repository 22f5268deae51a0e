"""Rates of ports and queues from counters, and None for unknown ones."""

from __future__ import annotations

import pytest

from telemetry.counters.model import Counters, CounterSample, CounterSettings, SeriesKey
from telemetry.counters.window import LEAST_SPAN_NS, CounterWindow, PortRates, Rates, port_rates

S = 1_000_000_000


def window(*samples: tuple[int, int | None, dict[str, int]], port: str = "Ethernet0") -> CounterWindow:
    made = CounterWindow(CounterSettings())
    given = [
        CounterSample(SeriesKey("leaf1", port, queue), at * S, Counters(**counts))
        for at, queue, counts in samples
    ]
    assert made.add(given).accepted == len(given)
    return made


def rates(made: CounterWindow, span_s: int = 10) -> tuple[PortRates, ...]:
    return port_rates(made.lately(span_s * S))


def test_growth_becomes_a_rate_and_a_share_over_its_own_time() -> None:
    made = window(
        (100, None, {"pfc_pause_ns": 0, "dropped_packets": 7, "pfc_tx_frames": 0}),
        (104, None, {"pfc_pause_ns": S, "dropped_packets": 9, "pfc_tx_frames": 400}),
    )
    (port,) = rates(made)
    assert (port.switch, port.port, port.covered_s, port.queues) == ("leaf1", "Ethernet0", 4.0, {})
    assert port.rates == Rates(pause_share=0.25, drops_per_s=0.5, pfc_tx_frames_per_s=100.0)


def test_a_port_is_as_paused_as_its_worst_queue_and_drops_what_all_of_them_drop() -> None:
    made = window(
        (0, 3, {"pfc_pause_ns": 0, "dropped_packets": 0}),
        (0, 4, {"pfc_pause_ns": 0, "dropped_packets": 0}),
        (0, None, {"pfc_pause_ns": 0, "dropped_packets": 0, "cnp_packets": 0}),
        (10, 3, {"pfc_pause_ns": 5 * S, "dropped_packets": 10}),
        (10, 4, {"pfc_pause_ns": 9 * S, "dropped_packets": 20}),
        (10, None, {"pfc_pause_ns": 10 * S, "dropped_packets": 1_000, "cnp_packets": 50}),
    )
    (port,) = rates(made)
    assert port.rates == Rates(pause_share=0.9, drops_per_s=3.0, cnp_per_s=5.0)
    assert list(port.queues) == [3, 4]
    assert port.queues[3] == Rates(pause_share=0.5, drops_per_s=1.0)


def test_a_pause_longer_than_the_time_between_readings_is_all_of_it() -> None:
    made = window((0, 3, {"pfc_pause_ns": 0}), (1, 3, {"pfc_pause_ns": 3 * S}))
    assert rates(made)[0].rates.pause_share == 1.0


def test_each_counter_grows_over_the_time_between_the_readings_that_have_it() -> None:
    made = window(
        (0, None, {"pfc_pause_ns": 0, "dropped_packets": 0, "cnp_packets": 0}),
        *((at, None, {"pfc_pause_ns": at * S, "dropped_packets": 1_000 * at}) for at in (10, 20, 30, 40, 50)),
        (60, None, {"pfc_pause_ns": 60 * S, "dropped_packets": 60_000, "cnp_packets": 120}),
    )
    (port,) = rates(made)
    assert port.rates == Rates(pause_share=1.0, drops_per_s=1_000.0, cnp_per_s=2.0)
    assert port.covered_s == 60.0


def test_one_reading_tells_nothing() -> None:
    assert rates(window((0, 3, {"dropped_packets": 5}))) == ()


def test_readings_further_apart_than_the_span_are_used_all_the_same() -> None:
    made = window((0, 3, {"dropped_packets": 0}), (30, 3, {"dropped_packets": 60}))
    (port,) = rates(made, span_s=1)
    assert (port.covered_s, port.rates.drops_per_s) == (30.0, 2.0)


def test_a_series_that_ended_long_before_the_others_of_its_switch_is_left_out() -> None:
    made = window(
        *((at, 3, {"dropped_packets": at}) for at in (0, 5, 200, 205)),
        *((at, 4, {"dropped_packets": at}) for at in (0, 5)),
        *((at, 5, {"dropped_packets": at}) for at in (140, 145)),
    )
    assert list(rates(made)[0].queues) == [3, 5]


def test_a_series_that_ended_before_the_clock_was_set_back_hides_no_other() -> None:
    made = CounterWindow(CounterSettings(confirm_samples=1))
    gone, live = SeriesKey("leaf1", "Ethernet0", None), SeriesKey("leaf1", "Ethernet4", None)
    an_hour_ahead_ns = 10_000 * S
    for arrived_s, at_ns, keys in (
        (0, an_hour_ahead_ns, (gone, live)),
        (10, an_hour_ahead_ns + 10 * S, (gone, live)),
        (100, 100 * S, (live,)),
        (110, 110 * S, (live,)),
    ):
        drops = Counters(dropped_packets=arrived_s)
        added = made.add([CounterSample(key, at_ns, drops) for key in keys], arrived_ns=arrived_s * S)
        assert added.accepted == len(keys)
    assert [(port.port, port.rates.drops_per_s) for port in rates(made)] == [("Ethernet4", 1.0)]
    assert made.newest_ns(["leaf1"]) == made.newest_ns() == 110 * S
    assert made.newest_by_switch() == {"leaf1": 110 * S}


def test_what_was_worked_out_is_kept_until_the_next_reading() -> None:
    made = window((0, 3, {"dropped_packets": 0}), (1, 3, {"dropped_packets": 1}))
    first = made.lately(10 * S)
    assert made.lately(10 * S)[0][1] is first[0][1]
    made.add([CounterSample(SeriesKey("leaf1", "Ethernet0", 3), 2 * S, Counters(dropped_packets=5))])
    assert rates(made)[0].rates.drops_per_s == pytest.approx(2.5)
    assert made.newest_by_switch() == {"leaf1": 2 * S}


def test_readings_a_moment_apart_make_no_rate() -> None:
    made = CounterWindow(CounterSettings())
    key = SeriesKey("leaf1", "Ethernet0", 3)
    for at_ns, drops in ((S, 0), (S + 1, 5), (S + LEAST_SPAN_NS - 1, 9)):
        made.add([CounterSample(key, at_ns, Counters(dropped_packets=drops, pfc_pause_ns=drops * S))])
        assert [port.rates for port in rates(made)] == [Rates()] * (drops > 0)
    made.add([CounterSample(key, 2 * S, Counters(dropped_packets=10, pfc_pause_ns=9 * S))])
    assert [port.rates.drops_per_s for port in rates(made)] == [10.0]

"""Counter series: growth over resets and gaps, in bounded memory."""

from __future__ import annotations

import pytest

from telemetry.counters.model import MOST, Counters, CounterSeries

FIELDS = Counters._fields


def series(*readings: tuple[int, Counters], max_samples: int = 64, horizon_ns: int = 10**6) -> CounterSeries:
    made = CounterSeries(max_samples, horizon_ns)
    for ts_ns, counters in readings:
        made.append(ts_ns, counters)
    return made


def grown(made: CounterSeries, since_ns: int, until_ns: int) -> dict[str, int]:
    found = made.between(since_ns, until_ns)
    if found is None:
        return {}
    return {name: value for name, value in zip(FIELDS, found.by_field, strict=True) if value is not None}


def test_growth_is_between_the_readings_around() -> None:
    made = series(*((at, Counters(tx_bytes=at * at)) for at in (10, 20, 30, 40)))
    assert grown(made, 10, 40) == {"tx_bytes": 1_500}
    assert grown(made, 25, 39) == {"tx_bytes": 500}
    assert grown(made, 0, 20) == {"tx_bytes": 300}
    assert grown(made, 0, 10**9) == {"tx_bytes": 1_500}


def test_fewer_than_two_readings_say_nothing() -> None:
    made = series((10, Counters(tx_bytes=1)), (20, Counters(tx_bytes=2)))
    for since_ns, until_ns in ((0, 9), (0, 10), (0, 19), (20, 30), (25, 30), (12, 19), (20, 10)):
        assert made.between(since_ns, until_ns) is None
    assert grown(made, 12, 20) == {"tx_bytes": 1}
    assert CounterSeries(8, 10).newest_ns == -1


def test_a_counter_that_goes_down_was_reset() -> None:
    made = series(*((at, Counters(tx_bytes=value)) for at, value in enumerate((100, 150, 7, 9, 0, 3))))
    assert grown(made, 0, 5) == {"tx_bytes": 50 + 7 + 2 + 0 + 3}


@pytest.mark.parametrize("glitch", [(0,), (499,), (400, 300, 0)], ids=["zero", "one less", "down and down"])
def test_a_reading_that_went_down_and_is_made_up_for_is_no_reset(glitch: tuple[int, ...]) -> None:
    """As of an exporter that lags behind another, or a row that reads 0 while the device restarts."""
    values = (490, 500, *glitch, 500, 503)
    made = series(*((at, Counters(dropped_packets=value)) for at, value in enumerate(values)))
    assert grown(made, 0, 99) == {"dropped_packets": 13}
    again = 2 + len(glitch)
    assert grown(made, 1, again) == {"dropped_packets": 0}
    found = made.between(again - 1, again + 1)
    assert found is not None
    assert (found.begin_ns, found.by_field[FIELDS.index("dropped_packets")]) == (1, 3)  # over all that time


def test_what_a_counter_that_went_down_grew_is_unknown_until_its_next_reading() -> None:
    made = series(*((at, Counters(tx_bytes=value)) for at, value in ((10, 100), (20, 150), (30, 7))))
    assert made.newest_ns == 30
    assert (grown(made, 10, 30), grown(made, 20, 30)) == ({"tx_bytes": 50}, {})
    made.append(40, Counters(dropped_packets=1))  # tells nothing of it
    assert grown(made, 20, 40) == {}
    made.append(50, Counters(tx_bytes=9))
    # A reset: each time has what it grew then.
    assert (grown(made, 20, 30), grown(made, 30, 50), grown(made, 20, 50)) == (
        {"tx_bytes": 7},
        {"tx_bytes": 2},
        {"tx_bytes": 9},
    )


def test_counters_that_go_down_together_are_each_told_by_their_own() -> None:
    made = series(
        (1, Counters(tx_bytes=1_000, dropped_packets=3, cnp_packets=40, ecn_marked_packets=8)),
        (2, Counters(tx_bytes=0, dropped_packets=0, cnp_packets=0, ecn_marked_packets=9)),
        (3, Counters(tx_bytes=600, dropped_packets=3, cnp_packets=0, ecn_marked_packets=9)),
    )
    assert grown(made, 1, 3) == {
        "tx_bytes": 600,
        "dropped_packets": 0,
        "cnp_packets": 0,
        "ecn_marked_packets": 1,
    }


def test_a_counter_of_32_bits_that_wraps_grows_too_little_and_never_too_much() -> None:
    true, made = 2**32 - 1_000, CounterSeries(64, 10**6)
    for at in range(20):
        made.append(at, Counters(tx_bytes=true % 2**32))
        true += 700_000_000
    assert 0 < grown(made, 0, 19)["tx_bytes"] <= 19 * 700_000_000
    slow = series(*((at, Counters(tx_bytes=value)) for at, value in enumerate((2**32 - 10, 5, 25))))
    assert grown(slow, 0, 2) == {"tx_bytes": 25}


def test_a_reset_is_told_although_its_first_reading_was_thinned_out() -> None:
    made = series((0, Counters(tx_bytes=100)), (1, Counters(tx_bytes=7)), max_samples=4)
    for at in range(2, 40):
        made.append(at, Counters(cnp_packets=at))
    made.append(40, Counters(tx_bytes=9))
    assert len(made) <= 4
    assert grown(made, 0, 40)["tx_bytes"] == 9
    assert "tx_bytes" not in grown(made, 0, 39)


@pytest.mark.parametrize("last", [5, 120])
def test_growth_over_the_horizon_is_whole_where_its_first_reading_went_down(last: int) -> None:
    made = CounterSeries(4, 100)
    for at, value in ((0, 10), (50, 100), (60, 0), (160, last), (170, last + 1)):  # 60 is the edge for 160
        made.append(at, Counters(tx_bytes=value))
    assert grown(made, 60, 170) == {"tx_bytes": (last if last < 100 else last - 100) + 1}


def test_growth_before_a_reading_that_went_down_stays_before_it_when_thinned() -> None:
    made = CounterSeries(6, 10**9)
    for at, value in enumerate((0, 2, 1, 0, 0, 0, 0)):
        made.append(at, Counters(tx_bytes=value))
    assert len(made) == 6  # without the reading of 2
    assert (grown(made, 0, 2), grown(made, 2, 6)) == ({"tx_bytes": 2}, {"tx_bytes": 0})


def test_a_field_given_only_sometimes_is_counted_between_where_it_is() -> None:
    made = series(
        (1, Counters(tx_bytes=10)),
        (2, Counters(tx_bytes=20, dropped_packets=5)),
        (3, Counters(tx_bytes=30)),
        (4, Counters(tx_bytes=40, dropped_packets=9)),
        (5, Counters(tx_bytes=50)),
    )
    assert grown(made, 1, 5) == {"tx_bytes": 40, "dropped_packets": 4}
    assert grown(made, 3, 5) == {"tx_bytes": 20, "dropped_packets": 4}
    assert grown(made, 1, 3) == {"tx_bytes": 20}
    assert grown(made, 4, 5) == {"tx_bytes": 10}


def test_a_field_missing_at_both_ends_is_found_with_its_times() -> None:
    only = series(
        (1, Counters(tx_bytes=1)),
        (2, Counters(cnp_packets=1)),
        (3, Counters(cnp_packets=3)),
        (4, Counters(tx_bytes=1)),
    )
    found = only.between(0, 10)
    assert found is not None
    assert (found.begin_ns, found.end_ns) == (1, 4)
    inner = series(
        (1, Counters(tx_bytes=1)),
        (2, Counters(cnp_packets=1)),
        (3, Counters(cnp_packets=3)),
        (4, Counters(tx_packets=1)),
    ).between(0, 10)
    assert inner is not None
    assert (inner.begin_ns, inner.end_ns) == (2, 3)


def test_readings_that_share_no_field_say_nothing() -> None:
    assert series((1, Counters(tx_bytes=1)), (2, Counters(cnp_packets=1))).between(0, 10) is None


def test_old_readings_go_but_the_horizon_stays_whole() -> None:
    made = CounterSeries(16, 100)
    for at in range(0, 10_000, 10):
        made.append(at, Counters(tx_bytes=at))
        assert len(made) <= 16
        if at >= 100:
            assert grown(made, at - 100, at) == {"tx_bytes": 100}


def test_too_many_readings_are_thinned_and_no_growth_is_lost() -> None:
    made, value = CounterSeries(16, 10**9), 0
    for at in range(1_000):
        value = value + 3 if at % 7 else 2
        made.append(at, Counters(tx_bytes=value))
    assert len(made) <= 16
    assert made.newest_ns == 999
    resets = 142  # 7, 14, ..., 994
    assert grown(made, 0, 999) == {"tx_bytes": 3 * (999 - resets) + 2 * resets}


def test_more_growth_than_can_be_held_begins_anew() -> None:
    made = series(*((at, Counters(tx_bytes=value)) for at, value in enumerate((0, MOST, 0, 1, MOST, MOST))))
    assert (made.newest_ns, len(made)) == (5, 3)
    for since_ns in range(5):
        assert 0 <= grown(made, since_ns, 5).get("tx_bytes", 0) <= MOST

"""Counter series: growth over resets and gaps, in bounded memory."""

from __future__ import annotations

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
    made = series(*((at, Counters(tx_bytes=MOST * (at % 2))) for at in range(6)))
    assert made.newest_ns == 5
    for since_ns in range(5):
        assert 0 <= grown(made, since_ns, 5).get("tx_bytes", 0) <= MOST

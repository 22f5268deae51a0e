"""Counter samples: valid ranges, and the errors of others."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.counters.model import MOST, Counters, CounterSample, CounterSettings, SeriesKey
from telemetry.errors import ReportError, WindowError

KEY = SeriesKey("leaf1", "Ethernet0", 3)


def test_what_is_not_given_is_none() -> None:
    assert set(Counters(tx_bytes=0)) == {None, 0}
    assert Counters(tx_bytes=0).dropped_packets is None


@pytest.mark.parametrize(
    ("queue", "ts_ns", "counters", "field"),
    [
        (3, -1, Counters(tx_bytes=1), "ts_ns"),
        (3, MOST + 1, Counters(tx_bytes=1), "ts_ns"),
        (-1, 1, Counters(tx_bytes=1), "queue"),
        (3, 1, Counters(tx_bytes=-1), "tx_bytes"),
        (3, 1, Counters(tx_bytes=1, dropped_packets=MOST + 1), "dropped_packets"),
        (3, 1, Counters(pfc_pause_ns=True), "pfc_pause_ns"),
        (3, 1, Counters(pfc_pause_ns=1.5), "pfc_pause_ns"),  # type: ignore[arg-type]
        (3, 1, Counters(), "counters"),
    ],
)
def test_a_count_that_cannot_be_is_refused(queue: int, ts_ns: int, counters: Counters, field: str) -> None:
    with pytest.raises(ReportError) as found:
        CounterSample(SeriesKey("leaf1", "Ethernet0", queue), ts_ns, counters)
    assert found.value.where == field


@pytest.mark.parametrize("value", [0, MOST])
def test_the_least_and_the_most_are_taken(value: int) -> None:
    assert CounterSample(KEY, value, Counters(tx_bytes=value)).counters.tx_bytes == value


@pytest.mark.parametrize(
    "changes", [{"max_series": 0}, {"max_samples": 3}, {"horizon_ns": 1.5}, {"confirm_samples": True}]
)
def test_settings_outside_their_meaning_are_named(changes: dict[str, Any]) -> None:
    with pytest.raises(WindowError, match=next(iter(changes))):
        CounterSettings(**changes)

"""What one reading of a counter tells, by the reading before it and the count before that went down."""

from __future__ import annotations

import pytest

from telemetry.counters.growth import Growth, growth


@pytest.mark.parametrize(
    ("last", "value", "high", "told"),
    [
        (5, 5, None, Growth(0, 0)),
        (5, 9, None, Growth(0, 4)),
        (5, 4, None, None),
        (0, 5, 5, Growth(0, 0)),  # back where it was
        (0, 9, 5, Growth(0, 4)),
        (2, 4, 5, Growth(2, 2)),  # counted from 0
        (0, 0, 5, Growth(0, 0)),
        (2, 1, 5, None),
    ],
)
def test_a_counter_grew_from_where_it_went_on(
    last: int, value: int, high: int | None, told: Growth | None
) -> None:
    found = growth(last, value, high)
    assert found == told
    assert found is None or found.whole == found.before + found.since

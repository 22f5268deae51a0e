"""The wheel of buckets: every scheduled flow sits in the one bucket of its next event."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.twin.replay.records import fresh_slots
from twin.replay import layout
from twin.replay._flows import leave_wheel, schedule
from twin.replay.layout import Ints, Table

pytestmark = pytest.mark.kernels

SIZE = layout.WHEEL


def empty_wheel() -> Ints:
    return np.full(SIZE, -1, dtype=np.int64)


def contents(slots: Table, wheel: Ints) -> dict[int, int]:
    """Bucket of each slot found in the wheel; a slot seen twice, or a broken link back, fails."""
    found: dict[int, int] = {}
    for bucket in np.flatnonzero(wheel >= 0):
        before, index = -1, int(wheel[bucket])
        while index >= 0:
            assert index not in found
            assert slots[index].wheel_before == before
            found[index] = int(bucket)
            before, index = index, int(slots[index].wheel_after)
    return found


@pytest.mark.parametrize(
    ("slot", "at"),
    [
        ({"cut_at": 40.9}, 40),  # in the step that it falls into
        ({"cut_at": 40.5, "increase_at": 33.0}, 33),
        ({"cut_at": 40.0, "sending": 10.0, "remaining": 95.0}, 9),
        ({"cut_at": 40.0, "sending": 10.0, "counted": 95.0, "since": 4}, 13),
        ({"cut_at": 3.0}, 5),  # never before ``earliest``
        ({"sending": 10.0, "remaining": -3.0}, 5),
        ({"alpha_at": 9.0, "cut_at": 40.0}, 40),  # α ticks wait for the cut tick
    ],
)
def test_the_next_event_is_the_nearest_that_may_change_a_rate(slot: dict[str, float], at: int) -> None:
    slots, wheel = fresh_slots(1), empty_wheel()
    for column, value in slot.items():
        slots[0][column] = value
    schedule(slots, wheel, 0, 5)
    assert slots[0].next_at == at
    assert contents(slots, wheel) == {0: at % SIZE}


def test_an_event_far_away_is_looked_at_again_within_a_turn() -> None:
    slots, wheel = fresh_slots(1), empty_wheel()
    slots[0].cut_at = 1e6
    schedule(slots, wheel, 0, 100)
    assert slots[0].next_at == 100 + SIZE - 2


events = st.lists(
    st.tuples(st.integers(0, 7), st.one_of(st.none(), st.integers(0, 5_000))), min_size=1, max_size=60
)


@given(events)
def test_slots_come_and_go_without_losing_each_other(moves: list[tuple[int, int | None]]) -> None:
    slots, wheel = fresh_slots(8), empty_wheel()
    expected: dict[int, int] = {}
    for now, (index, at) in enumerate(moves):
        if at is None:
            leave_wheel(slots, wheel, index)
            expected.pop(index, None)
        else:
            slots[index].cut_at = float(at)
            schedule(slots, wheel, index, now)
            expected[index] = min(max(at, now), now + SIZE - 2) % SIZE
        assert contents(slots, wheel) == expected
        assert all((slots[i].next_at == layout.NEVER) == (i not in expected) for i in range(8))


def test_a_last_byte_is_found_however_long_the_rate_has_stood() -> None:
    # 3000 steps at one rate: three turns of the wheel, each counted from the same beginning.
    slots, wheel = fresh_slots(1), empty_wheel()
    slots[0].sending, slots[0].remaining = 10.0, 30_005.0
    looked_at = [0]
    while looked_at[-1] < 3_000:
        schedule(slots, wheel, 0, looked_at[-1] + 1)
        looked_at.append(int(slots[0].next_at))
    assert looked_at == [0, SIZE - 1, 2 * (SIZE - 1), 3_000]

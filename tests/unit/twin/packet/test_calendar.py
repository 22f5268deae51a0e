"""The calendar and the heap against sorted lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.twin.packet.by_hand import handed
from tests.unit.twin.packet.plans import running, star
from twin.packet import layout
from twin.packet._calendar import TIMER_KINDS, enter, give_back, next_timer, set_timer, take

pytestmark = pytest.mark.kernels

moments = st.lists(st.one_of(st.floats(0, 1.0), st.sampled_from([0.0, 0.25, 0.5])), max_size=60)


@settings(max_examples=60)
@given(moments, st.lists(st.booleans(), max_size=60))
def test_timers_ring_in_order_and_equal_ones_in_the_order_they_were_set(
    times: list[float], takes: list[bool]
) -> None:
    fabric = running(star(2))
    state = handed(fabric._state)
    waiting: list[tuple[float, int]] = []

    def take_one() -> None:
        what = next_timer(state)
        waiting.sort()
        _, row = waiting.pop(0)
        assert what == row * TIMER_KINDS + row % 5

    for row, at in enumerate(times):
        set_timer(state, row * TIMER_KINDS + row % 5, at)
        waiting.append((at, row))
        assert state.timer_at[0] == min(waiting)[0]
        if row < len(takes) and takes[row]:
            take_one()
    while waiting:
        take_one()
    assert state.clock[0]["timers"] == 0


@settings(max_examples=60)
@given(st.lists(st.one_of(st.floats(0, 0.99), st.sampled_from([0.0, 0.25, 0.5])), max_size=60))
def test_buckets_hold_events_in_order_and_equal_ones_as_they_came(shares: list[float]) -> None:
    fabric = running(star(2))
    state, params = handed(fabric._state), fabric._params
    entered: list[tuple[float, int, int]] = []
    for share in shares:
        slot = take(state)
        at = share * params.horizon_s
        enter(state, params, slot, at)
        entered.append((at, len(entered), slot))
    found: list[int] = []
    for bucket in range(len(state.buckets)):
        slot = int(state.buckets[bucket])
        while slot >= 0:
            found.append(slot)
            slot = int(state.packets["next"][slot])
    assert found == [slot for _, _, slot in sorted(entered)]
    assert [float(state.packets["time"][slot]) for slot in found] == sorted(at for at, _, _ in entered)


def test_slots_given_back_are_taken_again() -> None:
    fabric = running(star(2))
    state: Any = handed(fabric._state)
    before = int(state.clock[0]["free_packets"])
    taken = [take(state) for _ in range(5)]
    assert len(set(taken)) == 5
    assert min(taken) >= len(fabric.plan.ports)  # those before are the ports' own events
    assert state.clock[0]["free_packets"] == before - 5
    for slot in taken:
        give_back(state, slot)
    assert state.clock[0]["free_packets"] == before
    assert {take(state) for _ in range(5)} == set(taken)


def test_little_left_is_said_in_time() -> None:
    fabric = running(star(2))
    state: Any = handed(fabric._state)
    while state.clock[0]["short"] == layout.FINISHED:
        take(state)
    assert state.clock[0]["short"] == layout.MORE_PACKETS
    assert state.clock[0]["free_packets"] > 8
    state.clock[0]["short"] = layout.FINISHED
    while state.clock[0]["short"] == layout.FINISHED:
        set_timer(state, 0, 1.0)
    assert state.clock[0]["short"] == layout.MORE_TIMERS
    assert state.timer_at.size - state.clock[0]["timers"] > 8
    # The fabric sees both, though one event can say only one.
    assert fabric.now_s == 0
    n_packets, n_timers = len(state.packets), state.timer_at.size
    fabric.advance(0.0)
    assert len(fabric._state.packets) > n_packets
    assert len(fabric._state.timer_at) > n_timers


def test_the_calendar_reaches_past_a_cable_and_the_longest_packet() -> None:
    for mtu in (1, 1_000):
        plan = star(2, rate_gbps=10.0, mtu_payload_bytes=mtu, wire_overhead_bytes=0)
        buckets, per_s, reach_s = plan.calendar()
        assert buckets & (buckets - 1) == 0
        assert reach_s >= 1e-6 + max(mtu, 64) / 1.25e9
        assert buckets / per_s > reach_s
        assert np.isclose(per_s * reach_s, buckets - 2)

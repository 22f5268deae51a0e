"""The event queue: a calendar of buckets for packets under way, a heap for timers.

Nearly every event lies less than a cable and a packet ahead, so it goes into a ring of short buckets (Brown,
"Calendar Queues", CACM 1988): one store to enter, one load to leave, whatever the number of packets in
flight. Reaction-point timers lie thousands of packets ahead and go into a binary heap.
"""

from __future__ import annotations

from numba import uint64

from twin.jit import compiler, inlined
from twin.packet.layout import LATE_WAKE, MORE_PACKETS, MORE_TIMERS, WAKE, Params, Record, State

SPARE = 16  # more packets than an event takes, and more timers, but for flows that wait for others
TIMER_KINDS = 8  # from START to DECIDE, rounded up; a timer is its flow's row × this + its kind


@inlined
def enter(state: State, params: Params, slot: int, at: float) -> None:
    """Put a packet or event into the calendar; events of equal time keep their order."""
    packets, buckets = state.packets, state.buckets
    packet = packets[slot]
    packet.time = at
    # Unsigned, to avoid the check for negative indices.
    bucket = uint64(int(at * params.buckets_per_s) & (buckets.size - 1))
    follower = buckets[bucket]
    if follower < 0 or at < packets[follower].time:
        packet.next = follower
        buckets[bucket] = slot
        return
    before = follower
    follower = packets[before].next
    while follower >= 0 and packets[follower].time <= at:
        before = follower
        follower = packets[before].next
    packet.next = follower
    packets[before].next = slot


@inlined
def take(state: State) -> int:
    """A free packet slot; the kernel stops for more before there is none."""
    clock = state.clock[0]
    slot = clock.free_packet
    clock.free_packet = state.packets[slot].next
    clock.free_packets -= 1
    if clock.free_packets < SPARE:
        clock.short = MORE_PACKETS
    return int(slot)


@inlined
def give_back(state: State, slot: int) -> None:
    """Free a packet slot."""
    clock = state.clock[0]
    state.packets[slot].next = clock.free_packet
    clock.free_packet = slot
    clock.free_packets += 1


@inlined
def wake(state: State, params: Params, row: int, now: float) -> None:
    """Wake a paced flow when its next packet may leave."""
    flow = state.flows[row]
    flow.pending += 1
    if flow.next_avail - now > params.horizon_s:
        set_timer(state, row * TIMER_KINDS + LATE_WAKE, flow.next_avail)
        return
    slot = take(state)
    packet = state.packets[slot]
    packet.kind = WAKE
    packet.flow = row
    enter(state, params, slot, flow.next_avail)


@compiler(_nrt=False)
def set_timer(state: State, what: int, at: float) -> None:
    """Add a timer (see ``TIMER_KINDS``); the caller counts it in ``pending``."""
    clock = state.clock[0]
    times, serials, whats = state.timer_at, state.timer_serial, state.timer_what
    place = clock.timers
    clock.timers += 1
    clock.other = min(clock.other, at)
    if clock.timers + clock.spare_timers > state.timer_at.size:
        clock.short = MORE_TIMERS
    clock.serial += 1
    serial = clock.serial
    while place > 0:
        parent = (place - 1) >> 1
        if times[parent] <= at:  # the newest of equals goes last
            break
        times[place], serials[place], whats[place] = times[parent], serials[parent], whats[parent]
        place = parent
    times[place], serials[place], whats[place] = at, serial, what


@compiler(_nrt=False)
def next_timer(state: State) -> int:
    """Take the earliest timer off the heap."""
    clock: Record = state.clock[0]
    times, serials, whats = state.timer_at, state.timer_serial, state.timer_what
    first = whats[0]
    clock.timers -= 1
    n = clock.timers
    at, serial, what = times[n], serials[n], whats[n]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= n:
            break
        other = child + 1
        if other < n and (
            times[other] < times[child] or (times[other] == times[child] and serials[other] < serials[child])
        ):
            child = other
        if at < times[child] or (at == times[child] and serial < serials[child]):
            break
        times[place], serials[place], whats[place] = times[child], serials[child], whats[child]
        place = child
    times[place], serials[place], whats[place] = at, serial, what
    return int(first)

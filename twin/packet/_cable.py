"""Packets lost, and cables that fail and come back; records only."""

from __future__ import annotations

from twin.jit import inlined, kernel
from twin.packet._calendar import give_back
from twin.packet._sender import call
from twin.packet._switch import lose_control, may_resume, release, tell
from twin.packet.layout import ACK, CNP, DATA, PAUSE, RESUME
from twin.packet.state import Params, State


@inlined
def drop_sample(state: State, slot: int) -> None:
    """The INT stack of a packet that will not be reported."""
    row = state.packets[slot].sample
    if row >= 0:
        state.samples[row].next = state.clock[0].free_sample
        state.clock[0].free_sample = row
        state.packets[slot].sample = -1


@inlined
def lose(state: State, params: Params, slot: int, index: int) -> None:
    """A data packet dropped at this port."""
    packet, port, clock = state.packets[slot], state.ports[index], state.clock[0]
    port.dropped_packets += 1
    port.dropped_bytes += packet.wire
    clock.dropped_bytes += packet.wire - params.overhead_bytes
    state.flows[packet.flow].pending -= 1
    drop_sample(state, slot)
    give_back(state, slot)


@inlined
def clear_cable(state: State, params: Params, index: int) -> None:
    """Lose what this port has sent and nobody has received yet."""
    packets, buckets = state.packets, state.buckets
    for bucket in range(buckets.size):
        before = -1
        slot = buckets[bucket]
        while slot >= 0:
            packet = packets[slot]
            following = packet.next
            kind = packet.kind
            if kind in (DATA, ACK, CNP):
                on_cable = state.places[packet.place] == index
            else:
                on_cable = kind in (PAUSE, RESUME) and state.ports[packet.flow].reverse == index
            if not on_cable:
                before = slot
            else:
                if before < 0:
                    buckets[bucket] = following
                else:
                    packets[before].next = following
                if kind == DATA:
                    lose(state, params, slot, index)
                else:
                    lose_control(state, slot)
            slot = following


@kernel
def fail(state: State, params: Params, index: int) -> None:
    """A cable's direction goes dead: what waits for it is lost, and so is what is on it."""
    clock, port = state.clock[0], state.ports[index]
    port.down = 1
    port.pausing = 0
    if port.paused == 1:
        port.paused = 0
        port.paused_s += clock.now - port.paused_since
    clear_cable(state, params, index)
    if port.switch < 0:
        return
    slot = port.head
    port.head = -1
    while slot >= 0:
        packet = state.packets[slot]
        following = packet.next
        port.depth -= packet.wire
        upstream = state.places[packet.place - 1]
        release(state, params, upstream, port.switch, float(packet.wire))
        if params.pfc and may_resume(state, upstream, port.switch):
            tell(state, params, upstream, False, clock.now)
        lose(state, params, slot, index)
        slot = following


@kernel
def restore(state: State, params: Params, index: int) -> None:
    """A cable's direction is back."""
    state.ports[index].down = 0
    call(state, params, index, state.clock[0].now)

"""Switches: shared buffer, PFC, ECN marking, lost packets, cables that fail and come back.

Marking: probability 0 up to Kmin, rising to Pmax at Kmax, 1 beyond. PFC: a dynamic threshold per ingress, a
share of the free shared buffer (``pfc_shares``); packets beyond it use headroom; resume 3 KB below it, as by
the switches of the reference problems.
"""

from __future__ import annotations

from numba import uint64

from twin.jit import compiler, inlined, kernel
from twin.packet._background import settle
from twin.packet._calendar import enter, give_back, take
from twin.packet._sender import call
from twin.packet.layout import (
    ACK,
    CONTROL_WIRE_BYTES,
    DATA,
    PAUSE,
    RESERVE_BYTES,
    RESUME,
    Params,
    Record,
    State,
)

RESUME_BYTES = 3072.0

_ODD_1, _ODD_2, _ODD_3 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 0x9FB21C651E98DF25
_TO_UNIT = 2.0**-53


@inlined
def draw(seed: int, flow: int, seq: int, place: int) -> float:
    """A number in [0, 1) for this packet at this hop, the same under every watermark.

    MurmurHash3's finaliser over each word in turn.
    """
    x = (uint64(seed) + uint64(1)) * uint64(_ODD_3) + uint64(flow)
    x = (x ^ (x >> uint64(33))) * uint64(_ODD_1) + uint64(seq)
    x = (x ^ (x >> uint64(33))) * uint64(_ODD_2) + uint64(place)
    x = (x ^ (x >> uint64(33))) * uint64(_ODD_1)
    x = (x ^ (x >> uint64(29))) * uint64(_ODD_2)
    return ((x ^ (x >> uint64(32))) >> uint64(11)) * _TO_UNIT


@inlined
def is_marked(port: Record, depth: float, seed: int, flow: int, seq: int, place: int) -> bool:
    if depth <= port.kmin:
        return False
    if depth > port.kmax:
        return True
    return draw(seed, flow, seq, place) * (port.kmax - port.kmin) < port.pmax * (depth - port.kmin)


@inlined
def threshold(ingress: Record, switch: Record) -> float:
    """Shared bytes an ingress may hold now."""
    return ingress.share * (switch.shared - switch.used)


@inlined
def admit(state: State, params: Params, upstream: int, index: int, wire: float) -> bool:
    """Buffer a packet from ``upstream``; False where it must be dropped."""
    switch, ingress = state.switches[index], state.ports[upstream]
    if not params.pfc:
        if switch.waiting + wire > params.buffer_bytes:
            return False
        switch.waiting += wire
        return True
    held = ingress.held + wire
    if held > RESERVE_BYTES:
        room = threshold(ingress, switch)
        if held - RESERVE_BYTES > room:
            if ingress.headroom_held + wire > ingress.headroom:
                return False
            ingress.headroom_held += wire
            switch.waiting += wire
            return True
        switch.used += min(wire, held - RESERVE_BYTES)
    ingress.held = held
    switch.waiting += wire
    return True


@inlined
def release(state: State, params: Params, upstream: int, index: int, wire: float) -> None:
    """Free the buffer of a packet from ``upstream``: headroom first, then the shared part."""
    switch, ingress = state.switches[index], state.ports[upstream]
    switch.waiting -= wire
    if not params.pfc:
        return
    from_headroom = min(ingress.headroom_held, wire)
    rest = wire - from_headroom
    ingress.headroom_held -= from_headroom
    switch.used -= min(rest, max(ingress.held - RESERVE_BYTES, 0.0))
    ingress.held -= rest


@inlined
def must_pause(state: State, upstream: int, index: int) -> bool:
    """Whether this ingress is beyond its threshold and the far end is not paused yet."""
    ingress = state.ports[upstream]
    if ingress.pausing == 1:
        return False
    # A packet that would not fit the reserve may be in headroom while the reserve is not full.
    if ingress.headroom_held > 0.0:
        return True
    if ingress.held <= RESERVE_BYTES:
        return False
    return bool(ingress.held - RESERVE_BYTES >= threshold(ingress, state.switches[index]))


@inlined
def may_resume(state: State, upstream: int, index: int) -> bool:
    """Whether a paused far end may resume."""
    ingress = state.ports[upstream]
    if ingress.pausing == 0 or ingress.headroom_held > 0.0:
        return False
    shared = max(ingress.held - RESERVE_BYTES, 0.0)
    return bool(shared == 0.0 or shared + RESUME_BYTES <= threshold(ingress, state.switches[index]))


@compiler(_nrt=False)
def send_pause(state: State, params: Params, upstream: int, pause: bool, now: float) -> None:
    """Send a pause or resume frame to the far end of ``upstream``."""
    ports = state.ports
    ports[upstream].pausing = 1 if pause else 0
    back = ports[upstream].reverse
    slot = take(state)
    packet = state.packets[slot]
    packet.kind = PAUSE if pause else RESUME
    packet.flow = upstream
    packet.place = -1
    packet.wire = CONTROL_WIRE_BYTES
    packet.sample = -1
    send_control(state, params, back, slot, now)


@inlined
def send_control(state: State, params: Params, index: int, slot: int, now: float) -> None:
    """Send an acknowledgement, pause or resume before any data, as soon as the port is free.

    Nothing overtakes it, so it needs no queue: its departure is known now.
    """
    port, packet = state.ports[index], state.packets[slot]
    if port.down == 1:
        lose_control(state, slot)
        return
    if port.background >= 0:
        settle(state, params, port, now)
    port.free_at = max(port.free_at, now) + packet.wire * port.s_per_byte
    port.sent_bytes += packet.wire
    state.clock[0].hops += 1
    arrives = port.free_at + port.delay
    if packet.kind != ACK:
        enter(state, params, slot, arrives)
        return
    flow = state.flows[packet.flow]
    if (
        state.places[packet.place + 1] >= 0
        or packet.marked == 1
        or packet.nack == 1
        or packet.probe > 0
        or packet.seq == flow.n_packets
        or has_window(state, flow)
    ):
        enter(state, params, slot, arrives)
        return
    # On its last cable, reporting only progress, which has no effect before it arrives: saves an event.
    flow.pending -= 1
    if packet.seq > flow.acked:
        flow.acked = packet.seq
        flow.progress_at = arrives
        if flow.next_seq < packet.seq:
            flow.next_seq = packet.seq
    give_back(state, slot)


@inlined
def has_window(state: State, flow: Record) -> bool:
    """Whether a flow is of DECC's form: each acknowledgement may let it send."""
    policy = state.ports[flow.nic].policy
    return policy >= 0 and state.policies[policy].by_window == 1


@inlined
def lose_control(state: State, slot: int) -> None:
    """A control packet lost with its cable."""
    packet = state.packets[slot]
    if packet.kind == ACK:
        state.flows[packet.flow].pending -= 1
    give_back(state, slot)


@inlined
def append_data(state: State, index: int, slot: int) -> None:
    """Queue a data packet at a switch."""
    port = state.ports[index]
    state.packets[slot].next = -1
    if port.head < 0:
        port.head = slot
    else:
        state.packets[port.tail].next = slot
    port.tail = slot


@inlined
def change_depth(port: Record, change: float, now: float) -> None:
    """Add to a port's depth, after its integral has caught up."""
    port.depth_byte_s += port.depth * (now - port.depth_at)
    port.depth_at = now
    port.depth += change
    if port.depth > port.deepest:
        port.deepest = port.depth


@inlined
def drop_sample(state: State, slot: int) -> None:
    """Free the INT stack of a packet that will not be reported."""
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
    """Lose the packets on the cable of this port."""
    packets, buckets = state.packets, state.buckets
    for bucket in range(buckets.size):
        before = -1
        slot = buckets[bucket]
        while slot >= 0:
            packet = packets[slot]
            following = packet.next
            kind = packet.kind
            if kind in (DATA, ACK):
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
    """A cable's direction fails: packets waiting for it and on it are lost."""
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
        change_depth(port, -float(packet.wire), clock.now)
        upstream = state.places[packet.place - 1]
        release(state, params, upstream, port.switch, float(packet.wire))
        if params.pfc and may_resume(state, upstream, port.switch):
            send_pause(state, params, upstream, False, clock.now)
        lose(state, params, slot, index)
        slot = following


@kernel
def restore(state: State, params: Params, index: int) -> None:
    """A cable's direction is back."""
    state.ports[index].down = 0
    call(state, params, index, state.clock[0].now)

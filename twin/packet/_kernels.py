"""The event loop of a packet-level fabric.

An event is a packet's arrival at the end of a cable, or a port that is free again. Either may give one port
something to send, so each turn of the loop handles its event and then serves that port. "Free again" events
are scheduled only while packets wait, so an idle fabric costs one event a hop.
"""

from __future__ import annotations

from numba import int64, uint64

from twin.jit import inlined, kernel
from twin.packet._background import after_others, give_turn, settle, waiting
from twin.packet._calendar import TIMER_KINDS, enter, give_back, next_timer, set_timer
from twin.packet._host import acknowledge, awake, next_of_round, receive
from twin.packet._policy import act
from twin.packet._sender import call, cut_tick, increase_tick, resume, retransmit_tick
from twin.packet._switch import (
    admit,
    append_data,
    change_depth,
    is_marked,
    lose,
    may_resume,
    must_pause,
    release,
    send_control,
    send_pause,
)
from twin.packet.layout import (
    ACK,
    COARSE_BINS,
    COARSE_BYTES,
    CUT,
    DATA,
    DECIDE,
    DEEP_BINS,
    DEEP_BYTES,
    FINE_BINS,
    FINE_BYTES,
    FINISHED,
    FREE,
    INCREASE,
    LATE_WAKE,
    PAUSE,
    RETRANSMIT,
    START,
    WAITING,
    WAKE,
    Counts,
    Params,
    State,
)
from twin.probe._draws import PROBES, probe_path, slowdown_bin


@kernel
def advance(state: State, params: Params, until: float) -> int:
    """Run every event before ``until``; stops early where an array must grow or be emptied first."""
    clock, packets, ports = state.clock[0], state.packets, state.ports
    places, buckets = state.places, state.buckets
    mask = buckets.size - 1
    while True:
        if clock.short != FINISHED:
            why = clock.short
            clock.short = FINISHED
            return int(why)
        # The next event outside the calendar: a timer, a sample of the queues, or the end.
        other = min(clock.other, until)
        last = int(other * params.buckets_per_s)
        cursor = clock.cursor
        while True:
            while cursor < last and buckets[uint64(cursor & mask)] < 0:
                cursor += 1
            slot = buckets[uint64(cursor & mask)]
            # The first event of a bucket may belong to a later turn of the ring.
            if slot < 0 or cursor >= last or int(packets[slot].time * params.buckets_per_s) <= cursor:
                break
            cursor += 1
        if slot < 0 or packets[slot].time >= other:
            clock.cursor = last
            clock.now = other
            if other >= until:
                return FINISHED
            if other == clock.tick:
                sample_depths(state, params)
            else:
                ring(state, params, next_timer(state), other)
            clock.other = clock.tick
            if clock.timers > 0:
                clock.other = min(clock.other, state.timer_at[0])
            # A timer may have put something nearer than what the cursor passed.
            clock.cursor = last
            continue
        clock.cursor = cursor
        packet = packets[slot]
        buckets[uint64(cursor & mask)] = packet.next
        now = packet.time
        clock.now = now

        serve = -1
        kind = packet.kind
        if kind == FREE:
            serve = slot
            ports[slot].scheduled = 0
        elif kind == DATA:
            came_by = packet.place
            onward = places[came_by + 1]
            if onward >= 0:
                serve = enqueue(state, params, slot, places[came_by], onward, now)
            else:
                receive(state, params, slot, now)
        elif kind == ACK:
            came_by = packet.place
            onward = places[came_by + 1]
            if onward >= 0:
                packet.place = came_by + 1
                send_control(state, params, onward, slot, now)
            else:
                acknowledge(state, params, slot, now)
        elif kind == WAKE:
            row = int64(packet.flow)
            give_back(state, slot)
            serve = awake(state, row)
        else:
            paused = packet.flow
            give_back(state, slot)
            serve = stop_or_go(state, params, paused, kind, now)

        if serve >= 0:
            port = ports[serve]
            if port.scheduled == 1 or port.down == 1:
                continue
            ready_at = port.free_at
            if port.background >= 0:
                ready_at = after_others(state, params, port, now)
            if ready_at > now:
                port.scheduled = 1
                enter(state, params, serve, ready_at)
                continue
            if port.paused == 1:
                continue
            if port.switch >= 0:
                sending = dequeue(state, params, serve, now)
            else:
                sending = next_of_round(state, params, serve, now)
            if sending < 0:
                continue
            sent = packets[sending]
            clock.hops += 1
            port.sent_bytes += sent.wire
            port.free_at = now + sent.wire * port.s_per_byte
            enter(state, params, sending, port.free_at + port.delay)
            if port.background >= 0 and port.switch < 0:
                give_turn(state, params, port)
            if port.head >= 0:
                ready_at = port.free_at
                if port.background >= 0:
                    ready_at = after_others(state, params, port, now)
                port.scheduled = 1
                enter(state, params, serve, ready_at)


@inlined
def enqueue(state: State, params: Params, slot: int, upstream: int, onward: int, now: float) -> int:
    """A data packet has arrived at a switch: buffer it, queue it, perhaps pause its sender."""
    packet, port = state.packets[slot], state.ports[onward]
    wire = float(packet.wire)
    if port.down == 1 or not admit(state, params, upstream, port.switch, wire):
        lose(state, params, slot, onward)
        return -1
    packet.place += 1
    if packet.sample >= 0:
        hop = state.hops[packet.sample, state.samples[packet.sample].hops]
        hop.ingress = now
        hop.port = onward
        hop.ingress_port = state.ports[upstream].reverse
    append_data(state, onward, slot)
    change_depth(port, wire, now)
    if params.pfc and must_pause(state, upstream, port.switch):
        send_pause(state, params, upstream, True, now)
    return onward


@inlined
def depth_of(state: State, params: Params, index: int, now: float) -> float:
    """Bytes that wait at a switch port, those of flows outside the slice included."""
    port = state.ports[index]
    if port.background < 0:
        return float(port.depth)
    settle(state, params, port, now)
    return float(port.depth + waiting(state, params, port, now))


@inlined
def dequeue(state: State, params: Params, index: int, now: float) -> int:
    """The data packet a switch port sends next, −1 for none; marked by the depth left behind."""
    port = state.ports[index]
    slot = port.head
    if slot < 0:
        return -1
    packet = state.packets[slot]
    port.head = packet.next
    wire = float(packet.wire)
    change_depth(port, -wire, now)
    depth = depth_of(state, params, index, now)
    if is_marked(port, depth, params.seed, state.flows[packet.flow].number, packet.seq, index):
        packet.marked = 1
        port.marked_packets += 1
        port.marked_bytes += wire
    port.sent_packets += 1
    upstream = state.places[packet.place - 1]
    release(state, params, upstream, port.switch, wire)
    if params.pfc and may_resume(state, upstream, port.switch):
        send_pause(state, params, upstream, False, now)
    if packet.sample >= 0:
        sample = state.samples[packet.sample]
        hop = state.hops[packet.sample, sample.hops]
        hop.queue = depth
        hop.egress = now
        hop.marked = packet.marked
        sample.hops += 1
    return int(slot)


@inlined
def stop_or_go(state: State, params: Params, index: int, kind: int, now: float) -> int:
    """A pause or resume frame has reached its port."""
    port = state.ports[index]
    if port.background >= 0:
        settle(state, params, port, now)
    if kind == PAUSE:
        if port.paused == 0:
            port.paused = 1
            port.paused_since = now
            port.pauses += 1
        return -1
    if port.paused == 1:
        port.paused = 0
        port.paused_s += now - port.paused_since
    return index


@inlined
def ring(state: State, params: Params, what: int, now: float) -> None:
    """A timer of a flow."""
    row, which = what // TIMER_KINDS, what % TIMER_KINDS
    flow = state.flows[row]
    flow.pending -= 1
    if which == CUT:
        cut_tick(state, row, now)
    elif which == INCREASE:
        increase_tick(state, row, now)
    elif which == LATE_WAKE:
        flow.pending += 1
        if awake(state, row) >= 0:
            call(state, params, flow.nic, now)
    elif which == DECIDE:
        act(state, row)
    elif which == RETRANSMIT:
        retransmit_tick(state, params, row, now)
    elif which == START and flow.state == WAITING:
        flow.start = now
        flow.next_avail = now
        flow.progress_at = now
        resume(state, params, row, now)


@inlined
def send_probes(state: State, params: Params) -> None:
    """Full packets that would cross the fabric now, each along the path of a random flow."""
    probed = state.probed
    for k in range(PROBES):
        path = probe_path(probed, state.clock[0].ticks, k)
        first, end = probed.offset[path], probed.offset[path + 1]
        slowdown = 1.0
        for hop in range(first, end):
            slowdown += depth_of(state, params, probed.queue[hop], state.clock[0].now) * probed.weight[hop]
        state.probes[end - first - 1, slowdown_bin(slowdown)] += 1


@inlined
def sample_depths(state: State, params: Params) -> None:
    """Sample the depths of the monitored queues."""
    clock = state.clock[0]
    for k in range(state.monitored.size):
        port = state.ports[state.monitored[k]]
        depth = port.depth
        port.depth_sum += depth
        if depth > port.peak:
            port.peak = depth
        if depth < FINE_BINS * FINE_BYTES:
            place = int(depth / FINE_BYTES)
        elif depth < COARSE_BINS * COARSE_BYTES:
            place = FINE_BINS + int(depth / COARSE_BYTES)
        else:
            place = FINE_BINS + COARSE_BINS + min(int(depth / DEEP_BYTES), DEEP_BINS - 1)
        state.histogram[place] += 1
    if state.probed.of_flow.size > 0:
        send_probes(state, params)
    clock.ticks += 1
    clock.tick = clock.ticks * params.sample_s


@kernel
def set_starts(state: State, rows: Counts) -> None:
    """Set the start timers of those of these flows that wait for no other."""
    for k in range(rows.size):
        row = rows[k]
        flow = state.flows[row]
        if flow.waits == 0:
            flow.pending += 1
            set_timer(state, row * TIMER_KINDS + START, flow.start)

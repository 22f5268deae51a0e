"""The event loop of a packet-level fabric; floats, arrays and records only.

An event is a packet's arrival at the end of a cable, or a port that is free again. Either may give one port
something to send, so each turn of the loop handles its event and then serves that port. A port asks for a
"free again" event only while something waits, so an idle fabric costs an event a hop.
"""

from __future__ import annotations

from numba import int64, uint64

from twin.jit import inlined, kernel
from twin.packet._calendar import TIMER_KINDS, enter, give_back, next_timer, set_timer, take, wake
from twin.packet._sender import (
    call,
    cnp,
    count_bytes,
    cut_tick,
    go_back,
    increase_tick,
    join_round,
    resume,
    retransmit_tick,
    wait_or_join,
)
from twin.packet._switch import (
    admit,
    append_data,
    draw,
    is_marked,
    lose_control,
    may_resume,
    must_pause,
    release,
    send_control,
    tell,
)
from twin.packet.layout import (
    ACK,
    CNP,
    COARSE_BINS,
    COARSE_BYTES,
    CONTROL_WIRE_BYTES,
    CUT,
    DATA,
    DONE,
    FINE_BINS,
    FINE_BYTES,
    FINISHED,
    FREE,
    IDLE,
    INCREASE,
    LATE_WAKE,
    MORE_SAMPLES,
    PACED,
    PAUSE,
    RESUME,
    RETRANSMIT,
    START,
    WAITING,
    WAKE,
)
from twin.packet.state import Counts, Params, State

_SAMPLING = (1 << 31) - 1  # the place whose draws choose the packets INT samples


@kernel
def advance(state: State, params: Params, until: float) -> int:
    """Run every event before ``until``; or stop early where an array must first grow or be emptied."""
    clock, packets, ports, places, buckets = (
        state.clock[0],
        state.packets,
        state.ports,
        state.places,
        state.buckets,
    )
    mask = buckets.size - 1
    while True:
        if clock.short != FINISHED:
            why = clock.short
            clock.short = FINISHED
            return int(why)
        # The next timer, look at the queues, or end: whatever is not in the calendar.
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
                look(state, params)
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
            serve = awake(state, params, row, now)
        elif kind == CNP:
            came_by = packet.place
            onward = places[came_by + 1]
            if onward >= 0:
                packet.place = came_by + 1
                send_control(state, params, onward, slot, now)
            else:
                row = int64(packet.flow)
                state.flows[row].pending -= 1
                give_back(state, slot)
                cnp(state, params, row, now)
        else:
            told = packet.flow
            give_back(state, slot)
            serve = stop_or_go(state, told, kind, now)

        if serve >= 0:
            port = ports[serve]
            if port.scheduled == 1 or port.down == 1:
                continue
            if port.free_at > now:
                port.scheduled = 1
                enter(state, params, serve, port.free_at)
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
            if port.head >= 0:
                port.scheduled = 1
                enter(state, params, serve, port.free_at)


@inlined
def enqueue(state: State, params: Params, slot: int, upstream: int, onward: int, now: float) -> int:
    """A data packet has arrived at a switch: find room, queue it, perhaps pause its sender."""
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
    if params.mark_at_enqueue and is_marked(
        port, port.depth, params.seed, state.flows[packet.flow].number, packet.seq, onward
    ):
        packet.marked = 1
        port.marked_packets += 1
    append_data(state, onward, slot)
    port.depth += wire
    if params.pfc and must_pause(state, upstream, port.switch):
        tell(state, params, upstream, True, now)
    return onward


@inlined
def dequeue(state: State, params: Params, index: int, now: float) -> int:
    """The data packet a switch port sends next, −1 for none; marked by what it leaves behind."""
    port = state.ports[index]
    slot = port.head
    if slot < 0:
        return -1
    packet = state.packets[slot]
    port.head = packet.next
    wire = float(packet.wire)
    port.depth -= wire
    if not params.mark_at_enqueue and is_marked(
        port, port.depth, params.seed, state.flows[packet.flow].number, packet.seq, index
    ):
        packet.marked = 1
        port.marked_packets += 1
    port.sent_packets += 1
    upstream = state.places[packet.place - 1]
    release(state, params, upstream, port.switch, wire)
    if params.pfc and may_resume(state, upstream, port.switch):
        tell(state, params, upstream, False, now)
    if packet.sample >= 0:
        sample = state.samples[packet.sample]
        hop = state.hops[packet.sample, sample.hops]
        hop.queue = port.depth
        hop.egress = now
        hop.marked = packet.marked
        sample.hops += 1
    return int(slot)


@inlined
def next_of_round(state: State, params: Params, index: int, now: float) -> int:
    """A NIC's next data packet, −1 where no flow may send: each ready flow sends one packet a round."""
    nic = state.ports[index]
    while nic.head >= 0:
        row = int64(nic.head)
        flow = state.flows[row]
        nic.head = flow.next_ready
        if flow.next_avail > now:  # it was slowed down while it waited its turn
            flow.state = PACED
            wake(state, params, row, now)
            continue
        if flow.next_seq >= flow.n_packets:  # acknowledged meanwhile, after going back
            flow.state = IDLE
            continue
        return fill(state, params, row, nic.free_at, now)
    return -1


@inlined
def fill(state: State, params: Params, row: int, free_at: float, now: float) -> int:
    """A flow's next packet."""
    flow = state.flows[row]
    clock = state.clock[0]
    slot = take(state)
    packet = state.packets[slot]
    seq = flow.next_seq
    flow.next_seq = seq + 1
    wire = params.packet_bytes if seq + 1 < flow.n_packets else flow.last_wire
    packet.kind = DATA
    packet.seq = seq
    packet.flow = row
    packet.place = flow.forward
    packet.wire = wire
    packet.sample = -1
    packet.marked = 0
    packet.nack = 0
    flow.pending += 1
    flow.gap_wire = wire
    flow.next_avail = now + wire * flow.pace
    clock.injected_packets += 1
    clock.injected_bytes += wire - params.overhead_bytes
    if params.sampling_rate > 0.0 and (draw(params.seed, flow.number, seq, _SAMPLING) < params.sampling_rate):
        packet.sample = clock.free_sample
        sample = state.samples[packet.sample]
        clock.free_sample = sample.next
        if sample.next < 0:
            clock.short = MORE_SAMPLES
        sample.flow = flow.number
        sample.src = flow.src
        sample.dst = flow.dst
        sample.wire = wire
        sample.hops = 0
    if seq + 1 < flow.n_packets:
        wait_or_join(state, params, row, now, now + wire * state.ports[flow.nic].s_per_byte)
    else:
        flow.state = IDLE
    flow.counted += wire
    if flow.counted >= params.byte_counter:
        if flow.armed == 1:
            count_bytes(state, params, row, now)
        else:
            flow.counted = 0.0
    return int(slot)


@inlined
def receive(state: State, params: Params, slot: int, now: float) -> None:
    """A data packet has reached its host, which answers with an acknowledgement in the same slot."""
    packet, clock = state.packets[slot], state.clock[0]
    row = int64(packet.flow)
    flow = state.flows[row]
    payload = packet.wire - params.overhead_bytes
    nack = 0
    if packet.seq == flow.expected:
        flow.expected += 1
        flow.nacked = 0
        clock.delivered_bytes += payload
        if packet.sample >= 0:
            state.samples[packet.sample].delivered = now
            state.sampled[clock.sampled] = packet.sample
            clock.sampled += 1
        if flow.expected == flow.n_packets:
            release_dependents(state, row, now)
    else:
        clock.discarded_bytes += payload
        clock.discarded_packets += 1
        drop_sample(state, slot)
        if packet.seq > flow.expected:
            if flow.nacked == 1:
                flow.pending -= 1
                give_back(state, slot)
                return
            flow.nacked = 1
            nack = 1
    packet.sample = -1
    answer_by = state.places[flow.back]
    if packet.marked == 1 and params.cnps_paced_by_receiver:
        packet.marked = 0
        if now - flow.last_cnp >= params.cnp_interval:
            flow.last_cnp = now
            flow.pending += 1
            other = take(state)
            notice = state.packets[other]
            notice.kind = CNP
            notice.flow = row
            notice.place = flow.back
            notice.wire = CONTROL_WIRE_BYTES
            notice.sample = -1
            send_control(state, params, answer_by, other, now)
    packet.kind = ACK
    packet.seq = flow.expected
    packet.nack = nack
    packet.place = flow.back
    packet.wire = params.ack_bytes
    send_control(state, params, answer_by, slot, now)


@inlined
def acknowledge(state: State, params: Params, slot: int, now: float) -> None:
    """An acknowledgement has reached the sender."""
    packet = state.packets[slot]
    row = int64(packet.flow)
    flow = state.flows[row]
    flow.pending -= 1
    seq, marked, nack = packet.seq, packet.marked, packet.nack
    give_back(state, slot)
    if seq > flow.acked:
        flow.acked = seq
        flow.progress_at = now
        if flow.next_seq < seq:  # it had gone back further than needed
            flow.next_seq = seq
        if seq == flow.n_packets and flow.state != DONE:
            if flow.state != IDLE:
                leave_round(state, row)
            flow.state = DONE
            flow.end = now
            clock = state.clock[0]
            state.completed[clock.completed] = row
            clock.completed += 1
    if marked == 1:
        cnp(state, params, row, now)
    if nack == 1:
        go_back(state, params, row, seq, now)


@inlined
def leave_round(state: State, row: int) -> None:
    """Take a flow out of its NIC's round, if it is there: all is acknowledged while a resend was queued."""
    flow = state.flows[row]
    nic = state.ports[flow.nic]
    before = -1
    other = nic.head
    while other >= 0 and other != row:
        before = other
        other = state.flows[other].next_ready
    if other == row:
        if before < 0:
            nic.head = flow.next_ready
        else:
            state.flows[before].next_ready = flow.next_ready
        if nic.tail == row:
            nic.tail = before


@inlined
def release_dependents(state: State, row: int, now: float) -> None:
    """The last byte has been delivered: flows that waited for it may start."""
    flow = state.flows[row]
    for k in range(flow.dependent_first, flow.dependent_end):
        other = int64(state.dependents[k])
        waiting = state.flows[other]
        waiting.waits -= 1
        if waiting.waits == 0:
            waiting.pending += 1
            set_timer(state, other * TIMER_KINDS + START, max(waiting.start, now + waiting.gap))


@inlined
def awake(state: State, params: Params, row: int, now: float) -> int:
    """A paced flow's wake-up, unless a change of rate has moved it since."""
    flow = state.flows[row]
    flow.pending -= 1
    if flow.state != PACED or flow.wake_at != now:
        return -1
    if flow.next_avail > now:
        wake(state, params, row, now)
        return -1
    join_round(state, row)
    return int(flow.nic)


@inlined
def stop_or_go(state: State, index: int, kind: int, now: float) -> int:
    """A pause or resume frame has reached the port it is meant for."""
    port = state.ports[index]
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
        cut_tick(state, params, row, now)
    elif which == INCREASE:
        increase_tick(state, params, row, now)
    elif which == LATE_WAKE:
        flow.pending += 1
        if awake(state, params, row, now) >= 0:
            call(state, params, flow.nic, now)
    elif which == RETRANSMIT:
        retransmit_tick(state, params, row, now)
    elif which == START and flow.state == WAITING:
        flow.start = now
        flow.next_avail = now
        flow.progress_at = now
        resume(state, params, row, now)


@inlined
def look(state: State, params: Params) -> None:
    """Note how deep the monitored queues are."""
    clock = state.clock[0]
    for k in range(state.monitored.size):
        port = state.ports[state.monitored[k]]
        depth = port.depth
        port.depth_sum += depth
        if depth > port.peak:
            port.peak = depth
        if depth < FINE_BINS * FINE_BYTES:
            place = int(depth / FINE_BYTES)
        else:
            place = FINE_BINS + min(int(depth / COARSE_BYTES), COARSE_BINS - 1)
        state.histogram[place] += 1
    clock.ticks += 1
    clock.tick = clock.ticks * params.sample_s


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


@kernel
def set_starts(state: State, rows: Counts) -> None:
    """Timers for those of these flows that wait for no other."""
    for k in range(rows.size):
        row = rows[k]
        flow = state.flows[row]
        if flow.waits == 0:
            flow.pending += 1
            set_timer(state, row * TIMER_KINDS + START, flow.start)


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

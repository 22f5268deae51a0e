"""Hosts: NICs send and sample packets, receivers acknowledge, senders handle acknowledgements."""

from __future__ import annotations

from numba import int64

from twin.jit import inlined
from twin.packet._calendar import TIMER_KINDS, give_back, set_timer, take
from twin.packet._policy import probe_back, stamp, window_open
from twin.packet._sender import cnp, count_bytes, go_back, join_round, resume, wait_or_join
from twin.packet._switch import draw, drop_sample, send_control
from twin.packet.layout import (
    ACK,
    DATA,
    DONE,
    IDLE,
    MORE_SAMPLES,
    PACED,
    START,
    Params,
    State,
)

_SAMPLING = (1 << 31) - 1  # the place of the draws that choose packets for INT


@inlined
def next_of_round(state: State, params: Params, index: int, now: float) -> int:
    """A NIC's next data packet, −1 where no flow may send. Round robin over ready flows."""
    nic = state.ports[index]
    if nic.head < 0:
        return -1
    row = int64(nic.head)
    flow = state.flows[row]
    nic.head = flow.next_ready
    nic.served = flow.number
    return fill(state, params, row, now)


@inlined
def fill(state: State, params: Params, row: int, now: float) -> int:
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
    packet.probe = 0
    if state.ports[flow.nic].policy >= 0:
        stamp(state, params, row, slot, now)
    flow.pending += 1
    flow.next_avail = now + wire * flow.pace
    clock.injected_packets += 1
    clock.injected_bytes += wire - params.overhead_bytes
    clock.injected_wire_bytes += wire
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
    if seq + 1 < flow.n_packets and window_open(state, row):
        wait_or_join(state, params, row, now, now + wire * state.ports[flow.nic].s_per_byte)
    else:
        flow.state = IDLE
    flow.counted += wire
    if flow.counted >= state.ports[flow.nic].byte_counter:
        if flow.armed == 1:
            count_bytes(state, row)
        else:
            flow.counted = 0.0
    return int(slot)


@inlined
def receive(state: State, params: Params, slot: int, now: float) -> None:
    """A data packet has reached its host; the acknowledgement takes its slot."""
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
        drop_sample(state, slot)
        if packet.seq > flow.expected:
            if flow.nacked == 1:
                flow.pending -= 1
                give_back(state, slot)
                return
            flow.nacked = 1
            nack = 1
    packet.sample = -1
    packet.kind = ACK
    packet.seq = flow.expected
    packet.nack = nack
    packet.place = flow.back
    packet.wire = params.ack_bytes
    send_control(state, params, state.places[flow.back], slot, now)


@inlined
def acknowledge(state: State, params: Params, slot: int, now: float) -> None:
    """An acknowledgement has reached the sender."""
    packet = state.packets[slot]
    row = int64(packet.flow)
    flow = state.flows[row]
    flow.pending -= 1
    seq, marked, nack, probe = packet.seq, packet.marked, packet.nack, packet.probe
    give_back(state, slot)
    if seq > flow.acked:
        flow.acked = seq
        flow.progress_at = now
        if flow.next_seq < seq:  # it had gone back too far
            flow.next_seq = seq
        if seq == flow.n_packets and flow.state != DONE:
            if flow.state != IDLE:
                leave_round(state, row)
            flow.state = DONE
            flow.end = now
            clock = state.clock[0]
            state.completed[clock.completed] = row
            clock.completed += 1
    if flow.state == IDLE and flow.next_seq < flow.n_packets and window_open(state, row):
        resume(state, params, row, now)
    if marked == 1:
        cnp(state, row, now)
    if nack == 1:
        go_back(state, params, row, seq, now)
    elif probe > 0:
        probe_back(state, params, row, probe, seq, now)


@inlined
def leave_round(state: State, row: int) -> None:
    """Take a flow out of its NIC's round: all was acknowledged while a resend was queued."""
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
    """The last byte is delivered: flows that waited for it may start."""
    flow = state.flows[row]
    for k in range(flow.dependent_first, flow.dependent_end):
        other = int64(state.dependents[k])
        waiting = state.flows[other]
        waiting.waits -= 1
        if waiting.waits == 0:
            waiting.pending += 1
            set_timer(state, other * TIMER_KINDS + START, max(waiting.start, now + waiting.gap))


@inlined
def awake(state: State, row: int) -> int:
    """A paced flow's wake-up; ignored where all has been acknowledged since."""
    flow = state.flows[row]
    flow.pending -= 1
    if flow.state != PACED:
        return -1
    join_round(state, row)
    return int(flow.nic)

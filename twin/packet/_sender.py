"""A NIC's round of ready flows, and the DCQCN reaction point (RP) of each flow.

Sources: Zhu et al., SIGCOMM 2015, section 3.1 and 5 (RP, byte counter, hyper increase); the clocks, the first
CNP and the round follow the senders of the reference problems.
"""

from __future__ import annotations

import math

from numba import int64

from twin.jit import compiler, inlined, kernel
from twin.packet._calendar import TIMER_KINDS, enter, set_timer, wake
from twin.packet.layout import (
    CUT,
    DONE,
    IDLE,
    INCREASE,
    NO_PROBE,
    PACED,
    PROBING,
    READY,
    RETRANSMIT,
    ROUND,
    Flags,
    Params,
    Record,
    State,
)


@inlined
def call(state: State, params: Params, index: int, now: float) -> None:
    """Schedule a port for when it is free."""
    port = state.ports[index]
    if port.scheduled == 0:
        port.scheduled = 1
        enter(state, params, index, max(now, port.free_at))


@inlined
def join_round(state: State, row: int) -> None:
    """Put a flow in its place in its NIC's round: flows take turns in the order in which they came to be.

    A flow that was held back by its rate does not go behind those that are ready, but where its turn is.
    """
    flow = state.flows[row]
    nic = state.ports[flow.nic]
    flow.state = READY
    if nic.head < 0:
        flow.next_ready = -1
        nic.head = nic.tail = row
        return
    turn = turns_away(nic, flow)
    tail = state.flows[nic.tail]
    if turn >= turns_away(nic, tail):
        tail.next_ready = row
        flow.next_ready = -1
        nic.tail = row
        return
    before, following = -1, int64(nic.head)
    while turns_away(nic, state.flows[following]) <= turn:
        before, following = following, int64(state.flows[following].next_ready)
    flow.next_ready = following
    if before < 0:
        nic.head = row
    else:
        state.flows[before].next_ready = row


@inlined
def turns_away(nic: Record, flow: Record) -> int:
    """How far a flow's turn is from that of the flow served last."""
    ahead = flow.number - nic.served
    return int(ahead if ahead > 0 else ahead + ROUND)


@inlined
def wait_or_join(state: State, params: Params, row: int, now: float, free_at: float) -> None:
    """A flow with more to send joins the round now, or when its rate allows."""
    flow = state.flows[row]
    if flow.next_avail <= free_at:
        join_round(state, row)
    else:
        flow.state = PACED
        wake(state, params, row, now)


@compiler(_nrt=False)
def resume(state: State, params: Params, row: int, now: float) -> None:
    """A flow starts, or has packets to send again."""
    flow = state.flows[row]
    wait_or_join(state, params, row, now, now)
    if flow.state == READY:
        call(state, params, flow.nic, now)
    if flow.retransmit_due == 0:
        flow.retransmit_due = 1
        flow.pending += 1
        set_timer(state, row * TIMER_KINDS + RETRANSMIT, now + params.retransmit_s)


@compiler(_nrt=False)
def go_back(state: State, params: Params, row: int, seq: int, now: float) -> None:
    """Go-back-N: resend from packet ``seq`` on."""
    flow = state.flows[row]
    if flow.state == DONE or seq >= flow.next_seq:
        return
    state.clock[0].retransmissions += 1
    if state.ports[flow.nic].policy >= 0:
        mine = state.learners[row]
        mine.lost += flow.next_seq - seq
        if mine.probing == PROBING:
            mine.probing = NO_PROBE  # it was among what was lost, or will be discarded
    flow.next_seq = seq
    if flow.state == IDLE:
        resume(state, params, row, now)


@inlined
def change_rate(state: State, row: int, rate: float) -> None:
    """Set the current rate. A packet that waits for its time keeps it: the new rate spaces those after it."""
    flow = state.flows[row]
    flow.rate = rate
    flow.pace = state.ports[flow.nic].s_per_byte if rate >= flow.line_rate else 1.0 / rate


@inlined
def settle_alpha(flow: Record, nic: Record, now: float) -> None:
    """Catch up with the α clock: between CNPs α only decays, so its ticks need no events."""
    if flow.alpha_at > now:
        return
    kept = 1.0 - nic.gain
    flow.alpha = kept * flow.alpha + (nic.gain if flow.cnp_since_alpha == 1 else 0.0)
    flow.cnp_since_alpha = 0
    flow.alpha_at += nic.alpha_timer
    if flow.alpha_at <= now:
        missed = 1.0 + math.floor((now - flow.alpha_at) / nic.alpha_timer)
        flow.alpha *= kept**missed
        flow.alpha_at += missed * nic.alpha_timer


@inlined
def settle_cuts(flow: Record, nic: Record, now: float) -> None:
    """Catch up with the cut clock: its ticks without a CNP before them need no events."""
    if flow.cut_at <= now:
        missed = 1.0 + math.floor((now - flow.cut_at) / nic.cnp_interval)
        flow.cut_at += missed * nic.cnp_interval


@inlined
def start_increase(state: State, row: int, now: float) -> None:
    """(Re)start the increase clock and the byte counter; the old clock's event is ignored."""
    flow = state.flows[row]
    flow.timer_stage = 0
    flow.byte_stage = 0
    flow.counted = 0.0
    flow.increase_at = now + state.ports[flow.nic].increase_timer
    if flow.increase_due == 0:
        flow.increase_due = 1
        flow.pending += 1
        set_timer(state, row * TIMER_KINDS + INCREASE, flow.increase_at)


@inlined
def cut(state: State, row: int, now: float) -> None:
    """Multiplicative decrease."""
    flow = state.flows[row]
    nic = state.ports[flow.nic]
    if nic.clamp_target == 1 or flow.timer_stage + flow.byte_stage > 0:
        flow.target = flow.rate
    start_increase(state, row, now)
    change_rate(state, row, max(nic.min_rate, flow.rate * (1.0 - 0.5 * flow.alpha)))


@compiler(_nrt=False)
def cnp(state: State, row: int, now: float) -> None:
    """A CNP has reached the sender: it counts for the next cut tick. The first arms the clocks and sets α and
    target. Policies ignore it.
    """
    state.clock[0].cnps += 1
    flow = state.flows[row]
    if flow.state == DONE:
        return
    nic = state.ports[flow.nic]
    if nic.policy >= 0:
        return
    if flow.armed == 0:
        flow.armed = 1
        flow.alpha = nic.initial_alpha
        flow.target = flow.rate
        flow.alpha_at = now + nic.alpha_timer
        flow.cut_at = now + nic.cnp_interval
        flow.cnp_since_alpha = 0
    else:
        settle_alpha(flow, nic, now)
        flow.cnp_since_alpha = 1
    if flow.cut_due == 0:
        settle_cuts(flow, nic, now)
        flow.cut_due = 1
        flow.pending += 1
        set_timer(state, row * TIMER_KINDS + CUT, flow.cut_at)


@compiler(_nrt=False)
def cut_tick(state: State, row: int, now: float) -> None:
    """The cut clock has ticked after a CNP."""
    flow = state.flows[row]
    flow.cut_due = 0
    if flow.state == DONE:
        return
    nic = state.ports[flow.nic]
    settle_alpha(flow, nic, now)
    cut(state, row, now)
    flow.cut_at = now + nic.cnp_interval


@compiler(_nrt=False)
def increase(state: State, row: int) -> None:
    """One increase: fast recovery, then additive, then hyper (both stages beyond F, or the only one)."""
    flow = state.flows[row]
    nic = state.ports[flow.nic]
    furthest = max(flow.timer_stage, flow.byte_stage)
    nearest = min(flow.timer_stage, flow.byte_stage) if nic.byte_counter < math.inf else flow.timer_stage
    if nearest > nic.fast_recovery_steps:
        flow.target = min(flow.target + nic.hai_rate, flow.line_rate)
    elif furthest >= nic.fast_recovery_steps:
        flow.target = min(flow.target + nic.ai_rate, flow.line_rate)
    change_rate(state, row, min(0.5 * (flow.rate + flow.target), flow.line_rate))


@compiler(_nrt=False)
def increase_tick(state: State, row: int, now: float) -> None:
    """The increase clock has ticked, unless a cut has moved it; it stops at full rate and target."""
    flow = state.flows[row]
    flow.increase_due = 0
    if flow.state == DONE:
        return
    if flow.increase_at <= now:
        increase(state, row)
        flow.timer_stage += 1
        if flow.rate >= flow.line_rate and flow.target >= flow.line_rate:
            return
        flow.increase_at = now + state.ports[flow.nic].increase_timer
    flow.increase_due = 1
    flow.pending += 1
    set_timer(state, row * TIMER_KINDS + INCREASE, flow.increase_at)


@compiler(_nrt=False)
def count_bytes(state: State, row: int) -> None:
    """The byte counter has expired."""
    flow = state.flows[row]
    flow.counted -= state.ports[flow.nic].byte_counter
    increase(state, row)
    flow.byte_stage += 1


@compiler(_nrt=False)
def retransmit_tick(state: State, params: Params, row: int, now: float) -> None:
    """After a timeout without progress, go back to the first packet not acknowledged."""
    flow = state.flows[row]
    flow.retransmit_due = 0
    if flow.state == DONE:
        return
    due = flow.progress_at + params.retransmit_s
    if due <= now and flow.acked < flow.next_seq:
        flow.progress_at = now
        go_back(state, params, row, flow.acked, now)
    if flow.retransmit_due == 0 and (flow.state != IDLE or flow.acked < flow.next_seq):
        flow.retransmit_due = 1
        flow.pending += 1
        set_timer(state, row * TIMER_KINDS + RETRANSMIT, max(due, now + 0.5 * params.retransmit_s))


@kernel
def settle_clocks(state: State, nics: Flags) -> None:
    """Before flows run other parameters: catch up with their clocks. ``nics``: which ports' flows."""
    now = state.clock[0].now
    for row in range(state.flows.size):
        flow = state.flows[row]
        if nics[flow.nic] and flow.armed == 1 and flow.state != DONE:
            nic = state.ports[flow.nic]
            settle_alpha(flow, nic, now)
            if flow.cut_due == 0:
                settle_cuts(flow, nic, now)

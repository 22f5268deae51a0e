"""Senders that act on round-trip times: probes, decisions, and what they set (``twin.senders.rtt``)."""

from __future__ import annotations

import math

from numba import int64

from twin.jit import compiler, inlined
from twin.packet._calendar import TIMER_KINDS, set_timer
from twin.packet._sender import change_rate
from twin.packet._switch import draw, has_window
from twin.packet.layout import (
    BY_NETWORK,
    BY_RULE,
    BY_SWIFT,
    DECIDE,
    DECIDING,
    DONE,
    LEAST_RATE,
    LEAST_WINDOW,
    NO_PROBE,
    OF_A_PERIOD,
    PROBING,
    Params,
    Record,
    State,
)

_PROBES = 127  # numbers of probes, in a byte: one that was given up is known when it returns
_MOST_INFLATION = 2.0  # that DECC's form tells apart
_EXPLORING = (1 << 31) - 2  # the place of the draws that move its actions


@inlined
def stamp(state: State, params: Params, row: int, slot: int, now: float) -> None:
    """Make this packet a probe if none is under way; one that never returned is given up in time."""
    mine = state.learners[row]
    if mine.probing == PROBING and now > mine.sent_at + params.retransmit_s:
        mine.probing = NO_PROBE
    if mine.probing == NO_PROBE:
        mine.probing = PROBING
        mine.probe = mine.probe % _PROBES + 1
        mine.sent_at = now
        state.packets[slot].probe = mine.probe


@inlined
def window_open(state: State, row: int) -> bool:
    """Whether a flow of DECC's form may have one more packet in flight; others may."""
    flow = state.flows[row]
    return not has_window(state, flow) or flow.next_seq - flow.acked < state.learners[row].window


@compiler(_nrt=False)
def probe_back(state: State, params: Params, row: int, probe: int, seq: int, now: float) -> None:
    """A probe has returned, and acknowledges all packets before ``seq``: decide."""
    flow, mine = state.flows[row], state.learners[row]
    if flow.state == DONE or mine.probing != PROBING or mine.probe != probe:
        return
    policy = state.policies[state.ports[flow.nic].policy]
    rate = decided(state, params, row, policy, seq, now - mine.sent_at, now)
    mine.rate = min(max(rate, flow.line_rate * LEAST_RATE), flow.line_rate)
    if policy.decision > 0.0:
        mine.probing = DECIDING
        flow.pending += 1
        set_timer(state, row * TIMER_KINDS + DECIDE, now + policy.decision)
    else:
        act(state, row)


@compiler(_nrt=False)
def act(state: State, row: int) -> None:
    """A decision takes effect."""
    state.learners[row].probing = NO_PROBE
    if state.flows[row].state != DONE:
        change_rate(state, row, state.learners[row].rate)


@inlined
def decided(
    state: State, params: Params, row: int, policy: Record, seq: int, rtt: float, now: float
) -> float:
    """The rate after a round trip that acknowledges all packets before ``seq``."""
    flow, mine = state.flows[row], state.learners[row]
    acked = max(seq - mine.acked, 0)
    mine.acked = max(mine.acked, seq)
    if policy.kind == BY_SWIFT:
        return swift(policy, flow, mine, acked, rtt, now)
    if policy.by_window == 1:
        return windowed(state, params, policy, row, acked, rtt, now)
    return flow.rate * multiplier(state, policy, flow, mine, rtt, now)


@inlined
def multiplier(state: State, policy: Record, flow: Record, mine: Record, rtt: float, now: float) -> float:
    """What a policy of RL-CC's form multiplies the rate by."""
    share = flow.rate / flow.line_rate
    signal = policy.scale * (max(rtt / mine.rtt0 - policy.beta, 0.0) * math.sqrt(share) - policy.target)
    inputs = state.scratch[0]
    inputs[0] = mine.multiplier
    inputs[1] = signal
    inputs[2] = mine.multiplier_before
    inputs[3] = mine.signal
    action = -math.tanh(signal / policy.width) if policy.kind == BY_RULE else learned(state, policy)
    note(state, policy, flow, rtt / mine.rtt0, action, now)
    by = factor(policy, action)
    mine.multiplier_before = mine.multiplier
    mine.multiplier = by
    mine.signal = signal
    return float(by)


@inlined
def windowed(
    state: State, params: Params, policy: Record, row: int, acked: int, rtt: float, now: float
) -> float:
    """The rate of a window of DECC's form after a period (Chen et al., section 2.3 and equation 2)."""
    flow, mine, seen, inputs = state.flows[row], state.learners[row], state.seen, state.scratch[0]
    took = now - mine.decided_at if mine.decided_at > 0.0 else rtt
    mine.decided_at = now
    at_line = took * flow.line_rate / policy.packet  # packets
    n_seen = seen.shape[1]
    for k in range(n_seen - 1, OF_A_PERIOD - 1, -1):
        seen[row, k] = seen[row, k - OF_A_PERIOD]
    seen[row, 0] = acked / at_line
    seen[row, 1] = min(rtt / mine.rtt0, _MOST_INFLATION)
    seen[row, 2] = mine.lost / at_line
    seen[row, 3] = (flow.next_seq - mine.acked) / mine.window
    seen[row, 4] = flow.rate / flow.line_rate
    mine.lost = 0
    for k in range(n_seen):
        inputs[k] = seen[row, k]
    inputs[n_seen] = 1.0
    action = learned(state, policy)
    if policy.explore > 0.0:
        moved = 2.0 * draw(params.seed, flow.number, mine.acked, _EXPLORING) - 1.0
        action = min(max(action + policy.explore * moved, -1.0), 1.0)
    note(state, policy, flow, rtt / mine.rtt0, action, now)
    full = flow.line_rate * mine.rtt0 / policy.packet
    mine.window = min(max(mine.window * factor(policy, action), LEAST_WINDOW), _MOST_INFLATION * full)
    return float(mine.window * policy.packet / rtt)


@inlined
def factor(policy: Record, action: float) -> float:
    """What a decision multiplies a rate or a window by."""
    return float(1.0 + policy.step * action if action >= 0.0 else 1.0 / (1.0 - policy.step * action))


@inlined
def learned(state: State, policy: Record) -> float:
    """The action of a policy's network or trees."""
    if policy.kind == BY_NETWORK:
        return network(state, int64(policy.first), int64(policy.count))
    return trees(state, int64(policy.first), int64(policy.count), policy.base)


@inlined
def network(state: State, first: int, n_layers: int) -> float:
    """The action of a network on the inputs in ``scratch[0]``.

    Per layer how many outputs, then for each how many numbers, and input and weight of those not 0.
    """
    numbers = state.numbers
    here = 0
    n_out = 1
    for layer in range(n_layers):
        n_out = int64(numbers[first])
        first += 1
        for o in range(n_out):
            total = 0.0
            end = first + 1 + int64(numbers[first])
            for k in range(first + 1, end, 2):
                total += numbers[k + 1] * state.scratch[here, int64(numbers[k])]
            first = end
            if layer + 1 < n_layers:
                total = max(total, 0.0)
            # The inputs of the first layer stay: they are noted afterwards.
            state.scratch[2 - (layer & 1), o] = total
        here = 2 - (layer & 1)
    return math.tanh(state.scratch[here, 0])


@inlined
def trees(state: State, first: int, n_trees: int, base: float) -> float:
    """The action of regression trees on the inputs in ``scratch[0]``: the root of each, then all nodes."""
    numbers, inputs = state.numbers, state.scratch[0]
    total = base
    for tree in range(n_trees):
        node = int64(numbers[first + tree])
        while numbers[node] >= 0.0:
            above = inputs[int64(numbers[node])] > numbers[node + 1]
            node = int64(numbers[node + 3] if above else numbers[node + 2])
        total += numbers[node + 1]
    return min(max(total, -1.0), 1.0)


@inlined
def note(state: State, policy: Record, flow: Record, inflation: float, action: float, now: float) -> None:
    """Keep a decision, as long as there is room: its flow, time, action, RTT ÷ RTT0, and inputs."""
    clock = state.clock[0]
    if clock.decided < state.decisions.shape[0]:
        kept, inputs = state.decisions[clock.decided], state.scratch[0]
        kept[0] = flow.number
        kept[1] = now
        kept[2] = action
        kept[3] = inflation
        for i in range(policy.inputs):
            kept[4 + i] = inputs[i]
        clock.decided += 1


@inlined
def swift(policy: Record, flow: Record, mine: Record, acked: int, rtt: float, now: float) -> float:
    """The rate of Swift's window after a round trip (SIGCOMM 2020, algorithm 1 and section 3.5)."""
    scaled = min(max(policy.flow_scale / math.sqrt(mine.window) + policy.flow_base, 0.0), policy.range)
    target = policy.base_rtts * mine.rtt0 + policy.hop * mine.hops + scaled
    if rtt < target:
        mine.window += policy.increase * acked / max(mine.window, 1.0)
    elif now - mine.cut_at >= rtt:
        mine.cut_at = now
        kept = 1.0 - policy.decrease * (rtt - target) / rtt
        mine.window *= max(kept, 1.0 - policy.largest_cut)
    # What the NIC cannot send at line rate would only delay the next cut.
    full = flow.line_rate * rtt / policy.packet
    mine.window = max(min(mine.window, full), policy.window_low)
    return float(mine.window * policy.packet / rtt)

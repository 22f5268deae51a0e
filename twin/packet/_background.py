"""Flows outside a slice: at the ports that have such, their bytes come and go as a fluid beside our packets.

At a switch they wait first come first served with ours: a packet that came at a leaves once the port has sent
all that they had brought by then, B(a). At a NIC they have a turn in the round. What ours leave of the line
they take, bin by bin, and never more than they brought. Left out: their acknowledgements, and what they hold
of a switch's buffer.
"""

from __future__ import annotations

from twin.jit import inlined
from twin.packet.layout import Params, Record, State

LEAST_BYTES = 1e-3  # less is a rounding error


@inlined
def brought(state: State, params: Params, row: int, at: float) -> float:
    """Bytes the others have brought to a port by then."""
    until = state.brought[row]
    place = at * params.bins_per_s
    number = int(place)
    if number >= until.size - 1:
        return float(until[until.size - 1])
    return float(until[number] + (place - number) * (until[number + 1] - until[number]))


@inlined
def settle(state: State, params: Params, port: Record, now: float) -> None:
    """Catch up with what the others sent since ours last left the line to them."""
    at = max(port.settled_at, port.free_at)
    if at >= now:
        return
    port.settled_at = now
    if port.paused == 1:
        return
    until, sent = state.brought[port.background], port.others_sent
    number = int(at * params.bins_per_s)
    last = min(int(now * params.bins_per_s), until.size - 1)
    while number < last:
        number += 1
        edge = number / params.bins_per_s
        sent = min(until[number], sent + max(edge - at, 0.0) / port.s_per_byte)
        at = edge
    sent += max(now - at, 0.0) / port.s_per_byte
    port.others_sent = min(brought(state, params, port.background, now), sent)


@inlined
def waiting(state: State, params: Params, port: Record, now: float) -> float:
    """Bytes of the others that wait at a port that is settled."""
    return max(brought(state, params, port.background, now) - port.others_sent, 0.0)


@inlined
def after_others(state: State, params: Params, port: Record, now: float) -> float:
    """When a port can send what is first in its queue; no later than ``now`` where it can at once."""
    settle(state, params, port, now)
    if port.switch < 0 or port.head < 0:
        return float(port.free_at)
    came = state.packets[port.head].time
    ahead = brought(state, params, port.background, came) - port.others_sent
    if ahead < LEAST_BYTES:
        return float(port.free_at)
    return float(max(port.free_at, now) + ahead * port.s_per_byte)


@inlined
def give_turn(state: State, params: Params, nic: Record) -> None:
    """As a round of ours ends, each flow of the others sends a packet, if one waits."""
    if nic.head >= 0 and state.flows[nic.head].number > nic.served:
        return
    number = min(int(nic.free_at * params.bins_per_s), state.n_others.shape[1] - 1)
    turn = state.n_others[nic.background, number] * params.packet_bytes
    sent = min(turn, waiting(state, params, nic, nic.free_at))
    nic.others_sent += sent
    nic.free_at += sent * nic.s_per_byte

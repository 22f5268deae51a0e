"""The loop over time steps and live flow groups.

In a step senders read delayed values and advance (Heun), NICs share, ports serve arrivals, packets move one
hop, switches pause. A hop takes one step; the rest of the path is in the feedback delay, as in the paper.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.fluid import _fabric as wires
from twin.fluid import _history as history
from twin.fluid._arrays import (
    ALPHA,
    ARRIVED,
    CARRIED,
    CURRENT,
    DELIVERED,
    HELD,
    LANES,
    LEFT,
    NO_MARK,
    NOT_FINITE,
    PASSED_ON,
    QUEUE,
    RING_GAP,
    SENDING,
    SENT,
    SHARE,
    TARGET,
    W0,
    W1,
    WAITING,
    Buffers,
    Clock,
    Fabric,
    Floats,
    Groups,
    Ints,
    L,
    P,
    R,
    Sender,
)
from twin.fluid._kernels import exponentials, first_factors, heun, mark_port
from twin.fluid._math import entry, kernel
from twin.probe._draws import Paths, ProbePaths

SWEEP_STEPS = 64  # how often finished groups give their slots back
DRAINED_PACKETS = 1e-3
USUAL_FAST_RECOVERY = 5


@entry
def run(
    lanes: int,
    groups: Groups,
    fabric: Fabric,
    sender: Sender,
    clock: Clock,
    candidates: Floats,
    monitored: Ints,
    packet_bytes: float,
    probed: ProbePaths,
    drawn: Paths,
    buffers: Buffers,
) -> bool:
    """The whole run of one block of candidates; False where it ran out of slots."""
    # Unpacked once: numba counts references at every access.
    slots, content, ports = buffers.slots, buffers.content, buffers.ports
    senders, use, finish = buffers.senders, buffers.use, buffers.finish
    rings, rates, tally, scratch = buffers.rings, buffers.rates, buffers.tally, buffers.scratch
    histogram, trace = buffers.histogram, buffers.trace
    probes, by_block, block_ends = buffers.probes, buffers.by_block, clock.block_ends
    start, line_rate, count, nic_of = groups.start, groups.line_rate, groups.flows, groups.nic
    round_trip, tail, hops, hop_count = groups.round_trip, groups.tail, groups.hops, groups.hop_count
    size, start_rate = groups.size, groups.start_rate
    capacity, links, reverse = fabric.capacity, fabric.links, fabric.reverse
    home, into, limited = fabric.home, fabric.into, fabric.limited
    pool, nics, pfc, track = fabric.pool, fabric.nics, fabric.pfc, clock.track
    step, ring, mask = clock.step, clock.ring, clock.ring - 1
    stride = ring + RING_GAP
    most_hops = hops.shape[1]
    tallies = tally.reshape((1, tally.size))
    bins = np.zeros(LANES, np.uint64)
    # Ports that share nothing, paths that end behind them: the steady problems, in fewer and longer loops.
    simple = clock.delay_steps > 0 and not (track or pfc or fabric.shared_buffer or reverse.max() >= 0)

    group_of = np.zeros(slots.shape[0], np.int64)
    begun = np.zeros(slots.shape[0], np.int64)
    check = np.zeros(slots.shape[0], np.int64)  # the step before which no lane of a slot can finish
    sending = np.zeros(slots.shape[0], np.bool_)
    live = np.zeros(slots.shape[0], np.int64)
    free = np.arange(slots.shape[0])
    live_total, free_total, arriving = 0, slots.shape[0], 0
    block, last_block = 0, by_block.shape[0] - 1

    for e in range(ports.shape[0]):
        mark_port(lanes, ports, e, candidates)
        history.remember(lanes, ports, e, rings, e * stride)
    for n in range(clock.steps):
        now = n + 1
        begin = n * step
        counted = 1.0 if clock.window_begin <= n < clock.window_end else 0.0
        while block < last_block and block_ends[block] <= n:
            by_block[block] = tally
            block += 1
        while arriving < start.size and start[arriving] < begin + step:
            if free_total == 0:
                return False
            free_total -= 1
            slot = int(free[free_total])
            live[live_total] = slot
            live_total += 1
            group_of[slot] = arriving
            begun[slot] = n
            check[slot] = n
            sending[slot] = True
            admit(lanes, sender, slots, slot, scratch, start_rate[arriving], size[arriving])
            for k in range(lanes):
                rates[slot * stride + (n & mask), k] = start_rate[arriving]
            content[slot * most_hops : (slot + 1) * most_hops] = 0.0
            arriving += 1
        for i in range(live_total):
            slot = live[i]
            group = group_of[slot]
            if sending[slot]:
                # The delayed values at the sender: p, L, R.
                if clock.delay_steps > 0:
                    past = now - clock.delay_steps
                    row = slot * stride + (max(past, begun[slot]) & mask)
                    if past >= begun[slot] and hop_count[group] == 1:
                        at = hops[group, 0] * stride + (past & mask)
                        history.read_port(lanes, scratch, rings, at, rates, row)
                    elif past >= begun[slot]:
                        history.nothing_known(lanes, scratch, 0.0)
                        for hop in range(hop_count[group]):
                            history.add_port(lanes, scratch, rings, hops[group, hop] * stride + (past & mask))
                        history.stored_rate(lanes, scratch, rates, row)
                    else:
                        history.nothing_known(lanes, scratch, NO_MARK)
                        history.stored_rate(lanes, scratch, rates, row)
                else:
                    longest = ring - 2
                    last = hop_count[group] - 1
                    e = hops[group, last]
                    base = min(max(round_trip[group] / step, 1.0), float(longest))
                    history.add_last_port(lanes, scratch, rings, e * stride, mask, now, base)
                    for hop in range(last - 1, -1, -1):
                        e = hops[group, hop]
                        history.add_earlier_port(lanes, scratch, rings, e * stride, mask, now, longest)
                    age = now - begun[slot]
                    history.delayed_rate(lanes, scratch, rates, slot * stride, mask, now, age, longest)
                exponentials(lanes, sender, scratch)
                line = line_rate[group]
                if sender.fast_recovery == USUAL_FAST_RECOVERY:
                    # A constant: the compiler multiplies a power out where it would branch in every lane.
                    heun(lanes, sender, USUAL_FAST_RECOVERY, slots, slot, scratch, line, step)
                else:
                    heun(lanes, sender, sender.fast_recovery, slots, slot, scratch, line, step)
                if limited[nic_of[group]]:
                    wires.offer(lanes, slots, slot, senders, nic_of[group], count[group])
        for nic in range(nics):
            if not limited[nic]:
                continue
            acks = fabric.ack_ratio / step if reverse[nic] >= 0 else 0.0
            wires.share_nic(lanes, senders, nic, capacity[nic] * links[nic], max(reverse[nic], 0), acks)
        for i in range(live_total):
            slot = live[i]
            group = group_of[slot]
            if sending[slot]:
                late = max(start[group] - begin, 0.0) if begun[slot] == n else 0.0
                row = slot * stride + (now & mask)
                if begun[slot] == n:
                    # With the share that counts it in: of flows that begin at once each would send the whole.
                    for k in range(lanes):
                        slots[slot, SENDING + k] = start_rate[group] * senders[nic_of[group], SHARE + k]
                if simple and size[group] == np.inf and not limited[nic_of[group]]:
                    e = hops[group, 0]
                    wires.send_on(lanes, slots, slot, rates, row, step - late, ports, e, count[group])
                    continue
                wires.send(lanes, slots, slot, senders, nic_of[group], rates, row, scratch, step - late)
                if check[slot] <= n:
                    fewest = finishing(
                        lanes, slots, slot, scratch, ports, capacity[nics:], hops[group, : hop_count[group]],
                        finish[group], begin + late, step - late, tail[group],
                    )  # fmt: skip
                    if fewest < np.inf:
                        check[slot] = now + int(fewest / (line_rate[group] * step))
                    elif size[group] == np.inf:
                        check[slot] = clock.steps
                    else:
                        sending[slot] = False
            else:
                for k in range(lanes):
                    slots[slot, SENT + k] = 0.0
            wires.add_row(lanes, ports, hops[group, 0], ARRIVED, slots, slot, SENT, count[group])
            if limited[nic_of[group]]:
                wires.add_row(lanes, senders, nic_of[group], CARRIED, slots, slot, SENT, count[group])
            for hop in range(1, hop_count[group]):
                came = slot * most_hops + hop - 1
                wires.add_row(lanes, ports, hops[group, hop], ARRIVED, content, came, PASSED_ON, 1.0)
        for e in range(ports.shape[0]):
            s = nics + e
            if simple:
                row = e * stride + (now & mask)
                room = capacity[s] * step
                wires.serve_alone(
                    lanes, ports, e, candidates, room, fabric.buffer, rings, row, tally, counted
                )  # fmt: skip
                continue
            acks = fabric.ack_ratio if reverse[s] >= 0 else 0.0
            if pfc:
                wires.fit_all(lanes, np.inf, scratch)
            elif fabric.shared_buffer:
                wires.fit(lanes, ports, e, use, home[e], fabric.buffer, scratch)
            else:
                wires.fit_all(lanes, fabric.buffer, scratch)
            wires.serve(lanes, ports, e, senders, s, capacity[s] * step, max(reverse[s], 0), acks, scratch)
            if counted > 0.0:
                wires.count_step(lanes, tally, scratch, 0.0 if track else 1.0)
        use[:] = 0.0
        for e in range(0 if simple else ports.shape[0]):
            if pfc or fabric.shared_buffer:
                wires.add_row(lanes, use, home[e], 0, ports, e, QUEUE, 1.0)
            mark_port(lanes, ports, e, candidates)
            if clock.delay_steps == 0:
                history.head_of_line(lanes, ports, e, rings, e * stride, mask, now, ring - 2)
            history.remember(lanes, ports, e, rings, e * stride + (now & mask))
        if track:
            for i in range(live_total):
                slot = live[i]
                group = group_of[slot]
                last = hop_count[group] - 1
                # From the receiver backwards: a hop takes what the one before passed on in the last step.
                for hop in range(last, -1, -1):
                    at = slot * most_hops + hop
                    e = hops[group, hop]
                    if hop > 0:
                        wires.pass_on(lanes, content, at, content, at - 1, PASSED_ON, 1.0, ports, e)
                        from_ = nics + hops[group, hop - 1]
                    else:
                        wires.pass_on(lanes, content, at, slots, slot, SENT, count[group], ports, e)
                        from_ = nic_of[group]
                    if pfc:
                        wires.add_row(lanes, senders, from_, HELD, content, at, WAITING, 1.0)
                wires.add_row(
                    lanes, tallies, 0, DELIVERED, content, slot * most_hops + last, PASSED_ON, counted
                )
        if pfc:
            for s in range(senders.shape[0]):
                if into[s] >= 0:
                    wires.pause(
                        lanes, senders, s, links[s], use, into[s], pool[into[s]], fabric.pfc_share[s],
                        fabric.resume, tally, counted * step
                    )  # fmt: skip
        for m in range(monitored.size):
            e = monitored[m]
            if counted > 0.0:
                wires.observe(lanes, ports, e, tally, histogram, bins, packet_bytes)
            if trace.shape[0] > 0:
                for k in range(lanes):
                    trace[now, m, k] = ports[e, QUEUE + k]
        if counted > 0.0 and (n - clock.window_begin) % clock.probe_every == 0:
            instant = (n - clock.window_begin) // clock.probe_every
            for k in range(drawn.shape[1]):
                wires.send_probe(lanes, ports, probed, drawn[instant, k], block, scratch, probes)
        if now % SWEEP_STEPS == 0 or now == clock.steps:
            note_divergence(lanes, slots, live, live_total, tally)
            live_total, free_total = sweep(
                lanes, content, most_hops, track, sending, live, free, live_total, free_total
            )
    by_block[last_block] = tally
    return True


@kernel
def admit(
    lanes: int, sender: Sender, slots: Floats, slot: int, scratch: Floats, rate: float, size: float
) -> None:
    """A group begins at its start rate and initial α, nothing marked yet."""
    for k in range(lanes):
        slots[slot, ALPHA + k] = sender.initial_alpha
        slots[slot, TARGET + k] = rate
        slots[slot, CURRENT + k] = rate
        slots[slot, LEFT + k] = size
        slots[slot, SENT + k] = 0.0
        scratch[P + k] = NO_MARK
        scratch[L + k] = NO_MARK
        scratch[R + k] = rate
    first_factors(lanes, sender, slots, slot, scratch)


@kernel
def finishing(
    lanes: int,
    slots: Floats,
    slot: int,
    scratch: Floats,
    ports: Floats,
    port_capacity: Floats,
    path: Ints,
    finish: Floats,
    begun: float,
    duration: float,
    tail: float,
) -> float:
    """Sets completion times of lanes whose last packet left in this step; the fewest packets left elsewhere.

    Completion = last packet sent + the queues now ahead of it + the way there and back. inf where no lane has
    packets left, or all have infinitely many.
    """
    fewest = np.inf
    for k in range(lanes):
        left = slots[slot, LEFT + k]
        if left > 0.0:
            fewest = min(fewest, left)
        elif finish[k] == np.inf:
            wait = 0.0
            for port in path:
                wait += ports[port, QUEUE + k] / port_capacity[port]
            finish[k] = begun + duration * scratch[W0 + k] / scratch[W1 + k] + wait + tail
    return fewest


@kernel
def note_divergence(lanes: int, slots: Floats, live: Ints, live_total: int, tally: Floats) -> None:
    """Sets NaN in the tally of lanes with rates or α not finite, or α far outside [0, 1]."""
    for i in range(live_total):
        slot = live[i]
        for k in range(lanes):
            off = abs(slots[slot, ALPHA + k] - 0.5)
            total = slots[slot, CURRENT + k] + slots[slot, TARGET + k] + off
            tally[NOT_FINITE + k] += 0.0 * total if off < 10.0 else np.nan


@kernel
def sweep(
    lanes: int,
    content: Floats,
    most_hops: int,
    track: bool,
    sending: NDArray[np.bool_],
    live: Ints,
    free: Ints,
    live_total: int,
    free_total: int,
) -> tuple[int, int]:
    """Frees the slots of groups whose packets have all arrived."""
    kept = 0
    for i in range(live_total):
        slot = live[i]
        busy = sending[slot]
        if track and not busy:
            for hop in range(most_hops):
                for k in range(2 * LANES):
                    busy = busy or content[slot * most_hops + hop, k] > DRAINED_PACKETS
        if busy:
            live[kept] = slot
            kept += 1
        else:
            free[free_total] = slot
            free_total += 1
    return kept, free_total

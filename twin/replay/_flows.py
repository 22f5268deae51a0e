"""Reaction points as events: DCQCN ticks, NIC sharing, and the timing wheel of flows.

Sources: Zhu et al., SIGCOMM 2015, sections 3 and 5 (RP algorithm); the tick order and the first CNP follow
the senders of the reference problems.
"""

from __future__ import annotations

import math

import numpy as np

from twin.jit import inlined
from twin.replay.layout import NEVER, SEGMENTS, Floats, Ints, Params, Positions, Record, Table, uniform

_MASK = SEGMENTS - 1


@inlined
def leave_wheel(slots: Table, wheel: Ints, index: int) -> None:
    """Take a slot out of its bucket, if it is in one."""
    slot = slots[index]
    if slot.next_at == NEVER:
        return
    if slot.wheel_before >= 0:
        slots[slot.wheel_before].wheel_after = slot.wheel_after
    else:
        wheel[slot.next_at & (wheel.size - 1)] = slot.wheel_after
    if slot.wheel_after >= 0:
        slots[slot.wheel_after].wheel_before = slot.wheel_before
    slot.next_at = NEVER


@inlined
def schedule(slots: Table, wheel: Ints, index: int, earliest: int) -> None:
    """Put a slot into the bucket of its next event: a tick, its last byte, or its byte counter."""
    slot = slots[index]
    # To the nearest step; alpha ticks are caught up at the next cut tick.
    at = int(min(slot.cut_at, slot.increase_at) + 0.5)
    if slot.sending > 0.0:
        steps_left = min(slot.remaining, slot.counted) / slot.sending
        if steps_left < NEVER:
            at = min(at, slot.since + int(max(steps_left, 0.0)))
    at = min(max(at, earliest), earliest + wheel.size - 2)
    if at == slot.next_at:
        return
    leave_wheel(slots, wheel, index)
    bucket = at & (wheel.size - 1)
    first = wheel[bucket]
    slot.next_at = at
    slot.wheel_before = -1
    slot.wheel_after = first
    if first >= 0:
        slots[first].wheel_before = index
    wheel[bucket] = index


@inlined
def merge(slot: Record, segments: Table, index: int, step: int) -> None:
    """Merge the two neighbours that moves the fewest bytes in time; their sum is kept.

    Were it always the oldest, a burst that waits would be smeared over the quiet that followed.
    """
    last = slot.segment_end - 1
    best, least = slot.segment_first, np.inf
    best_rate = 0.0
    begin = max(float(segments[index, best & _MASK].start), slot.read)
    for k in range(slot.segment_first, last):
        first, second = segments[index, k & _MASK], segments[index, (k + 1) & _MASK]
        end = step if k + 1 == last else segments[index, (k + 2) & _MASK].start
        first_span = max(second.start - begin, 0.0)
        second_span = float(end - second.start)
        both = max(first_span + second_span, 1e-9)
        moved = abs(first.rate - second.rate) * first_span * second_span / both
        if moved < least:
            best, least = k, moved
            best_rate = (first.rate * first_span + second.rate * second_span) / both
        begin = float(second.start)
    segments[index, best & _MASK].rate = best_rate
    for k in range(best + 1, slot.segment_first, -1):
        here, before = segments[index, k & _MASK], segments[index, (k - 1) & _MASK]
        here.start, here.rate = before.start, before.rate
    slot.segment_first += 1


@inlined
def remember(slot: Record, segments: Table, index: int, sending: float, step: int) -> None:
    """Append a rate change to the flow's segments, which are kept until their marks are drawn."""
    newest = segments[index, (slot.segment_end - 1) & _MASK]
    if slot.segment_end > slot.segment_first and newest.start >= step:
        newest.rate = sending
        return
    if slot.segment_end - slot.segment_first == SEGMENTS:
        merge(slot, segments, index, step)
    here = segments[index, slot.segment_end & _MASK]
    here.start = step
    here.rate = sending
    slot.segment_end += 1


@inlined
def sum_at(marks: Floats, position: float, row: int) -> float:
    """A running sum at a position between two steps."""
    step = int(position)
    part = position - step
    here = marks[step, row]
    return float(here + part * (marks[step + 1, row] - here)) if part > 0.0 else float(here)


@inlined
def unmarked_hazard(
    slots: Table, segments: Table, index: int, until: float, marks: Floats, losses: int, packet_bytes: float
) -> float:
    """−log P(no mark) for the packets sent in steps [read, until); ``marks[j + delay, row]`` is of step j.

    Packets are evenly spaced: n of them at mean probability p stay unmarked with (1 − p)^n; fewer than one,
    with 1 − n p. (A Poisson count would mark a flow too slow to send any packet.) Where ``losses`` is not 0,
    column row + ``losses`` holds the shares lost, which the flow now has to send again.
    """
    slot = slots[index]
    if until <= slot.read:
        return 0.0
    row, delay = slot.row, slot.delay
    met = sum_at(marks, until + delay, row)
    if losses:
        met += sum_at(marks, until + delay, row + losses)
    if met == slot.marks_read:
        slot.read = until
        return 0.0
    slot.marks_read = met
    sent = 0.0
    marked = 0.0
    lost = 0.0
    while slot.segment_first < slot.segment_end:
        here = segments[index, slot.segment_first & _MASK]
        last = slot.segment_first + 1 == slot.segment_end
        following = int(until) + 1 if last else segments[index, (slot.segment_first + 1) & _MASK].start
        begin = max(float(here.start), slot.read)
        end = min(float(following), until)
        if end > begin:
            sent += here.rate * (end - begin)
            marked += here.rate * (sum_at(marks, end + delay, row) - sum_at(marks, begin + delay, row))
            if losses:
                gone = sum_at(marks, end + delay, row + losses) - sum_at(marks, begin + delay, row + losses)
                lost += here.rate * gone
        if last or following > until:
            break
        slot.segment_first += 1
    slot.read = until
    slot.remaining += lost
    if marked <= 0.0:
        return 0.0
    n = sent / packet_bytes
    count = max(n, 1.0)
    return -count * math.log1p(-min(marked / packet_bytes / count, 1.0 - 1e-12))


@inlined
def send(
    slots: Table, segments: Table, index: int, sending: float, entries: Table, inlets: Table, step: int
) -> None:
    """The NIC changes a flow's sending rate at ``step``."""
    slot = slots[index]
    entry = entries[slot.entry]
    entry.total += entry.rate * (step - entry.since)
    entry.since = step
    entry.rate += sending - slot.sending
    inlets[entry.inlet].rate += sending - slot.sending
    moved = slot.sending * (step - slot.since)
    slot.remaining -= moved
    slot.sent += moved
    slot.counted -= moved
    slot.since = step
    slot.sending = sending
    remember(slot, segments, index, sending, step)


@inlined
def paced(rate: float, wanted: float, line_rate: float) -> float:
    """The rate of a paced flow through a NIC that other flows keep busy.

    A packet due while another is being sent waits half a packet's time on average, and the next one is timed
    from its departure: 1/R becomes 1/R + (busy share)·(packet time)/2.
    """
    busy = min((wanted - rate) / line_rate, 1.0)
    return rate / (1.0 + 0.5 * busy * rate / line_rate)


@inlined
def share_nic(
    slots: Table,
    segments: Table,
    wheel: Ints,
    entries: Table,
    inlets: Table,
    nic: Record,
    capacity: float,
    step: int,
    earliest: int,
) -> None:
    """Max-min share of a NIC among its flows (round robin of paced queue pairs) from ``step`` on."""
    wanted = 0.0
    n_flows = 0
    index = nic.first_slot
    while index >= 0:
        wanted += slots[index].rate
        n_flows += 1
        index = slots[index].nic_after
    fair = np.inf
    if wanted > capacity:
        fair = capacity / n_flows
        settled = False
        while not settled:
            # Flows below the fair share keep their rate; the rest is shared again.
            settled = True
            left, n_left = capacity, 0
            index = nic.first_slot
            while index >= 0:
                if slots[index].rate <= fair:
                    left -= slots[index].rate
                else:
                    n_left += 1
                index = slots[index].nic_after
            if n_left > 0 and left > n_left * fair * (1.0 + 1e-9):
                fair = left / n_left
                settled = False
    nic.wanted = wanted
    nic.shared = capacity
    nic.sending = min(wanted, capacity)
    nic.limiting = wanted > capacity
    index = nic.first_slot
    while index >= 0:
        slot = slots[index]
        sending = min(paced(slot.rate, wanted, nic.rate), fair)
        if sending != slot.sending:
            send(slots, segments, index, sending, entries, inlets, step)
            schedule(slots, wheel, index, earliest)
        index = slot.nic_after


@inlined
def increase(slot: Record, params: Params, line_rate: float) -> None:
    """One increase event: fast recovery, then additive, then hyper increase (SIGCOMM 2015, section 3.1)."""
    furthest = max(slot.timer_stage, slot.byte_stage)
    both = min(slot.timer_stage, slot.byte_stage) if params.byte_counter < np.inf else slot.timer_stage
    if both > params.fast_recovery_steps:
        slot.target = min(slot.target + params.hai_rate, line_rate)
    elif furthest >= params.fast_recovery_steps:
        slot.target = min(slot.target + params.ai_rate, line_rate)
    slot.rate = min(0.5 * (slot.rate + slot.target), line_rate)


@inlined
def cnp_came(
    slots: Table,
    segments: Table,
    index: int,
    marks: Floats,
    losses: int,
    resolved: Positions,
    at: int,
    packet_bytes: float,
    seed: int,
) -> bool:
    """Draw whether a CNP reached the sender since the last draw, up to step ``at``."""
    slot = slots[index]
    seen = at - slot.return_delay
    if seen < 0:
        return False
    until = resolved[seen, slot.row] - slot.delay
    hazard = unmarked_hazard(slots, segments, index, until, marks, losses, packet_bytes)
    slot.draws += 1
    return hazard > 0.0 and uniform(seed, slot.flow, slot.draws) < -math.expm1(-hazard)


@inlined
def tick(
    slots: Table,
    segments: Table,
    index: int,
    marks: Floats,
    losses: int,
    resolved: Positions,
    step: int,
    params: Params,
    line_rate: float,
    packet_bytes: float,
    seed: int,
) -> None:
    """The alpha, cut and increase ticks due by ``step``.

    Alpha matters only at a cut, so its ticks are caught up, in order, at the next cut tick.
    """
    slot = slots[index]
    if slot.cut_at < step + 0.5:
        while slot.alpha_at < step + 0.5:
            if cnp_came(
                slots, segments, index, marks, losses, resolved, int(slot.alpha_at + 0.5), packet_bytes, seed
            ):
                slot.cut_cnp = 1
                slot.alpha_cnp = 1
            slot.alpha = (1.0 - params.gain) * slot.alpha + (params.gain if slot.alpha_cnp else 0.0)
            slot.alpha_cnp = 0
            slot.alpha_at += params.alpha_steps
        if cnp_came(slots, segments, index, marks, losses, resolved, step, packet_bytes, seed):
            slot.cut_cnp = 1
            slot.alpha_cnp = 1
        if slot.cut_cnp:
            if params.clamp_target or slot.timer_stage + slot.byte_stage > 0:
                slot.target = slot.rate
            slot.rate = max(params.min_rate, slot.rate * (1.0 - 0.5 * slot.alpha))
            slot.timer_stage = 0
            slot.byte_stage = 0
            slot.increase_at = slot.cut_at + params.increase_steps
            slot.counted = params.byte_counter + slot.sending * (step - slot.since)
            slot.cut_cnp = 0
        slot.cut_at += params.cnp_steps
    if slot.increase_at < step + 0.5:
        slot.increase_at += params.increase_steps
        increase(slot, params, line_rate)
        slot.timer_stage += 1


@inlined
def arm(slot: Record, step: int, params: Params) -> None:
    """The first CNP starts the clocks and counts for the first cut tick, but cuts nothing."""
    slot.armed = 1
    slot.alpha = params.initial_alpha
    slot.target = slot.rate
    slot.cut_cnp = 1
    came_at = step - 0.5  # during the last step
    slot.cut_at = came_at + params.cnp_steps
    slot.alpha_at = came_at + params.alpha_steps

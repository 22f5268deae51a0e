"""Reaction points as events: DCQCN ticks, what a flow sent when and how it was marked, the timing wheel.

Sources: Zhu et al., SIGCOMM 2015, sections 3 and 5 (RP algorithm); the tick order and the first CNP follow
the senders of the reference problems.
"""

from __future__ import annotations

import math

import numpy as np

from twin.jit import inlined
from twin.replay._cells import left_until, losses_until, marks_until
from twin.replay.layout import NEVER, SEGMENTS, Ints, Record, Table, Tables, Work, uniform

_MASK = SEGMENTS - 1
LONE_STEPS = 8.0  # packets further apart than this are sent one by one
KEEPS_PACE, SENDS_PACKETS = 1, 2  # while a packet waits, a flow sends at its old rate, or nothing
MOST_UNREAD_STEPS = 64  # pages that a flow has not asked for are kept


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
    at = min(slot.cut_at, slot.increase_at)  # alpha ticks are caught up at the next cut tick
    at = int(min(at, slot.packet_at) if slot.waits else at)
    if slot.sending > 0.0:
        left = min(slot.remaining, slot.counted)
        if left < slot.sending * (at - slot.since):
            at = slot.since + int(max(left / slot.sending, 0.0))
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
def forget(slot: Record, segments: Table, index: int) -> None:
    """Drop the segments that ended before what is still to be read."""
    last = slot.segment_end - 1
    while slot.segment_first < last and segments[index, (slot.segment_first + 1) & _MASK].start <= slot.read:
        slot.segment_first += 1


@inlined
def remember(slot: Record, segments: Table, index: int, sending: float, step: int) -> None:
    """Append a rate change to the flow's segments, which are kept until their marks are drawn."""
    newest = segments[index, (slot.segment_end - 1) & _MASK]
    if slot.segment_end > slot.segment_first and newest.start >= step:
        newest.rate = sending
        return
    if slot.segment_end - slot.segment_first == SEGMENTS:
        forget(slot, segments, index)
    if slot.segment_end - slot.segment_first == SEGMENTS:
        merge(slot, segments, index, step)
    here = segments[index, slot.segment_end & _MASK]
    here.start = step
    here.rate = sending
    slot.segment_end += 1


@inlined
def read_marks(tables: Tables, work: Work, index: int, time: float) -> tuple[float, float]:
    """How likely each packet of a flow that left its path's last queue by ``time`` was marked, and how many.

    Only those not asked for before. At its first queue each byte meets the marks of its own arrival step, at
    those after it the mean over all that is asked for; queues mark independently. Without PFC, what was lost
    is to be sent again.
    """
    slot = work.slots[index]
    slot.asked = max(slot.asked, time)
    hops = tables.probed
    first, end = hops.offset[slot.entry], hops.offset[slot.entry + 1]
    clear = 1.0  # share unmarked by the queues after the first
    gone = 0.0  # share lost there
    q = hops.queue[end - 1]
    position, marks = left_until(work, q, time)
    for hop in range(end - 1, first, -1):
        read = work.reads[index, hop - first]
        moved = position - read.position
        if moved > 0.0:
            clear *= 1.0 - min((marks - read.marks) / moved, 1.0)
            read.position, read.marks = position, marks
            if not tables.pfc:
                lost = losses_until(work, q, position)
                gone += (lost - read.lost) / moved
                read.lost = lost
        q = hops.queue[hop - 1]
        position, marks = left_until(work, q, position - tables.queues[q].delay)
    until = position - slot.delay
    read = work.reads[index, 0]
    if until <= slot.read:
        read.position, read.marks = position, marks
        return 0.0, 0.0
    if clear == 1.0 and gone == 0.0 and tables.pfc and marks == read.marks:
        read.position, slot.read = position, until
        return 0.0, 0.0
    sent, marked, lost = sent_and_marked(tables, work, index, q, until, marks)
    read.position, read.marks = position, marks
    slot.read = until
    if sent <= 0.0:
        return 0.0, 0.0
    slot.remaining += lost + gone * sent
    return min(1.0 - (1.0 - marked / sent) * clear, 1.0 - 1e-12), sent / tables.packet_bytes


@inlined
def unmarked_hazard(tables: Tables, work: Work, index: int, time: float) -> float:
    """−log P(no mark) of the packets that ``read_marks`` reads; fewer than one count as in ``cnp_drawn``."""
    p, n = read_marks(tables, work, index, time)
    count = max(n, 1.0)
    return count * hazard_of(p * n / count)


@inlined
def hazard_of(p: float) -> float:
    """−log(1 − p), by its series where that is exact to 13 digits: logarithms were a twentieth of a run."""
    return p * (1.0 + p * (0.5 + p / 3.0)) if p < 1e-3 else -math.log1p(-p)


@inlined
def sent_and_marked(
    tables: Tables, work: Work, index: int, q: int, until: float, marks: float
) -> tuple[float, float, float]:
    """Bytes that a flow sent in steps [read, ``until``), and how many its first queue marked and lost.

    ``marks``: that queue's running sum for what is sent at ``until``.
    """
    slot = work.slots[index]
    delay = slot.delay
    sent, marked, lost = 0.0, 0.0, 0.0
    reached = slot.read
    read = work.reads[index, 0]
    known = abs(read.position - reached - delay) < 1e-6
    below = read.marks if known else marks_until(work, q, reached + delay)
    while slot.segment_first < slot.segment_end:
        here = work.segments[index, slot.segment_first & _MASK]
        last = slot.segment_first + 1 == slot.segment_end
        following = int(until) + 1 if last else work.segments[index, (slot.segment_first + 1) & _MASK].start
        begin = max(float(here.start), slot.read)
        end = min(float(following), until)
        if end > begin:
            if begin > reached:
                below = marks_until(work, q, begin + delay)
            above = marks if end == until else marks_until(work, q, end + delay)
            sent += here.rate * (end - begin)
            marked += here.rate * (above - below)
            if not tables.pfc:
                gone = losses_until(work, q, end + delay) - losses_until(work, q, begin + delay)
                lost += here.rate * gone
            reached, below = end, above
        if last or following > until:
            break
        slot.segment_first += 1
    return sent, marked, lost


@inlined
def increase(slot: Record, params: Record, line_rate: float) -> None:
    """One increase event: fast recovery, then additive, then hyper increase (SIGCOMM 2015, section 3.1)."""
    furthest = max(slot.timer_stage, slot.byte_stage)
    both = min(slot.timer_stage, slot.byte_stage) if params.byte_counter < np.inf else slot.timer_stage
    if both > params.fast_recovery_steps:
        slot.target = min(slot.target + params.hai_rate, line_rate)
    elif furthest >= params.fast_recovery_steps:
        slot.target = min(slot.target + params.ai_rate, line_rate)
    slot.rate = min(0.5 * (slot.rate + slot.target), line_rate)


@inlined
def overdue(work: Work, index: int, time: float) -> bool:
    """Whether a flow has so much unread at ``time`` that it reads on, marked or not."""
    return bool(time - work.reads[index, 0].position > MOST_UNREAD_STEPS)


@inlined
def none_marked(tables: Tables, work: Work, index: int, time: float) -> bool:
    """Whether surely no queue on a flow's path has marked any byte that the flow has not asked for.

    Where so, what left by ``time`` counts as asked for.
    """
    slot = work.slots[index]
    hops = tables.probed
    first, end = hops.offset[slot.entry], hops.offset[slot.entry + 1]
    if not tables.pfc or overdue(work, index, slot.asked):
        return False
    since = slot.asked
    for hop in range(end - 1, first - 1, -1):
        queue = tables.queues[hops.queue[hop]]
        if hop < end - 1:
            since = work.reads[index, hop + 1 - first].position - queue.delay
        if queue.marked_at + 1 > since:
            return False
    slot.asked = max(slot.asked, time)
    return True


@inlined
def look_for_mark(tables: Tables, work: Work, index: int, step: int, params: Record) -> None:
    """Whether the first CNP came since the last look; it starts the clocks, from when it came."""
    slot = work.slots[index]
    if slot.cut_at >= step + 1:
        return
    slot.cut_at = step + params.look_steps
    until = step - slot.return_delay
    if none_marked(tables, work, index, until):
        return
    at = slot.asked
    slot.patience -= unmarked_hazard(tables, work, index, at)
    while at < until and slot.patience > 0.0:
        span = min(until - at, 1.0)
        at += span
        hazard = unmarked_hazard(tables, work, index, at)
        slot.patience -= hazard
        if slot.patience <= 0.0:
            at += slot.patience / hazard * span
    if slot.patience <= 0.0:
        arm(slot, at + slot.return_delay, params)


@inlined
def pace(slot: Record) -> float:
    """The rate at which a flow's packets are now spaced."""
    return slot.held if slot.waits else slot.rate


@inlined
def lone(rate: float, packet_bytes: float) -> bool:
    """Whether the packets of a flow at this rate are so far apart that each is sent for itself."""
    return rate * LONE_STEPS < packet_bytes


@inlined
def tick(
    tables: Tables, work: Work, index: int, step: int, params: Record, line_rate: float, seed: int
) -> float:
    """The alpha, cut and increase ticks of ``step``; returns the bytes that rates before the last add to it.

    Alpha matters only at a cut, so its ticks are caught up, in order, at the next cut tick. A packet that
    waits keeps its time, and the new rate spaces those after it: one of 1 Mbit/s waits for up to 8 ms.
    """
    slot = work.slots[index]
    packet_bytes = tables.packet_bytes
    ahead = 0.0
    own = 1.5 * slot.sending >= slot.rate  # its rate spaces its packets, not its NIC (``_nics.paced``)
    while min(slot.cut_at, slot.increase_at) < step + 1:
        before = slot.rate
        at = min(slot.cut_at, slot.increase_at)
        if slot.cut_at <= slot.increase_at:
            cut(tables, work, index, step, params, seed)
        else:
            slot.increase_at += params.increase_steps
            increase(slot, params, line_rate)
            slot.timer_stage += 1
        if slot.waits or slot.rate == before:
            continue
        at = max(at, float(step))
        spaced = before if own else slot.sending
        rest = until_next_packet(slot, spaced, at, packet_bytes) * spaced
        if lone(slot.rate, packet_bytes):
            # The packet that the old rate was sending has left, all of it.
            slot.waits, slot.held = SENDS_PACKETS, slot.rate
            ahead = rest + (ahead + before * (at - step) if own else slot.sending * (at - step))
        elif own and slot.rate > before and rest > before:
            slot.waits, slot.held = KEEPS_PACE, before
        else:
            ahead += (before - slot.rate) * (at - step)
            if own:
                ahead += rest * (1.0 - slot.rate / before)
    return ahead


@inlined
def until_next_packet(slot: Record, rate: float, at: float, packet_bytes: float) -> float:
    """Steps from ``at`` until a flow's next packet leaves, 0 while its NIC is paused."""
    if slot.packet_at < at and rate > 0.0:
        spacing = packet_bytes / rate
        slot.packet_at += math.ceil((at - slot.packet_at) / spacing) * spacing
    return max(slot.packet_at - at, 0.0)


@inlined
def cut(tables: Tables, work: Work, index: int, step: int, params: Record, seed: int) -> None:
    """A cut tick, after the alpha ticks before it."""
    slot = work.slots[index]
    last = slot.cut_at - slot.return_delay
    quiet = not overdue(work, index, last) and none_marked(tables, work, index, last)
    before = slot.asked
    gain, alpha_steps = params.gain, params.alpha_steps  # read once: α ticks are many
    p, n_a_step = 0.0, 0.0
    ends = False
    while not ends:
        ends = slot.alpha_at > slot.cut_at
        slot.draws += 1
        if not quiet:
            at = (slot.cut_at if ends else slot.alpha_at) - slot.return_delay
            if at > slot.asked:
                begun = slot.asked
                until = min(max(at, begun + 1.0), last)  # queues do not mark within a step: a look at a time
                p, n = marks_new(tables, work, index, until)
                n_a_step = n / max(until - begun, 1e-9)
            if cnp_drawn(slot, p, n_a_step * max(at - before, 0.0), seed):
                slot.cut_cnp = 1
                slot.alpha_cnp = 1
            before = max(before, at)
        if not ends:
            slot.alpha = (1.0 - gain) * slot.alpha + (gain if slot.alpha_cnp else 0.0)
            slot.alpha_cnp = 0
            slot.alpha_at += alpha_steps
    if slot.cut_cnp:
        if params.clamp_target == 1 or slot.timer_stage + slot.byte_stage > 0:
            slot.target = slot.rate
        slot.rate = max(params.min_rate, slot.rate * (1.0 - 0.5 * slot.alpha))
        slot.timer_stage = 0
        slot.byte_stage = 0
        slot.increase_at = slot.cut_at + params.increase_steps
        slot.counted = params.byte_counter + slot.sending * (step - slot.since)
        slot.cut_cnp = 0
    slot.cut_at += params.cnp_steps


@inlined
def marks_new(tables: Tables, work: Work, index: int, time: float) -> tuple[float, float]:
    """``read_marks``, spared where no queue of the path can have marked any of them."""
    if none_marked(tables, work, index, time):
        return 0.0, 0.0
    return read_marks(tables, work, index, time)


@inlined
def cnp_drawn(slot: Record, p: float, n: float, seed: int) -> bool:
    """Draw whether a CNP came of ``n`` more packets, each marked with probability ``p``.

    A packet counts once all of it has been read, so that one which several looks share is drawn for once: m
    stay unmarked with (1 − p)^m.
    """
    slot.packets += n
    slot.marked += n * p
    if slot.packets < 1.0:
        return False
    p = min(slot.marked / slot.packets, 1.0 - 1e-12)
    whole = math.floor(slot.packets)
    slot.packets -= whole
    slot.marked = p * slot.packets
    if p <= 0.0:
        return False
    draw = uniform(seed, slot.flow, slot.draws)
    # 1 − (1 − p)^m lies between p and m p, and most draws do not.
    return draw < p or (draw < whole * p and draw < -math.expm1(-whole * hazard_of(p)))


@inlined
def arm(slot: Record, came_at: float, params: Record) -> None:
    """The first CNP starts the clocks and counts for the first cut tick, but cuts nothing."""
    slot.armed = 1
    slot.alpha = params.initial_alpha
    slot.target = slot.rate
    slot.cut_cnp = 1
    slot.cut_at = came_at + params.cnp_steps
    slot.alpha_at = came_at + params.alpha_steps

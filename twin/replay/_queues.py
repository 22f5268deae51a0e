"""Egress queues: FIFO, marking at dequeue, and the last bytes of flows that wait in them."""

from __future__ import annotations

import math

from twin.jit import inlined
from twin.replay._cells import cell_of, discard, find_cell, forward, wake
from twin.replay.layout import LOST, Floats, Record, Tables, Work, uniform

_JITTER_STREAM = 1 << 40  # apart from the flows' streams
LIGHT = 0.8  # below this share of its rate an empty queue stays empty, acknowledgements and phases included
_LOSS_STREAM = 1 << 41
_CALM_PACKETS = 200.0  # beyond this depth packet phases have no effect


@inlined
def marking(queue_bytes: float, kmin: float, kmax: float, pmax: float) -> float:
    """p(q) (SIGCOMM 2015, figure 5)."""
    if queue_bytes <= kmin:
        return 0.0
    if queue_bytes > kmax:
        return 1.0
    return pmax * (queue_bytes - kmin) / (kmax - kmin)


@inlined
def phase_jitter(
    queue: Record, incoming: float, step: int, index: int, seed: int, packet_bytes: float
) -> float:
    """Bytes by which whole packets run ahead of the fluid in this step.

    N paced flows are N sawtooths of one packet each: together a stationary process of variance N/12 packets²
    whose memory is their mean packet spacing. Its increments keep a few packets in the queue of 64 evenly
    paced flows below capacity, where a fluid would be empty. What one NIC sends never meets itself.
    """
    if queue.flows < 2 or queue.in_turn or queue.backlog > _CALM_PACKETS * packet_bytes:
        return 0.0
    spacings = incoming / (queue.flows * packet_bytes)  # in one step
    memory = 1.0 / (1.0 + spacings + 0.5 * spacings * spacings)  # near enough to exp(−spacings)
    amplitude = packet_bytes * math.sqrt(queue.flows * (1.0 - memory * memory))
    fresh = (uniform(seed, _JITTER_STREAM + index, step) - 0.5) * amplitude  # variance 1/12 each
    # What arrives can wait, no more; so what runs ahead or behind is made up for later.
    ahead = max((memory - 1.0) * queue.jitter + fresh, -incoming)
    queue.jitter += ahead
    return ahead


@inlined
def run_queue(
    tables: Tables,
    work: Work,
    q: int,
    step: int,
    seed: int,
    totals: Floats,
) -> float:
    """One step of a queue that may have work; returns the marking probability of the bytes that left."""
    queue = tables.queues[q]
    number = find_cell(work, q, step)
    if number < 0 and (queue.backlog > 0.0 or queue.others > 0.0):
        number = cell_of(work, queue, q, step)
    if number < 0:
        queue.sent = 0.0
        queue.head = step + 1
        return 0.0
    cell = work.cells[number]
    cell.arrived += queue.others
    incoming = cell.arrived
    if not tables.pfc:
        work.lost[number].total = queue.lost_sum
    if queue.backlog == 0.0 and 0.0 <= incoming <= queue.light_rate:
        pass_through(tables, work, queue, cell, step, incoming)
        return 0.0
    capacity = 0.0 if queue.paused else queue_capacity(tables, queue)
    incoming = max(incoming, 0.0)
    incoming += phase_jitter(queue, incoming, step, q, seed, tables.packet_bytes)
    cell.arrived = incoming
    if not tables.pfc:
        room = max(tables.buffer_bytes - tables.switches[queue.switch].used_before, 0.0) + capacity
        if incoming > room:
            share = drop(tables, work, queue, q, step, incoming, room, seed)
            totals[LOST] += incoming * share
            incoming = room
    return float(serve(tables, work, q, step, incoming, capacity))


@inlined
def queue_capacity(tables: Tables, queue: Record) -> float:
    """A port's line rate less the acknowledgements of what comes the other way."""
    if queue.reverse_queue >= 0:
        return queue.rate - tables.ack_ratio * tables.queues[queue.reverse_queue].sent
    if queue.reverse_nic >= 0:
        return queue.rate - tables.ack_ratio * tables.nics[queue.reverse_nic].sending
    return float(queue.rate)


@inlined
def pass_through(tables: Tables, work: Work, queue: Record, cell: Record, step: int, incoming: float) -> None:
    """One step of an empty queue that sends all arrivals unmarked."""
    queue.sent = incoming
    queue.head = step + 1
    cell.marks = cell.known = queue.marks_sum
    if cell.parcels >= 0:
        forward(tables, work, cell, 1.0, step + queue.delay)
        discard(work, cell)


@inlined
def serve(
    tables: Tables,
    work: Work,
    q: int,
    step: int,
    incoming: float,
    capacity: float,
) -> float:
    """One step of one queue; returns the marking probability of the bytes that left."""
    queue = tables.queues[q]
    now = work.cells[cell_of(work, queue, q, step)]
    if queue.backlog == 0.0 and incoming <= capacity:
        pass_through(tables, work, queue, now, step, incoming)
        return 0.0
    outgoing = min(queue.backlog + incoming, max(capacity, 0.0))
    depth = queue.backlog + incoming - outgoing
    curve = work.curves[q]
    p = marking(0.5 * (queue.backlog + depth), curve[0], curve[1], curve[2])
    queue.sent = outgoing
    if queue.backlog == 0.0:
        begin_step(queue, step, incoming)
    if p > 0.0 or queue.marks > 0.0:
        queue.marked_at = step
    j = queue.head
    to_send = outgoing
    while j <= step:
        cell = work.cells[cell_of(work, queue, q, j)]
        taken = min(queue.left, to_send)
        if taken > 0.0:
            fraction = taken / cell.arrived
            queue.marks += p * fraction
            to_send -= taken
            queue.left -= taken
            if cell.parcels >= 0:
                forward(tables, work, cell, fraction, step + queue.delay)
        if queue.left > 1e-6:
            break
        queue.marks_sum += queue.marks
        cell.marks = queue.marks_sum
        discard(work, cell)
        j += 1
        if j <= step:
            following = work.cells[cell_of(work, queue, q, j)]
            begin_step(queue, j, max(following.arrived, 0.0))
    if j > step:
        depth = 0.0
    queue.head = j
    queue.backlog = depth
    now.lag = step + 1.0 - j
    now.known = queue.marks_sum
    if depth > 0.0:
        now.lag -= 1.0 - queue.left / work.cells[cell_of(work, queue, q, j)].arrived
        now.known += queue.marks
    return p


@inlined
def begin_step(queue: Record, j: int, count: float) -> None:
    """The first byte of arrival step ``j`` is at the head of the queue."""
    queue.head = j
    queue.left = count
    queue.marks = 0.0


@inlined
def drop(
    tables: Tables, work: Work, queue: Record, q: int, step: int, incoming: float, room: float, seed: int
) -> float:
    """Drop the part of ``incoming`` beyond ``room``; returns its share.

    Senders learn of it by ``losses`` and send it again. A flow whose last byte is lost ends a queueing delay
    and a round trip later.
    """
    share = 1.0 - room / incoming
    number = cell_of(work, queue, q, step)
    cell = work.cells[number]
    cell.arrived = room
    index = cell.parcels
    while index >= 0:
        work.parcels[index].bytes *= 1.0 - share
        index = work.parcels[index].after
    work.lost[number].share = share
    queue.lost_sum += share
    wait = int(queue.backlog / queue.rate) + 2 * queue.delay + 2
    index = queue.ending_first
    while index >= 0:
        flow = tables.flows[index]
        if flow.ending_step == step and uniform(seed, _LOSS_STREAM + index, step) < share:
            flow.ending_step = step + wait
        index = flow.ending_after
    return float(share)


@inlined
def last_bytes(tables: Tables, work: Work, q: int, step: int) -> None:
    """Complete the flows whose last byte left this queue, or move them to the next one."""
    queue = tables.queues[q]
    before = -1
    index = queue.ending_first
    while index >= 0:
        flow = tables.flows[index]
        following = flow.ending_after
        j = flow.ending_step
        waits = j > step or j > queue.head
        if j == queue.head and not waits:
            whole = work.cells[cell_of(work, queue, q, j)].arrived
            waits = 1.0 - queue.left / max(whole, 1e-9) < flow.ending_fraction
        if waits:
            before = index
            index = following
            continue
        if before >= 0:
            tables.flows[before].ending_after = following
        else:
            queue.ending_first = following
        if following < 0:
            queue.ending_last = before
        within = flow.ending_fraction if j == step else 0.5
        onward = tables.suffixes[flow.ending_suffix].onward
        if onward < 0:
            flow.completed = step + within
            open_barriers(tables, work, flow, step)
        else:
            append_ending(tables, work, index, onward, step + queue.delay, within)
        index = following


@inlined
def open_barriers(tables: Tables, work: Work, flow: Record, step: int) -> None:
    """This flow was delivered: what waits for it and for nothing else now starts a gap later, in the next
    step at the earliest.
    """
    for i in range(flow.opens_first, flow.opens_end):
        barrier = tables.barriers[tables.opens[i]]
        barrier.left -= 1
        barrier.opened = max(barrier.opened, flow.completed + flow.cable)
        if barrier.left > 0:
            continue
        index = barrier.first
        while index >= 0:
            waiting = tables.flows[index]
            waiting.began = max(barrier.opened + waiting.gap, step + 1.0)
            work.due[work.pool[0].n_due] = index
            work.pool[0].n_due += 1
            index = waiting.sibling


@inlined
def append_ending(tables: Tables, work: Work, index: int, suffix: int, step: int, fraction: float) -> None:
    """The last byte of a flow arrives at the queue of ``suffix`` in ``step``."""
    flow = tables.flows[index]
    flow.ending_suffix = suffix
    flow.ending_step = step
    flow.ending_fraction = fraction
    flow.ending_after = -1
    q = tables.suffixes[suffix].queue
    queue = tables.queues[q]
    wake(work, queue, q, step)
    if queue.ending_last >= 0:
        tables.flows[queue.ending_last].ending_after = index
    else:
        queue.ending_first = index
    queue.ending_last = index

"""Egress queues: FIFO, marking at dequeue, and the departure of every arrival step."""

from __future__ import annotations

import math

from twin.jit import inlined
from twin.replay.layout import Floats, Positions, Record, Steps, Table, uniform

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
    paced flows below capacity, where a fluid would be empty.
    """
    if queue.flows < 2 or queue.backlog > _CALM_PACKETS * packet_bytes:
        queue.jitter = 0.0
        return 0.0
    spacings = incoming / (queue.flows * packet_bytes)  # in one step
    memory = 1.0 / (1.0 + spacings + 0.5 * spacings * spacings)  # near enough to exp(−spacings)
    amplitude = packet_bytes * math.sqrt(queue.flows * (1.0 - memory * memory))
    fresh = (uniform(seed, _JITTER_STREAM + index, step) - 0.5) * amplitude  # variance 1/12 each
    before = queue.jitter
    queue.jitter = memory * before + fresh
    return queue.jitter - before


@inlined
def forward(
    suffixes: Table,
    queue: Record,
    arrived: Floats,
    onward: Floats,
    from_step: int,
    fraction: float,
    at: int,
    feeders: Table,
    n_rows: int,
) -> None:
    """Forward ``fraction`` of arrival step ``from_step`` to the next hops, to arrive at step ``at``."""
    for index in range(queue.suffix_first, queue.suffix_end):
        suffix = suffixes[index]
        if suffix.onward < 0:
            continue
        part = onward[from_step, suffix.row - n_rows] * fraction
        if part > 0.0:
            following = suffixes[suffix.onward]
            arrived[at, following.queue] += part
            if following.onward >= 0:
                onward[at, following.row - n_rows] += part
            feeders[suffix.feeder].total += part


@inlined
def pass_through(
    queue: Record,
    q: int,
    step: int,
    incoming: float,
    suffixes: Table,
    arrived: Floats,
    onward: Floats,
    marks: Floats,
    departed: Steps,
    feeders: Table,
    n_rows: int,
) -> None:
    """One step of an empty queue that sends all arrivals unmarked."""
    queue.sent = incoming
    queue.head = step + 1
    marks[step + 1, q] = marks[step, q]
    if queue.forwards:
        departed[step, q] = step
        if incoming > 0.0:
            forward(suffixes, queue, arrived, onward, step, 1.0, step + queue.delay, feeders, n_rows)


@inlined
def serve(
    queue: Record,
    q: int,
    step: int,
    incoming: float,
    capacity: float,
    kmin: float,
    kmax: float,
    pmax: float,
    suffixes: Table,
    arrived: Floats,
    onward: Floats,
    marks: Floats,
    departed: Steps,
    feeders: Table,
    n_rows: int,
) -> float:
    """One step of one queue; returns the marking probability of the bytes that left."""
    if queue.backlog == 0.0 and incoming <= capacity:
        pass_through(queue, q, step, incoming, suffixes, arrived, onward, marks, departed, feeders, n_rows)
        return 0.0
    outgoing = min(queue.backlog + incoming, max(capacity, 0.0))
    depth = queue.backlog + incoming - outgoing
    p = marking(0.5 * (queue.backlog + depth), kmin, kmax, pmax)
    queue.sent = outgoing
    j = queue.head
    if j == step:
        queue.left = incoming
        queue.marks = 0.0
    to_send = outgoing
    while j <= step:
        whole = arrived[j, q]
        taken = min(queue.left, to_send)
        if taken > 0.0:
            fraction = taken / whole
            queue.marks += p * fraction
            to_send -= taken
            queue.left -= taken
            if queue.forwards:
                forward(suffixes, queue, arrived, onward, j, fraction, step + queue.delay, feeders, n_rows)
        if queue.left > 1e-6:
            break
        marks[j + 1, q] = marks[j, q] + queue.marks
        departed[j, q] = step
        queue.marks = 0.0
        j += 1
        if j <= step:
            queue.left = max(arrived[j, q], 0.0)
    if j > step:
        depth = 0.0
    queue.head = j
    queue.backlog = depth
    return p


@inlined
def part_gone(queue: Record, q: int, arrived: Floats, marks: Floats) -> float:
    """The part of arrival step ``head`` that has left; its marks so far stand for the whole of it meanwhile.

    What many senders send at once in one step takes many steps to leave, and is marked all along.
    """
    if queue.backlog <= 0.0:
        return 0.0
    j = queue.head
    part = 1.0 - queue.left / arrived[j, q]
    if part <= 0.0:
        return 0.0
    marks[j + 1, q] = marks[j, q] + queue.marks / part
    return part


@inlined
def drop(
    queue: Record,
    q: int,
    step: int,
    incoming: float,
    room: float,
    flows: Table,
    suffixes: Table,
    arrived: Floats,
    onward: Floats,
    n_rows: int,
    seed: int,
) -> float:
    """Drop the part of ``incoming`` beyond ``room``; returns its share.

    Senders learn of it by ``losses`` and send it again. A flow whose last byte is lost ends a queueing delay
    and a round trip later.
    """
    share = 1.0 - room / incoming
    arrived[step, q] = room
    for index in range(queue.suffix_first, queue.suffix_end):
        row = suffixes[index].row - n_rows
        if row >= 0:
            onward[step, row] *= 1.0 - share
    wait = int(queue.backlog / queue.rate) + 2 * queue.delay + 2
    index = queue.ending_first
    while index >= 0:
        flow = flows[index]
        if flow.ending_step == step and uniform(seed, _LOSS_STREAM + index, step) < share:
            flow.ending_step = step + wait
        index = flow.ending_after
    return share


@inlined
def last_bytes(queues: Table, q: int, step: int, flows: Table, suffixes: Table, arrived: Floats) -> None:
    """Complete the flows whose last byte left this queue, or move them to the next one."""
    queue = queues[q]
    before = -1
    index = queue.ending_first
    while index >= 0:
        flow = flows[index]
        following = flow.ending_after
        j = flow.ending_step
        waits = j > step or j > queue.head
        if j == queue.head and not waits:
            waits = 1.0 - queue.left / max(arrived[j, q], 1e-9) < flow.ending_fraction
        if waits:
            before = index
            index = following
            continue
        if before >= 0:
            flows[before].ending_after = following
        else:
            queue.ending_first = following
        if following < 0:
            queue.ending_last = before
        within = flow.ending_fraction if j == step else 0.5
        onward = suffixes[flow.ending_suffix].onward
        if onward < 0:
            flow.completed = step + within
        else:
            append_ending(queues, flows, index, onward, suffixes[onward].queue, step + queue.delay, within)
        index = following


@inlined
def append_ending(
    queues: Table, flows: Table, index: int, suffix: int, q: int, step: int, fraction: float
) -> None:
    """The last byte of a flow arrives at queue ``q`` in ``step``."""
    flow = flows[index]
    flow.ending_suffix = suffix
    flow.ending_step = step
    flow.ending_fraction = fraction
    flow.ending_after = -1
    queue = queues[q]
    if queue.ending_last >= 0:
        flows[queue.ending_last].ending_after = index
    else:
        queue.ending_first = index
    queue.ending_last = index


@inlined
def resolve_suffix(
    suffixes: Table,
    s: int,
    queues: Table,
    step: int,
    marks: Floats,
    losses: int,
    departed: Steps,
    resolved: Positions,
) -> None:
    """For a path of several hops: the arrival steps that left its last queue, with marks and losses."""
    suffix = suffixes[s]
    queue = queues[suffix.queue]
    following = suffixes[suffix.onward].row
    row = suffix.row
    out_there = int(resolved[step, following])
    j = int(resolved[step - 1, row]) if step > 0 else 0
    while j < queue.head and departed[j, suffix.queue] + queue.delay < out_there:
        end = departed[j, suffix.queue] + queue.delay + 1
        begin = departed[j - 1, suffix.queue] + queue.delay + 1 if j > 0 else end - 1
        begin = min(begin, end - 1)
        for kind in range(0, losses + 1, max(losses, 1)):
            here = marks[j + 1, suffix.queue + kind] - marks[j, suffix.queue + kind]
            there = (marks[end, following + kind] - marks[begin, following + kind]) / (end - begin)
            marks[j + 1, row + kind] = marks[j, row + kind] + here + there - here * there
        j += 1
    resolved[step, row] = j

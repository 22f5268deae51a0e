"""The replay kernel: one candidate, from the first flow to the end. Three ideas make it fast.

*Events, not samples.* A flow is processed only when its rate may change: at its cut, alpha and increase
ticks, when its NIC's share changes, when it ends. In between its rate is constant; a timing wheel holds the
next events.

*Marks by arrival step.* A queue is FIFO, so bytes that arrive in step j leave in later steps, marked by the
depth found then. The queue keeps M[j], the running sum over arrival steps of the mean marking probability of
each. A flow that sent n bytes a step over [i, j) had n (M[j] − M[i]) of them marked: two look-ups, enough for
a reaction point to decide whether a CNP came since its last tick.

*Suffixes.* Flows with the same rest of path are one stream from where they meet.
"""

from __future__ import annotations

import math

import numpy as np

from twin.jit import inlined, kernel
from twin.probe._draws import PROBES, slowdown_bin
from twin.replay._flows import arm, increase, paced, schedule, send, share_nic, tick, unmarked_hazard
from twin.replay._pfc import decide, hold, log_feeders
from twin.replay._queues import (
    LIGHT,
    append_ending,
    drop,
    last_bytes,
    part_gone,
    pass_through,
    phase_jitter,
    resolve_suffix,
    serve,
)
from twin.replay.layout import (
    COARSE_BINS,
    COARSE_BYTES,
    DELIVERED,
    FINE_BINS,
    FINE_BYTES,
    LOG_STEPS,
    LOST,
    MARKED,
    NEVER,
    OFFERED,
    PAUSED,
    PEAK,
    SENT,
    Floats,
    Ints,
    Params,
    Record,
    Table,
    Tables,
    Work,
    uniform,
)

ACK_STEPS, ACK_SLACK = 4, 0.01  # how often, and by what share of its rate, a NIC follows the acknowledgements
MOST_BYTES = 1e18  # a deeper queue, or NaN, ends the run as diverged


@inlined
def reset(tables: Tables, work: Work) -> None:
    """Reset every *run* column."""
    work.wheel[:] = -1
    for i in range(tables.flows.size):
        tables.flows[i].completed = np.nan
        tables.flows[i].sent = 0.0
    for i in range(tables.entries.size):
        entry = tables.entries[i]
        entry.rate = 0.0
        entry.total = 0.0
        entry.since = 0
    for i in range(tables.nics.size):
        nic = tables.nics[i]
        nic.first_slot = -1
        nic.paused = 0
        nic.dirty = 0
        nic.wanted = 0.0
        nic.shared = nic.rate
        nic.sending = 0.0
        nic.limiting = 0
        nic.spare = 0.0
    for i in range(tables.inlets.size):
        tables.inlets[i].rate = 0.0
        tables.inlets[i].burst = 0.0
    for i in range(tables.queues.size):
        queue = tables.queues[i]
        queue.backlog = 0.0
        queue.left = 0.0
        queue.marks = 0.0
        queue.sent = 0.0
        queue.jitter = 0.0
        queue.flows = 0
        queue.head = 0
        queue.paused = 0
        queue.light_rate = LIGHT * queue.rate
        queue.ending_first = -1
        queue.ending_last = -1
        queue.depth_sum = 0.0
        queue.sent_sum = 0.0
        queue.marked_sum = 0.0
    for i in range(tables.feeders.size):
        tables.feeders[i].total = 0.0
    for i in range(tables.ingresses.size):
        port = tables.ingresses[i]
        port.held = 0.0
        port.paused = 0
        port.change_at = NEVER
    for i in range(tables.switches.size):
        tables.switches[i].used = 0.0
        tables.switches[i].paused = 0
    work.probes[:] = 0
    work.arrived[: work.horizon] = 0.0
    work.onward[: work.horizon] = 0.0
    work.marks[0] = 0.0


@inlined
def nic_capacity(nic: Record, queues: Table, ack_ratio: float) -> float:
    """A NIC's line rate less acknowledgements, 0 while paused."""
    if nic.paused:
        return 0.0
    if nic.reverse_queue < 0:
        return nic.rate
    return max(nic.rate - ack_ratio * queues[nic.reverse_queue].sent, 0.0)


@inlined
def share_later(nics: Table, index: int, dirty: Ints, n_dirty: int) -> int:
    """Mark a NIC for sharing again; returns the number of marked NICs."""
    if nics[index].dirty:
        return n_dirty
    nics[index].dirty = 1
    dirty[n_dirty] = index
    return n_dirty + 1


@inlined
def note_acknowledgements(nics: Table, queues: Table, ack_ratio: float, dirty: Ints, n_dirty: int) -> int:
    """Mark busy NICs whose room beside acknowledgements has changed; returns how many are marked."""
    for i in range(nics.size):
        nic = nics[i]
        if nic.reverse_queue < 0 or nic.first_slot < 0 or nic.paused:
            continue
        capacity = nic_capacity(nic, queues, ack_ratio)
        if nic.wanted > min(capacity, nic.shared) and abs(capacity - nic.shared) > ACK_SLACK * nic.rate:
            n_dirty = share_later(nics, i, dirty, n_dirty)
    return n_dirty


@inlined
def start_flow(index: int, f: int, tables: Tables, slots: Table, seed: int, step: int) -> None:
    """Give flow ``f`` a slot at the head of its NIC's list."""
    flow = tables.flows[f]
    entry = tables.entries[flow.entry]
    slot = slots[index]
    slot.flow = f
    slot.entry = flow.entry
    slot.row = entry.row
    slot.delay = entry.delay
    slot.return_delay = entry.return_delay
    slot.rate = flow.rate
    slot.target = flow.rate
    slot.alpha = 1.0
    slot.sending = 0.0
    slot.remaining = flow.bytes
    slot.sent = 0.0
    slot.counted = np.inf
    slot.patience = -math.log1p(-uniform(seed, f, 0))
    slot.since = step
    slot.read = step
    slot.cut_at = NEVER
    slot.alpha_at = NEVER
    slot.increase_at = NEVER
    slot.next_at = NEVER
    slot.draws = 1
    slot.marks_read = -1.0
    slot.segment_first = 0
    slot.segment_end = 0
    slot.timer_stage = 0
    slot.byte_stage = 0
    slot.armed = 0
    slot.cut_cnp = 0
    slot.alpha_cnp = 0
    nic = tables.nics[entry.nic]
    slot.nic_before = -1
    slot.nic_after = nic.first_slot
    if nic.first_slot >= 0:
        slots[nic.first_slot].nic_before = index
    nic.first_slot = index
    count_flow(tables, entry.suffix, 1)


@inlined
def give_early(tables: Tables, slots: Table, wheel: Ints, late: Record, step: int) -> None:
    """Give a full NIC's bytes before a flow's start in ``step`` to those that it already served.

    Without it a NIC whose flows start one after the other within a few steps would idle between.
    """
    flows = tables.flows
    nic = tables.nics[tables.entries[late.entry].nic]
    started = flows[late.flow].start_fraction
    idle_until = started  # of this step the NIC idles until its first flow starts
    index = nic.first_slot
    while index >= 0:
        flow = slots[index].flow
        if flow < late.flow:
            begun = flows[flow].start_fraction if flows[flow].start_step == step else 0.0
            idle_until = min(idle_until, begun)
        index = slots[index].nic_after
    spread(tables, slots, wheel, nic, late.sending * (started - idle_until), late.flow, step)


@inlined
def spread(
    tables: Tables, slots: Table, wheel: Ints, nic: Record, extra: float, before: int, earliest: int
) -> None:
    """Let flows of a NIC that are older than flow ``before`` send ``extra`` bytes at once.

    Only those that want more than a fair share: the others' own rates hold them back, not the NIC.
    """
    n_flows = 1
    index = nic.first_slot
    while index >= 0:
        n_flows += 1
        index = slots[index].nic_after
    fair = nic.rate / n_flows
    count = 0
    index = nic.first_slot
    while index >= 0:
        count += slots[index].flow < before and slots[index].rate > fair
        index = slots[index].nic_after
    index = nic.first_slot
    while index >= 0:
        slot = slots[index]
        if slot.flow < before and slot.rate > fair:
            entry = tables.entries[slot.entry]
            given = min(extra / count, 0.5 * slot.remaining)
            slot.remaining -= given
            slot.sent += given
            entry.total += given
            tables.inlets[entry.inlet].burst += given
            schedule(slots, wheel, index, earliest)
        index = slot.nic_after


@inlined
def end_flow(index: int, left: float, step: int, tables: Tables, slots: Table) -> None:
    """The last ``left`` bytes of a flow go out in this step; it leaves its NIC."""
    slot = slots[index]
    entry = tables.entries[slot.entry]
    entry.total += entry.rate * (step - entry.since) + left
    entry.since = step
    entry.rate -= slot.sending
    inlet = tables.inlets[entry.inlet]
    inlet.rate -= slot.sending
    inlet.burst += left
    fraction = min(max(left / slot.sending, 0.0), 1.0)
    queue = tables.suffixes[entry.suffix].queue
    append_ending(tables.queues, tables.flows, slot.flow, entry.suffix, queue, step + entry.delay, fraction)
    nic = tables.nics[entry.nic]
    if slot.nic_before >= 0:
        slots[slot.nic_before].nic_after = slot.nic_after
    else:
        nic.first_slot = slot.nic_after
    if slot.nic_after >= 0:
        slots[slot.nic_after].nic_before = slot.nic_before
    nic.wanted -= slot.rate
    if nic.limiting == 0:
        nic.sending = nic.wanted
    else:
        nic.spare += slot.sending - left
    count_flow(tables, entry.suffix, -1)


@inlined
def count_flow(tables: Tables, suffix: int, change: int) -> None:
    """Add ``change`` to the number of flows crossing each queue of a path."""
    while suffix >= 0:
        tables.queues[tables.suffixes[suffix].queue].flows += change
        suffix = tables.suffixes[suffix].onward


@inlined
def apply_pauses(ingresses: Table, nics: Table, queues: Table, step: int, dirty: Ints, n_dirty: int) -> int:
    """Apply pauses and resumes that reach the upstream end; returns the number of NICs to share again."""
    for i in range(ingresses.size):
        port = ingresses[i]
        if port.change_at > step:
            continue
        port.change_at = NEVER
        if port.nic >= 0:
            nics[port.nic].paused = port.paused
            n_dirty = share_later(nics, port.nic, dirty, n_dirty)
        else:
            queues[port.queue].paused = port.paused
            queues[port.queue].light_rate = -1.0 if port.paused else LIGHT * queues[port.queue].rate
    return n_dirty


@inlined
def send_probes(tables: Tables, instant: int, block: int, counts: Ints) -> None:
    """Full packets that would cross the fabric now, each along the path of a random flow."""
    probed, queues = tables.probed, tables.queues
    for k in range(PROBES):
        path = tables.drawn[instant, k]
        first, end = probed.offset[path], probed.offset[path + 1]
        slowdown = 1.0
        for hop in range(first, end):
            slowdown += queues[probed.queue[hop]].backlog * probed.weight[hop]
        counts[block, end - first - 1, slowdown_bin(slowdown)] += 1


@inlined
def end_block(tables: Tables, totals: Floats, by_block: Floats, block: int, step: int) -> None:
    """Note the totals up to the begin of ``step``, where a block of the window ends."""
    offered, delivered = 0.0, 0.0
    for i in range(tables.entries.size):
        entry = tables.entries[i]
        offered += entry.total + entry.rate * (step - entry.since)
    for q in range(tables.queues.size):
        if tables.queues[q].is_last:
            delivered += tables.queues[q].sent_sum
    by_block[block, OFFERED] = offered
    by_block[block, DELIVERED] = delivered
    by_block[block, LOST] = totals[LOST]
    by_block[block, PAUSED] = totals[PAUSED]


@kernel
def replay(
    tables: Tables,
    params: Params,
    kmin: float,
    kmax: float,
    pmax: float,
    seed: int,
    work: Work,
    histogram: Ints,
    totals: Floats,
    series: Floats,
    series_every: int,
) -> int:
    """Run one candidate; returns 0, or 1 if a depth left the finite numbers.

    Writes ``tables.flows.completed`` (steps, NaN if the last byte did not arrive) and ``sent``,
    ``tables.queues.depth_sum``, ``histogram`` (monitored depths, one sample a step of the window),
    ``totals`` and ``work.by_block`` (see ``layout``), ``work.probes`` and, every ``series_every`` steps if
    that is above 0, ``series[monitored, sample]``.
    """
    flows, entries, nics, inlets = tables.flows, tables.entries, tables.nics, tables.inlets
    suffixes, queues, feeders = tables.suffixes, tables.queues, tables.feeders
    ingresses, switches = tables.ingresses, tables.switches
    slots, segments, wheel = work.slots, work.segments, work.wheel
    arrived, onward, marks = work.arrived, work.onward, work.marks
    departed, resolved = work.departed, work.resolved
    unarmed, free, dirty, logs = work.unarmed, work.free, work.dirty, work.logs
    n_queues = queues.size
    losses = 0 if tables.pfc else resolved.shape[1]
    reset(tables, work)
    n_free = free.size
    for i in range(n_free):
        free[i] = n_free - 1 - i
    n_unarmed = 0
    n_dirty = 0
    next_flow = 0
    any_change = False
    n_empty = 0
    peak = 0.0
    block = 0
    last_block = work.by_block.shape[0] - 1
    for step in range(tables.n_steps):
        while block < last_block and tables.block_ends[block] <= step:
            end_block(tables, totals, work.by_block, block, step)
            block += 1
        if tables.pfc and step % LOG_STEPS == 0:
            log_feeders(feeders, entries, logs, step)
        if any_change:
            n_dirty = apply_pauses(ingresses, nics, queues, step, dirty, n_dirty)
        # Flows that start in this step share their NIC from its beginning; the bytes before their start are
        # taken back as a negative burst.
        n_before = n_unarmed
        while next_flow < flows.size and flows[next_flow].start_step <= step:
            n_free -= 1
            index = free[n_free]
            start_flow(index, next_flow, tables, slots, seed, step)
            unarmed[n_unarmed] = index
            n_unarmed += 1
            next_flow += 1
            n_dirty = share_later(nics, entries[slots[index].entry].nic, dirty, n_dirty)
        if n_unarmed > n_before:
            for i in range(n_dirty):
                nic = nics[dirty[i]]
                nic.dirty = 0
                capacity = nic_capacity(nic, queues, tables.ack_ratio)
                share_nic(slots, segments, wheel, entries, inlets, nic, capacity, step, step)
            n_dirty = 0
            for i in range(n_before, n_unarmed):
                slot = slots[unarmed[i]]
                early = slot.sending * flows[slot.flow].start_fraction
                slot.remaining += early
                entry = entries[slot.entry]
                inlets[entry.inlet].burst -= early
                entry.total -= early
                if nics[entry.nic].limiting:
                    give_early(tables, slots, wheel, slot, step)
                schedule(slots, wheel, unarmed[i], step)
        # Ticks and last bytes.
        index = wheel[step & (wheel.size - 1)]
        wheel[step & (wheel.size - 1)] = -1
        while index >= 0:
            slot = slots[index]
            following = slot.wheel_after
            slot.next_at = NEVER
            entry = entries[slot.entry]
            nic = nics[entry.nic]
            elapsed = slot.sending * (step - slot.since)
            ends = slot.sending > 0.0 and slot.remaining - elapsed <= slot.sending
            if ends and losses and step > 0:
                # Before it may end, it sends lost bytes again.
                unmarked_hazard(
                    slots, segments, index, resolved[step - 1, slot.row] - slot.delay, marks, losses,
                    tables.packet_bytes,
                )  # fmt: skip
                ends = slot.remaining - elapsed <= slot.sending
            if ends:
                end_flow(index, slot.remaining - elapsed, step, tables, slots)
                if slot.armed == 0:
                    i = 0
                    while unarmed[i] != index:
                        i += 1
                    n_unarmed -= 1
                    unarmed[i] = unarmed[n_unarmed]
                free[n_free] = index
                n_free += 1
                shared_out = nic.limiting
            else:
                before = slot.rate
                if slot.counted - elapsed <= 0.0:
                    slot.counted += params.byte_counter
                    increase(slot, params, nic.rate)
                    slot.byte_stage += 1
                tick(
                    slots, segments, index, marks, losses, resolved, step, params, nic.rate,
                    tables.packet_bytes, seed
                )  # fmt: skip
                shared_out = False
                if slot.rate != before:
                    nic.wanted += slot.rate - before
                    shared_out = nic.limiting or nic.wanted > nic_capacity(nic, queues, tables.ack_ratio)
                    if not shared_out:
                        nic.sending = nic.wanted
                        rate = paced(slot.rate, nic.wanted, nic.rate)
                        send(slots, segments, index, rate, entries, inlets, step)
                schedule(slots, wheel, index, step + 1)
            if shared_out:
                n_dirty = share_later(nics, entry.nic, dirty, n_dirty)
            index = following
        # First marks.
        i = 0
        while i < n_unarmed:
            index = unarmed[i]
            slot = slots[index]
            seen = step - slot.return_delay
            arrival = resolved[seen, slot.row] if seen >= 0 else 0.0
            slot.patience -= unmarked_hazard(
                slots, segments, index, arrival - slot.delay, marks, losses, tables.packet_bytes
            )
            if slot.patience <= 0.0:
                arm(slot, step, params)
                schedule(slots, wheel, index, step + 1)
                n_unarmed -= 1
                unarmed[i] = unarmed[n_unarmed]
            else:
                i += 1
        if step % ACK_STEPS == 0:
            n_dirty = note_acknowledgements(nics, queues, tables.ack_ratio, dirty, n_dirty)
        # NICs whose flows changed, or that were paused or resumed.
        for i in range(n_dirty):
            nic = nics[dirty[i]]
            nic.dirty = 0
            capacity = nic_capacity(nic, queues, tables.ack_ratio)
            share_nic(slots, segments, wheel, entries, inlets, nic, capacity, step, step + 1)
            if nic.spare > 0.0:
                spread(tables, slots, wheel, nic, nic.spare, flows.size, step + 1)
                nic.spare = 0.0
        n_dirty = 0
        # What the NICs send arrives a cable later.
        for i in range(inlets.size):
            inlet = inlets[i]
            sent = inlet.rate + inlet.burst
            inlet.burst = 0.0
            suffix = suffixes[inlet.suffix]
            arrived[step + inlet.delay, suffix.queue] += sent
            if suffix.onward >= 0:
                onward[step + inlet.delay, suffix.row - n_queues] += sent
        for s in range(switches.size):
            switches[s].used_before = switches[s].used
            switches[s].used = 0.0
        arrived[step + work.horizon] = 0.0
        in_window = tables.window_first <= step < tables.window_last
        for q in range(n_queues):
            queue = queues[q]
            incoming = arrived[step, q]
            if losses:
                marks[step + 1, losses + q] = marks[step, losses + q]
            if queue.backlog == 0.0 and 0.0 <= incoming <= queue.light_rate:
                pass_through(
                    queue, q, step, incoming, suffixes, arrived, onward, marks, departed, feeders, n_queues
                )
                resolved[step, q] = step + 1
                if queue.ending_first >= 0:
                    last_bytes(queues, q, step, flows, suffixes, arrived)
                if in_window:
                    queue.sent_sum += incoming
                    n_empty += queue.monitored > 0
                continue
            capacity = queue.rate
            if queue.reverse_queue >= 0:
                capacity -= tables.ack_ratio * queues[queue.reverse_queue].sent
            elif queue.reverse_nic >= 0:
                capacity -= tables.ack_ratio * nics[queue.reverse_nic].sending
            if queue.paused:
                capacity = 0.0
            incoming = max(incoming, 0.0)
            incoming = max(incoming + phase_jitter(queue, incoming, step, q, seed, tables.packet_bytes), 0.0)
            arrived[step, q] = incoming
            if losses:
                room = max(tables.buffer_bytes - switches[queue.switch].used_before, 0.0) + capacity
                if incoming > room:
                    share = drop(
                        queue, q, step, incoming, room, flows, suffixes, arrived, onward, n_queues, seed
                    )
                    totals[LOST] += incoming * share
                    marks[step + 1, losses + q] = marks[step, losses + q] + share
                    incoming = room
            p = serve(
                queue, q, step, incoming, capacity, kmin, kmax, pmax,
                suffixes, arrived, onward, marks, departed, feeders, n_queues,
            )  # fmt: skip
            resolved[step, q] = queue.head + part_gone(queue, q, arrived, marks)
            if queue.ending_first >= 0:
                last_bytes(queues, q, step, flows, suffixes, arrived)
            depth = queue.backlog
            if not depth < MOST_BYTES:
                return 1
            if in_window:
                queue.sent_sum += queue.sent
                queue.marked_sum += p * queue.sent
                if depth == 0.0:
                    n_empty += queue.monitored > 0
                elif queue.monitored > 0:
                    queue.depth_sum += depth
                    peak = max(peak, depth)
                    if depth < FINE_BYTES * FINE_BINS:
                        histogram[int(depth / FINE_BYTES)] += 1
                    else:
                        histogram[FINE_BINS + min(int(depth / COARSE_BYTES), COARSE_BINS - 1)] += 1
            if depth > 0.0:
                switches[queue.switch].used += depth
            if series_every > 0 and queue.monitored > 0 and step % series_every == 0:
                series[queue.monitored - 1, step // series_every] = depth
        onward[step + work.horizon] = 0.0
        if in_window and (step - tables.window_first) % tables.probe_every == 0:
            send_probes(tables, (step - tables.window_first) // tables.probe_every, block, work.probes)
        for i in range(tables.resolve_order.size):
            s = tables.resolve_order[i]
            resolve_suffix(suffixes, s, queues, step, marks, losses, departed, resolved)
        if tables.pfc:
            any_change = False
            for s in range(switches.size):
                if switches[s].paused > 0 or switches[s].used >= switches[s].calm:
                    hold(queues, feeders, entries, ingresses, arrived, logs, s, step)
                    decide(ingresses, switches, s, step, tables.reserve_bytes, tables.resume_bytes)
                    totals[PAUSED] += switches[s].paused
                    any_change = True
    end_block(tables, totals, work.by_block, last_block, tables.n_steps)
    for i in range(nics.size):
        index = nics[i].first_slot
        while index >= 0:
            slot = slots[index]
            flows[slot.flow].sent = slot.sent + slot.sending * (tables.n_steps - slot.since)
            index = slot.nic_after
    histogram[0] += n_empty
    totals[PEAK] = peak
    for q in range(n_queues):
        totals[SENT] += queues[q].sent_sum
        totals[MARKED] += queues[q].marked_sum
        if queues[q].is_last:
            totals[DELIVERED] += queues[q].sent_sum
    return 0

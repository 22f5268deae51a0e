"""The replay kernel: one candidate, from the first flow to the end. Four ideas make it fast.

*Events, not samples.* A flow is processed only when its rate may change: at its cut, alpha and increase
ticks, when its NIC's share changes, when it ends. In between its rate is constant; a timing wheel holds the
next events.

*Marks by arrival step.* A queue is FIFO, so bytes that arrive in step j leave in later steps, marked by the
depth found then. The queue keeps M[j], the running sum over arrival steps of the mean marking probability of
each. A flow that sent n bytes a step over [i, j) had n (M[j] − M[i]) of them marked: two look-ups a queue of
its path, enough for a reaction point to decide whether a CNP came since its last tick.

*Streams.* Flows with the same rest of path are one stream from where they meet.

*Only what happens.* Queues without bytes, inlets without flows and streams without parcels cost nothing.
"""

from __future__ import annotations

import numpy as np

from twin.jit import inlined, kernel
from twin.probe._draws import PROBES, slowdown_bin
from twin.replay._background import begin_bin, end_bin
from twin.replay._cells import begin_page, release_read, rest
from twin.replay._flows import SENDS_PACKETS, increase, look_for_mark, pace, schedule, tick, unmarked_hazard
from twin.replay._nics import (
    end_flow,
    flowing,
    give_early,
    leave,
    nic_capacity,
    note_acknowledgements,
    send,
    send_ahead,
    send_all,
    share_later,
    share_nic,
    spread,
    start_flow,
    stop_flowing,
)
from twin.replay._pfc import apply_pauses, decide, hold, log_feeders
from twin.replay._queues import LIGHT, last_bytes, run_queue
from twin.replay.layout import (
    BIN_STEPS,
    COARSE_BINS,
    COARSE_BYTES,
    DEEP_BINS,
    DEEP_BYTES,
    DELIVERED,
    FINE_BINS,
    FINE_BYTES,
    LOG_STEPS,
    LOST,
    MARKED,
    NEVER,
    OFFERED,
    PAGE,
    PAUSED,
    PEAK,
    SENT,
    Floats,
    Ints,
    Table,
    Tables,
    Work,
)

ACK_STEPS = 4  # how often a NIC follows the acknowledgements
MOST_BYTES = 1e18  # a deeper queue, or NaN, ends the run as diverged
DONE, DIVERGED, SHORT = range(3)


@inlined
def reset(tables: Tables, work: Work) -> None:
    """Reset every *run* column, and empty the pools."""
    work.wheel[:] = -1
    work.pages[:] = -1
    pool = work.pool[0]
    pool.n_pages = 0
    pool.n_free_pages = 0
    pool.released = 0
    pool.n_parcels = 0
    pool.free_parcel = -1
    pool.n_busy = 0
    pool.n_sending = 0
    pool.n_changes = 0
    pool.n_due = 0
    pool.short = 0
    for i in range(tables.flows.size):
        tables.flows[i].began = np.nan
        tables.flows[i].completed = np.nan
        tables.flows[i].sent = -1.0
    for i in range(tables.barriers.size):
        tables.barriers[i].left = tables.barriers[i].rows
        tables.barriers[i].opened = 0.0
    for i in range(tables.entries.size):
        entry = tables.entries[i]
        entry.rate = 0.0
        entry.total = 0.0
        entry.since = 0
        entry.noted = 0.0
    for i in range(tables.nics.size):
        nic = tables.nics[i]
        nic.first_slot = -1
        nic.paused = 0
        nic.dirty = 0
        nic.wanted = 0.0
        nic.shared = nic.rate
        nic.fair = np.inf
        nic.sending = 0.0
        nic.limiting = 0
        nic.spare = -1.0
        nic.others = 0.0
        nic.n_others = 0
    for i in range(tables.inlets.size):
        inlet = tables.inlets[i]
        inlet.rate = 0.0
        inlet.burst = 0.0
        inlet.flows = 0
        inlet.listed = 0
    for i in range(tables.suffixes.size):
        tables.suffixes[i].total = 0.0
        tables.suffixes[i].parcel_at = -1
    for i in range(tables.queues.size):
        queue = tables.queues[i]
        queue.backlog = 0.0
        queue.left = 0.0
        queue.marks = 0.0
        queue.marks_sum = 0.0
        queue.lost_sum = 0.0
        queue.sent = 0.0
        queue.jitter = 0.0
        queue.flows = 0
        queue.head = 0
        queue.paused = 0
        queue.busy = 0
        queue.marked_at = -1
        queue.until = -1
        queue.light_rate = LIGHT * queue.rate
        queue.ending_first = -1
        queue.ending_last = -1
        queue.depth_sum = 0.0
        queue.sent_sum = 0.0
        queue.marked_sum = 0.0
        queue.others = 0.0
    for i in range(tables.ingresses.size):
        port = tables.ingresses[i]
        port.held = 0.0
        port.paused = 0
        port.change_at = NEVER
    for i in range(tables.switches.size):
        tables.switches[i].used = 0.0
        tables.switches[i].paused = 0
    work.probes[:] = 0
    work.recorded[:] = 0.0
    work.recorded_flows[:] = 0.0


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
def depth_bin(depth: float) -> int:
    """The bin of the depth histogram."""
    if depth < FINE_BYTES * FINE_BINS:
        return int(depth / FINE_BYTES)
    if depth < COARSE_BYTES * COARSE_BINS:
        return FINE_BINS + int(depth / COARSE_BYTES)
    return FINE_BINS + COARSE_BINS + min(int(depth / DEEP_BYTES), DEEP_BINS - 1)


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
    params: Table,
    seed: int,
    work: Work,
    histogram: Ints,
    totals: Floats,
    series: Floats,
    series_every: int,
) -> int:
    """Run one candidate; returns ``DONE``, ``DIVERGED`` if a depth left the finite numbers, or ``SHORT``.

    ``params`` are rows of what NICs run. ``SHORT``: a pool of ``work`` has no room left, nothing written
    counts. Writes ``tables.flows.completed`` (steps, NaN if the last byte did not arrive) and ``sent``,
    ``tables.queues.depth_sum``, ``histogram`` (monitored depths, one sample a step of the window), ``totals``
    and ``work.by_block`` (see ``layout``), ``work.probes`` and, every ``series_every`` steps if that is above
    0, ``series[monitored, sample]``.
    """
    flows, entries, nics, inlets = tables.flows, tables.entries, tables.nics, tables.inlets
    queues, switches = tables.queues, tables.switches
    slots, segments, wheel = work.slots, work.segments, work.wheel
    free, dirty = work.free, work.dirty
    pool = work.pool[0]
    reset(tables, work)
    n_free = free.size
    for i in range(n_free):
        free[i] = n_free - 1 - i
    n_dirty = 0
    next_flow = 0
    block = 0
    last_block = work.by_block.shape[0] - 1
    for step in range(tables.n_steps):
        while block < last_block and tables.block_ends[block] <= step:
            end_block(tables, totals, work.by_block, block, step)
            block += 1
        if step & (PAGE - 1) == 0:
            begin_page(work, queues, step)
            release_read(tables, work, step)
        if tables.pfc and step % LOG_STEPS == 0:
            log_feeders(tables, work, step)
        if step % BIN_STEPS == 0:
            if tables.background.size:
                n_dirty = begin_bin(tables, work, step, n_dirty)
            if work.recorded.size and step > 0:
                end_bin(tables, work, step)
        n_dirty = apply_pauses(tables, work, step, n_dirty)
        # Flows that start in this step share their NIC from its beginning; the bytes before their start are
        # taken back as a negative burst.
        first_free = n_free
        while next_flow < flows.size and flows[next_flow].start < step + 1:
            if flows[next_flow].barrier < 0:
                flows[next_flow].began = flows[next_flow].start
                n_free -= 1
                start_flow(free[n_free], next_flow, tables, work, params, seed, step)
                n_dirty = share_later(nics, entries[flows[next_flow].entry].nic, dirty, n_dirty)
            next_flow += 1
        if pool.n_due > 0:
            kept = 0
            for i in range(pool.n_due):
                f = work.due[i]
                if flows[f].began < step + 1:
                    n_free -= 1
                    start_flow(free[n_free], f, tables, work, params, seed, step)
                    n_dirty = share_later(nics, entries[flows[f].entry].nic, dirty, n_dirty)
                else:
                    work.due[kept] = f
                    kept += 1
            pool.n_due = kept
        if n_free < first_free:
            for i in range(n_dirty):
                nic = nics[dirty[i]]
                nic.dirty = 0
                capacity = nic_capacity(nic, queues, tables.ack_ratio)
                share_nic(slots, segments, wheel, entries, inlets, nic, capacity, step, 0, step)
            n_dirty = 0
            for i in range(first_free - n_free):
                index = free[first_free - 1 - i]
                slot = slots[index]
                early = slot.sending * (flows[slot.flow].began - step)
                slot.remaining += early
                entry = entries[slot.entry]
                inlets[entry.inlet].burst -= early
                entry.total -= early
                if nics[entry.nic].limiting:
                    give_early(tables, slots, wheel, slot, step)
                schedule(slots, wheel, index, step)
        # Ticks and last bytes.
        index = wheel[step & (wheel.size - 1)]
        wheel[step & (wheel.size - 1)] = -1
        while index >= 0:
            slot = slots[index]
            following = slot.wheel_after
            slot.next_at = NEVER
            entry = entries[slot.entry]
            nic = nics[entry.nic]
            own = params[nic.params]
            elapsed = slot.sending * (step - slot.since)
            leaves = slot.waits > 0 and slot.packet_at < step + 1 and nic.paused == 0
            last = tables.packet_bytes if leaves and slot.waits == SENDS_PACKETS else slot.sending
            ends = last > 0.0 and slot.remaining - elapsed <= last
            if ends and not tables.pfc:
                # Before it may end, it sends lost bytes again.
                unmarked_hazard(tables, work, index, float(step))
                ends = slot.remaining - elapsed <= last
            if ends:
                end_flow(index, slot.remaining - elapsed, step, tables, work)
                free[n_free] = index
                n_free += 1
                shared_out = nic.limiting
            else:
                before = pace(slot)
                ahead = 0.0
                # A packet is followed at the rate that it leaves with.
                ticks_first = leaves and min(slot.cut_at, slot.increase_at) < slot.packet_at
                if leaves and not ticks_first:
                    ahead = leave(tables, work, index, step)
                if slot.counted - elapsed <= 0.0:
                    slot.counted += own.byte_counter
                    increase(slot, own, nic.rate)
                    slot.byte_stage += 1
                if slot.armed:
                    ahead += tick(tables, work, index, step, own, nic.rate, seed)
                else:
                    look_for_mark(tables, work, index, step, own)
                if ticks_first:
                    ahead += leave(tables, work, index, step)
                shared_out = False
                now = pace(slot)
                if now != before:
                    nic.wanted += now - before
                    shared_out = nic.limiting or nic.wanted > nic_capacity(nic, queues, tables.ack_ratio)
                    if not shared_out:
                        nic.sending = nic.wanted
                    if slot.waits == SENDS_PACKETS:
                        if slot.sending > 0.0:
                            stop_flowing(tables, work, index, ahead, step)
                    elif not shared_out:
                        sending = flowing(slot, nic.wanted, nic.rate)
                        send(slots, segments, index, sending, entries, inlets, step)
                        send_ahead(tables, slot, ahead)
                schedule(slots, wheel, index, step + 1)
            if shared_out:
                n_dirty = share_later(nics, entry.nic, dirty, n_dirty)
            index = following
        if step % ACK_STEPS == 0:
            n_dirty = note_acknowledgements(nics, queues, tables.ack_ratio, dirty, n_dirty)
        # NICs whose flows changed, or that were paused or resumed.
        for i in range(n_dirty):
            nic = nics[dirty[i]]
            nic.dirty = 0
            capacity = nic_capacity(nic, queues, tables.ack_ratio)
            # Of a step in which a flow ends its share is taken: by its last bytes, and the rest is spread.
            later = int(nic.spare >= 0.0 and nic.paused == 0)
            share_nic(slots, segments, wheel, entries, inlets, nic, capacity, step, later, step + 1)
            if later:
                spread(tables, slots, wheel, nic, nic.spare, flows.size, step + 1)
            nic.spare = -1.0
        n_dirty = 0
        send_all(tables, work, step)
        for s in range(switches.size):
            switches[s].used_before = switches[s].used
            switches[s].used = 0.0
        in_window = tables.window_first <= step < tables.window_last
        n_busy = pool.n_busy
        kept = 0
        for i in range(n_busy):
            q = work.busy[i]
            queue = queues[q]
            p = run_queue(tables, work, q, step, seed, totals)
            depth = queue.backlog
            if not depth < MOST_BYTES:
                return DIVERGED
            if in_window:
                queue.sent_sum += queue.sent
                queue.marked_sum += p * queue.sent
            if depth > 0.0:
                switches[queue.switch].used += depth
                if queue.monitored > 0:
                    if in_window:
                        queue.depth_sum += depth
                        totals[PEAK] = max(totals[PEAK], depth)
                        histogram[depth_bin(depth)] += 1
                    if series_every > 0 and step % series_every == 0:
                        series[queue.monitored - 1, step // series_every] = depth
            if queue.ending_first >= 0:
                last_bytes(tables, work, q, step)
            if queue.until > step or queue.backlog > 0.0 or queue.ending_first >= 0 or queue.sent > 0.0:
                work.busy[kept] = q
                kept += 1
            else:
                rest(work, queue, q, step)
        for i in range(n_busy, pool.n_busy):
            work.busy[kept] = work.busy[i]
            kept += 1
        pool.n_busy = kept
        if pool.short:
            return SHORT
        if in_window and (step - tables.window_first) % tables.probe_every == 0:
            send_probes(tables, (step - tables.window_first) // tables.probe_every, block, work.probes)
        if tables.pfc:
            for s in range(switches.size):
                if switches[s].paused > 0 or switches[s].used >= switches[s].calm:
                    hold(tables, work, s, step)
                    decide(tables, work, s, step)
                    totals[PAUSED] += switches[s].paused
    end_block(tables, totals, work.by_block, last_block, tables.n_steps)
    if work.recorded.size:
        end_bin(tables, work, tables.n_steps)
    for i in range(nics.size):
        index = nics[i].first_slot
        while index >= 0:
            slot = slots[index]
            flows[slot.flow].sent = slot.sent + slot.sending * (tables.n_steps - slot.since)
            index = slot.nic_after
    n_monitored = 0
    for q in range(queues.size):
        n_monitored += queues[q].monitored > 0
        if queues[q].background < 0:
            totals[SENT] += queues[q].sent_sum
            totals[MARKED] += queues[q].marked_sum
        if queues[q].is_last:
            totals[DELIVERED] += queues[q].sent_sum
    n_deep = histogram.sum()  # only queues in which bytes waited were counted
    histogram[0] += n_monitored * (tables.window_last - tables.window_first) - n_deep
    return DONE

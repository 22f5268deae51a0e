"""NICs: which flows they serve, how they share their rate among them, and what they put on the wire."""

from __future__ import annotations

import math

import numpy as np

from twin.jit import inlined
from twin.replay._cells import arrive
from twin.replay._flows import SENDS_PACKETS, lone, pace, remember, schedule, unmarked_hazard
from twin.replay._queues import append_ending
from twin.replay.layout import NEVER, Ints, Record, Table, Tables, Work, uniform

ACK_SLACK = 0.01  # by what share of its rate a NIC follows the acknowledgements


@inlined
def start_flow(index: int, f: int, tables: Tables, work: Work, params: Table, seed: int, step: int) -> None:
    """Give flow ``f`` a slot at the head of its NIC's list."""
    flow = tables.flows[f]
    entry = tables.entries[flow.entry]
    slot = work.slots[index]
    slot.flow = f
    slot.entry = flow.entry
    slot.delay = entry.delay
    slot.return_delay = entry.return_delay
    slot.rate = flow.rate
    slot.target = flow.rate
    slot.packet_at = flow.began
    slot.waits = 0
    if lone(flow.rate, tables.packet_bytes):
        slot.waits, slot.held = SENDS_PACKETS, flow.rate
    slot.packets = 0.0
    slot.marked = 0.0
    slot.alpha = 1.0
    slot.sending = 0.0
    slot.remaining = flow.bytes
    slot.sent = 0.0
    slot.counted = np.inf
    slot.patience = -math.log1p(-uniform(seed, f, 0))
    slot.since = step
    slot.read = step
    # Looks of flows that start at once fall on different steps.
    slot.cut_at = step + 1 + f % params[tables.nics[entry.nic].params].look_steps
    slot.alpha_at = NEVER
    slot.increase_at = NEVER
    slot.next_at = NEVER
    slot.draws = 1
    slot.segment_first = 0
    slot.segment_end = 0
    slot.timer_stage = 0
    slot.byte_stage = 0
    slot.armed = 0
    slot.cut_cnp = 0
    slot.alpha_cnp = 0
    for hop in range(work.reads.shape[1]):
        work.reads[index, hop].position = 0.0
        work.reads[index, hop].marks = 0.0
        work.reads[index, hop].lost = 0.0
    slot.asked = step
    unmarked_hazard(tables, work, index, slot.asked)  # what left by now is not of this flow
    nic = tables.nics[entry.nic]
    slot.nic_before = -1
    slot.nic_after = nic.first_slot
    if nic.first_slot >= 0:
        work.slots[nic.first_slot].nic_before = index
    nic.first_slot = index
    count_flow(tables, entry.suffix, 1)
    inlet = tables.inlets[entry.inlet]
    inlet.flows += 1
    if inlet.listed == 0:
        inlet.listed = 1
        work.sending[work.pool[0].n_sending] = entry.inlet
        work.pool[0].n_sending += 1


@inlined
def end_flow(index: int, left: float, step: int, tables: Tables, work: Work) -> None:
    """The last ``left`` bytes of a flow go out in this step; it leaves its NIC."""
    slots = work.slots
    slot = slots[index]
    entry = tables.entries[slot.entry]
    entry.total += entry.rate * (step - entry.since) + left
    entry.since = step
    entry.rate -= slot.sending
    inlet = tables.inlets[entry.inlet]
    inlet.rate -= slot.sending
    inlet.burst += left
    inlet.flows -= 1
    fraction = slot.packet_at - step if slot.waits == SENDS_PACKETS else left / slot.sending
    fraction = min(max(fraction, 0.0), 1.0)
    append_ending(tables, work, slot.flow, entry.suffix, step + entry.delay, fraction)
    nic = tables.nics[entry.nic]
    if slot.nic_before >= 0:
        slots[slot.nic_before].nic_after = slot.nic_after
    else:
        nic.first_slot = slot.nic_after
    if slot.nic_after >= 0:
        slots[slot.nic_after].nic_before = slot.nic_before
    nic.wanted -= pace(slot)
    if nic.limiting == 0:
        nic.sending = nic.wanted
    else:
        nic.spare = max(nic.spare, 0.0) + max(slot.sending - left, 0.0)
    count_flow(tables, entry.suffix, -1)


@inlined
def count_flow(tables: Tables, suffix: int, change: int) -> None:
    """Add ``change`` to the number of flows crossing each queue of a path."""
    while suffix >= 0:
        tables.queues[tables.suffixes[suffix].queue].flows += change
        suffix = tables.suffixes[suffix].onward


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
    if slot.sending == 0.0:  # a pause is over: what waited leaves at once
        slot.packet_at = max(slot.packet_at, float(step))
    slot.sending = sending
    remember(slot, segments, index, sending, step)


@inlined
def send_ahead(tables: Tables, slot: Record, ahead: float) -> None:
    """Add to a flow's bytes of this step what it sent at another rate in a part of it."""
    entry = tables.entries[slot.entry]
    slot.remaining -= ahead
    slot.counted -= ahead
    slot.sent += ahead
    entry.total += ahead
    tables.inlets[entry.inlet].burst += ahead


@inlined
def send_bytes(tables: Tables, work: Work, index: int, count: float, step: int) -> None:
    """Put bytes of a flow that sends packet by packet on the wire, all in this step."""
    slot = work.slots[index]
    send_ahead(tables, slot, count)
    remember(slot, work.segments, index, count, step)
    remember(slot, work.segments, index, 0.0, step + 1)


@inlined
def leave(tables: Tables, work: Work, index: int, step: int) -> float:
    """The packet that waited leaves in this step, and the present rate, or the NIC, spaces the next one.

    Returns the bytes to add where the flow goes on as a fluid of that rate from the step's begin.
    """
    slot = work.slots[index]
    at = max(slot.packet_at, float(step))
    if slot.waits == SENDS_PACKETS and lone(slot.rate, tables.packet_bytes):
        send_bytes(tables, work, index, tables.packet_bytes, step)
        slot.held = slot.rate
        fair = tables.nics[tables.entries[slot.entry].nic].fair
        slot.packet_at = at + tables.packet_bytes / min(slot.rate, fair)
        return 0.0
    slot.waits = 0
    return (slot.sending - slot.rate) * (at - step)


@inlined
def stop_flowing(tables: Tables, work: Work, index: int, last: float, step: int) -> None:
    """From this step on a flow sends packet by packet; ``last`` bytes of it still go out in this one."""
    slot = work.slots[index]
    send(work.slots, work.segments, index, 0.0, tables.entries, tables.inlets, step)
    if last < slot.remaining:
        send_bytes(tables, work, index, last, step)
    else:
        slot.packet_at = step  # they are its last, and end it in the next step


@inlined
def flowing(slot: Record, wanted: float, line_rate: float) -> float:
    """What a flow sends through its NIC as a fluid, at most."""
    return 0.0 if slot.waits == SENDS_PACKETS else paced(pace(slot), wanted, line_rate)


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
    later: int,
    earliest: int,
) -> None:
    """Max-min share of a NIC among its flows (round robin of paced queue pairs) from ``step`` on; where
    ``later`` is 1 from the step after it, so that in this one each sends what it sent.

    Flows outside the slice want what they sent, each as much.
    """
    wanted = nic.others
    n_flows = nic.n_others
    index = nic.first_slot
    while index >= 0:
        wanted += pace(slots[index])
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
            if nic.others <= fair * nic.n_others:
                left -= nic.others
            else:
                n_left += nic.n_others
            index = nic.first_slot
            while index >= 0:
                if pace(slots[index]) <= fair:
                    left -= pace(slots[index])
                else:
                    n_left += 1
                index = slots[index].nic_after
            if n_left > 0 and left > n_left * fair * (1.0 + 1e-9):
                fair = left / n_left
                settled = False
    nic.wanted = wanted
    nic.shared = capacity
    if capacity > 0.0:
        nic.fair = fair
    nic.sending = min(wanted, capacity)
    nic.limiting = wanted > capacity
    index = nic.first_slot
    while index >= 0:
        slot = slots[index]
        sending = min(flowing(slot, wanted, nic.rate), fair)
        if sending != slot.sending:
            inlets[entries[slot.entry].inlet].burst -= later * (sending - slot.sending)
            send(slots, segments, index, sending, entries, inlets, step + later)
            schedule(slots, wheel, index, earliest)
        index = slot.nic_after


@inlined
def give_early(tables: Tables, slots: Table, wheel: Ints, late: Record, step: int) -> None:
    """Give a full NIC's bytes before a flow's start in ``step`` to those that it already served.

    Without it a NIC whose flows start one after the other within a few steps would idle between.
    """
    flows = tables.flows
    nic = tables.nics[tables.entries[late.entry].nic]
    started = flows[late.flow].began - step
    idle_until = started  # of this step the NIC idles until its first flow starts
    index = nic.first_slot
    while index >= 0:
        flow = slots[index].flow
        if flow < late.flow:
            idle_until = min(idle_until, max(flows[flow].began - step, 0.0))
        index = slots[index].nic_after
    spread(tables, slots, wheel, nic, late.sending * (started - idle_until), late.flow, step)


@inlined
def spread(
    tables: Tables, slots: Table, wheel: Ints, nic: Record, extra: float, before: int, earliest: int
) -> None:
    """Let flows of a NIC that are older than flow ``before`` send ``extra`` bytes at once.

    Only those that want more than a fair share: the others' own rates hold them back, not the NIC.
    """
    n_flows = 1 + nic.n_others
    index = nic.first_slot
    while index >= 0:
        n_flows += 1
        index = slots[index].nic_after
    fair = nic.rate / n_flows
    count = 0
    index = nic.first_slot
    while index >= 0:
        count += slots[index].flow < before and pace(slots[index]) > fair
        index = slots[index].nic_after
    if nic.others > fair * nic.n_others:
        count += nic.n_others
    index = nic.first_slot
    while index >= 0:
        slot = slots[index]
        if slot.flow < before and pace(slot) > fair:
            send_ahead(tables, slot, min(extra / count, 0.5 * slot.remaining))
            schedule(slots, wheel, index, earliest)
        index = slot.nic_after


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
def send_all(tables: Tables, work: Work, step: int) -> None:
    """What the NICs send in this step arrives a cable later."""
    pool = work.pool[0]
    kept = 0
    for i in range(pool.n_sending):
        index = work.sending[i]
        inlet = tables.inlets[index]
        arrive(tables, work, inlet.suffix, step + inlet.delay, inlet.rate + inlet.burst)
        inlet.burst = 0.0
        if inlet.flows:
            work.sending[kept] = index
            kept += 1
        else:
            inlet.rate = 0.0
            inlet.listed = 0
    pool.n_sending = kept

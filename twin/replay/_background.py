"""Flows outside a slice: recorded in a run of the whole fabric, and brought to the slice's ports.

A bin is ``BIN_STEPS`` steps. What flows bring to a switch queue counts where it arrives, what they send where
it leaves their NIC.
"""

from __future__ import annotations

from twin.jit import inlined
from twin.replay._cells import wake
from twin.replay._nics import share_later
from twin.replay.layout import BIN_STEPS, Tables, Work


@inlined
def begin_bin(tables: Tables, work: Work, step: int, n_dirty: int) -> int:
    """What other flows bring from ``step`` on; returns the number of NICs to share again."""
    number = step // BIN_STEPS
    for i in range(tables.nics.size):
        nic = tables.nics[i]
        if nic.background >= 0:
            nic.others = tables.background[nic.background, number]
            nic.n_others = int(tables.background_flows[nic.background, number])
            if nic.first_slot >= 0:
                n_dirty = share_later(tables.nics, i, work.dirty, n_dirty)
            else:
                nic.wanted = nic.others
                nic.sending = nic.others
    for q in range(tables.queues.size):
        queue = tables.queues[q]
        if queue.background >= 0:
            queue.others = tables.background[queue.background, number]
            if queue.others > 0.0:
                wake(work, queue, q, step + BIN_STEPS - 1)
    return n_dirty


@inlined
def end_bin(tables: Tables, work: Work, step: int) -> None:
    """Record by group how many flows share each NIC, and what they sent in the bin that ends now."""
    number = (step - 1) // BIN_STEPS
    for i in range(tables.nics.size):
        index = tables.nics[i].first_slot
        while index >= 0:
            slot = work.slots[index]
            work.recorded_flows[tables.entries[slot.entry].group, i, number] += 1.0
            index = slot.nic_after
    for i in range(tables.entries.size):
        entry = tables.entries[i]
        sent = entry.total + entry.rate * (step - entry.since)
        work.recorded[entry.group, tables.queues.size + entry.nic, number] += sent - entry.noted
        entry.noted = sent

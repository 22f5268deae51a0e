"""Priority flow control: buffer held per ingress port, dynamic thresholds, pause and resume.

The threshold per ingress port is a share (an eighth at the NICs' rate) of (buffer − headroom − reserve −
shared use), resume 3 KB below it, as by the switches of the reference problems.
"""

from __future__ import annotations

from twin.jit import inlined
from twin.replay._cells import cell_of
from twin.replay._nics import share_later
from twin.replay._queues import LIGHT
from twin.replay.layout import LOG_STEPS, NEVER, Tables, Work


@inlined
def sent_until(tables: Tables, work: Work, f: int, position: float, step: int) -> float:
    """Bytes a feeder had sent by the (fractional) step ``position``; ``step`` is now ending."""
    if position <= 0.0:
        return 0.0
    logs = work.logs
    rows = logs.shape[0]
    k = int(position) // LOG_STEPS
    if k <= step // LOG_STEPS - rows:
        return logs[(step // LOG_STEPS + 1) % rows, f]
    begin = logs[k % rows, f]
    if (k + 1) * LOG_STEPS <= step:
        return begin + (logs[(k + 1) % rows, f] - begin) * (position - k * LOG_STEPS) / LOG_STEPS
    now = total(tables, f, step + 1)
    return begin + (now - begin) * (position - k * LOG_STEPS) / (step + 1 - k * LOG_STEPS)


@inlined
def total(tables: Tables, f: int, step: int) -> float:
    """Bytes a feeder has sent before ``step``."""
    feeder = tables.feeders[f]
    if feeder.entry < 0:
        return tables.suffixes[feeder.suffix].total
    entry = tables.entries[feeder.entry]
    return entry.total + entry.rate * (step - entry.since)


@inlined
def log_feeders(tables: Tables, work: Work, step: int) -> None:
    """Log every feeder's total; called every ``LOG_STEPS`` steps, before the step runs."""
    k = step // LOG_STEPS % work.logs.shape[0]
    for f in range(tables.feeders.size):
        work.logs[k, f] = total(tables, f, step)


@inlined
def hold(tables: Tables, work: Work, s: int, step: int) -> None:
    """Compute the bytes held by each ingress port of switch ``s`` at the end of ``step``."""
    ingresses = tables.ingresses
    switch = tables.switches[s]
    for i in range(switch.ingress_first, switch.ingress_end):
        ingresses[tables.ingresses_of[i]].held = 0.0
    for i in range(switch.queue_first, switch.queue_end):
        q = tables.queues_of[i]
        queue = tables.queues[q]
        if queue.backlog <= 0.0:
            continue
        whole = work.cells[cell_of(work, queue, q, queue.head)].arrived
        gone = queue.head + (1.0 - queue.left / whole if whole > 0.0 else 0.0)
        for f in range(queue.feeder_first, queue.feeder_end):
            feeder = tables.feeders[f]
            now = sent_until(tables, work, f, step + 1.0 - feeder.delay, step)
            inside = now - sent_until(tables, work, f, gone - feeder.delay, step)
            ingresses[feeder.ingress].held += max(inside, 0.0)


@inlined
def decide(tables: Tables, work: Work, s: int, step: int) -> None:
    """Pause or resume the ingress ports of switch ``s``, with effect upstream after a cable delay."""
    reserve = tables.reserve_bytes
    switch = tables.switches[s]
    used = 0.0
    for i in range(switch.ingress_first, switch.ingress_end):
        used += max(tables.ingresses[tables.ingresses_of[i]].held - reserve, 0.0)
    left = switch.shared - used
    for i in range(switch.ingress_first, switch.ingress_end):
        port = tables.ingresses[tables.ingresses_of[i]]
        shared = max(port.held - reserve, 0.0)
        threshold = left * port.share
        pauses = port.paused == 0 and shared > 0.0 and shared >= threshold
        resumes = port.paused == 1 and (shared == 0.0 or shared + tables.resume_bytes <= threshold)
        if pauses or resumes:
            port.paused = 1 - port.paused
            switch.paused += 1 if pauses else -1
            if port.change_at == NEVER:
                port.change_at = step + port.delay
                pool = work.pool[0]
                work.changes[pool.n_changes] = tables.ingresses_of[i]
                pool.n_changes += 1


@inlined
def apply_pauses(tables: Tables, work: Work, step: int, n_dirty: int) -> int:
    """Apply pauses and resumes that reach the upstream end; returns the number of NICs to share again."""
    pool = work.pool[0]
    kept = 0
    for i in range(pool.n_changes):
        index = work.changes[i]
        port = tables.ingresses[index]
        if port.change_at > step:
            work.changes[kept] = index
            kept += 1
            continue
        port.change_at = NEVER
        if port.nic >= 0:
            tables.nics[port.nic].paused = port.paused
            n_dirty = share_later(tables.nics, port.nic, work.dirty, n_dirty)
        else:
            queue = tables.queues[port.queue]
            queue.paused = port.paused
            queue.light_rate = -1.0 if port.paused else LIGHT * queue.rate
    pool.n_changes = kept
    return n_dirty

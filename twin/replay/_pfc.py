"""Priority flow control: buffer held per ingress port, dynamic thresholds, pause and resume.

The threshold per ingress port is a share (an eighth at the NICs' rate) of (buffer − headroom − reserve −
shared use), resume 3 KB below it, as by the switches of the reference problems.
"""

from __future__ import annotations

from twin.jit import inlined
from twin.replay.layout import LOG_STEPS, NEVER, Floats, Table


@inlined
def sent_until(feeders: Table, f: int, entries: Table, logs: Floats, position: float, step: int) -> float:
    """Bytes a feeder had sent by the (fractional) step ``position``; ``step`` is now ending."""
    if position <= 0.0:
        return 0.0
    k = int(position) // LOG_STEPS
    begin = logs[k, f]
    if (k + 1) * LOG_STEPS <= step:
        return begin + (logs[k + 1, f] - begin) * (position - k * LOG_STEPS) / LOG_STEPS
    feeder = feeders[f]
    now = feeder.total
    if feeder.entry >= 0:
        entry = entries[feeder.entry]
        now = entry.total + entry.rate * (step + 1 - entry.since)
    return begin + (now - begin) * (position - k * LOG_STEPS) / (step + 1 - k * LOG_STEPS)


@inlined
def log_feeders(feeders: Table, entries: Table, logs: Floats, step: int) -> None:
    """Log every feeder's total; called every ``LOG_STEPS`` steps, before the step runs."""
    k = step // LOG_STEPS
    for f in range(feeders.size):
        feeder = feeders[f]
        if feeder.entry >= 0:
            entry = entries[feeder.entry]
            entry.total += entry.rate * (step - entry.since)
            entry.since = step
            logs[k, f] = entry.total
        else:
            logs[k, f] = feeder.total


@inlined
def hold(
    queues: Table,
    feeders: Table,
    entries: Table,
    ingresses: Table,
    arrived: Floats,
    logs: Floats,
    s: int,
    step: int,
) -> None:
    """Compute the bytes held by each ingress port of switch ``s`` at the end of ``step``."""
    for i in range(ingresses.size):
        if ingresses[i].switch == s:
            ingresses[i].held = 0.0
    for q in range(queues.size):
        queue = queues[q]
        if queue.switch != s or queue.backlog <= 0.0:
            continue
        whole = arrived[queue.head, q]
        gone = queue.head + (1.0 - queue.left / whole if whole > 0.0 else 0.0)
        for f in range(queue.feeder_first, queue.feeder_end):
            feeder = feeders[f]
            inside = sent_until(feeders, f, entries, logs, step + 1.0 - feeder.delay, step) - sent_until(
                feeders, f, entries, logs, gone - feeder.delay, step
            )
            ingresses[feeder.ingress].held += max(inside, 0.0)


@inlined
def decide(ingresses: Table, switches: Table, s: int, step: int, reserve: float, resume: float) -> None:
    """Pause or resume the ingress ports of switch ``s``, with effect upstream after a cable delay."""
    used = 0.0
    for i in range(ingresses.size):
        if ingresses[i].switch == s:
            used += max(ingresses[i].held - reserve, 0.0)
    left = switches[s].shared - used
    for i in range(ingresses.size):
        port = ingresses[i]
        if port.switch != s:
            continue
        shared = max(port.held - reserve, 0.0)
        threshold = left * port.share
        if port.paused == 0 and shared > 0.0 and shared >= threshold:
            port.paused = 1
            switches[s].paused += 1
            if port.change_at == NEVER:
                port.change_at = step + port.delay
        elif port.paused == 1 and (shared == 0.0 or shared + resume <= threshold):
            port.paused = 0
            switches[s].paused -= 1
            if port.change_at == NEVER:
                port.change_at = step + port.delay

"""NICs, ports, loss and PFC in one step.

All quantities are packets per step, so that nothing is lost to rounding between hops. Loops are short and
touch few arrays: LLVM does not vectorise where it must prove that many arrays do not overlap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twin.fluid._arrays import (
    ARRIVED,
    CARRIED,
    CURRENT,
    DELIVERED,
    ENTERED,
    GONE,
    HELD,
    HISTOGRAM_FIRST,
    HISTOGRAM_SHIFT,
    HISTOGRAM_TOP,
    KEPT,
    KMAX,
    KMIN,
    LEFT,
    LOAD,
    LOST,
    MARK,
    MARKED,
    PASSED,
    PASSED_ON,
    PAST_LOG,
    PAST_MARK,
    PAUSE_TIME,
    PAUSED,
    PEAK,
    PMAX,
    QUEUE,
    QUEUE_SUM,
    SENDING,
    SENT,
    SHARE,
    SLOPE,
    TINY,
    W0,
    W1,
    W2,
    WAITING,
    Floats,
    Ints,
)
from twin.fluid._kernels import marking
from twin.fluid._math import kernel, log_one_minus, word_of
from twin.probe._draws import ProbePaths, slowdown_bin


@kernel
def offer(lanes: int, slots: Floats, slot: int, senders: Floats, nic: int, count: float) -> None:
    """Adds a group's demand to its NIC's load."""
    for k in range(lanes):
        wanted = count * slots[slot, CURRENT + k]
        senders[nic, LOAD + k] += wanted if slots[slot, LEFT + k] > 0.0 else 0.0


@kernel
def share_nic(lanes: int, senders: Floats, nic: int, capacity: float, reverse: int, acks: float) -> None:
    """The share of its load a NIC carries: all, its capacity less acknowledgements, or nothing while paused.

    ``acks`` is the capacity used per packet that ``reverse`` carried in the last step.
    """
    for k in range(lanes):
        room = capacity - acks * senders[reverse, CARRIED + k]
        load = senders[nic, LOAD + k]
        share = room / load if load > room else 1.0
        senders[nic, SHARE + k] = share * (1.0 - senders[nic, PAUSED + k])
        senders[nic, LOAD + k] = 0.0
    for k in range(lanes):
        senders[nic, CARRIED + k] = 0.0


@kernel
def send(
    lanes: int,
    slots: Floats,
    slot: int,
    senders: Floats,
    nic: int,
    rates: Floats,
    row: int,
    scratch: Floats,
    duration: float,
) -> None:
    """Packets a group sends in a step (trapezoid, limited to those left); its rate goes into its ring.

    Row W0 gets the packets left before, W1 the packets by rate alone.
    """
    half = 0.5 * duration
    for k in range(lanes):
        left = slots[slot, LEFT + k]
        rate = slots[slot, CURRENT + k] * senders[nic, SHARE + k]
        rate = rate if left > 0.0 else 0.0
        wanted = half * (slots[slot, SENDING + k] + rate)
        sent = left if wanted > left else wanted
        slots[slot, SENDING + k] = rate
        slots[slot, LEFT + k] = left - sent
        slots[slot, SENT + k] = sent
        scratch[W0 + k] = left
        scratch[W1 + k] = wanted
        rates[row, k] = rate


@kernel
def send_on(
    lanes: int,
    slots: Floats,
    slot: int,
    rates: Floats,
    row: int,
    duration: float,
    ports: Floats,
    port: int,
    count: float,
) -> None:
    """``send`` and its arrival at a port, for flows that never end and whose NIC carries all they offer."""
    half = 0.5 * duration
    for k in range(lanes):
        rate = slots[slot, CURRENT + k]
        ports[port, ARRIVED + k] += count * (half * (slots[slot, SENDING + k] + rate))
        slots[slot, SENDING + k] = rate
        rates[row, k] = rate


@kernel
def add_row(
    lanes: int, into: Floats, to: int, at: int, source: Floats, from_: int, row: int, factor: float
) -> None:
    """One row of an entry, times a factor, added to one of another."""
    for k in range(lanes):
        into[to, at + k] += factor * source[from_, row + k]


@kernel
def serve(
    lanes: int,
    ports: Floats,
    port: int,
    senders: Floats,
    sender: int,
    capacity: float,
    reverse: int,
    acks: float,
    scratch: Floats,
) -> None:
    """Equation (4) for one port over a step: queue + arrivals − departures.

    ``capacity`` packets leave in a step, less ``acks`` per packet that ``reverse`` carried. Row W1 holds the
    room for packets that stay (``fit``), and gets those that do not fit; W2 gets the marked departures. A
    queue at its limit drains as soon as arrivals fall below departures.
    """
    for k in range(lanes):
        room = capacity - acks * senders[reverse, CARRIED + k]
        scratch[W0 + k] = room * (1.0 - senders[sender, PAUSED + k])
    for k in range(lanes):
        work = ports[port, QUEUE + k] + ports[port, ARRIVED + k]
        served = scratch[W0 + k] if work > scratch[W0 + k] else work
        rest = work - served
        kept = scratch[W1 + k] if rest > scratch[W1 + k] else rest
        over = 1.0 / (work + TINY)
        ports[port, KEPT + k] = kept * over
        ports[port, PASSED + k] = served * over
        ports[port, ENTERED + k] += kept + served - ports[port, QUEUE + k]
        ports[port, GONE + k] += served
        ports[port, QUEUE + k] = kept
        ports[port, ARRIVED + k] = 0.0
        scratch[W0 + k] = served
        scratch[W1 + k] = rest - kept
        scratch[W2 + k] = served * ports[port, MARK + k]
    for k in range(lanes):
        senders[sender, CARRIED + k] = scratch[W0 + k]


@kernel
def serve_alone(
    lanes: int,
    ports: Floats,
    port: int,
    candidates: Floats,
    capacity: float,
    buffer: float,
    rings: Floats,
    row: int,
    tally: Floats,
    counted: float,
) -> None:
    """``serve``, ``count_step``, ``mark_port`` and ``remember`` at once, for a port that shares nothing.

    No acknowledgements, no pauses, a buffer of its own, a given delay, and paths that end behind it.
    """
    for k in range(lanes):
        work = ports[port, QUEUE + k] + ports[port, ARRIVED + k]
        served = capacity if work > capacity else work
        rest = work - served
        kept = buffer if rest > buffer else rest
        tally[DELIVERED + k] += counted * served
        tally[LOST + k] += counted * (rest - kept)
        tally[MARKED + k] += counted * (served * ports[port, MARK + k])
        ports[port, QUEUE + k] = kept
        ports[port, ARRIVED + k] = 0.0
        p = marking(
            kept, candidates[KMIN + k], candidates[SLOPE + k], candidates[PMAX + k], candidates[KMAX + k]
        )
        ports[port, MARK + k] = p
        rings[row, PAST_MARK + k] = p
        rings[row, PAST_LOG + k] = -log_one_minus(p)


@kernel
def fit(
    lanes: int, ports: Floats, port: int, use: Floats, switch: int, buffer: float, scratch: Floats
) -> None:
    """Row W1 = packets that fit a port: the switch's buffer less its other queues."""
    for k in range(lanes):
        room = buffer - (use[switch, k] - ports[port, QUEUE + k])
        scratch[W1 + k] = 0.0 if room < 0.0 else room


@kernel
def fit_all(lanes: int, buffer: float, scratch: Floats) -> None:
    """Row W1 where no other queue shares the buffer, or PFC keeps it from overflowing."""
    for k in range(lanes):
        scratch[W1 + k] = buffer


@kernel
def count_step(lanes: int, tally: Floats, scratch: Floats, last_hop: float) -> None:
    """Adds the results of ``serve`` to the tally; departures count as delivered times ``last_hop``."""
    for k in range(lanes):
        tally[DELIVERED + k] += last_hop * scratch[W0 + k]
        tally[LOST + k] += scratch[W1 + k]
        tally[MARKED + k] += scratch[W2 + k]


@kernel
def pass_on(
    lanes: int, content: Floats, at: int, source: Floats, from_: int, row: int, count: float, ports: Floats,
    port: int
) -> None:  # fmt: skip
    """Splits a group's packets at one port, mixed evenly with others, into waiting and passed on."""
    for k in range(lanes):
        content[at, WAITING + k] += count * source[from_, row + k]
    for k in range(lanes):
        here = content[at, WAITING + k]
        content[at, WAITING + k] = here * ports[port, KEPT + k]
        content[at, PASSED_ON + k] = here * ports[port, PASSED + k]


@kernel
def pause(
    lanes: int,
    senders: Floats,
    sender: int,
    links: float,
    use: Floats,
    switch: int,
    pool: float,
    share: float,
    resume: float,
    tally: Floats,
    duration: float,
) -> None:
    """PFC: a switch pauses a sender whose packets exceed its share of the free pool, until well below it."""
    per_link = 1.0 / links
    for k in range(lanes):
        free = (pool - use[switch, k]) * share
        free = 0.0 if free < 0.0 else free
        held = senders[sender, HELD + k] * per_link
        was = senders[sender, PAUSED + k]
        off = was if held > free - resume else 0.0
        off = off if held > 0.0 else 0.0
        senders[sender, PAUSED + k] = 1.0 if held > free else off
        senders[sender, HELD + k] = 0.0
    for k in range(lanes):
        tally[PAUSE_TIME + k] += links * duration * senders[sender, PAUSED + k]


@kernel
def send_probe(
    lanes: int, ports: Floats, probed: ProbePaths, path: int, block: int, scratch: Floats, probes: Ints
) -> None:
    """A full packet that would cross the fabric now."""
    first, end = probed.offset[path], probed.offset[path + 1]
    for k in range(lanes):
        scratch[W0 + k] = 1.0
    for hop in range(first, end):
        port, weight = probed.queue[hop], probed.weight[hop]
        for k in range(lanes):
            scratch[W0 + k] += ports[port, QUEUE + k] * weight
    for k in range(lanes):
        probes[k, block, end - first - 1, slowdown_bin(scratch[W0 + k])] += 1


@kernel
def observe(
    lanes: int,
    ports: Floats,
    port: int,
    tally: Floats,
    histogram: NDArray[np.int32],
    bins: NDArray[np.uint64],
    unit: float,
) -> None:
    """Adds one monitored queue to sum, peak and histogram; ``unit`` bytes a packet, ``bins`` is scratch."""
    shift, first = np.uint64(HISTOGRAM_SHIFT), np.uint64(HISTOGRAM_FIRST)
    for k in range(lanes):
        queue = ports[port, QUEUE + k]
        ports[port, QUEUE_SUM + k] += queue
        tally[PEAK + k] = queue if queue > tally[PEAK + k] else tally[PEAK + k]
        place = queue * unit + 1.0
        # NaN falls into the last bin.
        place = place if place < HISTOGRAM_TOP else HISTOGRAM_TOP
        bins[k] = (word_of(place) >> shift) - first
    for k in range(lanes):
        histogram[k, bins[k]] += 1

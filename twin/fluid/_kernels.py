"""The DCQCN delay differential equations, stepped for LANES candidates at once; floats and arrays only.

Must import nothing but numba, numpy and its neighbours here. Zhu et al., "ECN or Delay", CoNEXT 2016, figure 6
and equations (3) to (7); DCQCN, SIGCOMM 2015. Packets of one MTU on the wire, and seconds.

    q      queue of a port                     R_C, R_T  current and target rate of a sender
    p      marking probability, (3)            α         its reduction factor
    L      −log(1 − p), so (1−p)^n = e^{−nL}   R         R_C one feedback delay τ* ago
    τ      CNP interval     τ'  α timer        T         rate increase timer
    B      byte counter     F   fast recovery steps
    g      gain of α        A   R_AI, the additive step

    dq/dt   = Σ x R_C − C                                                                        (4)
    dα/dt   = (g/τ') ((1−(1−p)^{τ'R}) − α)                                                       (5)
    dR_T/dt = −(R_T−R_C)/τ · (1−(1−p)^{τR}) + A R [(1−p)^{FB} p/((1−p)^{−B}−1) + the same of TR]   (6)
    dR_C/dt = −R_C α/(2τ) · (1−(1−p)^{τR}) + (R_T−R_C)/2 · R [p/((1−p)^{−B}−1) + the same of TR]    (7)

Not in the paper: rates stay in [R_min, line rate], a NIC shares its capacity among its flows, queues drain through
the ports of a path, overflow is loss, and switches pause what sends to them (PFC).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from twin.fluid import _history as history
from twin.fluid._layout import (
    ADDITIVE,
    AIM,
    ALPHA,
    ARRIVED,
    CARRIED,
    CURRENT,
    CUT,
    DELIVERED,
    HELD,
    HISTOGRAM_BINS,
    HISTOGRAM_FIRST,
    HISTOGRAM_SHIFT,
    KEPT,
    KMAX,
    KMIN,
    LANES,
    LEFT,
    LOAD,
    LOG,
    LOST,
    MARK,
    MARKED,
    NO_MARK,
    NOT_FINITE,
    PASSED,
    PAUSE_TIME,
    PAUSED,
    PEAK,
    PMAX,
    PORT_ROWS,
    QUEUE,
    QUEUE_SUM,
    RATE_FLOOR,
    RECOVERY,
    SENDER_ROWS,
    SENDING,
    SENT,
    SHARE,
    SLOPE,
    SLOT_ROWS,
    SURE_MARK,
    TARGET,
)
from twin.fluid._math import expm1_positive, log_one_minus, split_exponent

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Sender(NamedTuple):
    """DCQCN numbers, packets and seconds; ``byte_counter`` 0 switches the byte counter off."""

    gain: float
    cnp_interval: float
    alpha_timer: float
    increase_timer: float
    byte_counter: float
    fast_recovery: int
    additive: float
    min_rate: float
    initial_alpha: float


class Groups(NamedTuple):
    """Flow groups ordered by start, one row a group; hops are switch ports in path order."""

    start: Floats  # s
    size: Floats  # packets a flow, inf for persistent
    start_rate: Floats
    line_rate: Floats
    count: Floats  # x_j
    round_trip: Floats  # s, without queues
    tail: Floats  # s, from the last packet sent to its acknowledgement, without queues
    nic: Ints  # index of the sender row
    hops: Ints  # [group, hop], −1 beyond the path
    hop_count: Ints


class Fabric(NamedTuple):
    """Senders are NICs, then switch ports; sender ``nics + e`` is port e. Capacities in packets/s."""

    nics: int
    capacity: Floats  # [sender], of one link
    links: Floats  # [sender], how many like links this row stands for
    reverse: Ints  # [sender], the sender whose data's acknowledgements this one carries, or −1
    ack_ratio: float  # wire bytes of an acknowledgement ÷ of a packet
    into: Ints  # [sender], the switch it feeds, or −1
    home: Ints  # [port], the switch it belongs to
    pool: Floats  # [switch], packets of buffer that queues share
    buffer: float  # packets of buffer of a switch
    resume: float  # packets below the threshold at which a pause ends
    pfc: bool


class Clock(NamedTuple):
    """The time grid: ``delay_steps`` 0 derives the feedback delay from path and queues."""

    step: float
    steps: int
    window_begin: int
    window_end: int
    delay_steps: int
    ring: int
    track: bool  # follow each group's packets through the ports (several hops, or PFC)


class Buffers(NamedTuple):
    """Everything the run writes; flat rows as in ``_layout``."""

    slots: Floats
    content: Floats  # [slot, hop, (waiting, passed on in the last step)] rows
    ports: Floats
    senders: Floats
    use: Floats  # [switch] rows
    rings: Floats
    rates: Floats
    tally: Floats
    scratch: Floats
    histogram: NDArray[np.int32]  # [lane, bin]
    trace: NDArray[np.float32]  # [step, monitored, lane]; no steps: none kept
    finish: Floats  # [group, lane], s


@njit(cache=True, nogil=True, fastmath={"contract"})
def mark_ports(ports: Floats, candidates: Floats, scratch: Floats, words: NDArray[np.uint64], port: int) -> None:
    """p(q) and −log(1 − p) of one port, equation (3)."""
    at = port * PORT_ROWS * LANES
    for k in range(LANES):
        q = ports[at + QUEUE * LANES + k]
        ramp = (q - candidates[KMIN * LANES + k]) * candidates[SLOPE * LANES + k]
        ramp = candidates[PMAX * LANES + k] if ramp > candidates[PMAX * LANES + k] else ramp
        p = NO_MARK if ramp < NO_MARK else ramp
        p = SURE_MARK if q > candidates[KMAX * LANES + k] else p
        ports[at + MARK * LANES + k] = p
        scratch[k] = 1.0 - p
    for k in range(LANES):
        mantissa, exponent = split_exponent(words[k])
        words[LANES + k] = mantissa
        words[2 * LANES + k] = exponent
    for k in range(LANES):
        ports[at + LOG * LANES + k] = -log_one_minus(
            ports[at + MARK * LANES + k], scratch[k], scratch[LANES + k], scratch[2 * LANES + k]
        )


@njit(cache=True, nogil=True, fastmath={"contract"})
def feedback_terms(sender: Sender, fresh: Floats, scratch: Floats) -> None:
    """The delayed factors of (5) to (7) from p, L, R (rows 0 to 2 of ``scratch``) into the four rows of ``fresh``."""
    tau, tau_prime, timer = sender.cnp_interval, sender.alpha_timer, sender.increase_timer
    for k in range(LANES):
        p = scratch[k]
        rate = scratch[2 * LANES + k]
        rate = RATE_FLOOR if rate < RATE_FLOOR else rate
        y = scratch[LANES + k] * rate
        u = expm1_positive(tau * y)
        w = expm1_positive(timer * y)
        over = 1.0 / (w * (1.0 + w))
        survive = w * over
        fresh[k] = u / (1.0 + u)
        fresh[LANES + k] = w * survive
        scratch[4 * LANES + k] = rate * p * (1.0 + w) * over
        scratch[5 * LANES + k] = survive
    if tau_prime != timer:
        for k in range(LANES):
            rate = scratch[2 * LANES + k]
            rate = RATE_FLOOR if rate < RATE_FLOOR else rate
            v = expm1_positive(tau_prime * scratch[LANES + k] * rate)
            fresh[LANES + k] = v / (1.0 + v)
    power_times(sender.fast_recovery, scratch, 5, 4, 6)
    for k in range(LANES):
        fresh[2 * LANES + k] = scratch[4 * LANES + k]
        fresh[3 * LANES + k] = scratch[6 * LANES + k]
    if sender.byte_counter > 0.0:
        counter = sender.byte_counter
        for k in range(LANES):
            rate = scratch[2 * LANES + k]
            rate = RATE_FLOOR if rate < RATE_FLOOR else rate
            v = expm1_positive(counter * scratch[LANES + k])
            over = 1.0 / (v * (1.0 + v))
            scratch[4 * LANES + k] = rate * scratch[k] * (1.0 + v) * over
            scratch[5 * LANES + k] = v * over
        power_times(sender.fast_recovery, scratch, 5, 4, 6)
        for k in range(LANES):
            fresh[2 * LANES + k] += scratch[4 * LANES + k]
            fresh[3 * LANES + k] += scratch[6 * LANES + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def power_times(power: int, scratch: Floats, base: int, factor: int, into: int) -> None:
    """Row ``into`` = row ``factor`` × row ``base`` to a whole power."""
    for k in range(LANES):
        scratch[into * LANES + k] = scratch[factor * LANES + k]
    for _ in range(power):
        for k in range(LANES):
            scratch[into * LANES + k] *= scratch[base * LANES + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def heun(sender: Sender, slots: Floats, at: int, fresh: Floats, line: float, step: float) -> None:
    """One step of α, R_T, R_C by Heun's rule; the delayed factors are those of both ends of the step.

    They depend on the past alone, so the second stage costs no exponential, and they serve the next step again.
    """
    half = 0.5 * step
    pull = sender.gain / sender.alpha_timer
    low = sender.min_rate
    drop = 1.0 / sender.cnp_interval
    for k in range(LANES):
        alpha = slots[at + ALPHA * LANES + k]
        target = slots[at + TARGET * LANES + k]
        current = slots[at + CURRENT * LANES + k]
        cut = slots[at + CUT * LANES + k] * drop
        gap = target - current
        alpha_0 = pull * (slots[at + AIM * LANES + k] - alpha)
        target_0 = sender.additive * slots[at + ADDITIVE * LANES + k] - gap * cut
        current_0 = 0.5 * (gap * slots[at + RECOVERY * LANES + k] - current * alpha * cut)
        alpha_1 = alpha + step * alpha_0
        target_1 = target + step * target_0
        target_1 = line if target_1 > line else target_1
        current_1 = current + step * current_0
        current_1 = line if current_1 > line else (low if current_1 < low else current_1)
        cut = fresh[k] * drop
        gap = target_1 - current_1
        alpha += half * (alpha_0 + pull * (fresh[LANES + k] - alpha_1))
        target += half * (target_0 + sender.additive * fresh[3 * LANES + k] - gap * cut)
        current += half * (current_0 + 0.5 * (gap * fresh[2 * LANES + k] - current_1 * alpha_1 * cut))
        slots[at + ALPHA * LANES + k] = alpha
        slots[at + TARGET * LANES + k] = line if target > line else (low if target < low else target)
        slots[at + CURRENT * LANES + k] = line if current > line else (low if current < low else current)
        slots[at + CUT * LANES + k] = fresh[k]
        slots[at + AIM * LANES + k] = fresh[LANES + k]
        slots[at + RECOVERY * LANES + k] = fresh[2 * LANES + k]
        slots[at + ADDITIVE * LANES + k] = fresh[3 * LANES + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def offer(slots: Floats, at: int, senders: Floats, nic: int, count: float) -> None:
    """Adds what a group wants to send to its NIC's load."""
    load = (nic * SENDER_ROWS + LOAD) * LANES
    for k in range(LANES):
        wanted = slots[at + CURRENT * LANES + k]
        senders[load + k] += count * wanted if slots[at + LEFT * LANES + k] > 0.0 else 0.0


@njit(cache=True, nogil=True, fastmath={"contract"})
def share_nic(senders: Floats, fabric: Fabric, step: float, nic: int) -> None:
    """The part of its load a NIC carries: all, its capacity less acknowledgements, or nothing while paused."""
    at = nic * SENDER_ROWS * LANES
    capacity = fabric.capacity[nic] * fabric.links[nic]
    reverse = fabric.reverse[nic]
    acks = fabric.ack_ratio / step if reverse >= 0 else 0.0
    data = (max(reverse, 0) * SENDER_ROWS + CARRIED) * LANES
    for k in range(LANES):
        room = capacity - acks * senders[data + k]
        load = senders[at + LOAD * LANES + k]
        share = room / load if load > room else 1.0
        senders[at + SHARE * LANES + k] = share * (1.0 - senders[at + PAUSED * LANES + k])
        senders[at + LOAD * LANES + k] = 0.0
        senders[at + CARRIED * LANES + k] = 0.0


@njit(cache=True, nogil=True, fastmath={"contract"})
def send(
    slots: Floats, at: int, senders: Floats, nic: int, rates: Floats, row: int, scratch: Floats, duration: float
) -> None:
    """What a group puts on the wire in a step (trapezoid), out of what is left; its rate goes into the ring.

    Leaves what was left before and what the rates alone would have sent in rows 0 and 1 of ``scratch``.
    """
    share = (nic * SENDER_ROWS + SHARE) * LANES
    half = 0.5 * duration
    for k in range(LANES):
        left = slots[at + LEFT * LANES + k]
        rate = slots[at + CURRENT * LANES + k] * senders[share + k]
        rate = rate if left > 0.0 else 0.0
        wanted = half * (slots[at + SENDING * LANES + k] + rate)
        sent = left if wanted > left else wanted
        slots[at + SENDING * LANES + k] = rate
        slots[at + LEFT * LANES + k] = left - sent
        slots[at + SENT * LANES + k] = sent
        scratch[k] = left
        scratch[LANES + k] = wanted
    for k in range(LANES):
        rates[row + k] = slots[at + SENDING * LANES + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def serve(
    ports: Floats, senders: Floats, use: Floats, tally: Floats, fabric: Fabric, port: int, step: float, counted: float
) -> None:
    """Equation (4) for one port over a step: what came, what left, what did not fit.

    A queue at its limit drains again as soon as less comes than leaves.
    """
    at = port * PORT_ROWS * LANES
    sender = fabric.nics + port
    paused = (sender * SENDER_ROWS + PAUSED) * LANES
    reverse = fabric.reverse[sender]
    acks = fabric.ack_ratio if reverse >= 0 else 0.0
    data = (max(reverse, 0) * SENDER_ROWS + CARRIED) * LANES
    carried = (sender * SENDER_ROWS + CARRIED) * LANES
    capacity = fabric.capacity[sender] * step
    limit = np.inf if fabric.pfc else fabric.buffer
    shared = fabric.home[port] * LANES
    for k in range(LANES):
        queue = ports[at + QUEUE * LANES + k]
        work = queue + ports[at + ARRIVED * LANES + k]
        room = (capacity - acks * senders[data + k]) * (1.0 - senders[paused + k])
        served = room if work > room else work
        fit = limit - (use[shared + k] - queue)
        fit = 0.0 if fit < 0.0 else fit
        rest = work - served
        kept = fit if rest > fit else rest
        over = 1.0 / (work + 1e-300)
        ports[at + KEPT * LANES + k] = kept * over
        ports[at + PASSED * LANES + k] = served * over
        senders[carried + k] = served
        ports[at + QUEUE * LANES + k] = kept
        ports[at + ARRIVED * LANES + k] = 0.0
        tally[LOST * LANES + k] += counted * (rest - kept)
        tally[MARKED * LANES + k] += counted * served * ports[at + MARK * LANES + k]


@njit(cache=True, nogil=True)
def remember(ports: Floats, rings: Floats, port: int, row: int) -> None:
    """A port's queue, p and L into its ring."""
    at = port * PORT_ROWS * LANES
    to = row * 3 * LANES
    for k in range(LANES):
        rings[to + k] = ports[at + QUEUE * LANES + k]
        rings[to + LANES + k] = ports[at + MARK * LANES + k]
        rings[to + 2 * LANES + k] = ports[at + LOG * LANES + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def arrive(ports: Floats, port: int, source: Floats, at: int, count: float) -> None:
    """Adds a group's packets to what a port receives in this step."""
    to = (port * PORT_ROWS + ARRIVED) * LANES
    for k in range(LANES):
        ports[to + k] += count * source[at + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def pass_on(content: Floats, at: int, source: Floats, from_: int, count: float, ports: Floats, port: int) -> None:
    """A group's packets through one port, mixed evenly with the others' there: rows waiting and passed on."""
    base = port * PORT_ROWS * LANES
    for k in range(LANES):
        here = content[at + k] + count * source[from_ + k]
        content[at + k] = here * ports[base + KEPT * LANES + k]
        content[at + LANES + k] = here * ports[base + PASSED * LANES + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_row(into: Floats, at: int, source: Floats, from_: int, factor: float) -> None:
    """into += factor × source, one row."""
    for k in range(LANES):
        into[at + k] += factor * source[from_ + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def pause(senders: Floats, use: Floats, tally: Floats, fabric: Fabric, sender: int, counted: float) -> None:
    """PFC: a switch holds a sender whose packets exceed an eighth of the pool that is free, until well below it."""
    at = sender * SENDER_ROWS * LANES
    switch = fabric.into[sender]
    pool = fabric.pool[switch]
    shared = switch * LANES
    per_link = 1.0 / fabric.links[sender]
    links = fabric.links[sender] * counted
    for k in range(LANES):
        free = (pool - use[shared + k]) * 0.125
        free = 0.0 if free < 0.0 else free
        held = senders[at + HELD * LANES + k] * per_link
        was = senders[at + PAUSED * LANES + k]
        off = 0.0 if held < free - fabric.resume or held <= 0.0 else was
        now = 1.0 if held > free else off
        senders[at + PAUSED * LANES + k] = now
        senders[at + HELD * LANES + k] = 0.0
        tally[PAUSE_TIME * LANES + k] += links * now


@njit(cache=True, nogil=True)
def finishing(
    groups: Groups, buffers: Buffers, fabric: Fabric, group: int, at: int, begun: float, step: float
) -> float:
    """Completion times of the lanes whose last packet left in this step; the fewest packets left in any other lane.

    Completion = last packet sent + the queues now ahead of it + the way there and back.
    """
    fewest = np.inf
    for k in range(LANES):
        if buffers.slots[at + LEFT * LANES + k] > 0.0:
            fewest = min(fewest, buffers.slots[at + LEFT * LANES + k])
        elif buffers.finish[group, k] == np.inf:
            part = buffers.scratch[k] / max(buffers.scratch[LANES + k], 1e-300)
            done = begun + part * step + groups.tail[group]
            for hop in range(groups.hop_count[group]):
                port = groups.hops[group, hop]
                queue = buffers.ports[(port * PORT_ROWS + QUEUE) * LANES + k]
                done += queue / fabric.capacity[fabric.nics + port]
            buffers.finish[group, k] = done
    return fewest


@njit(cache=True, nogil=True)
def observe(buffers: Buffers, words: NDArray[np.uint32], single: NDArray[np.float32], port: int, unit: float) -> None:
    """One monitored port's queue into sum, peak and histogram; ``unit`` bytes a packet."""
    at = (port * PORT_ROWS + QUEUE) * LANES
    total = (port * PORT_ROWS + QUEUE_SUM) * LANES
    for k in range(LANES):
        queue = buffers.ports[at + k]
        buffers.ports[total + k] += queue
        peak = buffers.tally[PEAK * LANES + k]
        buffers.tally[PEAK * LANES + k] = queue if queue > peak else peak
        single[k] = queue * unit + 1.0
    for k in range(LANES):
        bin_ = (words[k] >> HISTOGRAM_SHIFT) - HISTOGRAM_FIRST
        buffers.histogram[k, min(max(bin_, 0), HISTOGRAM_BINS - 1)] += 1


@njit(cache=True, nogil=True)
def admit(
    groups: Groups, sender: Sender, buffers: Buffers, fresh: Floats, mask: int, group: int, slot: int, now: int
) -> None:
    """A group begins in a slot: line rate (or what it was given), α as configured, nothing marked yet."""
    at = slot * SLOT_ROWS * LANES
    nic_share = (groups.nic[group] * SENDER_ROWS + SHARE) * LANES
    ring = (slot * (mask + 1) + (now & mask)) * LANES
    for k in range(LANES):
        rate = groups.start_rate[group]
        buffers.slots[at + ALPHA * LANES + k] = sender.initial_alpha
        buffers.slots[at + TARGET * LANES + k] = rate
        buffers.slots[at + CURRENT * LANES + k] = rate
        buffers.slots[at + SENDING * LANES + k] = rate * buffers.senders[nic_share + k]
        buffers.slots[at + LEFT * LANES + k] = groups.size[group]
        buffers.slots[at + SENT * LANES + k] = 0.0
        buffers.rates[ring + k] = rate
        buffers.scratch[k] = NO_MARK
        buffers.scratch[LANES + k] = NO_MARK
        buffers.scratch[2 * LANES + k] = rate
    feedback_terms(sender, fresh, buffers.scratch)
    for row in range(4):
        for k in range(LANES):
            buffers.slots[at + (CUT + row) * LANES + k] = fresh[row * LANES + k]


@njit(cache=True, nogil=True)
def look_back(
    groups: Groups, fabric: Fabric, clock: Clock, buffers: Buffers, group: int, slot: int, now: int, begun: int
) -> None:
    """p, L and R as the sender knows them at step ``now``: rows 0 to 2 of ``scratch``."""
    mask = clock.ring - 1
    scratch = buffers.scratch
    hops = groups.hop_count[group]
    if clock.delay_steps > 0:
        past = now - clock.delay_steps
        known = past >= begun
        for k in range(LANES):
            scratch[k] = 0.0 if known else NO_MARK
            scratch[LANES + k] = 0.0 if known else NO_MARK
        row = max(past, begun) & mask
        if known:
            for hop in range(hops):
                port_base = groups.hops[group, hop] * clock.ring
                history.read_fixed(buffers.rings, buffers.rates, scratch, port_base, slot * clock.ring, row)
        else:
            for k in range(LANES):
                scratch[2 * LANES + k] = buffers.rates[(slot * clock.ring + row) * LANES + k]
        return
    base = max(groups.round_trip[group] / clock.step, 1.0)
    longest = clock.ring - 2
    for hop in range(hops - 1, -1, -1):
        port = groups.hops[group, hop]
        per_packet = 1.0 / (fabric.capacity[fabric.nics + port] * clock.step)
        if hop == hops - 1:
            history.read_last_port(
                buffers.rings, scratch, port * clock.ring, mask, now, min(base, longest), per_packet
            )
        else:
            history.read_earlier_port(
                buffers.rings, scratch, port * clock.ring, mask, now, longest, per_packet
            )
    history.read_rate(buffers.rates, scratch, slot * clock.ring, mask, now, now - begun, longest)


@njit(cache=True, nogil=True)
def run(
    groups: Groups,
    fabric: Fabric,
    sender: Sender,
    clock: Clock,
    candidates: Floats,
    monitored: Ints,
    packet_bytes: float,
    buffers: Buffers,
) -> bool:
    """The whole run of one block of candidates; False where it ran out of slots.

    A step: senders look back and move (Heun), NICs share, ports serve what came, packets move on one hop, switches
    pause. A hop takes one step; the rest of the way is in the feedback delay, as in the paper.
    """
    step = clock.step
    mask = clock.ring - 1
    slots_total = buffers.slots.size // (SLOT_ROWS * LANES)
    most_hops = groups.hops.shape[1]
    ports_total = buffers.ports.size // (PORT_ROWS * LANES)
    senders_total = fabric.capacity.size
    group_of = np.empty(slots_total, np.int64)
    begun = np.empty(slots_total, np.int64)
    check = np.empty(slots_total, np.int64)
    sending = np.zeros(slots_total, np.bool_)
    live = np.empty(slots_total, np.int64)
    free = np.arange(slots_total - 1, -1, -1)
    live_total = 0
    free_total = slots_total
    fresh = np.empty(4 * LANES)
    words = buffers.scratch.view(np.uint64)
    single = np.empty(LANES, np.float32)
    single_words = single.view(np.uint32)
    arriving = 0
    for e in range(ports_total):
        mark_ports(buffers.ports, candidates, buffers.scratch, words, e)
        remember(buffers.ports, buffers.rings, e, e * clock.ring)
    for n in range(clock.steps):
        begin = n * step
        counted = 1.0 if clock.window_begin <= n < clock.window_end else 0.0
        while arriving < groups.start.size and groups.start[arriving] < begin + step:
            if free_total == 0:
                return False
            free_total -= 1
            slot = free[free_total]
            live[live_total] = slot
            live_total += 1
            group_of[slot] = arriving
            begun[slot] = n
            sending[slot] = True
            check[slot] = n
            admit(groups, sender, buffers, fresh, mask, arriving, slot, n)
            at = slot * most_hops * 2 * LANES
            buffers.content[at : at + most_hops * 2 * LANES] = 0.0
            arriving += 1
        for i in range(live_total):
            slot = live[i]
            if sending[slot]:
                group = group_of[slot]
                at = slot * SLOT_ROWS * LANES
                look_back(groups, fabric, clock, buffers, group, slot, n + 1, begun[slot])
                feedback_terms(sender, fresh, buffers.scratch)
                heun(sender, buffers.slots, at, fresh, groups.line_rate[group], step)
                offer(buffers.slots, at, buffers.senders, groups.nic[group], groups.count[group])
        for nic in range(fabric.nics):
            share_nic(buffers.senders, fabric, step, nic)
        for i in range(live_total):
            slot = live[i]
            group = group_of[slot]
            at = slot * SLOT_ROWS * LANES
            if sending[slot]:
                late = groups.start[group] - begin if begun[slot] == n else 0.0
                late = max(late, 0.0)
                ring = (slot * clock.ring + ((n + 1) & mask)) * LANES
                send(
                    buffers.slots, at, buffers.senders, groups.nic[group], buffers.rates, ring, buffers.scratch,
                    step - late,
                )  # fmt: skip
                if check[slot] <= n:
                    fewest = finishing(groups, buffers, fabric, group, at, begin + late, step - late)
                    if fewest < np.inf:
                        check[slot] = n + 1 + int(fewest / (groups.line_rate[group] * step))
                    elif buffers.slots[at + LEFT * LANES] == np.inf:
                        check[slot] = clock.steps
                    else:
                        sending[slot] = False
            else:
                for k in range(LANES):
                    buffers.slots[at + SENT * LANES + k] = 0.0
            arrive(buffers.ports, groups.hops[group, 0], buffers.slots, at + SENT * LANES, groups.count[group])
            carried = (groups.nic[group] * SENDER_ROWS + CARRIED) * LANES
            add_row(buffers.senders, carried, buffers.slots, at + SENT * LANES, groups.count[group])
            for hop in range(1, groups.hop_count[group]):
                came = ((slot * most_hops + hop - 1) * 2 + 1) * LANES
                arrive(buffers.ports, groups.hops[group, hop], buffers.content, came, 1.0)
        for e in range(ports_total):
            serve(buffers.ports, buffers.senders, buffers.use, buffers.tally, fabric, e, step, counted)
        buffers.use[:] = 0.0
        for e in range(ports_total):
            at = e * PORT_ROWS * LANES
            add_row(buffers.use, fabric.home[e] * LANES, buffers.ports, at + QUEUE * LANES, 1.0)
            mark_ports(buffers.ports, candidates, buffers.scratch, words, e)
            remember(buffers.ports, buffers.rings, e, e * clock.ring + ((n + 1) & mask))
            if not clock.track:
                carried = ((fabric.nics + e) * SENDER_ROWS + CARRIED) * LANES
                add_row(buffers.tally, DELIVERED * LANES, buffers.senders, carried, counted)
        if clock.track:
            for i in range(live_total):
                slot = live[i]
                group = group_of[slot]
                last = groups.hop_count[group] - 1
                for hop in range(last, -1, -1):
                    at = (slot * most_hops + hop) * 2 * LANES
                    port = groups.hops[group, hop]
                    if hop > 0:
                        pass_on(buffers.content, at, buffers.content, at - LANES, 1.0, buffers.ports, port)
                        from_ = fabric.nics + groups.hops[group, hop - 1]
                    else:
                        sent = (slot * SLOT_ROWS + SENT) * LANES
                        pass_on(buffers.content, at, buffers.slots, sent, groups.count[group], buffers.ports, port)
                        from_ = groups.nic[group]
                    if fabric.pfc:
                        add_row(buffers.senders, (from_ * SENDER_ROWS + HELD) * LANES, buffers.content, at, 1.0)
                    if hop == last:
                        add_row(buffers.tally, DELIVERED * LANES, buffers.content, at + LANES, counted)
            if fabric.pfc:
                for s in range(senders_total):
                    if fabric.into[s] >= 0:
                        pause(buffers.senders, buffers.use, buffers.tally, fabric, s, counted * step)
        if counted > 0.0:
            for m in range(monitored.size):
                observe(buffers, single_words, single, monitored[m], packet_bytes)
        if buffers.trace.shape[0] > 0:
            for m in range(monitored.size):
                at = (monitored[m] * PORT_ROWS + QUEUE) * LANES
                for k in range(LANES):
                    buffers.trace[n + 1, m, k] = buffers.ports[at + k]
        if (n & 63) == 63 or n == clock.steps - 1:
            live_total, free_total = sweep(
                clock, groups, buffers, group_of, sending, live, free, live_total, free_total, most_hops
            )
    return True


@njit(cache=True, nogil=True)
def sweep(
    clock: Clock,
    groups: Groups,
    buffers: Buffers,
    group_of: Ints,
    sending: NDArray[np.bool_],
    live: Ints,
    free: Ints,
    live_total: int,
    free_total: int,
    most_hops: int,
) -> tuple[int, int]:
    """Gives back slots whose packets have all arrived, and notes lanes that left the finite numbers."""
    kept = 0
    for i in range(live_total):
        slot = live[i]
        at = slot * SLOT_ROWS * LANES
        for k in range(LANES):
            off = abs(buffers.slots[at + ALPHA * LANES + k] - 0.5)
            total = buffers.slots[at + CURRENT * LANES + k] + buffers.slots[at + TARGET * LANES + k] + off
            buffers.tally[NOT_FINITE * LANES + k] += 0.0 * total if off < 10.0 else np.nan
        waiting = 0.0
        if clock.track:
            first = slot * most_hops * 2 * LANES
            for row in range(groups.hop_count[group_of[slot]] * 2):
                for k in range(LANES):
                    waiting = max(waiting, buffers.content[first + row * LANES + k])
        if sending[slot] or waiting > 1e-3:
            live[kept] = slot
            kept += 1
        else:
            free[free_total] = slot
            free_total += 1
    return kept, free_total

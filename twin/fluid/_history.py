"""Delayed values: ring buffers of the past of each port and sender, read at stored times or in between.

Row n of a ring holds time n·dt; its length is a power of two, so that an index wraps with a mask. Between
rows values are interpolated linearly, second order like the scheme. ``now`` is the step being computed: rows
up to now − 1 exist, so no delay is shorter than a step.
"""

from __future__ import annotations

from twin.fluid._arrays import (
    DELAY,
    ENTERED,
    GONE,
    HEAD,
    LOG,
    MARK,
    NO_MARK,
    PAST_ENTERED,
    PAST_LOG,
    PAST_MARK,
    PAST_WAIT,
    TINY,
    WAIT,
    Floats,
    L,
    P,
    R,
)
from twin.fluid._math import kernel


@kernel
def remember(lanes: int, ports: Floats, port: int, rings: Floats, row: int) -> None:
    """A port's wait, p and −log(1 − p) into its ring."""
    for k in range(lanes):
        rings[row, PAST_WAIT + k] = ports[port, WAIT + k]
        rings[row, PAST_MARK + k] = ports[port, MARK + k]
        rings[row, PAST_LOG + k] = ports[port, LOG + k]


@kernel
def head_of_line(
    lanes: int, ports: Floats, port: int, rings: Floats, base: int, mask: int, now: int, longest: int
) -> None:
    """How long packets leaving a port now have waited: since total arrivals equalled total departures of now.

    The current queue gives the wait of packets arriving now instead, far too long while it builds up.
    """
    for k in range(lanes):
        rings[base + (now & mask), PAST_ENTERED + k] = ports[port, ENTERED + k]
    for k in range(lanes):
        gone = ports[port, GONE + k]
        step = max(int(ports[port, HEAD + k]), now - longest)
        while step < now and rings[base + ((step + 1) & mask), PAST_ENTERED + k] <= gone:
            step += 1
        ports[port, HEAD + k] = step
        before = rings[base + (step & mask), PAST_ENTERED + k]
        after = rings[base + (min(step + 1, now) & mask), PAST_ENTERED + k]
        part = (gone - before) / (after - before + TINY)
        # The two sums differ by rounding.
        part = min(max(part, 0.0), 1.0)
        ports[port, WAIT + k] = now - (step + part)


@kernel
def read_port(lanes: int, scratch: Floats, rings: Floats, row: int, rates: Floats, rate_row: int) -> None:
    """p, −log(1 − p) of a path's only port and the sender's rate, at stored rows."""
    for k in range(lanes):
        scratch[P + k] = rings[row, PAST_MARK + k]
        scratch[L + k] = rings[row, PAST_LOG + k]
        scratch[R + k] = rates[rate_row, k]


@kernel
def nothing_known(lanes: int, scratch: Floats, seen: float) -> None:
    """Before the first feedback: p and −log(1 − p) at ``seen`` (0 where ports are about to be added)."""
    for k in range(lanes):
        scratch[P + k] = seen
        scratch[L + k] = seen


@kernel
def add_port(lanes: int, scratch: Floats, rings: Floats, row: int) -> None:
    """One more port of the path at a stored row: p = 1 − Π(1 − p_e), the logarithms add."""
    for k in range(lanes):
        p = scratch[P + k]
        e = rings[row, PAST_MARK + k]
        scratch[P + k] = p + e - p * e
        scratch[L + k] += rings[row, PAST_LOG + k]


@kernel
def stored_rate(lanes: int, scratch: Floats, rates: Floats, row: int) -> None:
    """The sender's rate at a stored row."""
    for k in range(lanes):
        scratch[R + k] = rates[row, k]


@kernel
def add_last_port(
    lanes: int, scratch: Floats, rings: Floats, base: int, mask: int, now: int, delay: float
) -> None:
    """The port nearest the receiver, ``delay`` steps back for every lane; its wait joins the lanes' delay.

    ``base`` is the port's first ring row.
    """
    back = min(delay, float(now))
    whole = int(back)
    part = back - whole
    near = base + ((now - whole) & mask)
    far = base + (max(now - whole - 1, 0) & mask)
    for k in range(lanes):
        p = rings[near, PAST_MARK + k]
        scratch[P + k] = p + part * (rings[far, PAST_MARK + k] - p)
        log = rings[near, PAST_LOG + k]
        scratch[L + k] = log + part * (rings[far, PAST_LOG + k] - log)
        wait = rings[near, PAST_WAIT + k]
        scratch[DELAY + k] = delay + wait + part * (rings[far, PAST_WAIT + k] - wait)


@kernel
def add_earlier_port(
    lanes: int, scratch: Floats, rings: Floats, base: int, mask: int, now: int, longest: int
) -> None:
    """A port further up the path, each lane at its own delay; its wait joins the lanes' delay."""
    limit = float(min(now, longest))
    for k in range(lanes):
        delay = scratch[DELAY + k]
        back = delay if delay < limit else limit
        whole = int(back)
        part = back - whole
        near = base + ((now - whole) & mask)
        far = base + (max(now - whole - 1, 0) & mask)
        p = scratch[P + k]
        e = rings[near, PAST_MARK + k]
        e += part * (rings[far, PAST_MARK + k] - e)
        scratch[P + k] = p + e - p * e
        log = rings[near, PAST_LOG + k]
        scratch[L + k] += log + part * (rings[far, PAST_LOG + k] - log)
        wait = rings[near, PAST_WAIT + k]
        scratch[DELAY + k] = delay + wait + part * (rings[far, PAST_WAIT + k] - wait)


@kernel
def delayed_rate(
    lanes: int, scratch: Floats, rates: Floats, base: int, mask: int, now: int, age: int, longest: int
) -> None:
    """The sender's rate each lane's delay ago, never before its start.

    Lanes without feedback yet see no mark.
    """
    limit = float(min(age, longest))
    for k in range(lanes):
        delay = scratch[DELAY + k]
        back = delay if delay < limit else limit
        whole = int(back)
        part = back - whole
        rate = rates[base + ((now - whole) & mask), k]
        before = rates[base + (max(now - whole - 1, now - age) & mask), k]
        scratch[R + k] = rate + part * (before - rate)
        early = delay > age
        scratch[P + k] = NO_MARK if early else scratch[P + k]
        scratch[L + k] = NO_MARK if early else scratch[L + k]

"""Delayed values: ring buffers of what each port and each sender did, read back at exact or in-between times.

Floats and arrays only; must import nothing but numba, numpy and the kernels' layout.

A ring is ``float64[row, LANES]`` a port or slot, its length a power of two, so that a time index wraps with a mask.
Row n holds time n·dt. Between rows values are linear, which is second order, like the scheme.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from twin.fluid._layout import HISTORY_LOG, HISTORY_MARK, HISTORY_QUEUE, LANES, NO_MARK

Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def read_fixed(rings: Floats, rates: Floats, scratch: Floats, port_base: int, slot_base: int, row: int) -> None:
    """One port's p and −log(1 − p) and the sender's rate at one stored row: rows P, L, R of ``scratch``.

    ``p`` combines with what is there already (several ports on a path): 1 − Π(1 − p_e).
    """
    at = (port_base + row) * 3 * LANES
    for k in range(LANES):
        p = scratch[k]
        e = rings[at + HISTORY_MARK * LANES + k]
        scratch[k] = p + e - p * e
        scratch[LANES + k] += rings[at + HISTORY_LOG * LANES + k]
    at = (slot_base + row) * LANES
    for k in range(LANES):
        scratch[2 * LANES + k] = rates[at + k]


@njit(cache=True, nogil=True, fastmath={"contract"})
def read_last_port(
    rings: Floats, scratch: Floats, port_base: int, mask: int, now: int, delay: float, per_packet: float
) -> None:
    """The port nearest the receiver, ``delay`` steps back for every lane; adds its wait to the lanes' delay.

    ``per_packet`` is the time a packet takes there, in steps.
    """
    back = min(delay, float(now))
    whole = int(back)
    part = back - whole
    near = (port_base + ((now - whole) & mask)) * 3 * LANES
    far = (port_base + (max(now - whole - 1, 0) & mask)) * 3 * LANES
    for k in range(LANES):
        scratch[k] = rings[near + LANES + k] + part * (rings[far + LANES + k] - rings[near + LANES + k])
        scratch[LANES + k] = rings[near + 2 * LANES + k] + part * (
            rings[far + 2 * LANES + k] - rings[near + 2 * LANES + k]
        )
        queue = rings[near + k] + part * (rings[far + k] - rings[near + k])
        scratch[3 * LANES + k] = delay + queue * per_packet


@njit(cache=True, nogil=True, fastmath={"contract"})
def read_earlier_port(
    rings: Floats, scratch: Floats, port_base: int, mask: int, now: int, longest: int, per_packet: float
) -> None:
    """A port further up the path, each lane at its own delay; adds its wait to the lanes' delay."""
    limit = float(min(now, longest))
    for k in range(LANES):
        delay = scratch[3 * LANES + k]
        back = delay if delay < limit else limit
        whole = int(back)
        part = back - whole
        near = (port_base + ((now - whole) & mask)) * 3 * LANES + k
        far = (port_base + (max(now - whole - 1, 0) & mask)) * 3 * LANES + k
        p = scratch[k]
        e = rings[near + HISTORY_MARK * LANES]
        e += part * (rings[far + HISTORY_MARK * LANES] - e)
        scratch[k] = p + e - p * e
        log = rings[near + HISTORY_LOG * LANES]
        scratch[LANES + k] += log + part * (rings[far + HISTORY_LOG * LANES] - log)
        queue = rings[near + HISTORY_QUEUE * LANES]
        scratch[3 * LANES + k] = delay + (queue + part * (rings[far + HISTORY_QUEUE * LANES] - queue)) * per_packet


@njit(cache=True, nogil=True, fastmath={"contract"})
def read_rate(
    rates: Floats, scratch: Floats, slot_base: int, mask: int, now: int, age: int, longest: int
) -> None:
    """The sender's rate each lane's delay ago, never before its start; lanes without feedback yet see no mark."""
    limit = float(min(age, longest))
    for k in range(LANES):
        delay = scratch[3 * LANES + k]
        back = delay if delay < limit else limit
        whole = int(back)
        part = back - whole
        near = (slot_base + ((now - whole) & mask)) * LANES + k
        far = (slot_base + (max(now - whole - 1, now - age) & mask)) * LANES + k
        rate = rates[near]
        scratch[2 * LANES + k] = rate + part * (rates[far] - rate)
        early = delay > age
        scratch[k] = NO_MARK if early else scratch[k]
        scratch[LANES + k] = NO_MARK if early else scratch[LANES + k]

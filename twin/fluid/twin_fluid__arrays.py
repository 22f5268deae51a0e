"""The arrays the kernels share, by subject; must import nothing but numpy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    """Flow groups ordered by start, one entry a group; hops are switch ports in path order."""

    start: Floats  # s
    size: Floats  # packets a flow, inf for persistent
    start_rate: Floats
    line_rate: Floats
    flows: Floats  # x_j
    round_trip: Floats  # s, without queues
    tail: Floats  # s, from the last packet sent to its acknowledgement, without queues
    nic: Ints  # the sender row of its NIC
    hops: Ints  # [group, hop], −1 beyond the path
    hop_count: Ints


class Fabric(NamedTuple):
    """Senders are NICs, then switch ports; sender ``nics + e`` is port e. Capacities in packets/s."""

    nics: int
    capacity: Floats  # [sender], of one link
    links: Floats  # [sender], how many like links this entry stands for
    reverse: Ints  # [sender], the sender whose data's acknowledgements this one carries, or −1
    limited: NDArray[np.bool_]  # [sender], whether a NIC may carry less than it is offered
    ack_ratio: float  # wire bytes of an acknowledgement ÷ of a packet
    into: Ints  # [sender], the switch it feeds, or −1
    home: Ints  # [port], the switch it belongs to
    pool: Floats  # [switch], packets of buffer that its queues share
    buffer: float  # packets of buffer of a switch
    shared_buffer: bool  # whether two queues of a switch share one
    resume: float  # packets below the threshold at which a pause ends
    pfc: bool


class Clock(NamedTuple):
    """The time grid: ``delay_steps`` 0 derives the feedback delay from path and queues."""

    step: float
    steps: int
    window_begin: int
    window_end: int
    delay_steps: int
    ring: int  # rows of a history, a power of two
    track: bool  # follow each group's packets through the ports (several hops, or PFC)


class Buffers(NamedTuple):
    """Everything a run writes; rows as in ``_layout``, several to an entry."""

    slots: Floats  # [slot, SLOT_ROWS · LANES]
    content: Floats  # [slot · hop, 2 · LANES]: waiting, and passed on in the last step
    ports: Floats  # [port, PORT_ROWS · LANES]
    senders: Floats  # [sender, SENDER_ROWS · LANES]
    use: Floats  # [switch, LANES]: packets waiting in it
    rings: Floats  # [port · ring, HISTORY_ROWS · LANES]
    rates: Floats  # [slot · ring, LANES]
    tally: Floats  # [TALLY_ROWS · LANES]
    scratch: Floats  # [SCRATCH_ROWS · LANES]
    histogram: NDArray[np.int32]  # [lane, bin]
    trace: Floats  # [step, monitored, lane]; no steps: none kept
    finish: Floats  # [group, lane], s

"""The kernels' arrays and the row offsets in them.

Every quantity is a *row* of ``LANES`` float64, one lane a candidate watermark; the rows of one sender, port
or flow group are adjacent. Row distances are compile-time constants, so LLVM knows that rows never overlap;
the number of lanes is a variable, or LLVM would unroll the loops instead of vectorising. A batch is cut into
blocks of ``LANES``; spare lanes repeat the last candidate, so that a candidate alone and in a batch runs
through the same instructions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES: Final = 32
VECTOR: Final = 4  # lanes used are a multiple of it

# A sender's rows (one *slot* a live flow group).
ALPHA: Final = 0  # α
TARGET: Final = 1 * LANES  # R_T
CURRENT: Final = 2 * LANES  # R_C
SENDING: Final = 3 * LANES  # what reaches the wire: R_C after the NIC's share and pauses
LEFT: Final = 4 * LANES  # packets not yet sent, inf for a persistent flow
CUT: Final = 5 * LANES  # 1 − (1−p)^{τR}
AIM: Final = 6 * LANES  # 1 − (1−p)^{τ'R}
RECOVERY: Final = 7 * LANES  # R p/((1−p)^{−B}−1) + R p/((1−p)^{−TR}−1)
ADDITIVE: Final = 8 * LANES  # the same two, times (1−p)^{FB} and (1−p)^{FTR}
SENT: Final = 9 * LANES  # packets a flow of the group sent in this step
SLOT_ROWS: Final = 10

# Scratch rows: a sender's delayed values (p, −log(1−p), R, delay in steps), then intermediate results.
P: Final = 0
L: Final = 1 * LANES
R: Final = 2 * LANES
DELAY: Final = 3 * LANES
W0: Final = 4 * LANES
W1: Final = 5 * LANES
W2: Final = 6 * LANES
OF_CUT: Final = 7 * LANES  # expm1 of τRL,
OF_TIMER: Final = 8 * LANES  # TRL,
OF_COUNTER: Final = 9 * LANES  # BL,
OF_AIM: Final = 10 * LANES  # 1 − (1−p)^{τ'R}
SCRATCH_ROWS: Final = 11

# A switch port's rows.
QUEUE: Final = 0
ARRIVED: Final = 1 * LANES
KEPT: Final = 2 * LANES  # share of queue and arrivals that stays
PASSED: Final = 3 * LANES  # share that leaves
MARK: Final = 4 * LANES  # p(queue)
LOG: Final = 5 * LANES  # −log(1 − p)
QUEUE_SUM: Final = 6 * LANES
ENTERED: Final = 7 * LANES  # packets taken in since the start
GONE: Final = 8 * LANES  # packets that left since the start
HEAD: Final = 9 * LANES  # all arrivals before this step have left
WAIT: Final = 10 * LANES  # steps that departing packets have waited
PORT_ROWS: Final = 11

# Rows of senders into a switch: NICs first, then switch ports.
LOAD: Final = 0
SHARE: Final = 1 * LANES  # of the offered load that a NIC carries
HELD: Final = 2 * LANES  # packets at the next switch that came from here
PAUSED: Final = 3 * LANES  # 1 while the next switch holds this sender
CARRIED: Final = 4 * LANES  # packets that left in this step
SENDER_ROWS: Final = 5

# A group's packets at one port.
WAITING: Final = 0
PASSED_ON: Final = 1 * LANES
CONTENT_ROWS: Final = 2

# A port's history.
PAST_WAIT: Final = 0
PAST_MARK: Final = 1 * LANES
PAST_LOG: Final = 2 * LANES
PAST_ENTERED: Final = 3 * LANES
HISTORY_ROWS: Final = 4
RING_GAP: Final = 5  # rows between two rings, for the same reason as in HISTOGRAM_BINS

# The candidates.
KMIN: Final = 0
SLOPE: Final = 1 * LANES
PMAX: Final = 2 * LANES
KMAX: Final = 3 * LANES
CANDIDATE_ROWS: Final = 4

# Totals inside the window.
DELIVERED: Final = 0
MARKED: Final = 1 * LANES
LOST: Final = 2 * LANES
PAUSE_TIME: Final = 3 * LANES
PEAK: Final = 4 * LANES
NOT_FINITE: Final = 5 * LANES  # 0, or NaN once a lane has diverged
TALLY_ROWS: Final = 6

# Marking is kept in [NO_MARK, SURE_MARK]: at the floor p/expm1(−BL) is 1/B to 12 digits without a special
# case, at the ceiling (1−p)^n is 0 for any n that matters while its logarithm stays finite.
NO_MARK: Final = 1e-12
SURE_MARK: Final = 1.0 - 2.0**-40
# Packets a second: below it R p/expm1(−TRL) no longer changes, and 0/0 never appears.
RATE_FLOOR: Final = 1.0
TINY: Final = 1e-300  # makes 0/0 of an empty port 0

# Queue histogram: bins of a double's top bits, 128 a doubling, over queue + 1 bytes.
HISTOGRAM_SHIFT: Final = 45
HISTOGRAM_FIRST: Final = 0x3FF0000000000000 >> HISTOGRAM_SHIFT  # the word of 1.0
# 32 doublings, and a few more: lanes a power of two apart would evict each other from the cache.
HISTOGRAM_BINS: Final = 32 * 128 + 16
HISTOGRAM_TOP: Final = 2.0**32 * (1.0 + 15.0 / 128.0)  # where the last bin begins


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
    pfc_share: Floats  # [sender], of that pool's free part: what it may hold in there
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
    block_ends: Ints  # of the window's blocks, in steps
    probe_every: int  # steps


class Buffers(NamedTuple):
    """The arrays a run writes; rows as above, several to an entry."""

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
    by_block: Floats  # [block, TALLY_ROWS · LANES]: the tally as each block of the window ends
    probes: Ints  # [lane, block, switches crossed − 1, bin of slowdown]

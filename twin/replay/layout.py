"""Record arrays of the replay kernel, and its counter-based random numbers.

``plan`` fills the fixed columns; columns under *run* belong to the kernel, which resets them. Units are steps
and bytes: a rate is bytes a step.

    flow ─▶ entry (nic, path) ─▶ inlet (first suffix, cable) ─▶ suffix (rest of path) ─▶ queue ─▶ suffix …

Flows that share a *suffix* are one stream from there on. A *feeder* sends bytes into a queue by one ingress
port: an entry, or a suffix one hop upstream; PFC counts buffer use per ingress.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from twin.jit import inlined
from twin.probe._draws import Paths, ProbePaths

_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB
_STREAM = 0xD1342543DE82EF95
_TO_UNIT = 2.0**-53


@inlined
def uniform(seed: int, stream: int, index: int) -> float:
    """A draw in [0, 1) that depends on the arguments only, so that all candidates see the same draws.

    splitmix64's finaliser (Steele et al., OOPSLA 2014), once over the stream, once over both.
    """
    x = uint64(seed) * uint64(_GOLDEN) + uint64(stream) * uint64(_STREAM)
    x = (x ^ (x >> uint64(30))) * uint64(_MIX_1) + uint64(index) * uint64(_GOLDEN)
    x = (x ^ (x >> uint64(30))) * uint64(_MIX_1)
    x = (x ^ (x >> uint64(27))) * uint64(_MIX_2)
    x = x ^ (x >> uint64(31))
    return (x >> uint64(11)) * _TO_UNIT


Table: TypeAlias = NDArray[Any]  # records of one of the types below
Record: TypeAlias = Any  # one row of a table
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Steps: TypeAlias = NDArray[np.int32]
Positions: TypeAlias = NDArray[np.float32]


class Tables(NamedTuple):
    """One scenario in steps and bytes."""

    flows: Table
    entries: Table
    nics: Table
    inlets: Table
    suffixes: Table
    queues: Table
    feeders: Table
    ingresses: Table
    switches: Table
    resolve_order: NDArray[np.int64]  # suffixes of several hops, shorter first: longer ones depend on them
    n_steps: int
    packet_bytes: float
    ack_ratio: float
    pfc: bool
    buffer_bytes: float
    reserve_bytes: float
    resume_bytes: float
    window_first: int
    window_last: int
    block_ends: NDArray[np.int64]  # of the window's blocks, in steps
    probed: ProbePaths
    drawn: Paths
    probe_every: int  # steps


class Params(NamedTuple):
    """DCQCN in steps and bytes a step."""

    ai_rate: float
    hai_rate: float
    gain: float
    cnp_steps: float
    alpha_steps: float
    increase_steps: float
    byte_counter: float
    fast_recovery_steps: int
    min_rate: float
    clamp_target: bool
    initial_alpha: float


class Work(NamedTuple):
    """Arrays a run writes, reused for every candidate."""

    slots: Table
    segments: Table
    wheel: NDArray[np.int64]
    arrived: NDArray[np.float64]  # [step, queue] bytes
    onward: NDArray[np.float64]  # [step, suffix of several hops] bytes
    # [arrival step, row] running sum of mean marking probability; without PFC, as many more columns for the
    # shares lost
    marks: NDArray[np.float64]
    departed: NDArray[np.int32]  # [arrival step, queue] step in which its last byte left
    # [step, row] arrival steps that have left the path's last queue, and on a path of one hop the part of the
    # next that has
    resolved: NDArray[np.float32]
    logs: NDArray[np.float64]  # [step / LOG_STEPS, feeder] bytes sent
    unarmed: NDArray[np.int64]
    free: NDArray[np.int64]
    dirty: NDArray[np.int64]
    by_block: NDArray[np.float64]  # [block, total]: DELIVERED, LOST, PAUSED and OFFERED up to the block's end
    probes: NDArray[np.int64]  # [block, switches crossed − 1, bin of slowdown]
    horizon: int


FLOAT, INT = np.float64, np.int64

FLOW = np.dtype(
    [
        ("start_step", INT),
        ("start_fraction", FLOAT),
        ("bytes", FLOAT),
        ("rate", FLOAT),  # initial
        ("entry", INT),
        # run
        ("ending_after", INT),  # next in its queue's list of flows whose last byte waits there
        ("ending_step", INT),  # the step in which that byte arrived ...
        ("ending_fraction", FLOAT),  # ... and how far into it
        ("ending_suffix", INT),
        ("completed", FLOAT),  # in steps, NaN until then
        ("sent", FLOAT),  # bytes, of a flow that is not over when the run is
    ],
    align=True,
)

ENTRY = np.dtype(
    [
        ("nic", INT),
        ("suffix", INT),
        ("inlet", INT),
        ("delay", INT),  # NIC to first queue
        ("row", INT),  # of the running sums of its path's marks
        ("return_delay", INT),  # last queue to receiver and back to the sender
        # run
        ("rate", FLOAT),
        ("total", FLOAT),  # sent until ``since``, for PFC
        ("since", INT),
    ],
    align=True,
)

NIC = np.dtype(
    [
        ("rate", FLOAT),
        ("reverse_queue", INT),  # the queue towards this host, whose deliveries it acknowledges; -1 if none
        # run
        ("first_slot", INT),
        ("paused", INT),
        ("dirty", INT),
        ("wanted", FLOAT),  # sum of its flows' rates
        ("sending", FLOAT),
        ("shared", FLOAT),  # the capacity its flows share
        ("limiting", INT),  # its flows want more than it has
        ("spare", FLOAT),  # bytes that a flow left of its share in the step it ended
    ],
    align=True,
)

INLET = np.dtype([("suffix", INT), ("delay", INT), ("rate", FLOAT), ("burst", FLOAT)], align=True)

SUFFIX = np.dtype([("queue", INT), ("onward", INT), ("row", INT), ("feeder", INT)], align=True)

QUEUE = np.dtype(
    [
        ("rate", FLOAT),
        ("delay", INT),
        ("switch", INT),
        ("reverse_queue", INT),
        ("reverse_nic", INT),
        ("monitored", INT),
        ("is_last", INT),
        ("forwards", INT),
        ("suffix_first", INT),
        ("suffix_end", INT),
        ("feeder_first", INT),
        ("feeder_end", INT),
        # run
        ("backlog", FLOAT),
        ("left", FLOAT),  # bytes of arrival step ``head`` still waiting
        ("marks", FLOAT),  # marking met so far by the part of step ``head`` that left
        ("sent", FLOAT),  # in the last step
        ("light_rate", FLOAT),  # arrivals that an empty queue passes unexamined; −1 while paused
        ("jitter", FLOAT),  # packet phases: bytes ahead of the fluid
        ("flows", INT),  # now crossing it
        ("head", INT),  # oldest arrival step not wholly sent
        ("paused", INT),
        ("ending_first", INT),
        ("ending_last", INT),
        ("depth_sum", FLOAT),  # these three inside the window
        ("sent_sum", FLOAT),
        ("marked_sum", FLOAT),
    ],
    align=True,
)

FEEDER = np.dtype(
    [
        ("queue", INT),
        ("delay", INT),
        ("ingress", INT),
        ("entry", INT),  # -1 for an upstream suffix
        # run
        ("total", FLOAT),
    ],
    align=True,
)

INGRESS = np.dtype(
    [
        ("switch", INT),
        ("delay", INT),
        ("nic", INT),  # the upstream end, one of the two
        ("queue", INT),
        ("share", FLOAT),  # of the shared buffer left: its threshold
        # run
        ("held", FLOAT),
        ("paused", INT),
        ("change_at", INT),
    ],
    align=True,
)

SWITCH = np.dtype(
    [
        ("shared", FLOAT),
        ("calm", FLOAT),  # below this use no ingress can reach its threshold
        # run
        ("used", FLOAT),
        ("used_before", FLOAT),
        ("paused", INT),
    ],
    align=True,
)

SLOT = np.dtype(
    [
        ("read", FLOAT),  # marks of send steps before this one are drawn
        ("marks_read", FLOAT),  # the path's running sum at ``read``
        ("patience", FLOAT),  # hazard left until the first mark; meaningless once armed
        ("row", INT),  # these three copied from the entry
        ("delay", INT),
        ("return_delay", INT),
        ("sending", FLOAT),  # what the NIC lets through
        ("since", INT),
        ("remaining", FLOAT),  # bytes to send at step ``since``
        ("sent", FLOAT),  # bytes sent until then
        ("rate", FLOAT),  # R_C, before the NIC shares
        ("target", FLOAT),  # R_T
        ("alpha", FLOAT),
        ("cut_at", FLOAT),
        ("increase_at", FLOAT),
        ("alpha_at", FLOAT),
        ("counted", FLOAT),  # bytes until the byte counter fires, at step ``since``
        ("next_at", INT),  # the wheel bucket it sits in, NEVER if none
        ("flow", INT),
        ("entry", INT),
        ("draws", INT),
        ("segment_first", INT),
        ("segment_end", INT),
        ("timer_stage", INT),
        ("byte_stage", INT),
        ("armed", INT),
        ("cut_cnp", INT),
        ("alpha_cnp", INT),
        ("wheel_before", INT),
        ("wheel_after", INT),
        ("nic_before", INT),
        ("nic_after", INT),
    ],
    align=True,
)

SEGMENT = np.dtype([("start", INT), ("rate", FLOAT)], align=True)

NEVER = 1 << 40
SEGMENTS = 64  # remembered rate changes of a flow, a power of two; the oldest two merge when it is full
WHEEL = 1024  # buckets, a power of two; later events are looked at again in time
LOG_STEPS = 16  # feeders' totals are kept every so many steps and interpolated between
FINE_BYTES, FINE_BINS = 16.0, 4096  # depth histogram: 16-byte bins up to 64 KiB, ...
COARSE_BYTES, COARSE_BINS = 4096.0, 16384  # ... then 4 KiB bins up to 64 MiB

# Places in the array of totals.
PEAK, DELIVERED, MARKED, SENT, LOST, PAUSED, OFFERED = range(7)
N_TOTALS = 7

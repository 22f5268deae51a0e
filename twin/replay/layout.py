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


class Tables(NamedTuple):
    """One scenario in steps and bytes."""

    flows: Table
    barriers: Table
    opens: Ints  # the barriers that wait for each flow, one flow after the other
    entries: Table
    nics: Table
    inlets: Table
    suffixes: Table
    queues: Table
    feeders: Table
    ingresses: Table
    switches: Table
    queues_of: Ints  # of each switch, one after the other
    ingresses_of: Ints
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
    background: Floats  # [row, step // BIN_STEPS]: bytes a step of flows that a slice leaves out ...
    background_flows: Floats  # ... and how many they are


class Work(NamedTuple):
    """Arrays a run writes, reused for every candidate. ``_cells`` says what pages, cells and parcels are."""

    slots: Table
    segments: Table
    reads: Table  # [slot, hop]
    wheel: Ints
    pages: NDArray[np.int32]  # [step // PAGE, queue]: first cell of the page, −1 where there is none
    marks: Floats  # [step // PAGE, queue]: the running sum of marks where there is no page
    losses: Floats  # the same of shares lost; [0, 0] under PFC
    cells: Table  # [page × PAGE + step in it]
    lost: Table  # as ``cells``; empty under PFC
    parcels: Table
    free_pages: Ints
    pool: Table  # a single row
    curves: Floats  # [queue]: Kmin, Kmax, Pmax of its port
    busy: Ints  # queues that have work
    sending: Ints  # inlets that flows send into
    changes: Ints  # ingress ports whose pause or resume is on its way
    logs: Floats  # [step // LOG_STEPS % rows, feeder] bytes sent
    free: Ints
    dirty: Ints
    due: Ints  # flows whose start is known since all that they waited for was delivered
    by_block: Floats  # [block, total]: DELIVERED, LOST, PAUSED and OFFERED up to the block's end
    probes: Ints  # [block, switches crossed − 1, bin of slowdown]
    recorded_flows: NDArray[np.float32]  # [group, NIC, step // BIN_STEPS] flows at the bin's end
    recorded: NDArray[
        np.float32
    ]  # [group, queue or number of queues + NIC, step // BIN_STEPS] bytes, or empty


FLOAT, INT = np.float64, np.int64
SHORT = np.int32  # numbers of records, and steps, in tables of large fabrics: they do not fit a core's cache

LINE = 64  # bytes of a cache line


def records(count: int, record: np.dtype[np.void]) -> Table:
    """``count`` records of zeros, the first at the begin of a cache line."""
    room = np.zeros(count * record.itemsize + LINE, dtype=np.uint8)
    first = -room.ctypes.data % LINE
    return room[first : first + count * record.itemsize].view(record)


# DCQCN that NICs run, in steps and bytes a step.
PARAMS = np.dtype(
    [
        ("ai_rate", FLOAT),
        ("hai_rate", FLOAT),
        ("gain", FLOAT),
        ("cnp_steps", FLOAT),
        ("look_steps", INT),  # between two looks for a flow's first mark
        ("alpha_steps", FLOAT),
        ("increase_steps", FLOAT),
        ("byte_counter", FLOAT),
        ("fast_recovery_steps", INT),
        ("min_rate", FLOAT),
        ("clamp_target", INT),
        ("initial_alpha", FLOAT),
    ],
    align=True,
)

FLOW = np.dtype(
    [
        ("start", FLOAT),  # in steps, of one that waits for none
        ("bytes", FLOAT),
        ("rate", FLOAT),  # initial
        ("entry", INT),
        ("barrier", INT),  # at which it waits for others, −1: none
        ("gap", FLOAT),  # steps from when that opens
        ("sibling", INT),  # the next that waits at the same barrier, −1: none
        ("opens_first", INT),  # barriers that wait for this flow: their places in ``opens`` ...
        ("opens_end", INT),
        ("cable", FLOAT),  # ... and the steps from its last queue to its receiver
        # run
        ("began", FLOAT),  # in steps, NaN until then
        ("ending_after", INT),  # next in its queue's list of flows whose last byte waits there
        ("ending_step", INT),  # the step in which that byte arrived ...
        ("ending_fraction", FLOAT),  # ... and how far into it
        ("ending_suffix", INT),
        ("completed", FLOAT),  # in steps, NaN until then
        ("sent", FLOAT),  # bytes, of a flow that its NIC still has when the run ends; of others -1
    ],
    align=True,
)

ENTRY = np.dtype(
    [
        # run
        ("rate", FLOAT),
        ("total", FLOAT),  # sent until ``since``, for PFC
        ("noted", FLOAT),  # sent until the bin that is now recorded
        ("since", SHORT),
        # fixed
        ("nic", SHORT),
        ("suffix", SHORT),
        ("inlet", SHORT),
        ("delay", SHORT),  # NIC to first queue
        ("walked", SHORT),  # NIC to last queue
        ("return_delay", FLOAT),  # last queue to receiver and back to the sender
        ("group", INT),  # of flows recorded together, −1: the last
    ],
    align=True,
)

BARRIER = np.dtype(
    [
        ("rows", INT),  # flows that must be delivered before it opens
        ("first", INT),  # of the flows that start then
        # run
        ("left", INT),  # of ``rows``
        ("opened", FLOAT),  # when the last so far was delivered, in steps
    ],
    align=True,
)

NIC = np.dtype(
    [
        ("rate", FLOAT),
        ("reverse_queue", INT),  # the queue towards this host, whose deliveries it acknowledges; -1 if none
        ("background", INT),  # row of ``Tables.background``, −1 for none
        ("params", INT),  # row of the DCQCN that it runs
        # run
        ("others", FLOAT),  # what flows outside the slice now send ...
        ("n_others", INT),  # ... and how many they are
        ("first_slot", INT),
        ("paused", INT),
        ("dirty", INT),
        ("wanted", FLOAT),  # sum of its flows' rates
        ("sending", FLOAT),
        ("shared", FLOAT),  # the capacity its flows share
        ("fair", FLOAT),  # the most that a flow gets of it; while paused what it got before
        ("limiting", INT),  # its flows want more than it has
        ("spare", FLOAT),  # bytes that flows left of their shares in the step they ended; −1 where none did
    ],
    align=True,
)

INLET = np.dtype(
    [
        # run
        ("rate", FLOAT),
        ("burst", FLOAT),
        ("flows", SHORT),
        ("listed", SHORT),  # among ``Work.sending``
        # fixed
        ("suffix", SHORT),
        ("delay", SHORT),
    ],
    align=True,
)

SUFFIX = np.dtype(
    [
        # run
        ("total", FLOAT),  # bytes sent to the next queue
        ("parcel", SHORT),  # its newest ...
        ("parcel_at", SHORT),  # ... and the step that one arrives in
        # fixed
        ("queue", SHORT),
        ("onward", SHORT),
        ("group", INT),  # of flows recorded together, −1: the last
    ],
    align=True,
)

# Three cache lines.
QUEUE = np.dtype(
    [
        # First what every step of a queue with work needs, and flows that ask whether it marked.
        ("backlog", FLOAT),
        ("light_rate", FLOAT),  # arrivals that an empty queue passes unexamined; −1 while paused
        ("sent", FLOAT),  # in the last step
        ("marks_sum", FLOAT),  # of the arrival steps before ``head``
        ("others", FLOAT),  # what flows outside the slice now bring
        ("head", INT),  # oldest arrival step not wholly sent
        ("until", INT),  # the last step for which arrivals are known
        ("busy", INT),  # listed in ``Work.busy``
        ("marked_at", INT),  # the last step in which bytes left of arrivals that it marked
        ("ending_first", INT),
        ("delay", INT),  # fixed
        ("sent_sum", FLOAT),  # these three inside the window
        ("marked_sum", FLOAT),
        ("depth_sum", FLOAT),
        ("left", FLOAT),  # bytes of arrival step ``head`` still waiting
        ("marks", FLOAT),  # marking met so far by the part of step ``head`` that left
        ("jitter", FLOAT),  # packet phases: bytes ahead of the fluid
        ("lost_sum", FLOAT),  # of all arrival steps
        ("flows", SHORT),  # now crossing it
        ("ending_last", SHORT),
        ("paused", np.int8),
        # fixed
        ("is_last", np.int8),
        ("in_turn", np.int8),  # all that it gets comes from one NIC no faster than it, packet after packet
        ("monitored", SHORT),
        ("rate", FLOAT),
        ("switch", SHORT),
        ("reverse_queue", SHORT),
        ("reverse_nic", SHORT),
        ("background", SHORT),  # row of ``Tables.background``, −1 for none
        ("feeder_first", SHORT),
        ("feeder_end", SHORT),
    ],
    align=True,
)

FEEDER = np.dtype(
    [
        ("queue", SHORT),
        ("delay", SHORT),
        ("ingress", SHORT),
        ("entry", SHORT),  # one of the two, the other −1
        ("suffix", SHORT),
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
        ("queue_first", INT),  # into ``Tables.queues_of``
        ("queue_end", INT),
        ("ingress_first", INT),  # into ``Tables.ingresses_of``
        ("ingress_end", INT),
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
        ("patience", FLOAT),  # hazard left until the first mark; meaningless once armed
        ("delay", INT),  # these two copied from the entry
        ("return_delay", FLOAT),
        ("sending", FLOAT),  # what the NIC lets through
        ("since", INT),
        ("remaining", FLOAT),  # bytes to send at step ``since``
        ("sent", FLOAT),  # bytes sent until then
        ("rate", FLOAT),  # R_C, before the NIC shares
        ("target", FLOAT),  # R_T
        ("packet_at", FLOAT),  # when its next packet leaves, in steps; brought up to date as rates change
        ("held", FLOAT),  # the rate that spaced the packet now waiting, ...
        ("waits", INT),  # ... where that is another than ``rate``: ``_flows.KEEPS_PACE`` or ``SENDS_PACKETS``
        ("packets", FLOAT),  # the part of a packet that was read but did not count yet, ...
        ("marked", FLOAT),  # ... times how likely it was marked
        ("alpha", FLOAT),
        ("cut_at", FLOAT),  # until the first mark: when it is next looked for
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
        ("asked", FLOAT),  # it knows whether what left its path's last queue by this time was marked
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

# What a flow has read of a queue on its path: the running sums up to an arrival position.
READ = np.dtype([("position", FLOAT), ("marks", FLOAT), ("lost", FLOAT)], align=True)

# A queue in one step.
CELL = np.dtype(
    [
        ("arrived", FLOAT),  # bytes
        ("marks", FLOAT),  # running sum of the mean marking of arrival steps up to this one, once it has left
        ("known", FLOAT),  # the same of all that has left by the end of this step
        ("lag", np.float32),  # by then, how many arrival steps have not left
        ("parcels", SHORT),  # first of those that arrived, −1 if none
    ],
    align=True,
)

LOSS = np.dtype([("total", FLOAT), ("share", FLOAT)], align=True)  # before an arrival step, and of it

# What a stream that goes on brings to a queue in one step.
PARCEL = np.dtype([("bytes", FLOAT), ("suffix", SHORT), ("after", SHORT)], align=True)

# How full the pools are.
POOL = np.dtype(
    [
        ("n_pages", INT),
        ("n_free_pages", INT),
        ("released", INT),  # rows of ``Work.pages`` that nobody reads any more
        ("n_parcels", INT),
        ("free_parcel", INT),
        ("n_busy", INT),
        ("n_sending", INT),
        ("n_changes", INT),
        ("n_due", INT),
        ("short", INT),  # 1: a pool has no room left
    ],
    align=True,
)

NEVER = 1 << 40
SEGMENTS = 64  # remembered rate changes of a flow, a power of two; the oldest two merge when it is full
WHEEL = 1024  # buckets, a power of two; later events are looked at again in time
PAGE_BITS = 5
PAGE = 1 << PAGE_BITS  # steps
BIN_STEPS = 16  # background is the mean over so many steps
LOG_STEPS = 16  # feeders' totals are kept every so many steps and interpolated between
LOG_ROWS = 256  # most that are kept; what waits for longer counts from the oldest
FINE_BYTES, FINE_BINS = 16.0, 4096  # depth histogram: 16-byte bins up to 64 KiB, ...
COARSE_BYTES, COARSE_BINS = 4096.0, 16384  # ... then 4 KiB bins up to 64 MiB, ...
DEEP_BYTES, DEEP_BINS = 2.0**20, 16384  # ... then 1 MiB bins up to 16 GiB

# Places in the array of totals.
PEAK, DELIVERED, MARKED, SENT, LOST, PAUSED, OFFERED = range(7)
N_TOTALS = 7

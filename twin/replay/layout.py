"""The tables a replay runs on, one record array a kind of thing; numpy only.

Fixed columns are filled by ``plan``; columns under *run* belong to the kernel and are reset by it.
Everything is in steps and bytes: a rate is bytes a step.

    flow ─▶ entry (nic, path) ─▶ inlet (first suffix, cable) ─▶ suffix (rest of path) ─▶ queue ─▶ next
    suffix …

Flows that share a *suffix* are one stream from there on. A *feeder* is whatever puts bytes into a queue by
one ingress port: an entry, or a suffix one hop upstream; PFC counts buffer use per ingress.
"""

from __future__ import annotations

import numpy as np

F, I = np.float64, np.int64

FLOW = np.dtype(
    [
        ("start_step", I),
        ("start_fraction", F),
        ("bytes", F),
        ("rate", F),  # initial
        ("entry", I),
        # run
        ("ending_after", I),  # next in its queue's list of flows whose last byte waits there
        ("ending_step", I),  # the step in which that byte arrived ...
        ("ending_fraction", F),  # ... and how far into it
        ("ending_suffix", I),
        ("completed", F),  # in steps, NaN until then
    ],
    align=True,
)

ENTRY = np.dtype(
    [
        ("nic", I),
        ("suffix", I),
        ("inlet", I),
        ("delay", I),  # NIC to first queue
        ("row", I),  # of the running sums of its path's marks
        ("return_delay", I),  # last queue to receiver and back to the sender
        # run
        ("rate", F),
        ("total", F),  # sent until ``since``, for PFC
        ("since", I),
    ],
    align=True,
)

NIC = np.dtype(
    [
        ("rate", F),
        ("reverse_queue", I),  # the queue towards this host, whose deliveries it acknowledges; -1 if none
        # run
        ("first_slot", I),
        ("paused", I),
        ("dirty", I),
        ("wanted", F),  # sum of its flows' rates
        ("sending", F),
        ("limiting", I),  # its flows want more than it has
    ],
    align=True,
)

INLET = np.dtype([("suffix", I), ("delay", I), ("rate", F), ("burst", F)], align=True)

SUFFIX = np.dtype([("queue", I), ("onward", I), ("row", I), ("feeder", I)], align=True)

QUEUE = np.dtype(
    [
        ("rate", F),
        ("delay", I),
        ("switch", I),
        ("reverse_queue", I),
        ("reverse_nic", I),
        ("monitored", I),
        ("is_last", I),
        ("forwards", I),
        ("suffix_first", I),
        ("suffix_end", I),
        ("feeder_first", I),
        ("feeder_end", I),
        # run
        ("backlog", F),
        ("left", F),  # bytes of arrival step ``head`` still waiting
        ("marks", F),  # marking met so far by the part of step ``head`` that left
        ("sent", F),  # in the last step
        ("light_rate", F),  # arrivals an empty queue passes without a second look; −1 while paused
        ("jitter", F),  # packet phases: bytes ahead of the fluid
        ("flows", I),  # now crossing it
        ("head", I),  # oldest arrival step not wholly sent
        ("paused", I),
        ("ending_first", I),
        ("ending_last", I),
        ("depth_sum", F),  # these three inside the window
        ("sent_sum", F),
        ("marked_sum", F),
    ],
    align=True,
)

FEEDER = np.dtype(
    [
        ("queue", I),
        ("delay", I),
        ("ingress", I),
        ("entry", I),  # -1 for an upstream suffix
        # run
        ("total", F),
    ],
    align=True,
)

INGRESS = np.dtype(
    [
        ("switch", I),
        ("delay", I),
        ("nic", I),  # the upstream end, one of the two
        ("queue", I),
        # run
        ("held", F),
        ("paused", I),
        ("change_at", I),
        ("paused_steps", I),
    ],
    align=True,
)

SWITCH = np.dtype([("shared", F), ("used", F), ("used_before", F), ("paused", I)], align=True)

SLOT = np.dtype(
    [
        ("rate", F),  # R_C, before the NIC shares
        ("target", F),  # R_T
        ("alpha", F),
        ("sending", F),  # what the NIC lets through
        ("remaining", F),  # bytes to send at step ``since``
        ("counted", F),  # bytes until the byte counter fires, at step ``since``
        ("marks_read", F),  # the path's running sum at ``read``
        ("patience", F),  # hazard left until the first mark; meaningless once armed
        ("since", I),
        ("read", I),  # marks of send steps before this one are drawn
        ("cut_at", F),
        ("alpha_at", F),
        ("increase_at", F),
        ("next_at", I),  # the wheel bucket it sits in, NEVER if none
        ("flow", I),
        ("entry", I),
        ("row", I),  # these three copied from the entry
        ("delay", I),
        ("return_delay", I),
        ("draws", I),
        ("segment_first", I),
        ("segment_end", I),
        ("timer_stage", I),
        ("byte_stage", I),
        ("armed", I),
        ("cut_cnp", I),
        ("alpha_cnp", I),
        ("wheel_before", I),
        ("wheel_after", I),
        ("nic_before", I),
        ("nic_after", I),
    ],
    align=True,
)

SEGMENT = np.dtype([("start", I), ("rate", F)], align=True)

NEVER = 1 << 40
SEGMENTS = 64  # remembered rate changes of a flow, a power of two; the oldest two merge when it is full
WHEEL = 1024  # buckets, a power of two; later events are looked at again in time
LOG_STEPS = 16  # feeders' totals are kept every so many steps and interpolated between
FINE_BYTES, FINE_BINS = 16.0, 4096  # depth histogram: 16-byte bins up to 64 KiB, ...
COARSE_BYTES, COARSE_BINS = 4096.0, 16384  # ... then 4 KiB bins up to 64 MiB

# Places in the array of totals.
PEAK, DELIVERED, MARKED, SENT, LOST, PAUSED = range(6)
N_TOTALS = 6

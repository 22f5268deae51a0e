"""Where things lie in the kernels' flat arrays; plain numbers, must import nothing.

Every quantity is a *row* of ``LANES`` float64, one lane a candidate watermark, and rows sit at constant distances
from each other. Both are compile-time constants so that LLVM knows the loops' length and that rows never overlap:
that is what makes it vectorise them without run-time checks, and why a candidate alone and in a batch agree to
the last bit. A batch is cut into blocks of ``LANES``; lanes left over repeat the last candidate.
"""

from __future__ import annotations

from typing import Final

LANES: Final = 16

# A sender's rows (one *slot* a live flow group).
ALPHA: Final = 0  # α
TARGET: Final = 1  # R_T
CURRENT: Final = 2  # R_C
SENDING: Final = 3  # what reaches the wire: R_C after the NIC's share and pauses
LEFT: Final = 4  # packets not yet sent, inf for a persistent flow
CUT: Final = 5  # 1 − (1−p)^{τR}
AIM: Final = 6  # 1 − (1−p)^{τ'R}
RECOVERY: Final = 7  # R p/((1−p)^{−B}−1) + R p/((1−p)^{−TR}−1)
ADDITIVE: Final = 8  # the same two, times (1−p)^{FB} and (1−p)^{FTR}
SENT: Final = 9  # packets a flow of the group sent in this step
SLOT_ROWS: Final = 10

# A switch port's rows.
QUEUE: Final = 0
ARRIVED: Final = 1
KEPT: Final = 2  # share of what was there or came that stays
PASSED: Final = 3  # share that leaves
MARK: Final = 4  # p(queue)
LOG: Final = 5  # −log(1 − p)
QUEUE_SUM: Final = 6
PORT_ROWS: Final = 7

# Rows of whatever sends into a switch: NICs first, then switch ports.
LOAD: Final = 0
SHARE: Final = 1  # of the offered load that a NIC carries
HELD: Final = 2  # packets at the next switch that came from here
PAUSED: Final = 3  # 1 while the next switch holds this sender
CARRIED: Final = 4  # packets that left in this step
SENDER_ROWS: Final = 5

# Rows of the candidates themselves.
KMIN: Final = 0
SLOPE: Final = 1
PMAX: Final = 2
KMAX: Final = 3
CANDIDATE_ROWS: Final = 4

# Rows of what is counted inside the window.
DELIVERED: Final = 0
MARKED: Final = 1
LOST: Final = 2
PAUSE_TIME: Final = 3
PEAK: Final = 4
NOT_FINITE: Final = 5  # 0, or NaN once a lane has left the numbers
TALLY_ROWS: Final = 6

# A ring row of a port, three rows of lanes.
HISTORY_QUEUE: Final = 0
HISTORY_MARK: Final = 1
HISTORY_LOG: Final = 2

# Marking is kept in [NO_MARK, SURE_MARK]: at the floor p/expm1(−BL) is 1/B to 12 digits without a special case,
# at the ceiling (1−p)^n is 0 for any n that matters while its logarithm stays finite.
NO_MARK: Final = 1e-12
SURE_MARK: Final = 1.0 - 2.0**-40
# 1 packet a second: below it R p/expm1(−TRL) no longer changes, and 0/0 never appears.
RATE_FLOOR: Final = 1.0

# Queue histogram: bins of the float32 word's top bits, 128 a doubling, over queue + 1 bytes.
HISTOGRAM_SHIFT: Final = 16
HISTOGRAM_FIRST: Final = 0x3F800000 >> HISTOGRAM_SHIFT  # the word of 1.0
HISTOGRAM_BINS: Final = 40 * 128

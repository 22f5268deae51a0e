"""Records, arrays and constants of a packet-level fabric, as the kernels take them; and hardware settings.

Times are seconds, sizes bytes on the wire. A *place* is a position in the list of routes: each route is the
egress ports of the way there, −1, those of the way back, −1. A packet carries the place of the port it waits
at or has just left: the next entry is the next port, and −1 means that the cable ends at a host.

An *ingress* is the far end of exactly one egress port, so a switch's buffer use by ingress is counted in that
port's record (``held``, ``headroom_held``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from twin.errors import check_above_zero
from twin.probe._draws import ProbePaths
from twin.senders.rtt import OF_PERIOD

TIME, BYTES, COUNT, INDEX, FLAG = np.float64, np.float64, np.int64, np.int32, np.int8

# The first len(ports) rows are not packets: row p is port p's "free again" event, which shares the calendar.
PACKET = np.dtype(
    [
        ("time", TIME),  # when it arrives, or arrived, at the end of the cable
        ("seq", COUNT),  # number in its flow; of an acknowledgement: the first not yet received
        ("next", INDEX),  # in its bucket while it flies, in its queue while it waits
        ("flow", INDEX),  # of a pause or resume: the port it stops or starts
        ("place", INDEX),
        ("wire", INDEX),
        ("sample", INDEX),  # row of its INT stack, −1 for none
        ("kind", FLAG),
        ("marked", FLAG),  # CE; on an acknowledgement: it carries a CNP
        ("nack", FLAG),
        ("probe", FLAG),  # its number among its sender's probes, 0 for none
    ],
    align=True,
)

PORT = np.dtype(
    [
        ("free_at", TIME),  # when what it sends now has left
        ("s_per_byte", TIME),
        ("delay", TIME),
        ("depth", BYTES),  # data waiting, without the packet being sent ...
        ("depth_at", TIME),  # ... since then
        ("depth_byte_s", BYTES),  # its integral over time until ``depth_at``, ...
        ("deepest", BYTES),  # ... and its peak since the port was last read
        ("head", INDEX),  # data waiting: packets of a switch, ready flows of a NIC
        ("tail", INDEX),
        ("served", COUNT),  # of a NIC: number of the flow that sent last
        ("byte_counter", BYTES),  # of a NIC: B of its flows, inf for none
        ("switch", INDEX),  # −1 for a NIC
        ("reverse", INDEX),  # the cable's other direction
        ("scheduled", FLAG),  # its "free again" event is in the calendar
        ("paused", FLAG),  # by the far end
        ("down", FLAG),
        ("pausing", FLAG),  # the far end has sent it a pause
        ("background", INDEX),  # row of ``State.brought``, −1 for none
        ("kmin", BYTES),
        ("kmax", BYTES),
        ("pmax", TIME),
        ("held", BYTES),  # of its packets in the far end's reserve and shared buffer
        ("headroom_held", BYTES),
        ("headroom", BYTES),
        ("share", TIME),  # of the far end's free shared buffer that it may hold
        ("paused_since", TIME),
        ("others_sent", BYTES),  # of what flows outside the slice brought, ...
        ("settled_at", TIME),  # ... by then, or ``free_at`` if that is later
        # what the flows of a NIC run (``DcqcnParams``, in seconds, bytes, bytes/s), besides ``byte_counter``
        ("ai_rate", TIME),
        ("hai_rate", TIME),
        ("gain", TIME),
        ("cnp_interval", TIME),
        ("alpha_timer", TIME),
        ("increase_timer", TIME),
        ("min_rate", TIME),
        ("initial_alpha", TIME),
        ("fast_recovery_steps", COUNT),
        ("clamp_target", FLAG),
        ("policy", INDEX),  # of a NIC whose flows act on round-trip times: row of ``State.policies``, else −1
        # totals
        ("paused_s", TIME),
        ("pauses", COUNT),
        ("sent_bytes", BYTES),
        ("sent_packets", COUNT),  # data
        ("marked_packets", COUNT),
        ("marked_bytes", BYTES),
        ("dropped_packets", COUNT),
        ("dropped_bytes", BYTES),
        ("depth_sum", BYTES),  # over the samples
        ("peak", BYTES),  # of the samples
    ],
    align=True,
)

FLOW = np.dtype(
    [
        # the sender's pacing
        ("pace", TIME),  # seconds a byte: one over the current rate
        ("next_avail", TIME),  # when its next packet may leave
        ("next_seq", COUNT),
        ("n_packets", COUNT),
        ("next_ready", INDEX),  # in its NIC's round
        ("nic", INDEX),
        ("forward", INDEX),  # places of the two ways
        ("back", INDEX),
        ("last_wire", INDEX),  # of its last packet, which may be short
        ("state", FLAG),
        ("armed", FLAG),
        ("cnp_since_alpha", FLAG),
        ("increase_due", FLAG),  # an increase event is in the heap
        ("retransmit_due", FLAG),
        ("nacked", FLAG),  # the receiver has asked for a missing packet
        ("cut_due", FLAG),
        # the reaction point
        ("rate", TIME),  # bytes/s
        ("target", TIME),
        ("line_rate", TIME),
        ("alpha", TIME),
        ("alpha_at", TIME),
        ("cut_at", TIME),
        ("increase_at", TIME),
        ("counted", BYTES),  # since the byte counter last fired
        ("timer_stage", COUNT),
        ("byte_stage", COUNT),
        # the receiver and what it acknowledged
        ("expected", COUNT),
        ("acked", COUNT),
        ("progress_at", TIME),
        # its life
        ("number", COUNT),  # unique over the fabric's life
        ("start", TIME),  # earliest, and once started the real one
        ("gap", TIME),
        ("end", TIME),
        ("payload", BYTES),
        ("waits", INDEX),  # flows that must be delivered first
        ("dependent_first", COUNT),
        ("dependent_end", COUNT),
        ("pending", INDEX),  # packets and timers that name it: at 0 a finished row may be reused
        ("src", INDEX),
        ("dst", INDEX),
    ],
    align=True,
)

# Senders that act on round-trip times (``twin.senders.rtt``), and what a flow of theirs knows.
POLICY = np.dtype(
    [
        ("kind", COUNT),
        ("decision", TIME),  # until it takes effect
        ("beta", TIME),
        ("target", TIME),
        ("scale", TIME),
        ("step", TIME),  # of DECC's form: α ÷ 2
        ("width", TIME),  # of the rule
        ("base", TIME),  # of trees
        ("first", COUNT),  # in ``State.numbers``, of a network or trees
        ("count", COUNT),  # layers or trees
        ("inputs", COUNT),
        ("by_window", FLAG),  # of DECC's form
        ("explore", TIME),
        # Swift
        ("base_rtts", TIME),
        ("hop", TIME),
        ("range", TIME),
        ("flow_scale", TIME),  # α and β of flow scaling
        ("flow_base", TIME),
        ("window_low", TIME),
        ("increase", TIME),
        ("decrease", TIME),
        ("largest_cut", TIME),
        ("packet", BYTES),
    ],
    align=True,
)

LEARNER = np.dtype(
    [
        ("sent_at", TIME),  # its last probe
        ("rtt0", TIME),  # of a packet alone on its path
        ("rate", TIME),  # decided, in bytes/s
        ("multiplier", TIME),  # of the rate, by the last decision ...
        ("multiplier_before", TIME),  # ... and the one before
        ("signal", TIME),  # at the last decision
        ("window", TIME),  # of Swift and DECC's form, in packets
        ("cut_at", TIME),
        ("decided_at", TIME),  # of DECC's form, 0 for not yet
        ("acked", COUNT),  # packets, at the last decision
        ("lost", COUNT),  # packets to be sent again, since then
        ("hops", INDEX),  # ports on its path
        ("probing", FLAG),
        ("probe", FLAG),  # number of its last probe
    ],
    align=True,
)

SWITCH = np.dtype([("shared", BYTES), ("used", BYTES), ("waiting", BYTES)], align=True)

SAMPLE = np.dtype(
    [
        ("flow", COUNT),  # its number, not its row
        ("delivered", TIME),
        ("src", INDEX),
        ("dst", INDEX),
        ("wire", INDEX),
        ("hops", INDEX),
        ("next", INDEX),
    ],
    align=True,
)

HOP = np.dtype(
    [
        ("queue", BYTES),
        ("ingress", TIME),
        ("egress", TIME),
        ("port", INDEX),
        ("ingress_port", INDEX),
        ("marked", FLAG),
    ],
    align=True,
)

CLOCK = np.dtype(
    [
        ("now", TIME),
        ("tick", TIME),  # next sample of the queues
        ("other", TIME),  # the earlier of that and the earliest timer
        ("short", COUNT),  # the array that must grow, FINISHED for none
        ("ticks", COUNT),  # samples taken
        ("cursor", COUNT),  # bucket the calendar has reached
        ("timers", COUNT),  # in the heap
        ("spare_timers", COUNT),  # more than one event sets
        ("serial", COUNT),  # of the timer set last: equal times keep their order
        ("free_packet", INDEX),
        ("free_packets", COUNT),
        ("free_sample", INDEX),
        ("completed", COUNT),
        ("sampled", COUNT),
        ("decided", COUNT),  # decisions kept
        # totals
        ("injected_packets", COUNT),
        ("injected_bytes", BYTES),  # payload, retransmissions included
        ("injected_wire_bytes", BYTES),
        ("delivered_bytes", BYTES),  # payload, in order
        ("dropped_bytes", BYTES),  # payload
        ("discarded_bytes", BYTES),  # payload out of order or received twice
        ("retransmissions", COUNT),  # times a sender went back
        ("cnps", COUNT),
        ("hops", COUNT),  # packets sent by a port, of any kind
    ],
    align=True,
)

FREE, DATA, ACK, PAUSE, RESUME, WAKE = range(6)  # kinds of packet and calendar event
# A flow: not begun, in its NIC's round, held back by its rate, all sent, all acknowledged.
WAITING, READY, PACED, IDLE, DONE = range(5)
START, CUT, INCREASE, RETRANSMIT, LATE_WAKE, DECIDE = range(6)  # timers
BY_SWIFT, BY_RULE, BY_NETWORK, BY_TREES = range(4)  # kinds of policy
NO_PROBE, PROBING, DECIDING = range(3)  # a flow's probe: none, under way, or back and being decided on
FINISHED, MORE_PACKETS, MORE_SAMPLES, MORE_TIMERS = range(4)  # why the kernel came back

ROUND = 1 << 62  # more than there are flows
RESERVE_BYTES = 4096.0  # of each ingress, before it uses the shared buffer
CONTROL_WIRE_BYTES = 64  # a pause, a resume
LEAST_RATE = 2.0**-20  # of line rate, of a policy's flows: the fixed point of RL-CC's rates
OF_A_PERIOD = len(OF_PERIOD)
LEAST_WINDOW = 1.0  # packets, of DECC's form
NODE_NUMBERS = 4  # of a tree: feature, threshold or leaf, then the nodes on the left and right

FINE_BYTES, FINE_BINS = 64.0, 4096  # depth histogram: 64-byte bins up to 256 KiB, ...
COARSE_BYTES, COARSE_BINS = 2048.0, 32768  # ... then 2 KiB bins up to 64 MiB, ...
DEEP_BYTES, DEEP_BINS = 2.0**20, 16384  # ... then 1 MiB bins up to 16 GiB


# InfiniBand's local acknowledgement timeout is 4.096 µs × 2^n (InfiniBand Architecture Specification, volume
# 1, section 9.7.6.1.3): n = 14 is what RoCE verbs programs usually ask for, n = 10 suits a fabric that drops.
LOSSLESS_TIMEOUT_S = 4.096e-6 * 2**14
LOSSY_TIMEOUT_S = 4.096e-6 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSettings:
    """Behaviour in which real hardware differs.

    ``retransmit_timeout_s`` None takes 67 ms with PFC and 4 ms without. Queues are sampled every
    ``queue_sample_s``. Raises ``ParameterError``.
    """

    retransmit_timeout_s: float | None = None
    queue_sample_s: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("retransmit_timeout_s", "queue_sample_s"):
            if getattr(self, name) is not None:
                check_above_zero(f"packet {name}", getattr(self, name))

    def retransmit_s(self, *, pfc: bool) -> float:
        """The retransmission timeout."""
        if self.retransmit_timeout_s is not None:
            return self.retransmit_timeout_s
        return LOSSLESS_TIMEOUT_S if pfc else LOSSY_TIMEOUT_S


Table: TypeAlias = NDArray[Any]  # records of one of the types above
Record: TypeAlias = Any  # one row of a table
Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]


class State(NamedTuple):
    """Everything that changes."""

    clock: Table  # one row
    packets: Table
    ports: Table
    flows: Table
    switches: Table
    samples: Table
    hops: Table  # [sample, hop]
    places: Indices
    dependents: Indices
    buckets: Indices  # first packet of each calendar bucket, −1 for none
    timer_at: Floats  # a binary heap, earliest first, ...
    timer_serial: Counts  # ... equal times in the order they were set
    timer_what: Counts  # flow row × TIMER_KINDS + which timer
    completed: Indices  # flow rows, as they complete
    sampled: Indices  # sample rows, as their packets arrive
    monitored: Indices
    histogram: Counts
    probed: ProbePaths
    probes: Counts  # [switches crossed − 1, bin of slowdown]
    brought: Floats  # [port with background, bin edge]: bytes by then of flows outside the slice ...
    n_others: Floats  # ... and [that port, bin] how many take turns at a NIC
    policies: Table
    numbers: Floats  # of networks and trees
    learners: Table  # by flow row; no row where no host has a policy
    seen: Floats  # [flow row, OF_PERIOD of each period], of DECC's form
    scratch: Floats  # [inputs, two layers; value]
    decisions: Floats  # [decision, column], the first ones (``note``)


class Params(NamedTuple):
    """Constants in seconds, bytes, bytes/s."""

    seed: int
    buckets_per_s: float
    horizon_s: float  # how far ahead the calendar reaches
    packet_bytes: int
    overhead_bytes: int
    ack_bytes: int
    buffer_bytes: float
    pfc: bool
    retransmit_s: float
    sample_s: float  # between samples of the queues
    sampling_rate: float  # of INT
    bins_per_s: float  # of the background, 0 for none

"""The arrays a fabric lives in and the numbers it runs by, as the kernels take them; numpy only."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Table: TypeAlias = NDArray[Any]  # records of one of the types in ``layout``
Record: TypeAlias = Any  # one row of a table
Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]


class State(NamedTuple):
    """Everything that changes; ``layout`` describes the records."""

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


class Params(NamedTuple):
    """What does not change. Seconds, bytes, bytes/s."""

    seed: int
    buckets_per_s: float
    horizon_s: float  # how far ahead the calendar reaches
    packet_bytes: int
    overhead_bytes: int
    ack_bytes: int
    buffer_bytes: float
    pfc: bool
    mark_at_enqueue: bool
    cnps_paced_by_receiver: bool
    retransmit_s: float
    sample_s: float  # between looks at the queues
    sampling_rate: float  # of INT
    ai_rate: float
    hai_rate: float
    gain: float
    cnp_interval: float
    alpha_timer: float
    increase_timer: float
    byte_counter: float  # inf for none
    fast_recovery_steps: int
    min_rate: float
    clamp_target: bool
    initial_alpha: float

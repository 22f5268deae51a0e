"""The bundles of arrays a replay works on, and the names of their types; numpy only."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Table: TypeAlias = NDArray[Any]  # records of one of the types in ``layout``
Record: TypeAlias = Any  # one row of a table
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Steps: TypeAlias = NDArray[np.int32]


class Tables(NamedTuple):
    """One scenario in steps and bytes; the columns are described in ``layout``."""

    flows: Table
    entries: Table
    nics: Table
    inlets: Table
    suffixes: Table
    queues: Table
    feeders: Table
    ingresses: Table
    switches: Table
    resolve_order: NDArray[np.int64]  # suffixes of several hops, shorter first: a longer one asks the shorter
    n_steps: int
    packet_bytes: float
    ack_ratio: float
    pfc: bool
    buffer_bytes: float
    reserve_bytes: float
    resume_bytes: float
    window_first: int
    window_last: int


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
    """Arrays a run writes; made once a call and used again for every candidate."""

    slots: Table
    segments: Table
    wheel: NDArray[np.int64]
    arrived: NDArray[np.float64]  # [step, queue] bytes
    onward: NDArray[np.float64]  # [step, suffix of several hops] bytes
    # [arrival step, row] running sum of mean marking probability; where packets may be lost, as many columns
    # more for the shares lost
    marks: NDArray[np.float64]
    departed: NDArray[np.int32]  # [arrival step, queue] step in which its last byte left
    resolved: NDArray[np.int32]  # [step, row] arrival steps that have left the path's last queue
    logs: NDArray[np.float64]  # [step / LOG_STEPS, feeder] bytes sent
    unarmed: NDArray[np.int64]
    free: NDArray[np.int64]
    dirty: NDArray[np.int64]
    horizon: int

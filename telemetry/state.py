"""The network as one window of telemetry shows it: the read-only view handed to the twin.

Columnar where there may be a million rows, objects where there are a few thousand. Imports nothing but numpy,
``telemetry.topology`` and the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.topology import Topology


class FlowClass(IntEnum):
    """Classes of design section 1: bytes in the window at or over the threshold, active throughout,
    neither.
    """

    MOUSE = 0
    POTENTIAL_ELEPHANT = 1
    ELEPHANT = 2

    @property
    def label(self) -> str:
        """The name used in JSON and metrics: ``mouse``, ``potential_elephant``, ``elephant``."""
        return self.name.lower()


class FlowKey(NamedTuple):
    """The five-tuple as reported (addresses, not host names)."""

    src: str
    dst: str
    sport: int
    dport: int
    protocol: int


class QueueRef(NamedTuple):
    """One egress queue of one switch."""

    switch: str
    port: str
    queue: int


@dataclass(frozen=True, slots=True)
class QueueState:
    """What the window saw of one egress queue.

    Depths are time averages over the window (idle time counts as empty), so they compare with a prediction's;
    NaN where no packet told one;
    ``marked_ratio`` is over the packets whose device reported it, None where none did;
    ``marked_packets_per_s`` is that share of all packets, None likewise; it and ``throughput_bytes_per_s``
    have the sampling undone; ``capacity_bytes_per_s`` is None while no topology
    tells it.
    """

    ref: QueueRef
    n_samples: int
    depth_mean_bytes: float
    depth_p99_bytes: float
    depth_max_bytes: float
    marked_ratio: float | None
    throughput_bytes_per_s: float
    capacity_bytes_per_s: float | None
    marked_packets_per_s: float | None = None

    @property
    def has_depth(self) -> bool:
        """Whether any packet told how deep it is."""
        return not math.isnan(self.depth_mean_bytes)


@dataclass(frozen=True, slots=True)
class FlowTable:
    """Live flows of the window, one row each, most bytes first.

    ``keys[flow]``; ``src_host``/``dst_host`` host names where the topology resolves the address, else the
    address; ``path[flow]`` index into ``NetworkState.paths``; times are nanoseconds of the reporting sink's
    clock.
    """

    keys: Sequence[FlowKey]
    src_host: tuple[str, ...]
    dst_host: tuple[str, ...]
    path: NDArray[np.int32]
    flow_class: NDArray[np.int8]
    window_bytes: NDArray[np.float64]
    throughput_bytes_per_s: NDArray[np.float64]
    n_reports: NDArray[np.int64]
    first_ns: NDArray[np.int64]
    last_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class FlowGroup:
    """Flows to one receiver along one path (x_j of them), the unit of the fluid model."""

    receiver: str
    path: int
    n_flows: int
    throughput_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Incast:
    """Senders that met at one receiver: ``degree`` is the largest number of distinct ones that had a message
    to it under way at the same moment of the window, ``senders`` how many there were in all of it.
    """

    receiver: str
    degree: int
    senders: int


@dataclass(frozen=True, slots=True)
class FlowArrivals:
    """The window's flows as a replay wants them, ordered by start; sampling undone.

    A row is a message: a five-tuple that falls silent and comes back has several. ``src_host``,
    ``dst_host`` names; ``path`` index into ``NetworkState.paths``; ``wire_bytes`` estimated size on the wire,
    ``inf`` for a flow still sending when the window closes (what it had left is not known; a replay of the
    window's length ends before it would tell); ``start_s`` seconds after the window's start, 0 for one
    running already; ``last_s`` when its last sampled packet left; ``sent_bytes`` what it sent inside the
    window, finite for all.
    """

    src_host: tuple[str, ...]
    dst_host: tuple[str, ...]
    path: NDArray[np.int32]
    wire_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    last_s: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.src_host)


@dataclass(frozen=True, slots=True)
class NetworkState:
    """Everything one window of reports says about the fabric. ``incast`` is by receiver, worst first."""

    window_start_ns: int
    window_end_ns: int
    n_reports: int
    topology: Topology
    topology_declared: bool
    paths: Sequence[tuple[QueueRef, ...]]
    flows: FlowTable
    groups: tuple[FlowGroup, ...]
    queues: tuple[QueueState, ...]
    arrivals: FlowArrivals
    bytes_by_class: Mapping[FlowClass, float]
    flows_by_class: Mapping[FlowClass, int]
    dominant_class: FlowClass
    packet_bytes: int
    incast: tuple[Incast, ...] = ()

    @property
    def switches_without_depth(self) -> tuple[str, ...]:
        """Switches with queues of which none tells its depth, as nobody told the units; sorted."""
        told = {queue.ref.switch for queue in self.queues if queue.has_depth}
        return tuple(sorted({queue.ref.switch for queue in self.queues} - told))

    @property
    def mice_to_elephants(self) -> float | None:
        """Mice for each elephant, by number; None without elephants. Potential elephants are neither."""
        return _ratio(self.flows_by_class[FlowClass.MOUSE], self.flows_by_class[FlowClass.ELEPHANT])

    @property
    def mice_to_elephants_bytes(self) -> float | None:
        """Bytes of mice for each byte of elephants; None without elephants."""
        return _ratio(self.bytes_by_class[FlowClass.MOUSE], self.bytes_by_class[FlowClass.ELEPHANT])

    @property
    def duration_s(self) -> float:
        """Length of the window in seconds."""
        return (self.window_end_ns - self.window_start_ns) * 1e-9


def _ratio(mice: float, elephants: float) -> float | None:
    return mice / elephants if elephants else None

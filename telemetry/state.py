"""The network as one window of telemetry shows it: read-only, columnar where there may be a million rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.topology import Topology


class FlowClass(IntEnum):
    """Elephant: bytes in the window at or over the threshold; potential elephant: active in every period."""

    MOUSE = 0
    POTENTIAL_ELEPHANT = 1
    ELEPHANT = 2

    @property
    def label(self) -> str:
        """The name used in JSON and metrics."""
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
    """One egress queue over the window.

    Depths are time averages (idle time counts as empty), so they compare with a prediction's; NaN where no
    packet reported one. ``marked_ratio`` is over the packets whose device reports marks, None without any;
    ``marked_packets_per_s`` scales it to all packets; it and ``throughput_bytes_per_s`` have the sampling
    undone. ``capacity_bytes_per_s`` is None where the topology does not give it.
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
        return not math.isnan(self.depth_mean_bytes)


@dataclass(frozen=True, slots=True)
class FlowTable:
    """Live flows of the window, one row each, most bytes first.

    ``src_host`` and ``dst_host`` are host names where the topology resolves the address, else the address;
    ``path`` indexes ``NetworkState.paths``.
    """

    keys: Sequence[FlowKey]
    src_host: tuple[str, ...]
    dst_host: tuple[str, ...]
    path: NDArray[np.int32]
    flow_class: NDArray[np.int8]
    window_bytes: NDArray[np.float64]
    throughput_bytes_per_s: NDArray[np.float64]
    n_reports: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class Incast:
    """Senders to one receiver: ``degree`` is the most that had a message in flight at the same moment,
    ``senders`` how many there were in the whole window.
    """

    receiver: str
    degree: int
    senders: int


@dataclass(frozen=True, slots=True)
class FlowArrivals:
    """The window's messages as a replay needs them, ordered by start, with sampling undone.

    A five-tuple that falls silent and resumes has several messages. ``src_host``, ``dst_host`` names;
    ``path`` indexes ``NetworkState.paths``; ``wire_bytes`` estimated size on the wire, ``inf`` for a message
    still being sent when the window closes (its rest is unknown, and beyond a replay of the window's length);
    ``start_s`` seconds after the window's start, 0 for one already running; ``last_s`` when its last sampled
    packet left, which took ``way_s`` to the last switch; ``sent_bytes`` bytes sent inside the window, as
    ``n_samples`` sampled packets show them; ``end_seen`` whether one of those was shorter than its sender's
    full packets: a message's last; ``ran_before`` whether this may be the rest of a message that began before
    the window.
    """

    src_host: tuple[str, ...]
    dst_host: tuple[str, ...]
    path: NDArray[np.int32]
    wire_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    last_s: NDArray[np.float64]
    way_s: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]
    n_samples: NDArray[np.int64]
    end_seen: NDArray[np.bool_]
    ran_before: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.src_host)

    def take(self, rows: NDArray[np.int64]) -> FlowArrivals:
        """These rows, in that order."""
        src, dst = (tuple(map(side.__getitem__, rows.tolist())) for side in (self.src_host, self.dst_host))
        return FlowArrivals(src, dst, **{name: getattr(self, name)[rows] for name in _ARRIVAL_COLUMNS})

    def and_then(self, others: FlowArrivals) -> FlowArrivals:
        """These rows, then ``others``."""
        columns = {
            name: np.concatenate((getattr(self, name), getattr(others, name))) for name in _ARRIVAL_COLUMNS
        }
        return FlowArrivals(self.src_host + others.src_host, self.dst_host + others.dst_host, **columns)


_ARRIVAL_COLUMNS = tuple(one.name for one in fields(FlowArrivals) if not one.name.endswith("_host"))

RECENT_S = 0.1
"""How much of the window's end ``NetworkState.recent`` covers; more than a round replays."""


@dataclass(frozen=True, slots=True)
class QueueSamples:
    """What sampled packets met in queues of known depth and capacity, in order of time; a row each.

    ``queue`` indexes ``NetworkState.queues``; ``at_s`` seconds after the window's start; ``held_s`` the time
    that the depth stands for, as in ``QueueState``.
    """

    queue: NDArray[np.int32]
    at_s: NDArray[np.float64]
    depth_bytes: NDArray[np.float64]
    held_s: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NetworkState:
    """The fabric as one window of reports shows it. ``flow_groups`` is how many groups of flows to one
    receiver along one path there are; ``incast`` is by receiver, worst first; ``recent`` are samples of the
    last ``RECENT_S``; ``newest_ns`` is the time of the newest report that each sink sent (the last switch on
    its way).
    """

    window_start_ns: int
    window_end_ns: int
    n_reports: int
    topology: Topology
    topology_declared: bool
    paths: Sequence[tuple[QueueRef, ...]]
    flows: FlowTable
    flow_groups: int
    queues: tuple[QueueState, ...]
    arrivals: FlowArrivals
    bytes_by_class: Mapping[FlowClass, float]
    flows_by_class: Mapping[FlowClass, int]
    dominant_class: FlowClass
    packet_bytes: int
    incast: tuple[Incast, ...] = ()
    recent: QueueSamples | None = None
    newest_ns: Mapping[str, int] = field(default_factory=dict)

    @property
    def switches_without_depth(self) -> tuple[str, ...]:
        """Switches with queues, none of which has a known depth; sorted."""
        known = {queue.ref.switch for queue in self.queues if queue.has_depth}
        return tuple(sorted({queue.ref.switch for queue in self.queues} - known))

    @property
    def mice_to_elephants(self) -> float | None:
        """Mice per elephant, by number; None without elephants. Potential elephants are neither."""
        return _ratio(self.flows_by_class[FlowClass.MOUSE], self.flows_by_class[FlowClass.ELEPHANT])

    @property
    def mice_to_elephants_bytes(self) -> float | None:
        """Bytes of mice per byte of elephants; None without elephants."""
        return _ratio(self.bytes_by_class[FlowClass.MOUSE], self.bytes_by_class[FlowClass.ELEPHANT])

    @property
    def duration_s(self) -> float:
        return (self.window_end_ns - self.window_start_ns) * 1e-9


def _ratio(mice: float, elephants: float) -> float | None:
    return mice / elephants if elephants else None

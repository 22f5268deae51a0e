"""Results of a fabric as it advances, in columns: completed flows, INT samples, totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from twin.packet import layout
from twin.packet.layout import State, Table
from twin.prediction import bins_of, histogram_quantile

BIN_LOWER_BYTES, BIN_WIDTH_BYTES = bins_of(
    (layout.FINE_BYTES, layout.FINE_BINS),
    (layout.COARSE_BYTES, layout.COARSE_BINS),
    (layout.DEEP_BYTES, layout.DEEP_BINS),
)


@dataclass(frozen=True, slots=True, eq=False)
class Completions:
    """Flows in the order of their last acknowledgements; one row each.

    ``src`` and ``dst`` index the fabric's hosts. ``alone_s`` is the time the flow takes alone on its path.
    """

    flow: NDArray[np.int64]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    payload_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    alone_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.flow)

    @property
    def slowdown(self) -> NDArray[np.float64]:
        return (self.end_s - self.start_s) / self.alone_s


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Packets that INT sampled, in order of delivery; hops in compressed rows, in path order.

    ``port`` and ``ingress_port`` index the fabric's ports: the egress queue, and the egress port of the same
    switch on the packet's incoming cable. ``queue_bytes`` is the depth when the packet left.
    """

    flow: NDArray[np.int64]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    delivered_s: NDArray[np.float64]
    wire_bytes: NDArray[np.int32]
    hop_offset: NDArray[np.int64]
    port: NDArray[np.int32]
    ingress_port: NDArray[np.int32]
    queue_bytes: NDArray[np.float64]
    ingress_s: NDArray[np.float64]
    egress_s: NDArray[np.float64]
    marked: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.flow)

    @classmethod
    def joined(cls, parts: list[Samples]) -> Samples:
        hops = np.concatenate([[0], *(np.diff(part.hop_offset) for part in parts)])
        columns = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(cls)
            if field.name != "hop_offset"
        }
        return cls(hop_offset=np.cumsum(hops), **columns)


@dataclass(frozen=True, slots=True)
class Results:
    """Flows and samples that ended during one ``advance``."""

    completions: Completions
    samples: Samples


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Totals since the start of a fabric.

    ``queue_histogram`` counts depth samples of the monitored ports (``BIN_LOWER_BYTES``), ``probe_counts``
    probes (``twin.probe``); the other arrays have one entry a port of the fabric. ``sent_bytes`` are wire
    bytes of packets of all kinds, ``marked_bytes`` those of the data packets that the port marked,
    ``injected_wire_bytes`` those of data packets as senders sent them. Payload bytes are conserved:
    injected = delivered + dropped + discarded + still inside.
    """

    now_s: float
    depth_samples: int
    queue_histogram: NDArray[np.int64]
    probe_counts: NDArray[np.int64]
    depth_sum_bytes: NDArray[np.float64]
    depth_peak_bytes: NDArray[np.float64]
    sent_bytes: NDArray[np.float64]
    sent_packets: NDArray[np.int64]
    marked_packets: NDArray[np.int64]
    marked_bytes: NDArray[np.float64]
    dropped_packets: NDArray[np.int64]
    dropped_wire_bytes: NDArray[np.float64]
    pauses: NDArray[np.int64]
    paused_s: NDArray[np.float64]
    injected_packets: int
    injected_bytes: float
    injected_wire_bytes: float
    delivered_bytes: float
    dropped_bytes: float
    discarded_bytes: float
    retransmissions: int
    cnps: int
    hops: int

    @classmethod
    def of(cls, state: State) -> Measured:
        clock, ports = state.clock[0], state.ports
        now_s = float(clock["now"])
        return cls(
            now_s=now_s,
            depth_samples=int(clock["ticks"]),
            queue_histogram=state.histogram.copy(),
            probe_counts=state.probes.copy(),
            depth_sum_bytes=ports["depth_sum"].copy(),
            depth_peak_bytes=ports["peak"].copy(),
            sent_bytes=ports["sent_bytes"].copy(),
            sent_packets=ports["sent_packets"].copy(),
            marked_packets=ports["marked_packets"].copy(),
            marked_bytes=ports["marked_bytes"].copy(),
            dropped_packets=ports["dropped_packets"].copy(),
            dropped_wire_bytes=ports["dropped_bytes"].copy(),
            pauses=ports["pauses"].copy(),
            paused_s=_paused_s(ports, now_s),
            injected_packets=int(clock["injected_packets"]),
            injected_bytes=float(clock["injected_bytes"]),
            injected_wire_bytes=float(clock["injected_wire_bytes"]),
            delivered_bytes=float(clock["delivered_bytes"]),
            dropped_bytes=float(clock["dropped_bytes"]),
            discarded_bytes=float(clock["discarded_bytes"]),
            retransmissions=int(clock["retransmissions"]),
            cnps=int(clock["cnps"]),
            hops=int(clock["hops"]),
        )

    def since(self, before: Measured) -> Measured:
        """The totals since ``before``; peaks are those since the start."""
        kept = {"now_s", "depth_peak_bytes"}
        return Measured(
            **{
                field.name: getattr(self, field.name)
                if field.name in kept
                else getattr(self, field.name) - getattr(before, field.name)
                for field in fields(self)
            }
        )

    @property
    def queue_mean_bytes(self) -> float:
        """Mean depth over the monitored ports."""
        samples = int(self.queue_histogram.sum())
        return float(self.depth_sum_bytes.sum()) / samples if samples else 0.0

    def queue_quantile_bytes(self, q: float) -> float:
        return histogram_quantile(self.queue_histogram, BIN_LOWER_BYTES, BIN_WIDTH_BYTES, q)


@dataclass(frozen=True, slots=True, eq=False)
class PortReadings:
    """What some ports show at ``now_s``, one entry a port in the order asked for.

    Totals since the start, in wire bytes: ``sent_bytes`` of packets of all kinds, ``marked_bytes`` of data
    packets that the port marked, ``dropped_bytes`` of data packets that found no room or were lost with the
    cable; ``paused_s`` the time for which the far end held the port; ``depth_byte_s`` the integral of the
    depth over time, so that the mean depth between two readings is its increase ÷ that of ``now_s``.
    ``depth_bytes`` is the depth now, ``peak_bytes`` the deepest since the port was read before; a packet that
    is sent at once counts there. Depths are exact, whatever is sampled or monitored, and leave out what a
    background brings.
    """

    now_s: float
    sent_bytes: NDArray[np.float64]
    marked_bytes: NDArray[np.float64]
    dropped_bytes: NDArray[np.float64]
    paused_s: NDArray[np.float64]
    depth_byte_s: NDArray[np.float64]
    depth_bytes: NDArray[np.float64]
    peak_bytes: NDArray[np.float64]

    @classmethod
    def taken(cls, state: State, ports: Sequence[int]) -> PortReadings:
        """Reads these ports; their peaks begin anew."""
        rows = np.array(ports, dtype=np.int64)
        now_s, read = float(state.clock["now"][0]), state.ports[rows]
        state.ports["deepest"][rows] = read["depth"]
        return cls(
            now_s=now_s,
            sent_bytes=read["sent_bytes"],
            marked_bytes=read["marked_bytes"],
            dropped_bytes=read["dropped_bytes"],
            paused_s=_paused_s(read, now_s),
            depth_byte_s=read["depth_byte_s"] + read["depth"] * (now_s - read["depth_at"]),
            depth_bytes=read["depth"],
            peak_bytes=read["deepest"],
        )


def _paused_s(ports: Table, now_s: float) -> NDArray[np.float64]:
    """The time for which each port was paused, a pause under way included."""
    return np.asarray(ports["paused_s"] + np.where(ports["paused"] == 1, now_s - ports["paused_since"], 0.0))

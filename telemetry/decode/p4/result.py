"""What telemetry reports told, as the batch that JSON reports become and what JSON has no field for; imports
only ``telemetry.report`` and numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import take_rows
from telemetry.report import ReportBatch, ReportProblem

NO_REASON = -1
NOT_ROCE = -1
NOT_TOLD = -1


class ReportFlags(IntFlag):
    """Why a report was sent: ``INTERMEDIATE`` was added in v2.0."""

    INTERMEDIATE = 1
    TRACKED_FLOW = 2
    CONGESTED_QUEUE = 4
    DROPPED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """Who sent each payload that had a whole header: its position, report ``version`` (0 for v0.5, 1, 2),
    node id (``NOT_TOLD``: v0.5 does not always say), hardware unit and sequence number of ``sequence_bits``.
    """

    payload: NDArray[np.int64]
    version: NDArray[np.int8]
    node: NDArray[np.int64]
    hardware: NDArray[np.int16]
    sequence: NDArray[np.int64]
    sequence_bits: NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class P4Reports:
    """Decoded reports.

    Rows of ``batch`` are individual reports in the order sent; ``batch.index`` is the position of a row's
    payload. A report that shows no IP packet has the flow 0.0.0.0 to 0.0.0.0, protocol 0. A row a report:
    ``flags`` (``ReportFlags``), ``drop_reason`` (``NO_REASON``), ``queue_pair`` and ``packet_sequence``
    (RoCEv2's destination queue pair and PSN; ``NOT_ROCE``), ``hop_limit`` (IPv4's TTL or IPv6's hop limit, as
    the node saw it; ``NOT_TOLD``) and ``packet_identity`` (TCP's sequence number above IPv4's identification;
    ``NOT_TOLD``). A row a hop: ``occupancy`` as the device counts it (``NOT_TOLD``), ``tx_utilisation`` of
    the egress interface (1 is full; NaN: not told, or no profile). ``untuned`` are the node ids met that have
    no unit profile: their occupancies and times are not in the batch.
    """

    batch: ReportBatch
    flags: NDArray[np.uint8]
    drop_reason: NDArray[np.int16]
    queue_pair: NDArray[np.int32]
    packet_sequence: NDArray[np.int32]
    hop_limit: NDArray[np.int16]
    packet_identity: NDArray[np.int64]
    occupancy: NDArray[np.int64]
    tx_utilisation: NDArray[np.float64]
    senders: Senders
    problems: tuple[ReportProblem, ...]
    untuned: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def dropped(self) -> NDArray[np.bool_]:
        """Which rows tell of a packet that was dropped there."""
        dropped: NDArray[np.bool_] = (self.flags & int(ReportFlags.DROPPED)) != 0
        return dropped

    def take(self, rows: NDArray[np.int64]) -> P4Reports:
        """The reports of these rows, in that order; ``senders``, ``problems`` and ``untuned`` stay."""
        _, hops = take_rows(self.batch.hop_offset, rows)
        return replace(
            self,
            batch=self.batch.take(rows),
            flags=self.flags[rows],
            drop_reason=self.drop_reason[rows],
            queue_pair=self.queue_pair[rows],
            packet_sequence=self.packet_sequence[rows],
            hop_limit=self.hop_limit[rows],
            packet_identity=self.packet_identity[rows],
            occupancy=self.occupancy[hops],
            tx_utilisation=self.tx_utilisation[hops],
        )

    def delivered(self) -> ReportBatch:
        """The batch without dropped packets: what a window may take for traffic."""
        return self.batch.take(~self.dropped)

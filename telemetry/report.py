"""INT reports as columns: one row a sampled packet, one row a hop; must not import a decoder or the
window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import take_rows
from telemetry.flow_keys import FlowKeys

MISSING_NS = -1
"""``ingress_ns`` or ``egress_ns`` of a hop whose device gave none (real ones are 0 or more)."""

LEAST_SAMPLING_RATE = 1e-9
"""One packet in a billion: what a report of fewer stood for would outweigh all others, without end."""

MARK_UNKNOWN = -1
"""``marked`` of a hop whose device does not report ECN; 0 is not marked, 1 is marked."""


class HopSite(NamedTuple):
    """Where a hop was: any part is None where the device did not say."""

    switch: str | None
    ingress_port: str | None
    egress_port: str | None
    queue: int | None


@dataclass(frozen=True, slots=True, order=True)
class ReportProblem:
    """One report that was left out: its position in the body as sent (from 0), and why, in a sentence."""

    index: int
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class ReportBatch:
    """Checked reports in columns; immutable (the arrays are made read-only).

    Per report: ``index`` position in the body as sent, ``ts_ns`` the sink's clock, ``flow`` into
    ``flow_keys``, ``packet_bytes`` > 0, ``sampling_rate`` from ``LEAST_SAMPLING_RATE`` to 1.
    Hops are in compressed rows:
    ``hop_offset[r]:hop_offset[r + 1]`` are report r's, in path order, in the columns ``hop_site`` (into
    ``sites``), ``queue_bytes`` (NaN: not told), ``ingress_ns`` and ``egress_ns`` (``MISSING_NS``: not told;
    one switch's own clock, so only their difference within one hop means anything) and ``marked``
    (``MARK_UNKNOWN``, 0 or 1).
    """

    index: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    flow: NDArray[np.int32]
    packet_bytes: NDArray[np.int64]
    sampling_rate: NDArray[np.float64]
    hop_offset: NDArray[np.int64]
    hop_site: NDArray[np.int32]
    queue_bytes: NDArray[np.float64]
    ingress_ns: NDArray[np.int64]
    egress_ns: NDArray[np.int64]
    marked: NDArray[np.int8]
    flow_keys: FlowKeys
    sites: tuple[HopSite, ...]

    def __post_init__(self) -> None:
        for column in (
            *(self.index, self.ts_ns, self.flow, self.packet_bytes, self.sampling_rate, self.hop_offset),
            *(self.hop_site, self.queue_bytes, self.ingress_ns, self.egress_ns, self.marked),
        ):
            column.flags.writeable = False

    def __len__(self) -> int:
        return len(self.ts_ns)

    @property
    def hop_count(self) -> NDArray[np.int64]:
        """Hops of each report."""
        return np.diff(self.hop_offset)

    @classmethod
    def empty(cls) -> ReportBatch:
        """A batch without reports."""
        whole, real = np.empty(0, np.int64), np.empty(0, np.float64)
        small, mark = np.empty(0, np.int32), np.empty(0, np.int8)
        offset = np.zeros(1, np.int64)
        return cls(
            index=whole,
            ts_ns=whole,
            flow=small,
            packet_bytes=whole,
            sampling_rate=real,
            hop_offset=offset,
            hop_site=small,
            queue_bytes=real,
            ingress_ns=whole,
            egress_ns=whole,
            marked=mark,
            flow_keys=FlowKeys.of(()),
            sites=(),
        )

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> ReportBatch:
        """The reports at these row numbers (or where the mask is true), in that order; keys and sites are
        shared.
        """
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, dtype=np.int64)
        offset, hops = take_rows(self.hop_offset, chosen)
        return ReportBatch(
            index=self.index[chosen],
            ts_ns=self.ts_ns[chosen],
            flow=self.flow[chosen],
            packet_bytes=self.packet_bytes[chosen],
            sampling_rate=self.sampling_rate[chosen],
            hop_offset=offset,
            hop_site=self.hop_site[hops],
            queue_bytes=self.queue_bytes[hops],
            ingress_ns=self.ingress_ns[hops],
            egress_ns=self.egress_ns[hops],
            marked=self.marked[hops],
            flow_keys=self.flow_keys,
            sites=self.sites,
        )

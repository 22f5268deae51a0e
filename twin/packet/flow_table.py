"""The rows of flows in a fabric: filled when flows are offered, reused when they are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.packet import layout
from twin.packet.layout import Counts, Indices, Table
from twin.packet.plan import FabricPlan
from twin.packet.results import Completions
from twin.packet.routes import Way

PERSISTENT_PACKETS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class NewFlows:
    """Flows about to enter a fabric; columns, as in ``Traffic``."""

    ways: Sequence[Way]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    payload_bytes: NDArray[np.float64]
    start_s: NDArray[np.float64]
    gap_s: NDArray[np.float64]
    rate_bytes_per_s: NDArray[np.float64]  # initial; inf is line rate
    after_offset: NDArray[np.int64]
    after: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ways)


class FlowTable:
    """Rows of flows, lists of dependent flows, and how long each flow takes alone."""

    def __init__(self, plan: FabricPlan) -> None:
        self._plan = plan
        self.rows: Table = np.zeros(0, dtype=layout.FLOW)
        self.dependents: Indices = np.zeros(0, dtype=np.int32)
        self.alone_s: NDArray[np.float64] = np.zeros(0)
        self._used = 0
        self.numbered = 0

    def add(self, new: NewFlows, ports: Table) -> Counts:
        """Adds flows and returns their rows; numbers continue from the last one."""
        rows = self._room(len(new))
        plan, table = self._plan, self.rows
        fresh = np.zeros(len(new), dtype=layout.FLOW)
        # More packets than a number holds never end either.
        finite = new.payload_bytes < float(PERSISTENT_PACKETS) * plan.mtu_payload_bytes
        payload = np.where(finite, new.payload_bytes, 0.0)
        packets = np.where(finite, np.ceil(payload / plan.mtu_payload_bytes), PERSISTENT_PACKETS)
        fresh["n_packets"] = packets
        last = np.where(finite, payload - (packets - 1) * plan.mtu_payload_bytes, plan.mtu_payload_bytes)
        fresh["last_wire"] = np.maximum(np.rint(last), 1) + plan.wire_overhead_bytes
        for name in ("forward", "back", "nic"):
            fresh[name] = [getattr(way, name) for way in new.ways]
        s_per_byte = ports["s_per_byte"][fresh["nic"]]
        fresh["line_rate"] = 1.0 / s_per_byte
        fresh["rate"] = fresh["target"] = np.minimum(new.rate_bytes_per_s, fresh["line_rate"])
        fresh["pace"] = np.where(fresh["rate"] >= fresh["line_rate"], s_per_byte, 1.0 / fresh["rate"])
        fresh["alpha_at"] = np.inf
        fresh["end"] = np.nan
        fresh["start"] = new.start_s
        fresh["gap"] = new.gap_s
        fresh["payload"] = new.payload_bytes
        fresh["src"], fresh["dst"] = new.src, new.dst
        fresh["number"] = np.arange(self.numbered, self.numbered + len(new))
        self.numbered += len(new)
        fresh["waits"] = np.diff(new.after_offset)
        self._depend(fresh, rows, new)
        table[rows] = fresh
        wire = payload + np.where(finite, packets, 0) * plan.wire_overhead_bytes
        slowest, store, back = (
            np.array([getattr(way, name) for way in new.ways], dtype=np.float64)
            for name in ("slowest_s_per_byte", "store_s_per_byte", "back_s")
        )
        first = np.minimum(new.payload_bytes, plan.mtu_payload_bytes) + plan.wire_overhead_bytes
        self.alone_s[rows] = np.where(finite, wire * slowest + first * store + back, np.inf)
        return rows

    @property
    def live(self) -> Counts:
        """Rows of flows that are not over."""
        return np.flatnonzero(self.rows["state"][: self._used] != layout.DONE)

    def completions(self, rows: Counts, end_s: NDArray[np.float64]) -> Completions:
        """These rows as flows that ended at ``end_s``."""
        flows = self.rows[rows]
        return Completions(
            flow=flows["number"],
            src=flows["src"],
            dst=flows["dst"],
            payload_bytes=flows["payload"],
            start_s=flows["start"],
            end_s=end_s,
            alone_s=self.alone_s[rows],
        )

    def _room(self, count: int) -> Counts:
        """Rows for ``count`` more flows: first rows of finished flows, then new ones."""
        state, pending = self.rows["state"][: self._used], self.rows["pending"][: self._used]
        over = np.flatnonzero((state == layout.DONE) & (pending == 0))[:count]
        n_new = count - len(over)
        rows = np.concatenate([over, np.arange(self._used, self._used + n_new)])
        self._used += n_new
        if self._used > len(self.rows):
            size = max(self._used, 2 * len(self.rows))
            grown = np.zeros(size, dtype=layout.FLOW)
            grown[: len(self.rows)] = self.rows
            grown["state"][len(self.rows) :] = layout.DONE
            alone_s = np.zeros(size)
            alone_s[: len(self.rows)] = self.alone_s
            self.rows, self.alone_s = grown, alone_s
        return rows

    def _depend(self, fresh: Table, rows: Counts, new: NewFlows) -> None:
        """Inverts "waits for" into lists of dependents; drops the lists of finished flows."""
        live = self.live
        kept = [
            self.dependents[first:end]
            for first, end in self.rows[live][["dependent_first", "dependent_end"]].tolist()
        ]
        counts = np.array([len(some) for some in kept], dtype=np.int64)
        begins = np.concatenate([[0], np.cumsum(counts)])
        self.rows["dependent_first"][live] = begins[:-1]
        self.rows["dependent_end"][live] = begins[1:]
        waiting = np.repeat(np.arange(len(new)), np.diff(new.after_offset))
        order = np.argsort(new.after, kind="stable")
        ends = begins[-1] + np.cumsum(np.bincount(new.after, minlength=len(new)))
        fresh["dependent_end"] = ends
        fresh["dependent_first"] = np.concatenate([[begins[-1]], ends[:-1]]) if len(new) else ends
        self.dependents = np.concatenate([*kept, rows[waiting[order]]]).astype(np.int32)

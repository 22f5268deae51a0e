"""Postcard merging: reports of several nodes about one packet are held and merged into the packet's path.

With INT-XD and INT-MX every node sends a report of one hop. Each taken for itself, a packet would count as
often as it had hops.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.assemble import NOT_ROCE, NOT_TOLD, P4Reports
from telemetry.decode.p4.postcard_paths import CARD, PacketPaths, Sites
from telemetry.errors import TelemetryError
from telemetry.report import ReportBatch, joined
from telemetry.topology import Topology
from telemetry.window.tables import KnownFlows

DEFAULT_HOLD_NS = 20_000_000
DEFAULT_MOST_PENDING = 200_000
_LEAST_HOLD_NS, _MOST_HOLD_NS = 1_000_000, 1_000_000_000
_LATE_FOR_HOLDS = 4
_SLACK = 4096
_MOST_PLACES = 1 << 17
_SET_BACK_NS = 1_000_000_000
_ROCE = np.int64(1) << 62
_NO_MARK = np.empty(0, [("flow", np.int64), ("identity", np.int64), ("at_ns", np.int64)])


@dataclass(frozen=True, slots=True)
class PostcardCounts:
    """Totals since the merger was created: ``paths`` released, postcards ``merged`` into them; left out are
    ``surplus`` ones (a node's second about a packet, or beyond 64 nodes) and ``late`` ones (after the path
    was released); ``hurried`` paths were released early for lack of room.
    """

    paths: int = 0
    merged: int = 0
    surplus: int = 0
    late: int = 0
    hurried: int = 0


class PostcardMerger:
    """Merges postcards into paths. Not thread-safe.

    A packet's path is released at least ``hold_ns`` after its first postcard and, as long as the merger is
    called, at most twice that. Beyond ``max_pending`` postcards the oldest packets' paths are released early.
    A packet is identified by its flow and RoCEv2's queue pair and sequence number, else by TCP's sequence
    number and IPv4's identification. Without any of these, the first postcards of each node about the flow
    within ``hold_ns`` are taken for one packet's, the second ones for another's.

    Hops are ordered by the packet's hop limit, which routers decrease; where that is missing, by
    ``topology``; else by arrival. Clocks of two nodes are never compared. Raises ``TelemetryError`` for a
    hold or a bound out of range.
    """

    def __init__(
        self,
        *,
        hold_ns: int = DEFAULT_HOLD_NS,
        max_pending: int = DEFAULT_MOST_PENDING,
        topology: Topology | None = None,
    ) -> None:
        if not _LEAST_HOLD_NS <= hold_ns <= _MOST_HOLD_NS:
            rule = f"postcards are held for {_LEAST_HOLD_NS} to {_MOST_HOLD_NS} ns"
            remedy = "give the time between the first and the last report about one packet"
            raise TelemetryError("postcards hold_ns", str(hold_ns), rule, remedy)
        if max_pending < 1:
            raise TelemetryError("postcards max_pending", str(max_pending), "it is above 0", "raise it")
        self._hold_ns = hold_ns
        self._max_pending = max_pending
        self._flows = KnownFlows()
        self._places = Sites(topology)
        self._held: list[NDArray[np.void]] = []
        self._released = _NO_MARK
        self._pending = 0
        self._came = 0
        self._now_ns = 0
        self._behind_ns = 0
        self._oldest_ns = 0
        self.counts = PostcardCounts()

    @property
    def pending(self) -> int:
        """Postcards held."""
        return self._pending

    def set_topology(self, topology: Topology | None) -> None:
        self._places.set_topology(topology)

    def merged(self, reports: P4Reports, now_ns: int) -> ReportBatch:
        """Adds reports received at ``now_ns``; returns those that need no merging (several hops, or no
        packet), then the paths that are due (their ``index`` counts them). Reports of dropped packets are
        left out.
        """
        batch = reports.batch
        shown = batch.flow_keys.protocol[batch.flow] != 0
        alone = (batch.hop_count == 1) & shown & ~reports.dropped
        self._take(reports, np.flatnonzero(alone), now_ns)
        others = batch.take(~alone & ~reports.dropped)
        paths = self.due(now_ns)
        return joined([some for some in (others, paths) if len(some)])

    def due(self, now_ns: int) -> ReportBatch:
        """The paths that are due at ``now_ns``."""
        self._advance(now_ns)
        if self._pending <= self._max_pending and self._now_ns - self._oldest_ns < 2 * self._hold_ns:
            return ReportBatch.empty()
        return self._release(self._now_ns - self._hold_ns)

    def flush(self) -> ReportBatch:
        """All paths, however incomplete."""
        return self._release(np.iinfo(np.int64).max)

    def _advance(self, now_ns: int) -> None:
        """Moves the merger's time, which never goes back; a clock set back is corrected by an offset."""
        if now_ns + self._behind_ns < self._now_ns - _SET_BACK_NS:
            self._behind_ns = self._now_ns - now_ns
        self._now_ns = max(self._now_ns, now_ns + self._behind_ns)

    def _take(self, reports: P4Reports, rows: NDArray[np.int64], now_ns: int) -> None:
        if not len(rows):
            return
        batch = reports.batch
        self._advance(now_ns)
        if not self._pending:
            self._oldest_ns = self._now_ns
        hops = batch.hop_offset[rows]
        cards = np.empty(len(rows), CARD)
        flow = self._flows.numbers(batch.flow_keys, self._flows.fingerprints(batch.flow_keys))
        cards["flow"] = flow[batch.flow[rows]]
        cards["identity"] = _identities(reports)[rows]
        cards["site"] = self._places.numbers(batch.sites)[batch.hop_site[hops]]
        cards["node"] = self._places.node[cards["site"]]
        cards["place"] = np.arange(self._came, self._came + len(rows))
        cards["came_ns"] = self._now_ns
        cards["hop_limit"] = reports.hop_limit[rows]
        for name in ("ts_ns", "packet_bytes", "sampling_rate"):
            cards[name] = getattr(batch, name)[rows]
        for name in ("queue_bytes", "ingress_ns", "egress_ns", "marked"):
            cards[name] = getattr(batch, name)[hops]
        self._came += len(rows)
        self._pending += len(rows)
        self._held.append(cards)

    def _release(self, before_ns: int) -> ReportBatch:
        """Releases packets whose first postcard came by ``before_ns``, and more where too many are held."""
        if not self._pending:
            return ReportBatch.empty()
        packets = PacketPaths.of(np.concatenate(self._held), self._released)
        chosen = packets.came_ns <= before_ns
        hurried = 0
        if int(packets.size[~chosen].sum()) > self._max_pending:
            oldest = packets.oldest(~chosen, self._max_pending // 2)
            hurried = int(np.count_nonzero(oldest & ~packets.is_late))
            chosen |= oldest
        released, surplus = packets.released(chosen & ~packets.is_late, self._places)
        rest = packets.cards(~chosen & ~packets.is_late)
        late = int(packets.size[packets.is_late].sum())
        self._held, self._pending = [rest], len(rest)
        self._oldest_ns = int(rest["came_ns"].min()) if len(rest) else self._now_ns
        self._mark(packets, chosen)
        more = (len(released.size), len(released.cards), surplus, late, hurried)
        self.counts = PostcardCounts(*map(add, astuple(self.counts), more))
        batch = released.batch(self._flows.keys(), self._places.sites)
        self._forget()
        return batch

    def _mark(self, packets: PacketPaths, chosen: NDArray[np.bool_]) -> None:
        """Remembers released packets for as long as late postcards may arrive."""
        known = np.flatnonzero(chosen & ~packets.is_late & packets.is_identified)
        marks = np.empty(len(known), _NO_MARK.dtype)
        marks["flow"], marks["identity"] = packets.flow[known], packets.identity[known]
        marks["at_ns"] = self._now_ns
        fresh = self._now_ns - self._released["at_ns"] < _LATE_FOR_HOLDS * self._hold_ns
        self._released = np.concatenate([self._released[fresh], marks])[-self._max_pending :]

    def _forget(self) -> None:
        """Drops unused flows and places once there are many."""
        (rest,) = self._held
        needed = np.unique(np.concatenate([rest["flow"], self._released["flow"]]))
        if len(self._flows) > 2 * len(needed) + _SLACK:
            renumbered = self._flows.keep(needed)
            rest["flow"] = renumbered[rest["flow"]]
            self._released["flow"] = renumbered[self._released["flow"]]
        if len(self._places) > _MOST_PLACES:
            rest["site"] = self._places.keep(rest["site"])
            rest["node"] = self._places.node[rest["site"]]


def _identities(reports: P4Reports) -> NDArray[np.int64]:
    """A number per packet of a flow, ``NOT_TOLD`` where it is unknown."""
    pair, sequence = reports.queue_pair.astype(np.int64), reports.packet_sequence.astype(np.int64)
    other = reports.packet_identity
    return np.where(pair != NOT_ROCE, _ROCE | pair << 24 | sequence, np.where(other >= 0, other, NOT_TOLD))

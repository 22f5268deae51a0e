"""Postcard merging: reports of several nodes about one packet are held and merged into the packet's path.

With INT-XD and INT-MX every node sends a report of one hop. Each taken for itself, a packet would count as
often as it had hops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import fingerprint_of, mixed, offsets
from telemetry.decode.p4.assemble import NO_VALUE, NOT_ROCE, P4Reports
from telemetry.errors import TelemetryError
from telemetry.report import FlowKeys, HopSite, ReportBatch, joined
from telemetry.topology import Topology
from telemetry.window.hash_table import KeyTable
from telemetry.window.tables import KnownFlows

CARD = np.dtype(
    [
        ("flow", np.int64),
        ("identity", np.int64),
        ("node", np.int64),
        ("site", np.int64),
        ("place", np.int64),
        ("came_ns", np.int64),
        ("hop_limit", np.int16),
        ("index", np.int64),
        ("ts_ns", np.int64),
        ("packet_bytes", np.int64),
        ("sampling_rate", np.float64),
        ("queue_bytes", np.float64),
        ("ingress_ns", np.int64),
        ("egress_ns", np.int64),
        ("marked", np.int8),
    ]
)
"""A postcard: numbers of its flow, node and site, its ``place`` in the order of arrival, its time of arrival;
the rest as in a report. ``identity`` and ``hop_limit`` are negative where unknown.
"""

MOST_HOPS = 64
_DOUBLINGS = 6
_NOWHERE = -1
DEFAULT_HOLD_NS = 20_000_000
DEFAULT_MOST_PENDING = 200_000
_LEAST_HOLD_NS, _MOST_HOLD_NS = 1_000_000, 1_000_000_000
_LATE_FOR_HOLDS = 4
_SLACK = 4096
_MOST_PLACES = 1 << 17
_SET_BACK_NS = 1_000_000_000
_NO_MARK = np.empty(0, [("flow", np.int64), ("identity", np.int64), ("at_ns", np.int64)])


class Sites:
    """Sites of hops by number, the node of each, and the node it sends to according to the topology."""

    def __init__(self, topology: Topology | None) -> None:
        self._sites: KeyTable[HopSite] = KeyTable(fingerprint_of)
        self._nodes: KeyTable[str | None] = KeyTable(lambda name: fingerprint_of((name,)))
        self._asked: Sequence[HopSite] = ()
        self._answer = np.empty(0, np.int32)
        self.set_topology(topology)

    def __len__(self) -> int:
        return len(self._sites)

    @property
    def sites(self) -> Sequence[HopSite]:
        return self._sites.keys

    def set_topology(self, topology: Topology | None) -> None:
        ports = () if topology is None else topology.ports
        self._peers = {(port.node, port.port): port.peer for port in ports}
        self._work_out(0)

    def numbers(self, sites: Sequence[HopSite]) -> NDArray[np.int32]:
        """The number of each; new ones get the next. The answer for the last object is cached."""
        if sites is self._asked:
            return self._answer
        begin = len(self._sites)
        self._asked, self._answer = sites, self._sites.numbers(sites)
        if len(self._sites) > begin:
            self._work_out(begin)
        return self._answer

    def keep(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Drops all other sites; returns the new numbers of these."""
        kept, again = np.unique(numbers, return_inverse=True)
        self._sites.keep(kept)
        self._asked = ()
        self._nodes = KeyTable(lambda name: fingerprint_of((name,)))
        self._work_out(0)
        return again.astype(np.int32)

    def _work_out(self, begin: int) -> None:
        """Sets the node and the next node of sites numbered ``begin`` and above."""
        new = self._sites.keys[begin:]
        peers = [self._peers.get((site.switch or "", site.egress_port)) for site in new]
        node = self._nodes.numbers([site.switch for site in new])
        numbered = self._nodes.numbers([peer for peer in peers if peer is not None])
        following = np.full(len(new), _NOWHERE, np.int64)
        following[[peer is not None for peer in peers]] = numbered
        if begin:
            node = np.concatenate([self.node, node])
            following = np.concatenate([self.next_node, following])
        self.node: NDArray[np.int64] = node.astype(np.int64)
        self.next_node: NDArray[np.int64] = following


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Paths of ``size`` hops each, with their ``cards`` concatenated."""

    cards: NDArray[np.void]
    size: NDArray[np.int64]

    def batch(self, flow_keys: FlowKeys, sites: Sequence[HopSite]) -> ReportBatch:
        """A report per path: least index, latest time, largest packet and sampling rate of its cards."""
        if not len(self.size):
            return ReportBatch.empty()
        cards = self.cards
        offset = offsets(self.size)
        first = offset[:-1]
        flows, flow = np.unique(cards["flow"][first], return_inverse=True)
        places, site = np.unique(cards["site"], return_inverse=True)

        def column(name: str) -> NDArray[Any]:
            return np.ascontiguousarray(cards[name])

        return ReportBatch(
            index=np.minimum.reduceat(cards["index"], first),
            ts_ns=np.maximum.reduceat(cards["ts_ns"], first),
            flow=flow.astype(np.int32),
            packet_bytes=np.maximum.reduceat(cards["packet_bytes"], first),
            sampling_rate=np.maximum.reduceat(cards["sampling_rate"], first),
            hop_offset=offset,
            hop_site=site.astype(np.int32),
            queue_bytes=column("queue_bytes"),
            ingress_ns=column("ingress_ns"),
            egress_ns=column("egress_ns"),
            marked=column("marked"),
            flow_keys=flow_keys.take(flows).compact(),
            sites=tuple([sites[number] for number in places.tolist()]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PacketPaths:
    """Postcards sorted by packet. Per packet: index of its ``first`` card and number of cards (``size``), its
    ``flow`` and ``identity`` (negative: assigned by the order in which each node sent), arrival of its first
    card (``came_ns``), and whether it ``is_late`` (its path was released before).
    """

    sorted_cards: NDArray[np.void]
    first: NDArray[np.int64]
    size: NDArray[np.int64]
    is_late: NDArray[np.bool_]

    @classmethod
    def of(cls, cards: NDArray[np.void], released: NDArray[np.void]) -> PacketPaths:
        """Groups ``cards``; ``released`` has flow and identity of packets whose path was released."""
        cards["identity"] = _identities(cards)
        order = np.lexsort((cards["place"], cards["identity"], cards["flow"]))
        cards = cards[order]
        begins = np.ones(len(cards), np.bool_)
        begins[1:] = (np.diff(cards["flow"]) != 0) | (np.diff(cards["identity"]) != 0)
        first = np.flatnonzero(begins)
        size = np.diff(first, append=len(cards))
        return cls(cards, first, size, _among(cards[first], released))

    @property
    def flow(self) -> NDArray[np.int64]:
        return self._of_first("flow")

    @property
    def identity(self) -> NDArray[np.int64]:
        return self._of_first("identity")

    @property
    def is_identified(self) -> NDArray[np.bool_]:
        identified: NDArray[np.bool_] = self.identity >= 0
        return identified

    @property
    def came_ns(self) -> NDArray[np.int64]:
        return self._of_first("came_ns")

    def _of_first(self, name: str) -> NDArray[np.int64]:
        column: NDArray[np.int64] = self.sorted_cards[name][self.first]
        return column

    def oldest(self, among: NDArray[np.bool_], leave: int) -> NDArray[np.bool_]:
        """The oldest packets in ``among`` that must go so that at most ``leave`` of their cards remain."""
        chosen = np.flatnonzero(among)
        order = chosen[np.argsort(self.sorted_cards["place"][self.first[chosen]])]
        left = int(self.size[chosen].sum()) - np.cumsum(self.size[order])
        go = np.zeros(len(among), np.bool_)
        go[order[: int(np.searchsorted(-left, -leave)) + 1]] = True
        return go

    def cards(self, packets: NDArray[np.bool_]) -> NDArray[np.void]:
        """The cards of these packets in order of arrival, without assigned identities."""
        kept = self.sorted_cards[np.repeat(packets, self.size)]
        kept["identity"] = np.maximum(kept["identity"], -1)
        return kept[np.argsort(kept["place"])]

    def released(self, packets: NDArray[np.bool_], places: Sites) -> tuple[Paths, int]:
        """The paths of these packets, each node once per path, and how many cards were left out."""
        packet = np.repeat(np.arange(len(self.first)), self.size)
        every = np.repeat(packets, self.size)
        cards, packet = self.sorted_cards[every], packet[every]
        order = np.lexsort((cards["place"], cards["node"], packet))
        again = np.zeros(len(cards), np.bool_)
        again[1:] = (np.diff(packet[order]) == 0) & (np.diff(cards["node"][order]) == 0)
        kept = order[~again]
        cards, packet = cards[kept], packet[kept]
        order = np.lexsort((cards["place"], *_ranks(cards, packet, places), packet))
        cards, packet = cards[order], packet[order]
        size = np.bincount(packet, minlength=len(self.first))[packets]
        rank = np.arange(len(cards)) - np.repeat(np.cumsum(size) - size, size)
        within = rank < MOST_HOPS
        return Paths(cards[within], np.minimum(size, MOST_HOPS)), int(every.sum() - within.sum())


def _identities(cards: NDArray[np.void]) -> NDArray[np.int64]:
    """Identities; without one, -2, -3, ... for the first, second, ... card that a node sent of the flow."""
    identity: NDArray[np.int64] = cards["identity"].copy()
    rows = np.flatnonzero(identity < 0)
    some = cards[rows]
    order = np.lexsort((some["place"], some["node"], some["flow"]))
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (np.diff(some["flow"][order]) != 0) | (np.diff(some["node"][order]) != 0)
    begin = np.flatnonzero(begins)
    turn = np.arange(len(rows)) - np.repeat(begin, np.diff(begin, append=len(rows)))
    identity[rows[order]] = -2 - turn
    return identity


def _among(packets: NDArray[np.void], released: NDArray[np.void]) -> NDArray[np.bool_]:
    """Which of these distinct packets were released."""
    flow = np.concatenate([released["flow"], packets["flow"]])
    identity = np.concatenate([released["identity"], packets["identity"]])
    order = np.lexsort((np.arange(len(flow)), identity, flow))  # a released one sorts before its equal
    like_before = np.zeros(len(flow), np.bool_)
    like_before[order[1:]] = (np.diff(flow[order]) == 0) & (np.diff(identity[order]) == 0)
    return like_before[len(released) :]


def _ranks(
    cards: NDArray[np.void], packet: NDArray[np.int64], places: Sites
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort keys of a packet's hops, least important first; ``packet`` is sorted."""
    limit = cards["hop_limit"].astype(np.int64)
    silent = np.unique(packet[limit < 0])
    falling = np.where(np.isin(packet, silent), 0, -limit)
    return -_hops_to_go(cards, packet, places), falling


def _hops_to_go(cards: NDArray[np.void], packet: NDArray[np.int64], places: Sites) -> NDArray[np.int64]:
    """How many of the packet's other nodes follow each card's node, according to the topology."""
    bound = np.int64(max(int(places.node.max(initial=0)), int(places.next_node.max(initial=0))) + 1)
    here = packet * bound + cards["node"]  # sorted, and no two alike
    following = places.next_node[cards["site"]]
    wanted = packet * bound + following
    found = np.minimum(np.searchsorted(here, wanted), max(len(here) - 1, 0))
    onward = np.where((following != _NOWHERE) & (here[found] == wanted), found, _NOWHERE)
    to_go = (onward != _NOWHERE).astype(np.int64)
    for _ in range(_DOUBLINGS):
        walking = np.flatnonzero(onward != _NOWHERE)
        to_go[walking] += to_go[onward[walking]]
        onward[walking] = onward[onward[walking]]
    capped: NDArray[np.int64] = np.minimum(to_go, MOST_HOPS)  # a loop would exceed it
    return capped


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
    A packet is identified by its flow, RoCEv2's queue pair and sequence number or TCP's sequence number, and
    IPv4's identification. Without any of these, the first postcards of each node about the flow
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
        return self._pending

    def set_topology(self, topology: Topology | None) -> None:
        self._places.set_topology(topology)

    def merged(self, reports: P4Reports, now_ns: int) -> ReportBatch:
        """Adds reports received at ``now_ns``; returns those that need no merging (several hops, or no
        packet), then the paths that are due. Reports of dropped packets are left out.
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
        cards["identity"] = _identities_of(reports)[rows]
        cards["site"] = self._places.numbers(batch.sites)[batch.hop_site[hops]]
        cards["node"] = self._places.node[cards["site"]]
        cards["place"] = np.arange(self._came, self._came + len(rows))
        cards["came_ns"] = self._now_ns
        cards["hop_limit"] = reports.hop_limit[rows]
        for name in ("index", "ts_ns", "packet_bytes", "sampling_rate"):
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
        # Here, not where they are marked: after a silence that was long ago.
        fresh = self._oldest_ns - self._released["at_ns"] < _LATE_FOR_HOLDS * self._hold_ns
        self._released = self._released[fresh]
        packets = PacketPaths.of(np.concatenate(self._held), self._released)
        chosen = packets.is_late | (packets.came_ns <= before_ns)
        hurried = 0
        if int(packets.size[~chosen].sum()) > self._max_pending:
            oldest = packets.oldest(~chosen, self._max_pending // 2)
            hurried = int(np.count_nonzero(oldest))
            chosen |= oldest
        released, surplus = packets.released(chosen & ~packets.is_late, self._places)
        rest = packets.cards(~chosen)
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
        """Remembers released packets, to know late postcards by."""
        known = np.flatnonzero(chosen & ~packets.is_late & packets.is_identified)
        marks = np.empty(len(known), _NO_MARK.dtype)
        marks["flow"], marks["identity"] = packets.flow[known], packets.identity[known]
        marks["at_ns"] = self._now_ns
        self._released = np.concatenate([self._released, marks])[-self._max_pending :]

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


def _identities_of(reports: P4Reports) -> NDArray[np.int64]:
    """A number per packet of a flow, ``NO_VALUE`` where it is unknown."""
    pair, sequence = reports.queue_pair.astype(np.uint64), reports.packet_sequence.astype(np.uint64)
    other = reports.packet_identity
    # All CNPs have sequence number 0, and a packet that is sent again has that of the first.
    identification: NDArray[np.uint64] = np.maximum(other, 0).astype(np.uint64)
    named = (pair << np.uint64(40)) | (sequence << np.uint64(16)) | identification
    roce = (mixed(named) >> np.uint64(1)).astype(np.int64)
    return np.where(reports.queue_pair != NOT_ROCE, roce, np.where(other >= 0, other, NO_VALUE))

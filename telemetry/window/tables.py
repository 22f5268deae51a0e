"""The flows, paths and egress queues a window has met, by number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import GrowingArray, Ragged, as_they_appear, fingerprint_of, mixed, take_rows
from telemetry.report import FlowKeys, HopSite
from telemetry.state import QueueRef
from telemetry.topology import Topology
from telemetry.window.hash_table import ABSENT, FingerprintTable, KeyTable, renumbered
from telemetry.window.samples import NEVER_NS, Samples, used_numbers

_ONE = np.int32(1)  # of the column's type, which makes ufunc.at thirty times as fast


class KnownFlows:
    """Numbers flows 0, 1, 2, ... as they appear, in columns of about 60 bytes per flow.

    It counts the samples held of each flow (``hold``, ``release``), and remembers when the last one that is
    no longer held was seen.
    """

    def __init__(self) -> None:
        self._hosts: KeyTable[str] = KeyTable(lambda host: fingerprint_of((host,)))
        self._table = FingerprintTable(numbers=True)
        self._fingerprint = GrowingArray(np.uint64)
        self._src, self._dst = GrowingArray(np.int32), GrowingArray(np.int32)
        self._sport, self._dport = GrowingArray(np.uint16), GrowingArray(np.uint16)
        self._protocol = GrowingArray(np.uint8)
        self._before_ns = GrowingArray(np.int64)
        self._held = GrowingArray(np.int32)

    def __len__(self) -> int:
        return len(self._fingerprint)

    @property
    def held(self) -> NDArray[np.int32]:
        return self._held.values

    @property
    def before_ns(self) -> NDArray[np.int64]:
        """When each flow was last seen by a sample that is no longer held; ``NEVER_NS`` without one."""
        return self._before_ns.values

    @property
    def all_fingerprints(self) -> NDArray[np.uint64]:
        return self._fingerprint.values

    def keys(self) -> FlowKeys:
        return FlowKeys(
            tuple(self._hosts.keys),
            self._src.values.copy(),
            self._dst.values.copy(),
            self._sport.values.copy(),
            self._dport.values.copy(),
            self._protocol.values.copy(),
        )

    def fingerprints(self, keys: FlowKeys) -> NDArray[np.uint64]:
        """The fingerprint of each key, without numbering new ones."""
        return keys.fingerprints(self._hosts.fingerprints(keys.hosts))

    def numbers(self, keys: FlowKeys, fingerprints: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The number of each key, by its fingerprint; new keys get the next ones."""
        found = self._table.find(fingerprints)
        new = np.flatnonzero(found == ABSENT)
        if len(new) == 0:
            return found
        first, number = as_they_appear(fingerprints[new])
        rows = new[first]
        found[new] = len(self) + number
        self._append(keys.take(rows), fingerprints[rows])
        return found

    def hold(self, flow: NDArray[np.int32]) -> None:
        """Counts new samples of these flows (negative numbers are merged flows)."""
        live = flow[flow >= 0].astype(np.intp)
        np.add.at(self._held.values, live, _ONE)

    def release(self, flow: NDArray[np.int32], ts_ns: NDArray[np.int64]) -> None:
        """Uncounts samples of these flows, seen at ``ts_ns`` (negative numbers are merged flows)."""
        live = flow >= 0
        np.subtract.at(self._held.values, flow[live].astype(np.intp), _ONE)
        self.pass_by(flow[live], ts_ns[live])

    def pass_by(self, flow: NDArray[np.int32], ts_ns: NDArray[np.int64]) -> None:
        """Notes when these flows were seen by samples that are not held."""
        np.maximum.at(self._before_ns.values, flow.astype(np.intp), ts_ns)

    def recount(self, parts: Iterable[Samples]) -> None:
        held = np.zeros(len(self), np.int64)
        for part in parts:
            held += np.bincount(part.flow[part.flow >= 0], minlength=len(self))
        self._held.replace(held)

    def keep(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Drops all other flows and renumbers these; returns new number by old (``GONE``: dropped)."""
        new_number = renumbered(numbers, len(self))
        for column in (
            *(self._fingerprint, self._src, self._dst, self._sport, self._dport, self._protocol),
            *(self._before_ns, self._held),
        ):
            column.replace(column.values[numbers])
        ends = np.unique(np.concatenate((self._src.values, self._dst.values)))
        host = self._hosts.keep(ends.astype(np.int64))
        self._src.replace(host[self._src.values])
        self._dst.replace(host[self._dst.values])
        self._table = FingerprintTable(len(self), numbers=True)
        self._table.add(self.all_fingerprints, np.arange(len(self), dtype=np.int32))
        return new_number

    def _append(self, keys: FlowKeys, fingerprints: NDArray[np.uint64]) -> None:
        self._table.add(fingerprints, np.arange(len(self), len(self) + len(keys), dtype=np.int32))
        used, ends = np.unique(np.concatenate((keys.src, keys.dst)), return_inverse=True)
        host = self._hosts.numbers([keys.hosts[number] for number in used.tolist()])[ends]
        self._fingerprint.extend(fingerprints)
        self._src.extend(host[: len(keys)])
        self._dst.extend(host[len(keys) :])
        self._sport.extend(keys.sport)
        self._dport.extend(keys.dport)
        self._protocol.extend(keys.protocol)
        self._before_ns.extend(np.full(len(keys), NEVER_NS, np.int64))
        self._held.extend(np.zeros(len(keys), np.int32))


Path = tuple[HopSite, ...]
Paths = Ragged[HopSite]

UNKNOWN_QUEUE = -1
"""``QueueRef.queue`` where the device gives the egress port but not the queue."""


def queue_of(site: HopSite) -> QueueRef | None:
    """The egress queue of a hop; None where the switch or port is unknown."""
    if site.switch is None or site.egress_port is None:
        return None
    return QueueRef(site.switch, site.egress_port, UNKNOWN_QUEUE if site.queue is None else site.queue)


def misplaced(sites: Sequence[HopSite], topology: Topology) -> dict[int, tuple[str, str]]:
    """Received value and rule of the error for each site outside the declared topology, by its index."""
    declared, wrong = topology.port_names, {}
    for number, (switch, came, goes, _) in enumerate(sites):
        if switch is None:
            continue
        if (ports := declared.get(switch)) is None:
            wrong[number] = f"switch {switch!r}", "a hop's switch is one of the declared topology's"
            continue
        no_ingress = came is not None and came not in ports
        if no_ingress or (goes is not None and goes not in ports):
            port = f"ingress_port {came!r}" if no_ingress else f"egress_port {goes!r}"
            rule = "a hop's ports are declared, each with the cable it holds"
            wrong[number] = f"{port} of switch {switch!r}", rule
    return wrong


class KnownPaths:
    """Numbers paths 0, 1, 2, ... as they appear, in columns of about 30 bytes per path and 4 per hop.

    It holds at most ``max_paths`` paths over ``max_queues`` egress queues.
    """

    def __init__(self, max_paths: int, max_queues: int) -> None:
        self._max_paths = max_paths
        self._max_queues = max_queues
        self._sites: KeyTable[HopSite] = KeyTable(fingerprint_of)
        self._queues: set[tuple[str, str, int]] = set()
        self._table = FingerprintTable(numbers=True)
        self._fingerprint = GrowingArray(np.uint64)
        self._end = GrowingArray(np.int64)
        self._site = GrowingArray(np.int32)

    def __len__(self) -> int:
        return len(self._fingerprint)

    def paths(self) -> Paths:
        return Ragged(tuple(self._sites.keys), self._offset(), self._site.values.copy())

    def site_fingerprints(self, sites: tuple[HopSite, ...]) -> NDArray[np.uint64]:
        return self._sites.fingerprints(sites)

    def numbers(
        self,
        fingerprints: NDArray[np.uint64],
        sites: tuple[HopSite, ...],
        hop_offset: NDArray[np.int64],
        hop_site: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """The path number of each report by its path's fingerprint; ``ABSENT`` where there is no room for it.

        ``hop_offset`` and ``hop_site`` (into ``sites``) are the reports' hops.
        """
        found = self._table.find(fingerprints)
        new = np.flatnonzero(found == ABSENT)
        if len(new) == 0:
            return found
        first, path = as_they_appear(fingerprints[new])
        rows = new[first]
        offset, hops = take_rows(hop_offset, rows)
        used, place_of = np.unique(hop_site[hops], return_inverse=True)
        places = _Sites(sites, used, self._sites, self._queues)
        roomy = self._roomy(offset, place_of, places)
        number = np.full(len(rows), ABSENT, np.int64)
        number[roomy] = len(self) + np.arange(np.count_nonzero(roomy))
        found[new] = number[path]
        self._append(fingerprints[rows], offset, place_of, places, np.flatnonzero(roomy))
        return found

    def keep(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Drops all other paths and renumbers these; returns new number by old (``GONE``: dropped)."""
        new_number = renumbered(numbers, len(self))
        offset, hops = take_rows(self._offset(), numbers)
        site = self._site.values[hops]
        met = used_numbers([site], len(self._sites))
        self._site.replace(self._sites.keep(np.flatnonzero(met))[site])
        self._end.replace(offset[1:])
        self._fingerprint.replace(self._fingerprint.values[numbers])
        self._table = FingerprintTable(len(self), numbers=True)
        self._table.add(self._fingerprint.values, np.arange(len(self), dtype=np.int32))
        self._queues = {ref for site in self._sites.keys if (ref := queue_of(site)) is not None}
        return new_number

    def _offset(self) -> NDArray[np.int64]:
        return np.concatenate((np.zeros(1, np.int64), self._end.values))

    def _roomy(
        self, offset: NDArray[np.int64], place_of: NDArray[np.int64], places: _Sites
    ) -> NDArray[np.bool_]:
        """Which of these new paths there is room for, first come first served."""
        n_paths = self._max_paths - len(self)
        n_queues = self._max_queues - len(self._queues)
        if len(offset) - 1 <= n_paths and len(places.queues) <= n_queues:
            return np.ones(len(offset) - 1, np.bool_)
        lacks = places.lacked[place_of]
        granted = np.zeros(len(places.queues) + 1, np.bool_)
        granted[_NONE] = True
        for path in np.flatnonzero(np.maximum.reduceat(lacks, offset[:-1]) != _NONE).tolist():
            if n_queues == 0:
                break
            wanted = {one for one in lacks[offset[path] : offset[path + 1]].tolist() if not granted[one]}
            if len(wanted) <= n_queues:
                granted[list(wanted)] = True
                n_queues -= len(wanted)
        room: NDArray[np.bool_] = np.logical_and.reduceat(granted[lacks], offset[:-1])
        room[np.flatnonzero(room)[n_paths:]] = False
        return room

    def _append(
        self,
        fingerprints: NDArray[np.uint64],
        offset: NDArray[np.int64],
        place_of: NDArray[np.int64],
        places: _Sites,
        chosen: NDArray[np.int64],
    ) -> None:
        self._table.add(fingerprints[chosen], np.arange(len(self), len(self) + len(chosen), dtype=np.int32))
        self._fingerprint.extend(fingerprints[chosen])
        cut, hops = take_rows(offset, chosen)
        travelled = place_of[hops]
        met = used_numbers([travelled], len(places.number))[places.new]
        fresh = list(compress(places.fresh, met.tolist()))
        places.number[places.new[met]] = self._sites.add(fresh, places.fingerprint[met])
        lacked = used_numbers([places.lacked[travelled]], len(places.queues))
        self._queues.update(compress(places.queues, lacked.tolist()))
        self._end.extend(len(self._site) + cut[1:])
        self._site.extend(places.number[travelled])


_NONE = -1
"""Of a site: its queue is known, or it has none."""


class _Sites:
    """The number of each site that is ``used`` (``ABSENT``: new), and which of the new ``queues`` it has
    (``_NONE``: a known one, or none); of the new sites the indices, the sites themselves and fingerprints.
    """

    def __init__(
        self,
        sites: tuple[HopSite, ...],
        used: NDArray[np.int32],
        known: KeyTable[HopSite],
        queues: set[tuple[str, str, int]],
    ) -> None:
        self.number = known.find([sites[number] for number in used.tolist()])
        self.new = np.flatnonzero(self.number == ABSENT)
        self.fresh = [sites[number] for number in used[self.new].tolist()]
        self.fingerprint = known.fingerprints(sites)[used[self.new]]
        self.queues: dict[tuple[str, str, int], int] = {}
        self.lacked = np.full(len(used), _NONE, np.int32)
        for place, (switch, _, port, queue) in zip(self.new.tolist(), self.fresh, strict=True):
            if switch is not None and port is not None:
                # As ``queue_of``, in a plain tuple: a ``QueueRef`` takes several times as long to make.
                ref = switch, port, UNKNOWN_QUEUE if queue is None else queue
                if ref not in queues:
                    self.lacked[place] = self.queues.setdefault(ref, len(self.queues))


def path_fingerprints(hop_offset: NDArray[np.int64], site: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The fingerprint of each report's path, from those of its hops' sites (every report has a hop)."""
    count = np.diff(hop_offset)
    place = np.arange(len(site)) - np.repeat(hop_offset[:-1], count)
    hop = mixed(site + place.astype(np.uint64))
    return mixed(np.add.reduceat(hop, hop_offset[:-1]) + count.astype(np.uint64))

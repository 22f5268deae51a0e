"""The paths and egress queues a window has met, by number; imports only numpy and ``telemetry``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from telemetry.appearance import as_they_appear
from telemetry.columns import Ragged, take_rows
from telemetry.fingerprint import fingerprint_of, mixed
from telemetry.growing import GrowingArray
from telemetry.report import HopSite
from telemetry.state import QueueRef
from telemetry.window.hash_table import ABSENT
from telemetry.window.interning import GONE, KeyTable
from telemetry.window.number_table import NumberTable
from telemetry.window.places import Paths, queue_of

_MOST_REMEMBERED = 262_144


class KnownPaths:
    """Numbers paths 0, 1, 2, ... as they appear, in columns: some 30 bytes a path and 4 a hop.

    It holds at most ``max_paths``, over at most ``max_queues`` egress queues.
    """

    def __init__(self, max_paths: int, max_queues: int) -> None:
        self._max_paths = max_paths
        self._max_queues = max_queues
        self._fingerprint_of = lru_cache(_MOST_REMEMBERED)(fingerprint_of)
        self._sites: KeyTable[HopSite] = KeyTable(self._fingerprint_of)
        self._queues: set[QueueRef] = set()
        self._table = NumberTable()
        self._fingerprint = GrowingArray(np.uint64)
        self._end = GrowingArray(np.int64)
        self._site = GrowingArray(np.int32)

    def __len__(self) -> int:
        return len(self._fingerprint)

    def paths(self) -> Paths:
        """A copy of every path, by number."""
        return Ragged(tuple(self._sites.keys), self._offset(), self._site.values.copy())

    def site_fingerprints(self, sites: tuple[HopSite, ...]) -> NDArray[np.uint64]:
        """The fingerprint of each place."""
        return self._sites.fingerprints(sites)

    def numbers(
        self,
        fingerprints: NDArray[np.uint64],
        sites: Sequence[HopSite],
        hop_offset: NDArray[np.int64],
        hop_site: NDArray[np.int32],
    ) -> NDArray[np.int32]:
        """The path number of each report by its path's fingerprint; ``ABSENT`` where there is no room for
        it. ``hop_offset`` and ``hop_site`` (into ``sites``) are the reports' hops.
        """
        found = self._table.find(fingerprints)
        new = np.flatnonzero(found == ABSENT)
        if len(new) == 0:
            return found
        first, path = as_they_appear(fingerprints[new])
        rows = new[first]
        offset, hops = take_rows(hop_offset, rows)
        used, place_of = np.unique(hop_site[hops], return_inverse=True)
        places = _Places([sites[number] for number in used.tolist()], self._sites)
        roomy = self._roomy(offset, place_of, places)
        number = np.full(len(rows), ABSENT, np.int64)
        number[roomy] = len(self) + np.arange(np.count_nonzero(roomy))
        found[new] = number[path]
        self._append(fingerprints[rows], offset, place_of, places, np.flatnonzero(roomy))
        return found

    def keep(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Drop all others and renumber these in order; returns new number by old (``GONE`` for dropped)."""
        renumbered = np.full(len(self), GONE, np.int32)
        renumbered[numbers] = np.arange(len(numbers), dtype=np.int32)
        offset, hops = take_rows(self._offset(), numbers)
        site = self._site.values[hops]
        self._site.replace(self._sites.keep(np.unique(site).astype(np.int64))[site])
        self._end.replace(offset[1:])
        self._fingerprint.replace(self._fingerprint.values[numbers])
        self._table = NumberTable()
        self._table.add(self._fingerprint.values, np.arange(len(self), dtype=np.int32))
        self._queues = _queues_of(self._sites.keys)
        return renumbered

    def _offset(self) -> NDArray[np.int64]:
        return np.concatenate((np.zeros(1, np.int64), self._end.values))

    def _roomy(
        self, offset: NDArray[np.int64], place_of: NDArray[np.int64], places: _Places
    ) -> NDArray[np.bool_]:
        """Which of these new paths there is room for, the first to come first."""
        n_new = len(offset) - 1
        fresh = _queues_of(places.sites[new] for new in places.new) - self._queues
        if len(self) + n_new <= self._max_paths and len(self._queues) + len(fresh) <= self._max_queues:
            return np.ones(n_new, np.bool_)
        room = np.zeros(n_new, np.bool_)
        n_paths, queues = len(self), set(self._queues)
        refs = [queue_of(site) for site in places.sites]
        for path in range(n_new):
            hops = place_of[offset[path] : offset[path + 1]].tolist()
            fresh = {ref for hop in hops if (ref := refs[hop]) is not None} - queues
            if n_paths < self._max_paths and len(queues) + len(fresh) <= self._max_queues:
                room[path] = True
                n_paths += 1
                queues |= fresh
        return room

    def _append(
        self,
        fingerprints: NDArray[np.uint64],
        offset: NDArray[np.int64],
        place_of: NDArray[np.int64],
        places: _Places,
        chosen: NDArray[np.int64],
    ) -> None:
        self._table.add(fingerprints[chosen], np.arange(len(self), len(self) + len(chosen), dtype=np.int32))
        self._fingerprint.extend(fingerprints[chosen])
        cut, hops = take_rows(offset, chosen)
        travelled = place_of[hops]
        met = np.zeros(len(places.sites), np.bool_)
        met[travelled] = True
        new = [place for place in places.new if met[place]]
        fresh = [places.sites[place] for place in new]
        self._queues |= _queues_of(fresh)
        places.number[new] = self._sites.numbers(fresh)
        self._end.extend(len(self._site) + cut[1:])
        self._site.extend(places.number[travelled])


class _Places:
    """Distinct places among hops, their numbers (``ABSENT``: not met before), and which those are."""

    def __init__(self, sites: list[HopSite], known: KeyTable[HopSite]) -> None:
        self.sites = sites
        self.number = known.find(sites)
        self.new: list[int] = np.flatnonzero(self.number == ABSENT).tolist()


def _queues_of(sites: Iterable[HopSite]) -> set[QueueRef]:
    return {ref for site in sites if (ref := queue_of(site)) is not None}


def path_fingerprints(hop_offset: NDArray[np.int64], site: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The fingerprint of each report's path, from those of its hops' places (every report has a hop)."""
    count = np.diff(hop_offset)
    place = np.arange(len(site)) - np.repeat(hop_offset[:-1], count)
    hop = mixed(site + place.astype(np.uint64))
    return mixed(np.add.reduceat(hop, hop_offset[:-1]) + count.astype(np.uint64))

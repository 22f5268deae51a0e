"""Host names of flows, and the path and egress queues of each sample of a window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import Ragged, as_they_appear, mixed, offsets
from telemetry.report import FlowKeys
from telemetry.state import QueueRef
from telemetry.topology import Topology
from telemetry.window.samples import Samples
from telemetry.window.tables import Paths, queue_of

NOBODY = -1
"""The number of an unknown host."""


@dataclass(frozen=True, slots=True, eq=False)
class HostNames:
    """Host names by number, and the ``src`` and ``dst`` host of each flow. An address that is not in the
    topology is its own name.
    """

    names: tuple[str, ...]
    src: NDArray[np.int64]
    dst: NDArray[np.int64]

    @classmethod
    def of(cls, keys: FlowKeys, topology: Topology) -> HostNames:
        """Names of these flows' ends, and of the topology's hosts."""
        numbers = {host.name: number for number, host in enumerate(topology.hosts)}
        known = topology.host_by_address
        of_host = np.array(
            [numbers.setdefault(known.get(host, host), len(numbers)) for host in keys.hosts], np.int64
        )
        return cls(tuple(numbers), of_host[keys.src], of_host[keys.dst])

    def names_of(self, numbers: NDArray[np.int64]) -> tuple[str, ...]:
        return tuple(map(self.names.__getitem__, numbers.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Paths and queues of the samples, numbered as in the state.

    ``site_paths`` are distinct by hop sites (``row_site_path`` per sample), ``paths`` by egress queues
    (``row_path`` per sample); ``refs`` are the egress queues, ``hop_queue`` the index of each hop's (-1:
    unknown).
    """

    site_paths: Paths
    row_site_path: NDArray[np.int64]
    paths: Ragged[QueueRef]
    row_path: NDArray[np.int32]
    refs: tuple[QueueRef, ...]
    hop_queue: NDArray[np.int32]


def placement(samples: Samples, path_sites: Paths) -> Placement:
    """Paths and queues of samples (in canonical order) whose path numbers index ``path_sites``."""
    # Numbered by appearance in the samples, so that numbers do not depend on the order of arrival.
    first, row_site_path = as_they_appear(samples.path)
    site_paths = path_sites.take(samples.path[first].astype(np.int64))
    refs, queue = _queues(site_paths)
    paths, path_of = _by_queues(site_paths.offset, queue, refs)
    hop_row = samples.hop_row
    place = np.arange(len(hop_row)) - samples.hop_offset[:-1][hop_row]
    hop_queue = queue[site_paths.offset[row_site_path[hop_row]] + place]
    return Placement(site_paths, row_site_path, paths, path_of[row_site_path], refs, hop_queue)


def _queues(paths: Paths) -> tuple[tuple[QueueRef, ...], NDArray[np.int32]]:
    """The egress queues on these paths, sorted, and the index of each hop's (-1: unknown)."""
    used, hop = np.unique(paths.number, return_inverse=True)
    queues = [queue_of(paths.things[site]) for site in used.tolist()]
    refs = tuple(sorted({ref for ref in queues if ref is not None}))
    number_of = {ref: number for number, ref in enumerate(refs)}
    numbers = [-1 if ref is None else number_of[ref] for ref in queues]
    return refs, np.array(numbers, np.int32)[hop]


def _by_queues(
    offset: NDArray[np.int64], queue: NDArray[np.int32], refs: tuple[QueueRef, ...]
) -> tuple[Ragged[QueueRef], NDArray[np.int32]]:
    """The distinct paths by egress queues, without unknown ones, and the index of each path among them."""
    known = queue >= 0
    ends = offsets(known)[offset]
    queue = queue[known]
    place = np.arange(len(queue)) - np.repeat(ends[:-1], np.diff(ends))
    hops = mixed((queue.astype(np.uint64) << np.uint64(32)) + place.astype(np.uint64))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(hops, dtype=np.uint64)))
    # Two paths with one fingerprint (one pair in 2**64) would be taken for one.
    fingerprint = mixed(sums[ends[1:]] - sums[ends[:-1]] + np.diff(ends).astype(np.uint64))
    first, path = as_they_appear(fingerprint)
    return Ragged(refs, ends, queue).take(first), path.astype(np.int32)

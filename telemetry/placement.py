"""Which path and which egress queues each sample of a window went through; imports only numpy and
``telemetry``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from telemetry.places import Path, queue_of, queues_of
from telemetry.samples import Samples
from telemetry.state import QueueRef


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Paths and queues of the samples, numbered as the state shows them.

    ``site_paths`` are distinct by hop sites (``row_site_path`` per sample), ``paths`` by egress queues
    (``row_path`` per sample); ``refs`` the egress queues, ``hop_queue`` per hop its number in ``refs`` (-1:
    not told).
    """

    site_paths: list[Path]
    row_site_path: NDArray[np.int64]
    paths: tuple[tuple[QueueRef, ...], ...]
    row_path: NDArray[np.int32]
    refs: tuple[QueueRef, ...]
    hop_queue: NDArray[np.int32]


def placement(samples: Samples, path_sites: Sequence[Path]) -> Placement:
    """Place samples (in canonical order) whose path numbers index ``path_sites``."""
    used, first, row_site_path = np.unique(samples.path, return_index=True, return_inverse=True)
    # Numbered as they first appear in the samples, so that the numbers do not depend on arrival order.
    rank = np.empty(len(used), np.int64)
    rank[np.argsort(first)] = np.arange(len(used))
    site_paths = [path_sites[number] for number in used[np.argsort(first)].tolist()]
    row_site_path = rank[row_site_path]
    numbers: dict[tuple[QueueRef, ...], int] = {}
    path_of = np.array([numbers.setdefault(queues_of(path), len(numbers)) for path in site_paths], np.int32)
    refs = tuple(sorted({ref for path in numbers for ref in path}))
    number_of = {ref: number for number, ref in enumerate(refs)}
    counts = np.array([len(path) for path in site_paths], np.int64)
    flat = np.array(
        [
            number_of[ref] if (ref := queue_of(site)) is not None else -1
            for path in site_paths
            for site in path
        ],
        np.int32,
    )
    begin = np.cumsum(counts) - counts
    row = samples.hop_row
    place = np.arange(len(row)) - samples.hop_offset[:-1][row]
    hop_queue = flat[begin[row_site_path[row]] + place]
    return Placement(site_paths, row_site_path, tuple(numbers), path_of[row_site_path], refs, hop_queue)

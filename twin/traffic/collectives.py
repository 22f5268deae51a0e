"""Collectives of training jobs, ring all-reduce and all-to-all, iteration after iteration.

As in a job, a rank waits for the data it needs and for its own earlier send, then computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twin.errors import ParameterError, check_above_zero, check_count, check_not_negative
from twin.traffic.base import Hosts, Seed, Traffic, check_duration, check_flows, generator_of

_MOST_DEPENDENCIES = 50_000_000  # 400 MB of row numbers


@dataclass(frozen=True, kw_only=True)
class _Collective:
    """Groups, iterations and compute times of a collective.

    Hosts form groups of ``group_size`` (None: one group of all; a rest too small for a group is left out):
    ``packed`` groups neighbours, ``spread`` hosts at equal distances. A rank computes for ``compute_s``
    ± ``compute_jitter`` (a share of it) before each iteration but the first. ``iterations`` None: as many as
    fit the duration on an idle fabric.
    """

    group_size: int | None = None
    placement: str = "packed"
    compute_s: float = 0.0
    compute_jitter: float = 0.0
    iterations: int | None = None

    def __post_init__(self) -> None:
        if self.group_size is not None:
            check_count("collective group_size", self.group_size, least=2)
        if self.placement not in ("packed", "spread"):
            raise ParameterError(
                "collective placement", repr(self.placement), "known: packed, spread", "choose one of them"
            )
        check_not_negative("collective compute_s", self.compute_s)
        check_not_negative("collective compute_jitter", self.compute_jitter)
        if self.compute_jitter > 1:
            raise ParameterError(
                "collective compute_jitter", str(self.compute_jitter), "it is a share, up to 1", "lower it"
            )
        if self.iterations is not None:
            check_count("collective iterations", self.iterations)

    def groups(self, hosts: Hosts) -> tuple[NDArray[np.int32], ...]:
        """The hosts of each group, in rank order."""
        size = hosts.count if self.group_size is None else self.group_size
        if size > hosts.count:
            raise ParameterError(
                "collective group_size", str(size), f"there are {hosts.count} hosts", "lower it"
            )
        members = np.arange(hosts.count // size * size, dtype=np.int32).reshape(-1, size)
        if self.placement == "spread":
            members = members.reshape(size, -1).T
        return tuple(members)

    def _repeated(
        self,
        hosts: Hosts,
        duration_s: float,
        seed: Seed,
        sending_s: Callable[[int], float],
        rows: Callable[[int], int],
        build: Callable[[NDArray[np.int32], int, NDArray[np.float64]], Traffic],
    ) -> Traffic:
        """Every group's iterations; ``build`` gets the group, their number and each rank's gaps before them
        [iterations, ranks]. An iteration of n ranks sends for ``sending_s(n)`` and is ``rows(n)`` flows.
        """
        check_duration(duration_s)
        generator = generator_of(seed)
        groups = self.groups(hosts)
        parts = []
        for group in groups:
            once_s = sending_s(len(group)) + self.compute_s
            iterations = self.iterations or max(1, math.floor(duration_s / once_s))
            check_flows("collective", iterations * rows(len(group)) * len(groups))
            spread = generator.uniform(-1.0, 1.0, (iterations, len(group))) * self.compute_jitter
            gaps = self.compute_s * (1.0 + spread)
            gaps[0] = 0.0
            parts.append(build(group, iterations, gaps))
        return Traffic.merged(*parts)


@dataclass(frozen=True, kw_only=True)
class RingAllReduce(_Collective):
    """n ranks in a ring reduce ``size_bytes`` held by each, in 2(n − 1) steps of a chunk of 1/n of it.

    In a step every rank sends a chunk to the next one, after sending its last one and receiving that of the
    previous rank (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69(2), 2009). A rank begins the next
    iteration when it has sent and received the last chunk, and computed.
    """

    size_bytes: float = 4_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero("ring-all-reduce size_bytes", self.size_bytes)

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """All steps of all iterations, each with a ``start_s`` of 0."""
        return self._repeated(
            hosts,
            duration_s,
            seed,
            sending_s=lambda ranks: 2 * (ranks - 1) * hosts.alone_s(self._chunk_bytes(ranks)),
            rows=lambda ranks: 2 * (ranks - 1) * ranks,
            build=self._ring,
        )

    def _chunk_bytes(self, ranks: int) -> float:
        return float(math.ceil(self.size_bytes / ranks))

    def _ring(self, group: NDArray[np.int32], iterations: int, gaps: NDArray[np.float64]) -> Traffic:
        ranks = len(group)
        steps = 2 * (ranks - 1)
        rank = np.arange(ranks)
        waits = np.stack([rank, (rank - 1) % ranks], axis=1)
        gap = np.zeros((iterations, steps, ranks))
        gap[:, 0] = gaps
        return _chained(
            src=np.tile(group, iterations * steps),
            dst=np.tile(group[(rank + 1) % ranks], iterations * steps),
            each_bytes=self._chunk_bytes(ranks),
            waits=np.tile(waits, (iterations * steps - 1, 1, 1)),
            gap_s=gap.ravel(),
        )


@dataclass(frozen=True, kw_only=True)
class AllToAll(_Collective):
    """Every rank sends ``each_bytes`` to every other one of its group, once an iteration.

    ``schedule`` ``together``: all at once. ``rounds``: one at a time, in round k to the k-th next rank, so
    that no rank receives from two at once unless one is late. A rank begins the next iteration when it has
    sent and received all of this one, and computed.
    """

    each_bytes: float = 250_000
    schedule: str = "together"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero("all-to-all each_bytes", self.each_bytes)
        if self.schedule not in ("together", "rounds"):
            raise ParameterError(
                "all-to-all schedule", repr(self.schedule), "known: together, rounds", "choose one of them"
            )

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """All messages of all iterations, each with a ``start_s`` of 0."""
        build = self._together if self.schedule == "together" else self._rounds
        return self._repeated(
            hosts,
            duration_s,
            seed,
            sending_s=lambda ranks: (ranks - 1) * hosts.alone_s(self.each_bytes),
            rows=lambda ranks: (ranks - 1) * ranks,
            build=build,
        )

    def _together(self, group: NDArray[np.int32], iterations: int, gaps: NDArray[np.float64]) -> Traffic:
        ranks = len(group)
        rank, turn = np.arange(ranks)[:, None], np.arange(ranks - 1)
        sent = rank * (ranks - 1) + turn  # rows of an iteration: rank's message to the (turn + 1)-th next
        received = (rank - 1 - turn) % ranks * (ranks - 1) + turn
        waits = np.repeat(np.concatenate([sent, received], axis=1), ranks - 1, axis=0)
        if waits.size * (iterations - 1) > _MOST_DEPENDENCIES:
            raise ParameterError(
                "all-to-all",
                f"{iterations} iterations of {ranks} ranks together",
                f"they depend on each other at most {_MOST_DEPENDENCIES} times",
                "form smaller groups, take fewer iterations, or schedule rounds",
            )
        return _chained(
            src=np.tile(np.repeat(group, ranks - 1), iterations),
            dst=np.tile(group[(rank + 1 + turn) % ranks].ravel(), iterations),
            each_bytes=self.each_bytes,
            waits=np.tile(waits, (iterations - 1, 1, 1)),
            gap_s=np.repeat(gaps, ranks - 1, axis=1).ravel(),
        )

    def _rounds(self, group: NDArray[np.int32], iterations: int, gaps: NDArray[np.float64]) -> Traffic:
        ranks = len(group)
        rank, turn = np.arange(ranks), np.arange(ranks - 1)[:, None]
        waits = np.stack([np.broadcast_to(rank, (ranks - 1, ranks)), (rank - 1 - turn) % ranks], axis=2)
        gap = np.zeros((iterations, ranks - 1, ranks))
        gap[:, 0] = gaps
        return _chained(
            src=np.tile(group, iterations * (ranks - 1)),
            dst=np.tile(group[(rank + 1 + turn) % ranks].ravel(), iterations),
            each_bytes=self.each_bytes,
            waits=np.tile(waits, (iterations, 1, 1))[:-1],
            gap_s=gap.ravel(),
        )


def _chained(
    *,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    each_bytes: float,
    waits: NDArray[np.int64],
    gap_s: NDArray[np.float64],
) -> Traffic:
    """Stages of m rows each: row i of stage t + 1 waits for rows ``waits[t, i]`` within stage t."""
    stages, rows, each = waits.shape
    after = waits + (np.arange(stages) * rows)[:, None, None]
    counts = np.repeat([0, each], [rows, stages * rows])
    return Traffic(
        src=src,
        dst=dst,
        payload_bytes=np.full(len(src), each_bytes),
        # One start for all, so that a slice of time never separates a row from those it waits for.
        start_s=np.zeros(len(src)),
        after_offset=np.concatenate([[0], np.cumsum(counts)]),
        after=after.ravel(),
        gap_s=gap_s,
    )

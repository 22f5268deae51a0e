"""Traffic patterns: incast bursts, Poisson arrivals, elephants under mice, and collectives of training jobs.

In a ring all-reduce or all-to-all, as in a job, a rank waits for the data it needs and for its own earlier
send, then computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from twin.errors import (
    ParameterError,
    check_above_zero,
    check_count,
    check_known,
    check_not_negative,
    check_share,
)
from twin.traffic.base import Hosts, Seed, Traffic, check_duration, check_flows, chosen_hosts, generator_of
from twin.traffic.sizes import SizeDistribution

_MOST_DEPENDENCIES = 50_000_000  # 400 MB of row numbers


@dataclass(frozen=True, kw_only=True)
class Incast:
    """Every ``period_s``, ``fan_in`` random hosts send ``each_bytes`` to one receiver.

    Each sender starts up to ``jitter_s`` after the burst. ``receiver`` None: a new host each burst, in turn
    from a random first.
    """

    fan_in: int = 8
    each_bytes: float = 64_000
    period_s: float = 500e-6
    jitter_s: float = 5e-6
    receiver: int | None = None

    def __post_init__(self) -> None:
        check_count("incast fan_in", self.fan_in)
        check_above_zero("incast each_bytes", self.each_bytes)
        check_above_zero("incast period_s", self.period_s)
        check_not_negative("incast jitter_s", self.jitter_s)
        if self.jitter_s > self.period_s:
            rule = f"a burst is over before the next, in period_s ({self.period_s})"
            raise ParameterError("incast jitter_s", str(self.jitter_s), rule, "lower it")
        if self.receiver is not None:
            check_count("incast receiver", self.receiver, least=0)

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """The bursts that begin, jitter included, before ``duration_s``; the first at 0."""
        check_duration(duration_s)
        generator = generator_of(seed)
        if self.fan_in >= hosts.count:
            rule = f"{hosts.count} hosts have {hosts.count - 1} senders for a receiver"
            raise ParameterError("incast fan_in", str(self.fan_in), rule, "lower it")
        bursts = max(0, int(np.ceil((duration_s - self.jitter_s) / self.period_s)))
        check_flows("incast", bursts * hosts.count)
        if self.receiver is None:
            receivers = (generator.integers(hosts.count) + np.arange(bursts)) % hosts.count
        else:
            receivers = np.repeat(chosen_hosts("incast receiver", (self.receiver,), hosts), bursts)
        # The first of a random order of the others, burst by burst.
        order = generator.permuted(np.tile(np.arange(1, hosts.count), (bursts, 1)), axis=1)[:, : self.fan_in]
        senders = (receivers[:, None] + order) % hosts.count
        late = generator.uniform(0.0, self.jitter_s, senders.shape)
        starts = np.arange(bursts)[:, None] * self.period_s + late
        return Traffic.independent(
            senders.ravel(), np.repeat(receivers, self.fan_in), self.each_bytes, starts.ravel()
        )


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Every sender starts flows as its own Poisson process, each to a random receiver but itself.

    ``load`` is the mean share of a sender's line rate, in wire bytes. Fewer receivers than senders carry more
    than that. Sizes above ``largest_bytes`` are cut down to it, and flows arrive more often to keep the load.
    """

    load: float = 0.5
    sizes: SizeDistribution
    largest_bytes: float | None = None
    senders: tuple[int, ...] | None = None
    receivers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_share("poisson load", self.load)
        if self.largest_bytes is not None:
            check_above_zero("poisson largest_bytes", self.largest_bytes)

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """The arrivals of [0, ``duration_s``)."""
        check_duration(duration_s)
        generator = generator_of(seed)
        senders = chosen_hosts("poisson senders", self.senders, hosts)
        receivers = chosen_hosts("poisson receivers", self.receivers, hosts)
        if len(receivers) == 1 and receivers[0] in senders:
            rule = "every sender has a receiver other than itself"
            remedy = "name another receiver or take it from the senders"
            raise ParameterError("poisson receivers", f"only host {receivers[0]}, a sender too", rule, remedy)
        sizes = self.sizes if self.largest_bytes is None else self.sizes.capped(self.largest_bytes)
        overhead = sizes.mean_packets(hosts.mtu_payload_bytes) * hosts.wire_overhead_bytes
        flows_per_s = len(senders) * self.load * hosts.nic_bytes_per_s / (sizes.mean_bytes + overhead)
        # Given their number, the arrivals of a Poisson process are uniform over the time.
        check_flows("poisson", flows_per_s * duration_s)
        count = int(generator.poisson(flows_per_s * duration_s))
        src = senders[generator.integers(len(senders), size=count)]
        return Traffic.independent(
            src,
            _others(generator, src, receivers, hosts),
            sizes.sample(generator, count),
            generator.uniform(0.0, duration_s, count),
        )


def _others(
    generator: np.random.Generator, src: NDArray[np.int64], receivers: NDArray[np.int64], hosts: Hosts
) -> NDArray[np.int64]:
    """For each sender a uniformly drawn receiver other than itself."""
    place = np.full(hosts.count, len(receivers))
    place[receivers] = np.arange(len(receivers))
    own = place[src]
    drawn = generator.integers(np.where(own < len(receivers), len(receivers) - 1, len(receivers)))
    return np.asarray(receivers[drawn + (drawn >= own)], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class ElephantsAndMice:
    """``elephants`` transfers of ``elephant_bytes`` at a time, and mice at ``mice_load`` between all hosts.

    ``per_receiver`` elephants share a receiver; their senders receive none. Each is followed by the next of
    its pair, as often as fits the duration on an idle fabric; one of inf bytes never ends, not even with its
    phase. Mice are drawn from ``mice``, cut down to ``mouse_bytes``.
    """

    elephants: int = 4
    elephant_bytes: float = 10_000_000
    per_receiver: int = 2
    mice_load: float = 0.2
    mice: SizeDistribution = field(default_factory=lambda: SizeDistribution.named("hadoop"))
    mouse_bytes: float = 100_000

    def __post_init__(self) -> None:
        check_count("elephants-and-mice elephants", self.elephants)
        check_above_zero("elephants-and-mice elephant_bytes", self.elephant_bytes, endless=True)
        check_count("elephants-and-mice per_receiver", self.per_receiver)
        check_share("elephants-and-mice mice_load", self.mice_load)
        check_above_zero("elephants-and-mice mouse_bytes", self.mouse_bytes)

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        """Elephants from 0 on, and mice that arrive in [0, ``duration_s``)."""
        check_duration(duration_s)
        for_elephants, for_mice = generator_of(seed).spawn(2)
        mice = Poisson(load=self.mice_load, sizes=self.mice, largest_bytes=self.mouse_bytes)
        return Traffic.merged(
            self._elephants(hosts, duration_s, for_elephants),
            mice.traffic(hosts, duration_s=duration_s, seed=for_mice),
        )

    def _elephants(self, hosts: Hosts, duration_s: float, generator: np.random.Generator) -> Traffic:
        receivers = math.ceil(self.elephants / self.per_receiver)
        senders = hosts.count - receivers
        if senders < 1:
            received = f"{self.elephants}, {self.per_receiver} a receiver"
            rule = f"their receivers leave a sender among {hosts.count} hosts"
            remedy = "take fewer, or more a receiver"
            raise ParameterError("elephants-and-mice elephants", received, rule, remedy)
        order = generator.permutation(hosts.count)
        lane = np.arange(self.elephants)
        src, dst = order[receivers + lane % senders], order[lane // self.per_receiver]
        if math.isinf(self.elephant_bytes):
            return Traffic.independent(src, dst, math.inf, 0.0)
        sharing = max(min(self.per_receiver, self.elephants), math.ceil(self.elephants / senders))
        turns = max(1, math.floor(duration_s / (sharing * hosts.alone_s(self.elephant_bytes))))
        count = turns * self.elephants
        check_flows("elephants-and-mice", count)
        return Traffic(
            src=np.tile(src, turns),
            dst=np.tile(dst, turns),
            payload_bytes=np.full(count, float(self.elephant_bytes)),
            start_s=np.zeros(count),
            after_offset=np.maximum(np.arange(count + 1) - self.elephants, 0),
            after=np.arange(count - self.elephants),
            gap_s=np.zeros(count),
        )


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
        check_known("collective placement", self.placement, ("packed", "spread"))
        check_not_negative("collective compute_s", self.compute_s)
        check_not_negative("collective compute_jitter", self.compute_jitter)
        if self.compute_jitter > 1:
            rule = "it is a share, up to 1"
            raise ParameterError("collective compute_jitter", str(self.compute_jitter), rule, "lower it")
        if self.iterations is not None:
            check_count("collective iterations", self.iterations)

    def groups(self, hosts: Hosts) -> tuple[NDArray[np.int32], ...]:
        """The hosts of each group, in rank order."""
        size = hosts.count if self.group_size is None else self.group_size
        if size > hosts.count:
            rule = f"there are {hosts.count} hosts"
            raise ParameterError("collective group_size", str(size), rule, "lower it")
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
        check_known("all-to-all schedule", self.schedule, ("together", "rounds"))

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

"""INT reports in columns (a row per sampled packet, a row per hop), and their flows' five-tuples likewise.

As Python tuples a million five-tuples would take a quarter of a gigabyte.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import as_they_appear, mixed, offsets, take_rows
from telemetry.state import FlowKey

_SPORT, _DPORT = np.uint64(40), np.uint64(16)


@dataclass(frozen=True, slots=True, eq=False)
class FlowKeys(Sequence[FlowKey]):
    """A sequence of ``FlowKey`` in columns: ``src`` and ``dst`` index ``hosts``. Compares as a sequence."""

    hosts: tuple[str, ...]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    sport: NDArray[np.uint16]
    dport: NDArray[np.uint16]
    protocol: NDArray[np.uint8]

    @classmethod
    def of(cls, keys: Iterable[FlowKey]) -> FlowKeys:
        src, dst, sport, dport, protocol = tuple(zip(*keys, strict=True)) or ((),) * 5
        numbers: dict[str, int] = {}
        sender, receiver = (
            np.array([numbers.setdefault(host, len(numbers)) for host in side], np.int32)
            for side in (src, dst)
        )
        return cls(
            tuple(numbers),
            sender,
            receiver,
            np.array(sport, np.uint16),
            np.array(dport, np.uint16),
            np.array(protocol, np.uint8),
        )

    def __len__(self) -> int:
        return len(self.src)

    @overload
    def __getitem__(self, place: int) -> FlowKey: ...
    @overload
    def __getitem__(self, place: slice) -> FlowKeys: ...
    def __getitem__(self, place: int | slice) -> FlowKey | FlowKeys:
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        return FlowKey(
            self.hosts[self.src[place]],
            self.hosts[self.dst[place]],
            int(self.sport[place]),
            int(self.dport[place]),
            int(self.protocol[place]),
        )

    def __iter__(self) -> Iterator[FlowKey]:
        hosts = self.hosts
        for src, dst, *others in zip(
            *(column.tolist() for column in (self.src, self.dst, self.sport, self.dport, self.protocol)),
            strict=True,
        ):
            yield FlowKey(hosts[src], hosts[dst], *others)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: NDArray[np.integer[Any]]) -> FlowKeys:
        """The keys at these places, in that order; ``hosts`` is shared."""
        columns = (self.src, self.dst, self.sport, self.dport, self.protocol)
        return FlowKeys(self.hosts, *(column[rows] for column in columns))

    def compact(self) -> FlowKeys:
        """The same keys without unused hosts."""
        used, ends = np.unique(np.concatenate([self.src, self.dst]), return_inverse=True)
        hosts = tuple([self.hosts[number] for number in used.tolist()])
        src, dst = ends.astype(np.int32).reshape(2, len(self))
        return FlowKeys(hosts, src, dst, self.sport, self.dport, self.protocol)

    def fingerprints(self, host: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The fingerprint of each key, given those of ``hosts``."""
        ports = (self.sport.astype(np.uint64) << _SPORT) | (self.dport.astype(np.uint64) << _DPORT)
        return mixed(mixed(mixed(host[self.src]) ^ host[self.dst]) ^ (ports | self.protocol))


MISSING_NS = -1
"""``ingress_ns`` or ``egress_ns`` where the device gave none (real ones are 0 or more)."""

LEAST_SAMPLING_RATE = 1e-9
"""A report sampled at less than one packet in a billion would outweigh all others."""

MARK_UNKNOWN = -1
"""``marked`` where the device does not report ECN; 0 is not marked, 1 is marked."""

_PER_REPORT = ("index", "ts_ns", "flow", "packet_bytes", "sampling_rate")
_PER_HOP = ("hop_site", "queue_bytes", "ingress_ns", "egress_ns", "marked")


class HopSite(NamedTuple):
    """Where a hop was; a part is None where the device did not report it."""

    switch: str | None
    ingress_port: str | None
    egress_port: str | None
    queue: int | None


@dataclass(frozen=True, slots=True, order=True)
class ReportProblem:
    """One rejected report: its position in the body as sent (from 0), and why, in a sentence."""

    index: int
    detail: str


@dataclass(frozen=True, slots=True, eq=False)
class ReportBatch:
    """Checked reports in columns; immutable (the arrays are made read-only).

    Per report: ``index`` position in the body as sent, ``ts_ns`` by the sink's clock, ``flow`` into
    ``flow_keys``, ``packet_bytes`` > 0, ``sampling_rate`` from ``LEAST_SAMPLING_RATE`` to 1. Hops are in
    compressed rows: ``hop_offset[r]:hop_offset[r + 1]`` are report r's, in path order, in ``hop_site`` (into
    ``sites``), ``queue_bytes`` (NaN: unknown), ``ingress_ns`` and ``egress_ns`` (``MISSING_NS``: unknown; by
    the switch's own clock, so only their difference within one hop is meaningful) and ``marked``
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
        for name in (*_PER_REPORT, "hop_offset", *_PER_HOP):
            getattr(self, name).flags.writeable = False

    def __len__(self) -> int:
        return len(self.ts_ns)

    @property
    def hop_count(self) -> NDArray[np.int64]:
        return np.diff(self.hop_offset)

    @classmethod
    def empty(cls) -> ReportBatch:
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
        """The reports at these row numbers (or where the mask is true), in that order; flow keys and sites
        are shared.
        """
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else np.asarray(rows, dtype=np.int64)
        offset, hops = take_rows(self.hop_offset, chosen)
        columns = {name: getattr(self, name)[chosen] for name in _PER_REPORT}
        columns |= {name: getattr(self, name)[hops] for name in _PER_HOP}
        return replace(self, hop_offset=offset, **columns)

    def fingerprints(self, flow: NDArray[np.uint64], site: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Fingerprint of each report over all its values, so copies of a report agree; ``flow`` and ``site``
        are those of ``flow_keys`` and of each hop's site (every report has a hop).
        """
        time, size, rate = map(_bits, (self.ts_ns, self.packet_bytes, self.sampling_rate))
        hop = mixed(_bits(self.queue_bytes) ^ mixed(_bits(self.ingress_ns)) ^ site)
        hop = mixed(hop + (_bits(self.egress_ns) ^ (_bits(self.marked.astype(np.int64)) << np.uint64(62))))
        # Mix in the hop's place in the path: the sum below ignores order.
        place = np.arange(len(hop)) - np.repeat(self.hop_offset[:-1], self.hop_count)
        hop = mixed(hop + place.astype(np.uint64))
        report = mixed(flow[self.flow] ^ mixed(time ^ mixed(size ^ rate)))
        return mixed(report + np.add.reduceat(hop, self.hop_offset[:-1]))


def _bits(column: NDArray[Any]) -> NDArray[np.uint64]:
    return column.view(np.uint64)


PART_HOPS = 8_192
"""A window adds a part of this size in a few milliseconds, or in 50 ms where every hop is a new flow's."""

Key = TypeVar("Key", bound=Hashable)


def joined(batches: Sequence[ReportBatch]) -> ReportBatch:
    """The reports of all batches, one batch after the other; ``index`` is kept."""
    if not batches:
        return ReportBatch.empty()
    if len(batches) == 1:
        return batches[0]
    flow, flow_keys = _flows(batches)
    sites: dict[HopSite, int] = {}
    of_sites = _numbers([batch.sites for batch in batches], sites)
    site = np.concatenate([new[batch.hop_site] for new, batch in zip(of_sites, batches, strict=True)])
    hop_offset = offsets(np.concatenate([batch.hop_count for batch in batches]))
    columns = {
        name: np.concatenate([getattr(batch, name) for batch in batches])
        for name in (*_PER_REPORT, *_PER_HOP)
        if name not in ("flow", "hop_site")
    }
    return ReportBatch(
        flow=flow, hop_offset=hop_offset, hop_site=site, flow_keys=flow_keys, sites=tuple(sites), **columns
    )


def parted(batch: ReportBatch, hops: int = PART_HOPS) -> Iterator[ReportBatch]:
    """The reports of a batch in parts of about ``hops`` hops, each with only its own flows and sites."""
    if batch.hop_offset[-1] <= hops:
        yield batch
        return
    cuts = np.searchsorted(batch.hop_offset, np.arange(hops, batch.hop_offset[-1], hops))
    for begin, end in pairwise([0, *np.unique(cuts).tolist(), len(batch)]):
        part = batch.take(np.arange(begin, end))
        flows, flow = np.unique(part.flow, return_inverse=True)
        sites, site = np.unique(part.hop_site, return_inverse=True)
        yield replace(
            part,
            flow=flow.astype(np.int32),
            flow_keys=FlowKeys.of(batch.flow_keys.take(flows)),
            hop_site=site.astype(np.int32),
            sites=tuple(batch.sites[number] for number in sites.tolist()),
        )


def _numbers(tables: Sequence[tuple[Key, ...]], known: dict[Key, int]) -> list[NDArray[np.int32]]:
    """The number of each key of each table; new keys get the next ones.

    A table that comes again is gone through once: a decoder of datagrams hands out the same with every batch.
    """
    found = {
        place: np.array([known.setdefault(key, len(known)) for key in table], np.int32)
        for place, table in {id(table): table for table in tables}.items()
    }
    return [found[id(table)] for table in tables]


def _flows(batches: Sequence[ReportBatch]) -> tuple[NDArray[np.int32], FlowKeys]:
    """The flow of each report in one table of distinct flows, in order of appearance."""
    hosts: dict[str, int] = {}
    parts = [batch.flow_keys for batch in batches]
    host = _numbers([part.hosts for part in parts], hosts)
    every = FlowKeys(
        src=np.concatenate([new[part.src] for new, part in zip(host, parts, strict=True)]),
        dst=np.concatenate([new[part.dst] for new, part in zip(host, parts, strict=True)]),
        hosts=tuple(hosts),
        sport=np.concatenate([part.sport for part in parts]),
        dport=np.concatenate([part.dport for part in parts]),
        protocol=np.concatenate([part.protocol for part in parts]),
    )
    _, pair = np.unique(every.src.astype(np.int64) * len(hosts) + every.dst, return_inverse=True)
    ports = (every.sport.astype(np.int64) << 24) + (every.dport.astype(np.int64) << 8) + every.protocol
    _, port = np.unique(ports, return_inverse=True)
    first, number = as_they_appear(pair * (len(ports) + 1) + port)
    begins = np.cumsum([0, *map(len, parts)])
    flow = [number[begin + batch.flow] for begin, batch in zip(begins, batches, strict=False)]
    return np.concatenate(flow).astype(np.int32), every.take(first)

"""Decodes the binary INT reports of the fabric's switches for the window.

Also counts what is not traffic (drops, flags, sequence gaps), lists senders without a unit profile and merges
postcards (reports of one hop) into paths where the settings ask for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Gauge

from service.ingest.threads import ReportSink
from service.metrics import OTHERS, BinaryMetrics
from settings.sections import IntSettings
from telemetry.decode.body import Decoded
from telemetry.decode.p4.assemble import NO_VALUE, NodesOf, P4Reports, ReportFlags
from telemetry.decode.p4.assemble import Senders as SenderColumns
from telemetry.decode.p4.decoder import P4Decoder
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.postcards import PostcardCounts, PostcardMerger
from telemetry.decode.p4.sequence import Sender, SequenceCounts, SequenceGaps
from telemetry.report import ReportBatch, ReportProblem, joined
from telemetry.settings import NS_PER_S
from telemetry.topology import Topology

MOST_UNTUNED = 256
"""Devices missing from the inventory remembered at a time, and logged in all: node ids can be forged."""
FORGOTTEN_AFTER_S = 600.0
MOST_DROP_PLACES = 16_384
"""Ports, queues and reasons of drops counted apart; further ones of unknown switches share a label."""
DATAGRAMS_AT_ONCE = 1_024
"""Datagrams of a capture that are decoded at once: live ones wait meanwhile."""
CAPTURE_SLICE = 8_192
"""Reports of a capture that are merged at once."""
MOST_SENDERS = 4_096
UNKNOWN = "unknown"
"""Name of a sender with neither a node id nor an address."""

_OLD_VERSION = 0
_NOT_BY_SOURCE = -1
_FLAGS = len(ReportFlags)
_COUNTED_FLAGS = tuple(
    (int(flag), str(flag.name).lower()) for flag in ReportFlags if flag is not ReportFlags.DROPPED
)

_log = logging.getLogger("ecntwin.int")
_postcards_log = logging.getLogger("ecntwin.postcards")


@dataclass(frozen=True, slots=True)
class _Sender:
    """A sender and its metrics. ``watched``: its sequence numbers can be attributed to it."""

    sender: Sender
    label: str
    watched: bool
    datagrams: Counter
    lost: Gauge
    flags: dict[str, Counter]


class SenderStats:
    """Counts datagrams, sequence gaps and flags by sender.

    A call has thousands of datagrams of a few senders, so each sender is looked up once and counted by
    column. ``note`` is for one thread; ``counts`` and ``name`` may be called from any.
    """

    def __init__(self, devices: Devices, *, metrics: BinaryMetrics) -> None:
        self._devices = devices
        self._metrics = metrics
        self._senders: dict[tuple[int, str], _Sender] = {}
        self._by_label: dict[str, tuple[Counter, Gauge, dict[str, Counter]]] = {}  # senders share labels
        self._lock = threading.Lock()
        self._gaps = SequenceGaps(MOST_SENDERS)

    def counts(self) -> Mapping[Sender, SequenceCounts]:
        """Sequence gaps and restarts of each sender since it was first heard."""
        with self._lock:
            return self._gaps.counts()

    def name(self, sender: Sender) -> str:
        """The switch's name, else its node id, else its source address."""
        node = self._devices.sources.get(sender.source) if sender.node == NO_VALUE else sender.node
        return (sender.source or UNKNOWN) if node is None else self._devices.switch(node)

    def note(self, reports: P4Reports, sources: Sequence[str] | None) -> None:
        """Counts the datagrams of these reports and their flags. ``sources`` are the payloads' addresses."""
        columns = reports.senders
        if not len(columns.payload):
            return
        source, addresses = _source_numbers(columns, sources)
        first, kind = _units(columns, source)
        order = np.argsort(kind, kind="stable")
        counts = np.bincount(kind, minlength=len(first))
        found = [
            self._lookup(columns, number, None if at == _NOT_BY_SOURCE else addresses[at])
            for number, at in zip(first.tolist(), source[first].tolist(), strict=True)
        ]
        for known, count in zip(found, counts.tolist(), strict=True):
            known.datagrams.inc(count)
        self._note_sequences(columns, order, found, first, counts)
        self._note_flags(reports, kind, found)

    def _note_sequences(
        self,
        columns: SenderColumns,
        order: NDArray[np.int64],
        found: Sequence[_Sender],
        first: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> None:
        """``order`` has the payloads sorted by sender, ``counts`` how many each, ``first`` one of each."""
        watched = np.array([known.watched for known in found], np.bool_)
        if not watched.any():
            return
        some = [known for known in found if known.watched]
        with self._lock:
            rises = self._gaps.note_all(
                [known.sender for known in some],
                columns.sequence[order[np.repeat(watched, counts)]],
                np.cumsum(counts[watched]),
                columns.sequence_bits[first[watched]].tolist(),
            )
        for known, rose in zip(some, rises, strict=True):
            if rose.lost:
                known.lost.inc(rose.lost)
            if rose.restarts:
                self._metrics.restarts.labels(known.label).inc(rose.restarts)

    def _lookup(self, columns: SenderColumns, number: int, address: str | None) -> _Sender:
        node = int(columns.node[number]) if address is None else NO_VALUE
        hardware, version = int(columns.hardware[number]), int(columns.version[number])
        key = (node << 16 | hardware << 8 | version, address or "")
        known = self._senders.get(key)
        if known is None:
            if len(self._senders) >= MOST_SENDERS:
                self._senders.clear()
            sender = Sender(node, hardware, version, address or "")
            label = self._metrics.label(self.name(sender))
            if label not in self._by_label:
                metrics = self._metrics
                self._by_label[label] = metrics.datagrams.labels(label), metrics.lost.labels(label), {}
            known = self._senders[key] = _Sender(sender, label, address != "", *self._by_label[label])
        return known

    def _note_flags(self, reports: P4Reports, kind: NDArray[np.int64], found: Sequence[_Sender]) -> None:
        sender = np.searchsorted(reports.senders.payload, reports.batch.index)
        cells = np.bincount(kind[sender] << _FLAGS | reports.flags, minlength=len(found) << _FLAGS)
        for cell in np.flatnonzero(cells).tolist():
            number, flags = divmod(cell, 1 << _FLAGS)
            for flag, name in _COUNTED_FLAGS:
                if flags & flag:
                    self._flag(found[number], name).inc(int(cells[cell]))

    def _flag(self, known: _Sender, name: str) -> Counter:
        if name not in known.flags:
            known.flags[name] = self._metrics.flagged.labels(known.label, name)
        return known.flags[name]


def _units(columns: SenderColumns, source: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first payload of each sender, and the sender of each payload."""
    # In v0.5 only some reports carry the node id, and all reports of a sender share one sequence.
    node = np.where(source == _NOT_BY_SOURCE, columns.node, 0).astype(np.uint64)
    unit = (source - _NOT_BY_SOURCE).astype(np.uint64) << np.uint64(40) | node << np.uint64(8)
    unit |= columns.hardware.astype(np.uint64) << np.uint64(2) | columns.version.astype(np.uint64)
    if bool((unit == unit[0]).all()):
        return np.zeros(1, np.int64), np.zeros(len(unit), np.int64)
    _, first, kind = np.unique(unit, return_index=True, return_inverse=True)
    return first, kind


def _source_numbers(
    columns: SenderColumns, sources: Sequence[str] | None
) -> tuple[NDArray[np.int64], list[str]]:
    """For each v0.5 payload, whose sender is identified by address, the number of that address; and the
    addresses by number.
    """
    number = np.full(len(columns.payload), _NOT_BY_SOURCE, np.int64)
    old = np.flatnonzero(columns.version == _OLD_VERSION)
    addresses: dict[str, int] = {}
    if len(old):
        at = columns.payload[old].tolist()
        came_from = [""] * len(at) if sources is None else [sources[one] for one in at]
        number[old] = [addresses.setdefault(one, len(addresses)) for one in came_from]
    return number, list(addresses)


class UntunedDevices:
    """Devices that report INT without a unit profile: logged once, forgotten after a time without reports.

    ``clock_s`` is monotonic seconds. ``note`` is for one thread; ``names`` may be read from any.
    """

    def __init__(self, devices: Devices, *, metrics: BinaryMetrics, clock_s: Callable[[], float]) -> None:
        self._devices = devices
        self._metrics = metrics
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._inventoried: set[int] = set()
        self._unlisted: dict[int, float] = {}
        self._unlisted_logged = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Their names or node ids, sorted."""
        with self._lock:
            self._forget()
            return tuple(sorted(map(self._devices.switch, (*self._inventoried, *self._unlisted))))

    def note(self, nodes: Iterable[int]) -> None:
        now_s = self._clock_s()
        with self._lock:
            self._forget()
            for node in nodes:
                if node in self._devices.switches:
                    if node not in self._inventoried:
                        self._inventoried.add(node)
                        self._count(node)
                        self._warn(node)
                elif node in self._unlisted:
                    self._unlisted[node] = now_s
                elif len(self._unlisted) < MOST_UNTUNED:
                    self._unlisted[node] = now_s
                    self._count(node)
                    self._warn_unlisted(node)

    def _warn_unlisted(self, node: int) -> None:
        if self._unlisted_logged < MOST_UNTUNED:
            self._warn(node)
        elif self._unlisted_logged == MOST_UNTUNED:
            _log.warning(
                "%d devices missing from the inventory reported without a unit profile; no more are logged",
                MOST_UNTUNED,
            )
        self._unlisted_logged += 1

    def _warn(self, node: int) -> None:
        _log.warning(
            "switch %s (node id %d) reports INT in unknown units: it is shown and not tuned; give it a unit "
            "profile in the inventory (docs/telemetry/int-binary.md)",
            self._devices.switch(node),
            node,
        )

    def _count(self, node: int, change: int = 1) -> None:
        label = self._metrics.label(self._devices.switch(node))
        self._metrics.untuned.labels(label).inc(change)  # a gauge, as several of them may share a label

    def _forget(self) -> None:
        before_s = self._clock_s() - FORGOTTEN_AFTER_S
        for node in [node for node, heard_s in self._unlisted.items() if heard_s < before_s]:
            del self._unlisted[node]
            self._count(node, -1)


class Postcards:
    """Merges postcards into paths: live ones as time passes, a capture as a whole by the times in it.

    ``hold_s`` is how long the first report about a packet waits for the others. For one thread, but
    ``declare`` and ``pending`` may be called from any.
    """

    def __init__(self, hold_s: float, *, metrics: BinaryMetrics) -> None:
        self._hold_ns = round(hold_s * NS_PER_S)
        self._metrics = metrics
        self._merger = PostcardMerger(hold_ns=self._hold_ns)
        self._declared: Topology | None = None
        self._applied: Topology | None = None
        self.pending = 0

    def declare(self, topology: Topology | None) -> None:
        """Sets the topology that orders hops where reports carry no hop limit."""
        self._declared = topology

    def merged(self, reports: P4Reports, now_ns: int) -> ReportBatch:
        """Adds reports received at ``now_ns``; returns those that need not wait and the paths that are
        complete or due.
        """
        return self._released(lambda: self._merger.merged(reports, now_ns))

    def due(self, now_ns: int) -> ReportBatch:
        return self._released(lambda: self._merger.due(now_ns))

    def flush(self) -> ReportBatch:
        return self._released(self._merger.flush)

    def whole(self, parts: Iterable[P4Reports], received_ns: NDArray[np.int64]) -> ReportBatch:
        """Merges all postcards of a capture, whose payloads were received at ``received_ns`` and whose parts
        come in that order. Returns the paths.
        """
        merger = PostcardMerger(hold_ns=self._hold_ns, topology=self._declared)
        released = []
        for reports in parts:
            at_ns = received_ns[reports.batch.index]
            for begin in range(0, len(at_ns), CAPTURE_SLICE):
                rows = np.arange(begin, min(begin + CAPTURE_SLICE, len(at_ns)))
                released.append(merger.merged(reports.take(rows), int(at_ns[rows[-1]])))
        released.append(merger.flush())
        self._count(PostcardCounts(), merger.counts)
        return joined([batch for batch in released if len(batch)])

    def _released(self, merge: Callable[[], ReportBatch]) -> ReportBatch:
        if self._declared is not self._applied:
            self._applied = self._declared
            self._merger.set_topology(self._applied)
        before = self._merger.counts
        batch = merge()
        self.pending = self._merger.pending
        self._count(before, self._merger.counts)
        return batch

    def _count(self, before: PostcardCounts, after: PostcardCounts) -> None:
        for outcome in ("merged", "surplus", "late"):
            self._metrics.postcards.labels(outcome).inc(getattr(after, outcome) - getattr(before, outcome))


class BinaryReports:
    """Decodes from any thread, one call at a time. ``clock_s`` is monotonic seconds."""

    def __init__(
        self,
        settings: IntSettings,
        devices: Devices,
        *,
        metrics: BinaryMetrics,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.devices = devices
        self._decoder = P4Decoder(devices, settings.marks(), device_time=settings.device_time)
        self._metrics = metrics
        hold_s = settings.merge_postcards_s
        self._postcards = None if hold_s is None else Postcards(hold_s, metrics=metrics)
        self._decoding = threading.Lock()
        self._senders = SenderStats(devices, metrics=metrics)
        self._drop_places: set[tuple[str | None, str | None, int | None, int]] = set()
        self._untuned = UntunedDevices(devices, metrics=metrics, clock_s=clock_s)
        self._inventoried = frozenset(devices.switches.values())
        metrics.register_switches(self._inventoried)

    @property
    def untuned(self) -> tuple[str, ...]:
        """Devices that report without a unit profile, by name or node id; sorted."""
        return self._untuned.names

    @property
    def pending(self) -> int:
        """Number of postcards that wait for others about their packet."""
        return 0 if self._postcards is None else self._postcards.pending

    def declare(self, topology: Topology | None) -> None:
        if self._postcards is not None:
            self._postcards.declare(topology)

    def sequence_counts(self) -> Mapping[Sender, SequenceCounts]:
        return self._senders.counts()

    def name(self, sender: Sender) -> str:
        return self._senders.name(sender)

    def decode(
        self,
        payloads: Sequence[bytes],
        received_ns: int | NDArray[np.int64],
        sources: Sequence[str] | None = None,
    ) -> Decoded:
        """Decodes UDP payloads received at ``received_ns`` (one time, or one each) from these addresses.

        ``errors`` names unreadable payloads by position and byte. Raises ``DecodeError`` for invalid times.
        """
        with self._decoding:
            reports = self._read(payloads, received_ns, sources)
            if self._postcards is None or not len(payloads):
                return _decoded(reports, _kept(reports))
            batch = self._postcards.merged(reports, int(np.max(received_ns)))
            return replace(_decoded(reports, batch), accepted_before=True)

    def decode_capture(
        self, payloads: Sequence[bytes], received_ns: NDArray[np.int64], sources: Sequence[str]
    ) -> Decoded:
        """Like ``decode``, for payloads after which no others come, such as a capture's: a part at a time, as
        live ones wait meanwhile. Postcards are merged over all parts, in order of time.
        """
        problems: list[ReportProblem] = []
        found: list[int] = []

        def parts(order: NDArray[np.int64]) -> Iterator[P4Reports]:
            for begin in range(0, len(order), DATAGRAMS_AT_ONCE):
                rows = order[begin : begin + DATAGRAMS_AT_ONCE]
                places = rows.tolist()
                with self._decoding:
                    reports = self._read(
                        [payloads[place] for place in places],
                        received_ns[rows],
                        [sources[place] for place in places],
                    )
                for problem in reports.problems:
                    place = places[problem.index]
                    problems.append(renamed(problem, place, f"datagram {place}"))
                found.append(len(reports))
                yield replace(reports, batch=replace(reports.batch, index=rows[reports.batch.index]))

        if self._postcards is None:
            batch = joined([_kept(reports) for reports in parts(np.arange(len(payloads)))])
        else:
            batch = self._postcards.whole(parts(np.argsort(received_ns, kind="stable")), received_ns)
        return Decoded(batch, tuple(sorted(problems)), aside=sum(found) - len(batch))

    def due(self, now_ns: int) -> Decoded:
        if self._postcards is None:
            return Decoded(ReportBatch.empty(), ())
        with self._decoding:
            batch = self._postcards.due(now_ns)
        return Decoded(batch, (), aside=-len(batch), accepted_before=True)

    def flush(self) -> ReportBatch:
        """The paths of all postcards that still wait."""
        if self._postcards is None:
            return ReportBatch.empty()
        with self._decoding:
            return self._postcards.flush()

    def _read(
        self, payloads: Sequence[bytes], received_ns: int | NDArray[np.int64], sources: Sequence[str] | None
    ) -> P4Reports:
        reports = self._decoder.decode(payloads, received_ns, self._nodes(sources))
        self._senders.note(reports, sources)
        self._untuned.note(reports.untuned)
        if reports.dropped.any():
            self._note_drops(reports, reports.dropped)
        return reports

    def _nodes(self, sources: Sequence[str] | None) -> NodesOf | None:
        known = self.devices.sources
        if sources is None or not known:
            return None
        return lambda asked: np.array([known.get(sources[one], NO_VALUE) for one in asked.tolist()], np.int64)

    def _note_drops(self, reports: P4Reports, dropped: NDArray[np.bool_]) -> None:
        batch = reports.batch
        site = batch.hop_site[batch.hop_offset[1:] - 1][dropped].astype(np.int64)
        where, times = np.unique(
            np.stack((site, reports.drop_reason[dropped].astype(np.int64))), axis=1, return_counts=True
        )
        for number, reason, count in zip(*where.tolist(), times.tolist(), strict=True):
            at = batch.sites[number]
            if len(self._drop_places) < MOST_DROP_PLACES:
                self._drop_places.add((at.switch, at.egress_port, at.queue, reason))
            known = (at.switch, at.egress_port, at.queue, reason) in self._drop_places
            queue = UNKNOWN if at.queue is None else str(at.queue)
            if not known and at.switch not in self._inventoried:
                queue = OTHERS
            self._metrics.drops.labels(self._metrics.label(at.switch or UNKNOWN), queue).inc(count)


def renamed(problem: ReportProblem, place: int, words: str) -> ReportProblem:
    """The same problem of the datagram at ``place``, called ``words``."""
    return ReportProblem(place, problem.detail.replace(f"datagram {problem.index}", words, 1))


def _kept(reports: P4Reports) -> ReportBatch:
    """Those of packets that were not dropped."""
    return reports.delivered() if reports.dropped.any() else reports.batch


def _decoded(reports: P4Reports, batch: ReportBatch) -> Decoded:
    return Decoded(batch, reports.problems, aside=len(reports) - len(batch))


class PostcardFlusher:
    """Flushes due postcards into ``sink`` every ``every_s`` seconds when traffic is idle; None: postcards are
    not merged. ``start`` and ``stop`` on one event loop.
    """

    def __init__(
        self, binary: BinaryReports, sink: ReportSink, *, every_s: float | None, wall_ns: Callable[[], int]
    ) -> None:
        self._binary = binary
        self._sink = sink
        self._every_s = every_s
        self._wall_ns = wall_ns
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._every_s is not None:
            self._task = asyncio.create_task(self._run(self._every_s), name="postcards")

    async def stop(self) -> None:
        """Stops flushing; what is held stays where it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            if self._binary.pending:
                try:
                    await self._sink.ingest(partial(self._binary.due, self._wall_ns()))
                except Exception:  # the task must survive
                    _postcards_log.exception("merged reports were left out; the next flush is tried")

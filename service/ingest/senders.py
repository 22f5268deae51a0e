"""Who sends binary INT reports: datagrams, sequence gaps and flags of each, and devices without units."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Gauge

from service.metrics import BinaryMetrics
from telemetry.decode.p4.assemble import NO_VALUE, P4Reports, ReportFlags
from telemetry.decode.p4.assemble import Senders as SenderColumns
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.sequence import Sender, SequenceCounts, SequenceGaps

MOST_UNTUNED = 256
"""Devices missing from the inventory remembered at a time, and logged in all: node ids can be forged."""
FORGOTTEN_AFTER_S = 600.0
MOST_SENDERS = 4_096
UNKNOWN = "unknown"
"""Name of a sender with neither a node id nor an address; label of what a report does not name."""

_OLD_VERSION = 0
_NOT_BY_SOURCE = -1
_FLAGS = len(ReportFlags)
_COUNTED_FLAGS = tuple(
    (int(flag), str(flag.name).lower()) for flag in ReportFlags if flag is not ReportFlags.DROPPED
)

_log = logging.getLogger("ecntwin.int")


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

"""Who sends binary INT reports, what is lost on the way, why they were sent; must not know what is in them.

Thousands of datagrams a call are of a few senders: each sender is named once, and counted by column.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from prometheus_client import Counter, Gauge

from service.metrics import BinaryMetrics
from telemetry.decode.p4.assemble import NOT_TOLD, P4Reports, ReportFlags
from telemetry.decode.p4.assemble import Senders as SenderColumns
from telemetry.decode.p4.devices import Devices
from telemetry.decode.p4.sequence import Sender, SequenceCounts, SequenceGaps

MOST_SENDERS = 4_096
NOBODY = "unknown"
"""What a sender is called of which neither a node id nor an address is known."""

_OLD_VERSION = 0
_NOT_BY_SOURCE = -1
_FLAGS = len(ReportFlags)
_COUNTED_FLAGS = tuple(
    (int(flag), str(flag.name).lower()) for flag in ReportFlags if flag is not ReportFlags.DROPPED
)


@dataclass(frozen=True, slots=True)
class _Known:
    """A sender, and where it is counted. ``watched``: it can be told whose sequence its numbers are."""

    sender: Sender
    label: str
    watched: bool
    datagrams: Counter
    lost: Gauge
    flags: dict[str, Counter]


class Senders:
    """``note`` is for one thread; ``counts`` and ``name`` may be called from any."""

    def __init__(self, devices: Devices, *, metrics: BinaryMetrics) -> None:
        self._devices = devices
        self._metrics = metrics
        self._known: dict[tuple[int, str], _Known] = {}
        self._counted: dict[str, tuple[Counter, Gauge, dict[str, Counter]]] = {}  # by label, of which few are
        self._lock = threading.Lock()
        self._gaps = SequenceGaps(MOST_SENDERS)

    def counts(self) -> Mapping[Sender, SequenceCounts]:
        """What each sender's sequence numbers tell, since it was first heard."""
        with self._lock:
            return self._gaps.counts()

    def name(self, sender: Sender) -> str:
        """The switch's name, else its node id, else the address it sends from."""
        node = self._devices.sources.get(sender.source) if sender.node == NOT_TOLD else sender.node
        return (sender.source or NOBODY) if node is None else self._devices.switch(node)

    def note(self, reports: P4Reports, sources: Sequence[str] | None) -> None:
        """Counts the datagrams of these reports, and their flags. ``sources`` are where they came from."""
        columns = reports.senders
        if not len(columns.payload):
            return
        source, addresses = _source_numbers(columns, sources)
        first, kind = _units(columns, source)
        order = np.argsort(kind, kind="stable")
        counts = np.bincount(kind, minlength=len(first))
        found = [
            self._known_one(columns, number, None if at == _NOT_BY_SOURCE else addresses[at])
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
        found: Sequence[_Known],
        first: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> None:
        """``order`` has the payloads by sender, ``counts`` of each; ``first`` is one of each."""
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

    def _known_one(self, columns: SenderColumns, number: int, address: str | None) -> _Known:
        node = int(columns.node[number]) if address is None else NOT_TOLD
        hardware, version = int(columns.hardware[number]), int(columns.version[number])
        key = (node << 16 | hardware << 8 | version, address or "")
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_SENDERS:
                self._known.clear()
            sender = Sender(node, hardware, version, address or "")
            label = self._metrics.label(self.name(sender))
            if label not in self._counted:
                metrics = self._metrics
                self._counted[label] = metrics.datagrams.labels(label), metrics.lost.labels(label), {}
            known = self._known[key] = _Known(sender, label, address != "", *self._counted[label])
        return known

    def _note_flags(self, reports: P4Reports, kind: NDArray[np.int64], found: Sequence[_Known]) -> None:
        sender = np.searchsorted(reports.senders.payload, reports.batch.index)
        cells = np.bincount(kind[sender] << _FLAGS | reports.flags, minlength=len(found) << _FLAGS)
        for cell in np.flatnonzero(cells).tolist():
            number, flags = divmod(cell, 1 << _FLAGS)
            for flag, name in _COUNTED_FLAGS:
                if flags & flag:
                    self._flag(found[number], name).inc(int(cells[cell]))

    def _flag(self, known: _Known, name: str) -> Counter:
        if name not in known.flags:
            known.flags[name] = self._metrics.flagged.labels(known.label, name)
        return known.flags[name]


def _units(columns: SenderColumns, source: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first payload of each sender, and the sender of each payload."""
    # In v0.5 some reports say their node and others do not, and all share a sequence.
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
    """For each payload the number of the address that it came from where its sender is told apart by that
    (v0.5), and the addresses by number.
    """
    number = np.full(len(columns.payload), _NOT_BY_SOURCE, np.int64)
    old = np.flatnonzero(columns.version == _OLD_VERSION)
    addresses: dict[str, int] = {}
    if len(old):
        at = columns.payload[old].tolist()
        came_from = [""] * len(at) if sources is None else [sources[one] for one in at]
        number[old] = [addresses.setdefault(one, len(addresses)) for one in came_from]
    return number, list(addresses)

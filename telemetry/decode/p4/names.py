"""Flows and places by what the wire calls them; imports only ``telemetry.flow_keys``, ``telemetry.report``
and its neighbours.

Thousands of reports are about one place, or from one host: each is named once, and known again by its
numbers, all of a batch at once.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.columns import FlowColumns
from telemetry.decode.p4.devices import Devices, TimeUnit
from telemetry.decode.p4.numbering import Distinct, Numbering, numbered
from telemetry.decode.p4.raw import NOTHING_8, NOTHING_32
from telemetry.flow_keys import FlowKeys
from telemetry.growing import GrowingArray
from telemetry.report import HopSite

NO_UNIT = -1
TIME_UNITS: tuple[TimeUnit, ...] = ("ns", "us", "2^-32 s")
_MOST_PLACES = 1 << 18
_MOST_HOSTS = 1 << 18
_U64 = np.uint64
_SPORT, _DPORT = _U64(24), _U64(8)


class Units(NamedTuple):
    """What the device at a place counts in: NaN or ``NO_UNIT`` where it has no profile; ``time_unit`` is a
    number in ``TIME_UNITS``.
    """

    unit_bytes: float
    time_unit: int
    utilisation_scale: float
    sampling_rate: float


_UNKNOWN_UNITS = Units(float("nan"), NO_UNIT, float("nan"), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The distinct ``sites`` of a batch; in columns what their devices count in (as in ``Units``), and
    ``untuned``, the nodes among them that have no profile.
    """

    sites: tuple[HopSite, ...]
    unit_bytes: NDArray[np.float64]
    time_unit: NDArray[np.int8]
    utilisation_scale: NDArray[np.float64]
    sampling_rate: NDArray[np.float64]
    untuned: tuple[int, ...]


class Names:
    """Names what it is asked for; ``devices`` must stay as they are. Remembers a bounded number, and of what
    it remembers nothing is worked out again.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._hosts = {4: _Hosts(1, _ipv4), 6: _Hosts(2, _ipv6)}
        self._rows = Numbering(2)
        self._sites: list[HopSite] = []
        self._nodes: list[int | None] = []
        self._units = [GrowingArray(np.float64) for _ in Units._fields]
        self._distinct = Distinct()

    def flows(self, columns: Sequence[FlowColumns]) -> tuple[NDArray[np.int32], FlowKeys]:
        """The flow of every row of every part, as a number in the distinct flows."""
        found = [np.empty(0, np.int64) for _ in columns]
        keys = []
        begin = 0
        for version in {part.version for part in columns}:
            chosen = [number for number, part in enumerate(columns) if part.version == version]
            parts = [columns[number].words for number in chosen]
            words = parts[0] if len(parts) == 1 else [np.concatenate(w) for w in zip(*parts, strict=True)]
            first, kind = numbered(words)
            kind += begin
            at = 0
            for number in chosen:
                size = len(columns[number].words[0])
                found[number] = kind[at : at + size]
                at += size
            keys.append(self._hosts[version].flow_keys([word[first] for word in words]))
            begin += len(first)
        flow = np.concatenate(found or [np.empty(0, np.int64)])
        return flow.astype(np.int32), keys[0] if len(keys) == 1 else _joined([FlowKeys.of(()), *keys])

    def places(self, at: NDArray[np.uint64], ports: NDArray[np.uint64]) -> tuple[NDArray[np.int64], Places]:
        """The place of every hop, as a number in the distinct ones: ``at`` is node and queue (8 bits),
        ``ports`` ingress and egress interface (32).
        """
        if len(self._rows) > _MOST_PLACES:
            self._rows.forget()
            self._sites, self._nodes = [], []
            self._units = [GrowingArray(np.float64) for _ in Units._fields]
        numbers = self._rows.numbers((at, ports))
        self._name_new_places()
        distinct, place = self._distinct.of(numbers, len(self._sites))
        units = [column.values[distinct] for column in self._units]
        sites = self._sites
        untuned = [self._nodes[number] for number in distinct[units[1] == NO_UNIT].tolist()]
        return place, Places(
            tuple([sites[number] for number in distinct.tolist()]),
            units[0],
            units[1].astype(np.int8),
            units[2],
            units[3],
            tuple(sorted({node for node in untuned if node is not None})),
        )

    def _name_new_places(self) -> None:
        columns = [column.tolist() for column in self._rows.values(len(self._sites))]
        new = [self._place(at, ports) for at, ports in zip(*columns, strict=True)]
        for column, values in zip(self._units, zip(*new, strict=True), strict=False):
            column.extend(np.array(values, np.float64))

    def _place(self, at: int, ports: int) -> Units:
        number, queue = at >> 8, at & NOTHING_8
        node = None if number == NOTHING_32 else number
        ingress, egress = (
            None if port == NOTHING_32 else self._devices.port(node, port)
            for port in (ports >> 32, ports & NOTHING_32)
        )
        switch = None if node is None else self._devices.switch(node)
        self._sites.append(HopSite(switch, ingress, egress, None if queue == NOTHING_8 else queue))
        self._nodes.append(node)
        units = self._devices.profile(node)
        if units is None:
            return _UNKNOWN_UNITS
        unit = TIME_UNITS.index(units.time)
        return Units(units.unit_bytes, unit, units.utilisation_scale, units.sampling_rate)


class _Hosts:
    """Addresses of one IP version, ``n_words`` of 64 bits each, and how they are written."""

    def __init__(self, n_words: int, written: Callable[..., str]) -> None:
        self._rows = Numbering(n_words)
        self._written = written
        self._names: list[str] = []
        self._distinct = Distinct()

    def flow_keys(self, words: Sequence[NDArray[np.uint64]]) -> FlowKeys:
        """The flows whose columns these are (``columns.FlowColumns``)."""
        *pair, tail = words
        if len(pair) == 1:  # two of IPv4 share a word
            ends = [np.concatenate([pair[0] >> _U64(32), pair[0] & _U64(NOTHING_32)])]
        else:
            ends = [np.concatenate(pair[word::2]) for word in (0, 1)]
        names, place = self._named(ends)
        return FlowKeys(
            names,
            place[: len(tail)].astype(np.int32),
            place[len(tail) :].astype(np.int32),
            (tail >> _SPORT).astype(np.uint16),
            (tail >> _DPORT).astype(np.uint16),
            tail.astype(np.uint8),
        )

    def _named(self, words: Sequence[NDArray[np.uint64]]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The distinct addresses among these, and the place of each of these among them."""
        if len(self._rows) > _MOST_HOSTS:
            self._rows.forget()
            self._names = []
        numbers = self._rows.numbers(words)
        new = [column.tolist() for column in self._rows.values(len(self._names))]
        self._names += map(self._written, *new)
        distinct, place = self._distinct.of(numbers, len(self._names))
        names = self._names
        return tuple([names[number] for number in distinct.tolist()]), place


def _joined(keys: Sequence[FlowKeys]) -> FlowKeys:
    """All of these in turn."""
    begin = np.cumsum([0, *(len(some.hosts) for some in keys)])
    ends = [
        np.concatenate([getattr(some, end) + np.int32(at) for some, at in zip(keys, begin, strict=False)])
        for end in ("src", "dst")
    ]
    return FlowKeys(
        tuple(chain.from_iterable(some.hosts for some in keys)),
        ends[0],
        ends[1],
        np.concatenate([some.sport for some in keys]),
        np.concatenate([some.dport for some in keys]),
        np.concatenate([some.protocol for some in keys]),
    )


def _ipv4(address: int) -> str:
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def _ipv6(high: int, low: int) -> str:
    return socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16, "big"))

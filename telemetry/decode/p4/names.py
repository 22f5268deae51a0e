"""Flows and places by what the wire calls them; imports only ``telemetry.flow_keys``, ``telemetry.growing``,
``telemetry.report`` and its neighbours.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.decode.p4.columns import FlowColumns
from telemetry.decode.p4.devices import Devices, TimeUnit
from telemetry.decode.p4.known import Known
from telemetry.decode.p4.numbering import numbered
from telemetry.decode.p4.raw import NOTHING_8, NOTHING_32
from telemetry.flow_keys import FlowKeys
from telemetry.growing import GrowingArray
from telemetry.report import HopSite

NO_UNIT = -1
TIME_UNITS: tuple[TimeUnit, ...] = ("ns", "us", "2^-32 s")
_MOST_PLACES = 1 << 16
_MOST_HOSTS = 1 << 18
_U64 = np.uint64
_SPORT, _DPORT = _U64(24), _U64(8)
_NO_NODE = -1


class Units(NamedTuple):
    """What a device counts in: NaN or ``NO_UNIT`` where it has no profile; ``time_unit`` is a number in
    ``TIME_UNITS``.
    """

    unit_bytes: float
    time_unit: int
    utilisation_scale: float
    sampling_rate: float


_UNKNOWN_UNITS = Units(float("nan"), NO_UNIT, float("nan"), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places of a batch's hops: ``site`` of each in ``sites``, and its ``number`` in the columns that
    tell the units of devices. ``same_time_unit`` is the one that all have (None: they differ); ``untuned``
    are the nodes of these hops that have no profile.
    """

    sites: tuple[HopSite, ...]
    site: NDArray[np.int64]
    number: NDArray[np.int64]
    unit_bytes: NDArray[np.float64]
    time_unit: NDArray[np.int8]
    utilisation_scale: NDArray[np.float64]
    sampling_rate: NDArray[np.float64]
    same_time_unit: int | None
    untuned: tuple[int, ...]


class Names:
    """Names what it is asked for; ``devices`` must stay as they are. Remembers hosts and places, a bounded
    number; flows it knows only as long as a call.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._hosts = {4: Known(1, _ipv4, _MOST_HOSTS), 6: Known(2, _ipv6, _MOST_HOSTS)}
        self._places = Known(2, self._site, _MOST_PLACES)
        self._forget_units()

    def flows(self, columns: Sequence[FlowColumns]) -> tuple[NDArray[np.int32], FlowKeys]:
        """The flow of every row of every part, as a number in the distinct flows."""
        found = [np.empty(0, np.int64) for _ in columns]
        keys: list[FlowKeys] = []
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
            keys.append(self._flow_keys(version, [word[first] for word in words]))
            begin += len(first)
        flow = np.concatenate(found or [np.empty(0, np.int64)])
        return flow.astype(np.int32), keys[0] if len(keys) == 1 else _joined([FlowKeys.of(()), *keys])

    def _flow_keys(self, version: int, words: Sequence[NDArray[np.uint64]]) -> FlowKeys:
        *pair, tail = words
        if version == 4:  # two addresses share a word
            ends = [np.concatenate([pair[0] >> _U64(32), pair[0] & _U64(NOTHING_32)])]
        else:
            ends = [np.concatenate(pair[word::2]) for word in (0, 1)]
        known = self._hosts[version]
        hosts, place = known.handed_out(known.numbers(ends))
        return FlowKeys(
            hosts,
            place[: len(tail)].astype(np.int32),
            place[len(tail) :].astype(np.int32),
            (tail >> _SPORT).astype(np.uint16),
            (tail >> _DPORT).astype(np.uint16),
            tail.astype(np.uint8),
        )

    def place_numbers(self, at: NDArray[np.uint64], ports: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The place of every hop as a number: ``at`` is node and queue (8 bits), ``ports`` ingress and egress
        interface (32).
        """
        if self._places.is_full:
            self.forget_places()
        return self._places.numbers((at, ports))

    def fits(self, places: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
        """Which of these numbers are of places known before, or of the first ``most`` others."""
        return self._places.fits(places, most)

    def forget_places(self) -> None:
        """Begins anew with places."""
        self._places.forget()
        self._forget_units()

    def places(self, number: NDArray[np.int64]) -> Places:
        """The places of these numbers."""
        sites, site = self._places.handed_out(number)
        self._note_units()
        time_unit = self._time_unit.values
        untuned: set[int] = set()
        if NO_UNIT in self._time_units:
            untuned = set(self._node.values[number[time_unit[number] == NO_UNIT]].tolist())
        return Places(
            sites,
            site,
            number,
            self._unit_bytes.values,
            time_unit,
            self._utilisation_scale.values,
            self._sampling_rate.values,
            next(iter(self._time_units)) if len(self._time_units) == 1 else None,
            tuple(sorted(untuned - {_NO_NODE})),
        )

    def _forget_units(self) -> None:
        self._node, self._time_unit = GrowingArray(np.int64), GrowingArray(np.int8)
        self._unit_bytes, self._utilisation_scale = GrowingArray(np.float64), GrowingArray(np.float64)
        self._sampling_rate = GrowingArray(np.float64)
        self._time_units: set[int] = set()
        self._new: list[tuple[int, Units]] = []

    def _note_units(self) -> None:
        """Puts the units of new places into the columns."""
        if not self._new:
            return
        nodes, units = zip(*self._new, strict=True)
        unit_bytes, time_unit, utilisation_scale, sampling_rate = zip(*units, strict=True)
        self._node.extend(np.array(nodes, np.int64))
        self._unit_bytes.extend(np.array(unit_bytes, np.float64))
        self._time_unit.extend(np.array(time_unit, np.int8))
        self._utilisation_scale.extend(np.array(utilisation_scale, np.float64))
        self._sampling_rate.extend(np.array(sampling_rate, np.float64))
        self._time_units.update(time_unit)
        self._new = []

    def _site(self, at: int, ports: int) -> HopSite:
        """Names a new place, and notes what its device counts in."""
        number, queue = at >> 8, at & NOTHING_8
        node = None if number == NOTHING_32 else number
        ingress, egress = (
            None if port == NOTHING_32 else self._devices.port(node, port)
            for port in (ports >> 32, ports & NOTHING_32)
        )
        switch = None if node is None else self._devices.switch(node)
        self._new.append((_NO_NODE if node is None else node, self._units(node)))
        return HopSite(switch, ingress, egress, None if queue == NOTHING_8 else queue)

    def _units(self, node: int | None) -> Units:
        units = self._devices.profile(node)
        if units is None:
            return _UNKNOWN_UNITS
        unit = TIME_UNITS.index(units.time)
        return Units(units.unit_bytes, unit, units.utilisation_scale, units.sampling_rate)


def _ipv4(address: int) -> str:
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def _ipv6(high: int, low: int) -> str:
    return socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16, "big"))


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

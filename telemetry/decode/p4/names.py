"""Flows and places of reports by their wire values: equal rows numbered in linear time, and named once."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry.columns import GrowingArray
from telemetry.decode.p4.columns import FlowColumns
from telemetry.decode.p4.devices import Devices, TimeUnit
from telemetry.decode.p4.plan import NOTHING_8, NOTHING_32
from telemetry.report import FlowKeys, HopSite
from telemetry.topology import plain_address

_MIXERS = tuple(
    np.uint64(number)
    for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD, 0xD6E8FEB86659FD93)
)
_SPARE_BITS = 4
_FEWEST_BITS, _MOST_BITS = 8, 20
_SLOTS_A_NUMBER = 4
_FEWEST_SLOTS = 1 << 12
_MOST_STEPS = 24
_FREE = -1


def numbered(columns: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each distinct row of ``columns``, in order of appearance, and the number of every row.

    Rows are put into a table by hash and compared with the row found there; those that differ from it try
    another hash, and the few that never match are sorted.
    """
    n_rows = len(columns[0])
    every = np.arange(n_rows)
    bits = min(max(n_rows.bit_length() + _SPARE_BITS, _FEWEST_BITS), _MOST_BITS)
    table = np.empty(1 << bits, np.int64)
    first_of, waiting, held = every, every, list(columns)
    for mixer in _MIXERS:
        slot = (_hashed(held, mixer) >> np.uint64(64 - bits)).view(np.int64)
        # The last write wins: backwards, so that it is the first of equal rows.
        table[slot[::-1]] = every[: len(slot)][::-1]
        there = table.take(slot)
        differs = held[0].take(there) != held[0]
        for column in held[1:]:
            differs |= column.take(there) != column
        if waiting is every:
            first_of = there
        else:
            first_of[waiting] = waiting.take(there)
        collided = np.flatnonzero(differs)
        waiting = waiting[collided]
        if not len(waiting):
            break
        held = [column.take(collided) for column in held]
    if len(waiting):
        _, begun, kind = np.unique(np.stack(held, axis=1), axis=0, return_index=True, return_inverse=True)
        first_of[waiting] = waiting[begun[kind.reshape(-1)]]
    first = np.flatnonzero(first_of == every)
    table = np.empty(n_rows, np.int64)
    table[first] = every[: len(first)]
    return first, table.take(first_of)


def _hashed(columns: Sequence[NDArray[np.uint64]], mixer: np.uint64) -> NDArray[np.uint64]:
    mixed = columns[0] * mixer
    for column in columns[1:]:
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ column) * mixer
    return mixed ^ (mixed >> np.uint64(32)) * mixer


class Numbering:
    """Numbers distinct rows of ``n_columns`` 64-bit values 0, 1, 2, ... until ``forget``.

    A hash table with linear probing, for all rows of a call at once. Rows that collide in every slot probed
    (chosen by an attacker) go to a dict with its random hash: time stays linear.
    """

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self.forget()

    def forget(self) -> None:
        self._count = 0
        self._held = [np.empty(_FEWEST_SLOTS // _SLOTS_A_NUMBER, np.uint64) for _ in range(self._n_columns)]
        self._table = np.full(_FEWEST_SLOTS, _FREE, np.int64)
        self._crowded: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._count

    def numbers(self, columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
        """The number of every row of ``columns``; new rows get the next ones, in no particular order."""
        self._make_room(len(columns[0]))
        slot = self._slot(columns)
        found, collided = self._looked_up(slot, columns)
        waiting, rows = collided, columns
        for _ in range(_MOST_STEPS):
            if not len(waiting):
                return found
            slot = (slot.take(collided) + 1) & (len(self._table) - 1)
            rows = [row.take(collided) for row in rows]
            there, collided = self._looked_up(slot, rows)
            found[waiting] = there
            waiting = waiting.take(collided)
        for place in waiting.tolist():
            row = [column[place : place + 1] for column in columns]
            key = b"".join([value.tobytes() for value in row])
            if key not in self._crowded:
                self._crowded[key] = self._take(row)
            found[place] = self._crowded[key]
        return found

    def _looked_up(
        self, slot: NDArray[np.int64], rows: Sequence[NDArray[np.uint64]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows in these slots, once new rows took the free ones, and which rows collided."""
        there = self._table.take(slot)
        if len(there) and int(there.min()) == _FREE:
            self._settle(np.flatnonzero(there == _FREE), slot, rows)
            there = self._table.take(slot)
        differs = self._held[0].take(there) != rows[0]
        for held, row in zip(self._held[1:], rows[1:], strict=True):
            differs |= held.take(there) != row
        return there, np.flatnonzero(differs)

    def values(self, begin: int = 0) -> list[NDArray[np.uint64]]:
        """The columns of the rows numbered ``begin`` and above."""
        return [held[begin : self._count] for held in self._held]

    def _slot(self, columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
        unused = np.uint64(65 - len(self._table).bit_length())
        return (_hashed(columns, _MIXERS[0]) >> unused).view(np.int64)

    def _settle(
        self, comers: NDArray[np.int64], slot: NDArray[np.int64], rows: Sequence[NDArray[np.uint64]]
    ) -> None:
        """Gives each free slot to the first of the ``comers`` that claim it."""
        claimed = slot[comers]
        self._table[claimed[::-1]] = comers[::-1]  # the last write wins
        first = self._table[claimed] == comers
        begin = self._take([row[comers[first]] for row in rows])
        self._table[claimed[first]] = np.arange(begin, self._count)

    def _take(self, rows: Sequence[NDArray[np.uint64]]) -> int:
        """Numbers new rows; returns the first number."""
        begin = self._count
        self._count += len(rows[0])
        for held, row in zip(self._held, rows, strict=True):
            held[begin : self._count] = row
        return begin

    def _make_room(self, n_rows: int) -> None:
        """Makes room for new rows, with most slots free."""
        need = self._count + n_rows
        if need <= len(self._held[0]):
            return
        room = 1 << (need - 1).bit_length()
        self._held = [np.concatenate([held, np.empty(room - len(held), np.uint64)]) for held in self._held]
        self._table = np.full(room * _SLOTS_A_NUMBER, _FREE, np.int64)
        self._rehash()

    def _rehash(self) -> None:
        """Inserts every number into a new, empty table."""
        self._crowded = {}
        waiting = np.arange(self._count)
        slot = self._slot([held[: self._count] for held in self._held])
        for _ in range(1 + _MOST_STEPS):
            free = np.flatnonzero(self._table[slot] == _FREE)
            claimed = slot[free]
            self._table[claimed[::-1]] = waiting[free[::-1]]
            homeless = self._table[slot] != waiting
            waiting = waiting[homeless]
            if not len(waiting):
                return
            slot = (slot[homeless] + 1) & (len(self._table) - 1)
        rows = np.stack([held[waiting] for held in self._held], axis=1)
        self._crowded = {row.tobytes(): number for row, number in zip(rows, waiting.tolist(), strict=True)}


Name = TypeVar("Name")

_CALM_CALLS = 8


class NameTable(Generic[Name]):
    """Names of rows of ``n_words`` 64-bit values, made by ``named``; cleared beyond ``most``.

    Calls return the same tuple of names, so that callers can cache what they derive from it; while new names
    keep coming, a call returns only those that it needs.
    """

    def __init__(self, n_words: int, named: Callable[..., Name], most: int) -> None:
        self._rows = Numbering(n_words)
        self._named = named
        self._most = most
        self._names: list[Name] = []
        self._all: tuple[Name, ...] = ()
        self._calm = 0
        self._seen = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def is_full(self) -> bool:
        """Whether the next call clears the table."""
        return len(self._rows) > self._most

    def fits(self, numbers: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
        """Which of these numbers have a name or are among the first ``most`` that have none yet."""
        return numbers < len(self._names) + most

    def forget(self) -> None:
        self._rows.forget()
        self._names, self._all = [], ()

    def numbers(self, words: Sequence[NDArray[np.uint64]]) -> NDArray[np.int64]:
        if self.is_full:
            self.forget()
        return self._rows.numbers(words)

    def names(self, numbers: NDArray[np.int64]) -> tuple[tuple[Name, ...], NDArray[np.int64]]:
        """A tuple with the names of all these numbers, and the index of each number's in it."""
        self._calm += 1
        if len(self._rows) > len(self._names):
            self._calm = 0
            self._names += map(self._named, *[word.tolist() for word in self._rows.values(len(self._names))])
        if len(self._all) < len(self._names):
            if self._calm < _CALM_CALLS:
                return self._needed(numbers)
            self._all = tuple(self._names)
        return self._all, numbers

    def _needed(self, numbers: NDArray[np.int64]) -> tuple[tuple[Name, ...], NDArray[np.int64]]:
        """Only the names of these numbers, in order of appearance."""
        if len(self._seen) < len(self._names):
            self._seen = np.empty(2 * len(self._names), np.int64)
        seen, place = self._seen, np.arange(len(numbers))
        seen[numbers[::-1]] = place[::-1]  # the last write, of the first of equal ones, wins
        distinct = numbers[seen[numbers] == place]
        seen[distinct] = place[: len(distinct)]
        names = self._names
        return tuple([names[number] for number in distinct.tolist()]), seen[numbers]


NO_UNIT = -1
TIME_UNITS: tuple[TimeUnit, ...] = ("ns", "us", "2^-32 s")
_MOST_PLACES = 1 << 16
_MOST_HOSTS = 1 << 18
_U64 = np.uint64
_SPORT, _DPORT = _U64(24), _U64(8)
_NO_NODE = -1


class Units(NamedTuple):
    """Units of a device: NaN or ``NO_UNIT`` without a profile; ``time_unit`` indexes ``TIME_UNITS``."""

    unit_bytes: float
    time_unit: int
    utilisation_scale: float
    sampling_rate: float


_UNKNOWN_UNITS = Units(float("nan"), NO_UNIT, float("nan"), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The places of a batch's hops: each hop's ``site`` in ``sites``, and its ``number`` in the columns of
    device units. ``same_time_unit`` is the unit that all share (None: they differ); ``untuned`` are the nodes
    of these hops without a profile.
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
    """Names of flows and places; caches hosts and places (a bounded number). ``devices`` must not change."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._hosts = {4: NameTable(1, _ipv4, _MOST_HOSTS), 6: NameTable(2, _ipv6, _MOST_HOSTS)}
        self._places = NameTable(2, self._site, _MOST_PLACES)
        self._forget_units()

    def flows(self, columns: Sequence[FlowColumns]) -> tuple[NDArray[np.int32], FlowKeys]:
        """The flow of every row of every part, as an index into the distinct flows."""
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
        if len(keys) == 1:
            return flow.astype(np.int32), keys[0]
        # A new table of hosts, for which nobody can have cached anything: it has only those needed.
        return flow.astype(np.int32), _joined([FlowKeys.of(()), *(some.compact() for some in keys)])

    def _flow_keys(self, version: int, words: Sequence[NDArray[np.uint64]]) -> FlowKeys:
        *pair, tail = words
        if version == 4:  # two addresses share a word
            ends = [np.concatenate([pair[0] >> _U64(32), pair[0] & _U64(NOTHING_32)])]
        else:
            ends = [np.concatenate(pair[word::2]) for word in (0, 1)]
        known = self._hosts[version]
        hosts, place = known.names(known.numbers(ends))
        return FlowKeys(
            hosts,
            place[: len(tail)].astype(np.int32),
            place[len(tail) :].astype(np.int32),
            (tail >> _SPORT).astype(np.uint16),
            (tail >> _DPORT).astype(np.uint16),
            tail.astype(np.uint8),
        )

    def place_numbers(self, at: NDArray[np.uint64], ports: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The number of every hop's place: ``at`` is node and queue (8 bits), ``ports`` ingress and egress
        interface (32 bits).
        """
        if self._places.is_full:
            self.forget_places()
        return self._places.numbers((at, ports))

    def fits(self, places: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
        """Which of these numbers are known places, or among the first ``most`` new ones."""
        return self._places.fits(places, most)

    def forget_places(self) -> None:
        self._places.forget()
        self._forget_units()

    def places(self, number: NDArray[np.int64]) -> Places:
        sites, site = self._places.names(number)
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
        """Appends the units of new places to the columns."""
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
        """Names a new place, and notes its device's units."""
        number, queue = at >> 8, at & NOTHING_8
        node = None if number == NOTHING_32 else number
        ingress, egress = (
            None if port == NOTHING_32 else self._devices.port(node, port)
            for port in (ports >> 32, ports & NOTHING_32)
        )
        switch = None if node is None else self._devices.switch(node)
        self._new.append((_NO_NODE if node is None else node, self._units(node)))
        return HopSite(switch, ingress, egress, None if queue == NOTHING_8 else queue)

    def sampling_rate(self, node: int) -> float:
        return self._units(node).sampling_rate

    def _units(self, node: int | None) -> Units:
        units = self._devices.profile(node)
        if units is None:
            return _UNKNOWN_UNITS
        unit = TIME_UNITS.index(units.time)
        return Units(units.unit_bytes, unit, units.utilisation_scale, units.sampling_rate)


def _ipv4(address: int) -> str:
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def _ipv6(high: int, low: int) -> str:
    return plain_address(socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16, "big")))


def _joined(keys: Sequence[FlowKeys]) -> FlowKeys:
    """All keys, one table after the other."""
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

"""Counters of ports and queues: samples, and the time series of one port or queue.

Counters are cumulative; None is "not given by the device", never 0. A series stores growth since its
beginning instead of counts, so that dropping a reading loses nothing of its neighbours', resets included.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.counters.growth import growth
from telemetry.errors import ReportError, WindowError

MOST = 2**63 - 1
"""The largest count and the latest time that can be stored."""


class Counters(NamedTuple):
    """Counts of one egress port or queue. None: not given.

    ``pfc_tx_frames`` are pauses sent to the peer, ``pfc_rx_frames`` pauses received from it, ``pfc_pause_ns``
    time in which this port or queue was paused. ``dropped_*`` are all losses, ``wred_dropped_packets`` those
    by WRED. ``tx_bytes`` are bytes on the wire.
    """

    pfc_tx_frames: int | None = None
    pfc_rx_frames: int | None = None
    pfc_pause_ns: int | None = None
    ecn_marked_packets: int | None = None
    cnp_packets: int | None = None
    dropped_packets: int | None = None
    dropped_bytes: int | None = None
    wred_dropped_packets: int | None = None
    tx_packets: int | None = None
    tx_bytes: int | None = None


class SeriesKey(NamedTuple):
    """One port (``queue`` None) or one queue of it."""

    switch: str
    port: str
    queue: int | None


@dataclass(frozen=True, slots=True)
class CounterSample:
    """One reading, at ``ts_ns`` by the device's clock (Unix time).

    Raises ``ReportError`` naming the field for a number outside 0 to ``MOST``, or without counters.
    """

    key: SeriesKey
    ts_ns: int
    counters: Counters

    def __post_init__(self) -> None:
        _check("ts_ns", self.ts_ns)
        if self.key.queue is not None:
            _check("queue", self.key.queue)
        empty = True
        for name, value in zip(Counters._fields, self.counters, strict=True):
            if value is not None:
                empty = False
                _check(name, value)
        if empty:
            remedy = f"send one of {', '.join(Counters._fields)}; this sample was left out"
            raise ReportError("counters", "none", "a sample gives at least one counter", remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSettings:
    """Memory bounds: series (one queue per port of 1024 switches with 64 ports), samples of each, and their
    age by the device's clock.

    ``confirm_samples``: so many samples in a row that are older than a series' newest by more than the
    horizon mean that its clock was set back. Raises ``WindowError`` naming a field that is out of range.
    """

    max_series: int = 65_536
    max_samples: int = 128
    horizon_ns: int = 900_000_000_000
    confirm_samples: int = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 4 if field.name == "max_samples" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                where, rule = f"counter settings {field.name}", f"it is a whole number of {least} or more"
                raise WindowError(where, repr(value), rule, "correct it")


@dataclass(frozen=True, slots=True)
class CounterIncrease:
    """Growth of the counters of some switches, on so many ``ports``.

    ``counters``: None where no series has two readings. ``covered_s``: time between the readings used, of
    the least covered switch (its best series); 0 where a switch has no data.
    """

    counters: Counters
    covered_s: float
    ports: int


def _check(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        rule = f"{name} is a whole number from 0 to {MOST}"
        raise ReportError(name, repr(value), rule, "correct the exporter; this sample was left out")


_FIRST_ROWS = 8
_FIELDS = len(Counters._fields)
_MISSING = -1
_LEFT_OUT = -2  # given, but below the reading before, and no reset so far


class Grown(NamedTuple):
    """Growth of a series between two of its readings, by field (None: unknown). A field that not every
    reading has grew over less time than from ``begin_ns`` to ``end_ns``: over its own of ``spans_ns``.
    """

    by_field: tuple[int | None, ...]
    spans_ns: tuple[int, ...]
    begin_ns: int
    end_ns: int


class _Held(NamedTuple):
    """The last reading of a counter, which went down: when it was, and the count before."""

    ts_ns: int
    high: int


class CounterSeries:
    """At most ``max_samples`` readings. When full, those older than ``horizon_ns`` are dropped, or without
    any every second one of the older half.
    """

    def __init__(self, max_samples: int, horizon_ns: int) -> None:
        self._max_samples = max_samples
        self._horizon_ns = horizon_ns
        first_rows = min(_FIRST_ROWS, max_samples)
        self._times = np.zeros(first_rows, np.int64)
        self._rows = np.zeros((first_rows, _FIELDS), np.int64)
        self.begin_anew()

    def __len__(self) -> int:
        return self._count

    @property
    def newest_ns(self) -> int:
        """Time of the newest reading, −1 without one."""
        return int(self._times[self._count - 1]) if self._count else -1

    def begin_anew(self) -> None:
        self._count = 0
        self._last: list[int | None] = [None] * _FIELDS
        self._grown = [0] * _FIELDS
        self._held: dict[int, _Held] = {}  # by field

    def append(self, ts_ns: int, counters: Counters) -> None:
        """Adds a reading later than all others. A counter that went down (``growth``) is as if not given
        until its next reading tells that it was reset, and stays so where it was not.
        """
        for _ in range(2):
            row = [_MISSING] * _FIELDS
            for column, value in enumerate(counters):
                if value is None:
                    continue
                last = self._last[column]
                if last is not None and last <= value and column not in self._held:  # nearly always: no call
                    self._grown[column] += value - last
                    self._last[column] = value
                    row[column] = self._grown[column]
                else:
                    row[column] = self._grown[column] if self._grow(column, value, ts_ns) else _LEFT_OUT
            if max(row) <= MOST:
                break
            self.begin_anew()  # resets of huge counts added up beyond MOST
        self._make_room(ts_ns)
        self._times[self._count] = ts_ns
        self._rows[self._count] = row
        self._count += 1

    def _grow(self, column: int, value: int, ts_ns: int) -> bool:
        """Counts the growth up to this reading; False where its next one tells it."""
        last, self._last[column] = self._last[column], value
        if last is None:
            return True
        held = self._held.pop(column, None)
        more = growth(last, value, None if held is None else held.high)
        if more is None:
            self._held[column] = _Held(ts_ns, last if held is None else held.high)
            return False
        if held is not None and value < held.high:
            at = int(np.searchsorted(self._times[: self._count], held.ts_ns))
            if at < self._count and self._times[at] == held.ts_ns:  # else it was thinned out
                self._rows[at, column] = min(self._grown[column] + more.before, MOST)
        self._grown[column] += more.whole
        return True

    def between(self, since_ns: int, until_ns: int) -> Grown | None:
        """Growth from the last reading up to ``since_ns`` (else the first after it) to the last up to
        ``until_ns``; None unless these are two.
        """
        times = self._times[: self._count]
        end = int(np.searchsorted(times, until_ns, side="right")) - 1
        begin = max(int(np.searchsorted(times, since_ns, side="right")) - 1, 0)
        if end <= begin:
            return None
        rows = self._rows[begin].tolist(), self._rows[end].tolist()
        same_fields = all((one < 0) == (other < 0) for one, other in zip(*rows, strict=True))
        if same_fields and all(
            other >= 0 or last is None for other, last in zip(rows[1], self._last, strict=True)
        ):
            # Both readings have every counter ever given: the usual and fast case.
            grown = [None if one < 0 else other - one for one, other in zip(*rows, strict=True)]
            begin_ns, end_ns = int(times[begin]), int(times[end])
            return Grown(tuple(grown), (end_ns - begin_ns,) * _FIELDS, begin_ns, end_ns)
        by_field: list[int | None] = []
        spans_ns = [0] * _FIELDS
        first, last = end, begin
        for column in range(_FIELDS):
            given = self._last[column] is not None  # in any reading
            found = _ends(self._rows[: end + 1, column], begin) if given else None
            if found is None:
                by_field.append(None)
                continue
            by_field.append(int(self._rows[found[1], column] - self._rows[found[0], column]))
            spans_ns[column] = int(times[found[1]] - times[found[0]])
            first, last = min(first, found[0]), max(last, found[1])
        if last <= first:
            return None
        return Grown(tuple(by_field), tuple(spans_ns), int(times[first]), int(times[last]))

    def _make_room(self, ts_ns: int) -> None:
        """When the arrays are full: drops old readings, else grows, else thins."""
        size = len(self._times)
        if self._count < size:
            return
        # Keep one at or before the horizon's edge: growth over the whole horizon starts from it.
        begin = max(int(np.searchsorted(self._times, ts_ns - self._horizon_ns, side="right")) - 1, 0)
        keep = np.arange(begin, size)
        if len(keep) == size == self._max_samples:
            half = size // 2
            keep = np.concatenate([keep[:half:2], keep[half:]])
        elif len(keep) == size:
            size = min(2 * size, self._max_samples)
        for row in keep[np.diff(keep, prepend=-1) > 1]:  # with the one before would go what it alone tells
            left_out = self._rows[row] == _LEFT_OUT
            if left_out.any():
                self._rows[row, left_out] = self._rows[: row + 1, left_out].max(axis=0)
        times, rows = np.zeros(size, np.int64), np.zeros((size, _FIELDS), np.int64)
        times[: len(keep)], rows[: len(keep)] = self._times[keep], self._rows[keep]
        self._times, self._rows, self._count = times, rows, len(keep)


def _ends(grown: NDArray[np.int64], begin: int) -> tuple[int, int] | None:
    """The two rows between which a field's growth is counted; None where fewer than two have it."""
    if grown[begin] >= 0 and grown[-1] >= 0:
        return begin, len(grown) - 1
    rows = np.flatnonzero(grown >= 0)
    if not len(rows):
        return None
    first = rows[max(int(np.searchsorted(rows, begin, side="right")) - 1, 0)]
    return (int(first), int(rows[-1])) if first < rows[-1] else None

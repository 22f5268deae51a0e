"""Counters of ports and queues as devices give them, and how they grew; must not import a wire format or the
window.

All counters are cumulative. None is "the device does not give it", never 0.

The readings of one port's or queue's counters in order of time; imports numpy and ``telemetry.counters``.

Kept are not the counts but how much each has grown since the series began, so that a reading may be let go
without its neighbours losing anything, resets included.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import ReportError, WindowError

MOST = 2**63 - 1
"""The largest count and the latest time that is held."""


class Counters(NamedTuple):
    """Counts of one egress port, or of one queue of it. None: not given.

    ``pfc_tx_frames`` pauses this port asked its peer for, ``pfc_rx_frames`` those its peer asked it for.
    ``pfc_pause_ns`` time in which this port or queue could not send because its peer had paused it.
    ``dropped_*`` all losses, ``wred_dropped_packets`` those of WRED among them. ``tx_bytes`` on the wire.
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
    """Whose counters: ``queue`` is None for those of the port as a whole."""

    switch: str
    port: str
    queue: int | None


@dataclass(frozen=True, slots=True)
class CounterSample:
    """One reading, at ``ts_ns`` by the device's clock (Unix time).

    Raises ``ReportError``, whose ``where`` is the field, for a number below 0 or above ``MOST`` and for a
    reading without any counter.
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
            raise ReportError(
                "counters",
                "none",
                "a sample gives at least one counter",
                f"send one of {', '.join(Counters._fields)}; this sample was left out",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSettings:
    """What memory holds: series (16 384: one a queue of 256 switches with 64 ports), samples of one (128),
    and for how long (15 min) by the device's clock.

    ``confirm_samples``: so many samples in a row that lie more than the horizon before a series' newest are
    taken as a clock that was set back. Raises ``WindowError`` naming a field below its least.
    """

    max_series: int = 16_384
    max_samples: int = 128
    horizon_ns: int = 900_000_000_000
    confirm_samples: int = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 4 if field.name == "max_samples" else 1
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise WindowError(
                    f"counter settings {field.name}",
                    repr(value),
                    f"it is a whole number of {least} or more",
                    "correct it",
                )


@dataclass(frozen=True, slots=True)
class CounterIncrease:
    """How much the counters of some switches grew.

    ``counters``: None where no series gave two readings of it. ``covered_s``: how much of the time asked for
    lies between readings that were used, of the switch that is worst off (its best series); 0 where one gave
    nothing. ``series``: how many contributed, of so many ``ports``. ``newest_ns``: the newest reading no
    later than asked for, None without any. ``silent``: the switches that gave nothing. ``resets``: how often
    a counter went down (a clear, a restart, a wrap).
    """

    counters: Counters
    covered_s: float
    series: int
    ports: int
    newest_ns: int | None
    silent: tuple[str, ...]
    resets: int


def _check(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ReportError(
            name,
            repr(value),
            f"{name} is a whole number from 0 to {MOST}",
            "correct the exporter; this sample was left out",
        )


_FIRST_ROWS = 8
_FIELDS = len(Counters._fields)
_RESETS = _FIELDS  # the column after the counters
_MISSING = -1


class Grown(NamedTuple):
    """What a series says of a stretch: growth by field (None: not known), its first and last reading."""

    by_field: tuple[int | None, ...]
    begin_ns: int
    end_ns: int
    resets: int


class CounterSeries:
    """At most ``max_samples`` readings. Where there is no room those older than the newest less
    ``horizon_ns`` go, and where there are none every second one of the older half.
    """

    def __init__(self, max_samples: int, horizon_ns: int) -> None:
        self._max_samples = max_samples
        self._horizon_ns = horizon_ns
        first_rows = min(_FIRST_ROWS, max_samples)
        self._times = np.zeros(first_rows, np.int64)
        self._rows = np.zeros((first_rows, _FIELDS + 1), np.int64)
        self._count = 0
        self._last: list[int | None] = [None] * _FIELDS
        self._grown = [0] * (_FIELDS + 1)

    def __len__(self) -> int:
        return self._count

    @property
    def newest_ns(self) -> int:
        """The newest reading's time, −1 before the first."""
        return int(self._times[self._count - 1]) if self._count else -1

    def newest_by(self, until_ns: int) -> int | None:
        """The time of the newest reading no later than that; None without one."""
        upto = int(np.searchsorted(self._times[: self._count], until_ns, side="right"))
        return int(self._times[upto - 1]) if upto else None

    def begin_anew(self) -> None:
        """Forgets everything."""
        self._count = 0
        self._last = [None] * _FIELDS
        self._grown = [0] * (_FIELDS + 1)

    def append(self, ts_ns: int, counters: Counters) -> None:
        """Adds a reading that is later than all others.

        A counter that went down was reset, and has grown by what it shows now.
        """
        for _ in range(2):
            row = [_MISSING] * (_FIELDS + 1)
            for column, value in enumerate(counters):
                if value is None:
                    continue
                last = self._last[column]
                if last is not None:
                    self._grown[column] += value - last if value >= last else value
                    self._grown[_RESETS] += value < last
                self._last[column] = value
                row[column] = self._grown[column]
            row[_RESETS] = self._grown[_RESETS]
            if max(row) <= MOST:
                break
            self.begin_anew()  # resets of huge counts have added up to more than can be held
        self._make_room(ts_ns)
        self._times[self._count] = ts_ns
        self._rows[self._count] = row
        self._count += 1

    def between(self, since_ns: int, until_ns: int) -> Grown | None:
        """Growth from the last reading at or before ``since_ns`` (else the first after it) to the last at or
        before ``until_ns``; None where those are not two.
        """
        times = self._times[: self._count]
        end = int(np.searchsorted(times, until_ns, side="right")) - 1
        begin = max(int(np.searchsorted(times, since_ns, side="right")) - 1, 0)
        if end <= begin:
            return None
        rows = self._rows[begin].tolist(), self._rows[end].tolist()
        told_alike = all((one == _MISSING) == (other == _MISSING) for one, other in zip(*rows, strict=True))
        if told_alike and all(
            other != _MISSING or last is None for other, last in zip(rows[1], self._last, strict=False)
        ):
            # Both readings give all that was ever given: the usual case, by far the fastest.
            grown = [None if one == _MISSING else other - one for one, other in zip(*rows, strict=True)]
            resets = grown.pop() or 0
            return Grown(tuple(grown), int(times[begin]), int(times[end]), resets)
        by_field: list[int | None] = []
        first, last = end, begin
        for column in range(_FIELDS):
            given = self._last[column] is not None  # at any time
            found = _ends(self._rows[: end + 1, column], begin) if given else None
            if found is None:
                by_field.append(None)
                continue
            by_field.append(int(self._rows[found[1], column] - self._rows[found[0], column]))
            first, last = min(first, found[0]), max(last, found[1])
        if last <= first:
            return None
        resets = int(self._rows[last, _RESETS] - self._rows[first, _RESETS])
        return Grown(tuple(by_field), int(times[first]), int(times[last]), resets)

    def _make_room(self, ts_ns: int) -> None:
        """Where the arrays are full: lets go what is too old, else grows, else thins."""
        size = len(self._times)
        if self._count < size:
            return
        # One at or before the horizon's edge stays: a question about all of the horizon starts from it.
        begin = int(np.searchsorted(self._times, ts_ns - self._horizon_ns, side="right")) - 1
        keep = np.arange(max(begin, 0), size)
        if len(keep) == size == self._max_samples:
            half = size // 2
            keep = np.concatenate([keep[:half:2], keep[half:]])
        elif len(keep) == size:
            size = min(2 * size, self._max_samples)
        times, rows = np.zeros(size, np.int64), np.zeros((size, _FIELDS + 1), np.int64)
        times[: len(keep)], rows[: len(keep)] = self._times[keep], self._rows[keep]
        self._times, self._rows, self._count = times, rows, len(keep)


def _ends(grown: NDArray[np.int64], begin: int) -> tuple[int, int] | None:
    """The rows a field's growth is counted between, of those that give it; None where they are not two."""
    if grown[begin] != _MISSING and grown[-1] != _MISSING:
        return begin, len(grown) - 1
    rows = np.flatnonzero(grown != _MISSING)
    if not len(rows):
        return None
    first = rows[max(int(np.searchsorted(rows, begin, side="right")) - 1, 0)]
    return (int(first), int(rows[-1])) if first < rows[-1] else None

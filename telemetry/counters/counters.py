"""Counters of ports and queues as devices give them, and how they grew; must not import a wire format or the
window.

All counters are cumulative. None is "the device does not give it", never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

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

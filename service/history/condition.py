"""How well the fabric is: what its traffic gets now and over the last hour, against thresholds."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from service.documents.base import timestamp
from service.documents.fabric import ConditionDocument, ConditionFigure, ConditionLevel
from service.events import Broadcaster, Clocks
from service.history.measured import Measured
from service.ingest.window_owner import WindowOwner
from service.rollouts.watch import Watcher
from settings.alarms import ConditionSettings
from telemetry.network.figures import window_figures
from telemetry.state import NetworkState
from twin.units import percent_text

_HOUR_S = 3_600.0
_MINUTE_NS = 60_000_000_000
_COST_SHARE = 0.05  # largest share of the time spent on measuring
_LEVELS: tuple[ConditionLevel, ...] = ("well", "watch", "bad")

_log = logging.getLogger("ecntwin.condition")


class Point(NamedTuple):
    """What the traffic of one window experienced; None where there is no such traffic, or no counter."""

    at_ns: int
    packet_p99_slowdown: float | None
    elephant_slowdown: float | None
    paused_share: float | None
    loss_share: float | None
    marked_share: float | None


class Seen(NamedTuple):
    """One value of a figure, and its time."""

    at_ns: int
    value: float


@dataclass(frozen=True, slots=True)
class _Figure:
    """How a figure is phrased: ``clause`` with its ``text``, or ``none`` where it is 0."""

    name: str
    clause: str
    text: Callable[[float], str]
    none: str | None = None


_times = "{:.3g}".format

_FIGURES = (
    _Figure("packet_p99_slowdown", "a small message takes {} times as long as alone at p99", _times),
    _Figure("elephant_slowdown", "elephants take {} times as long as alone", _times),
    _Figure("paused_share", "ports are paused {} of the time", percent_text, "no pauses"),
    _Figure("loss_share", "{} of the packets are lost", percent_text, "no loss"),
    _Figure("marked_share", "{} of the packets are marked", percent_text, "no marks"),
)


@dataclass
class Condition:
    """Measures every ``settings.every_s`` seconds, or less often if that takes long. For one event loop."""

    settings: ConditionSettings
    window: WindowOwner
    watcher: Watcher
    events: Broadcaster
    clocks: Clocks

    def __post_init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=math.ceil(_HOUR_S / self.settings.every_s))
        self._measured: NetworkState | None = None

    async def run_forever(self) -> None:
        """Measures while reports arrive; a failure is logged, and the next window is tried."""
        while True:
            begun_s = self.clocks.cost_s()
            try:
                await self.measure()
            except Exception:
                _log.exception("the fabric's condition could not be measured; the next window is tried")
            cost_s = self.clocks.cost_s() - begun_s
            await asyncio.sleep(max(self.settings.every_s, cost_s / _COST_SHARE))

    async def measure(self) -> bool:
        """Measures the window, if it is fresh and has changed; returns whether it did."""
        if self.window.stale or self.window.empty:
            return False
        snapshot, state = await self.window.seen()
        if state is self._measured:
            return False
        found = await asyncio.to_thread(window_figures, snapshot, state.topology, n_blocks=1)
        counted = await self.watcher.counted(state.topology.switches)
        got = Measured.of(found, counted).figures
        marked = [queue.marked_packets_per_s for queue in state.queues]
        known = [one for one in marked if one is not None]
        self._measured = state
        self._points.append(
            Point(
                self.clocks.wall_ns(),
                got.probe_p99_slowdown,
                got.elephant_slowdown,
                got.paused_share,
                got.loss_share,
                min(sum(known) / found.packets_per_s, 1.0) if known and found.packets_per_s > 0 else None,
            )
        )
        self.events.publish("condition", {})
        return True

    def document(self, *, critical_alarms: int = 0) -> ConditionDocument:
        """The verdict, and each figure with its last hour. A critical alarm makes the verdict ``bad``."""
        since_ns = self.clocks.wall_ns() - round(_HOUR_S * 1e9)
        points = [point for point in self._points if point.at_ns >= since_ns]
        figures = [self._figure(one, points) for one in _FIGURES]
        missing = self.window.missing
        as_of = timestamp(points[-1].at_ns) if points else None
        if not points or missing is not None:
            why = "it is being measured" if missing is None else missing.why
            return ConditionDocument(
                level="unknown", sentence=f"Unknown: {why}.", as_of=as_of, figures=figures
            )
        worst = max([_LEVELS.index(one.level) for one in figures], default=0)
        level = "bad" if critical_alarms else _LEVELS[worst]
        reasons = [one.sentence for one in figures if one.level == _LEVELS[worst] and worst]
        if critical_alarms:
            reasons.insert(0, f"{critical_alarms} critical alarm{'s' if critical_alarms > 1 else ''}")
        said = reasons or [one.sentence for one in figures if one.value is not None]
        word = {"well": "Well", "watch": "To be watched", "bad": "Not well"}[level]
        return ConditionDocument(
            level=level, sentence=f"{word}: {', '.join(said)}.", as_of=as_of, figures=figures
        )

    def _figure(self, one: _Figure, points: list[Point]) -> ConditionFigure:
        seen = [
            Seen(point.at_ns, value) for point in points if (value := getattr(point, one.name)) is not None
        ]
        value = getattr(points[-1], one.name) if points else None
        watch = getattr(self.settings, f"{one.name}_watch")
        bad = getattr(self.settings, f"{one.name}_bad")
        level: ConditionLevel = "well"
        limit = None
        if value is not None and bad is not None and value >= bad:
            level, limit = "bad", bad
        elif value is not None and watch is not None and value >= watch:
            level, limit = "watch", watch
        if value is None:
            sentence = f"{one.name} is not known"
        elif value == 0 and one.none is not None:
            sentence = one.none
        else:
            beyond = "" if limit is None else f" (limit {one.text(limit)})"
            sentence = f"{one.clause.format(one.text(value))}{beyond}"
        return ConditionFigure(
            name=one.name,
            value=value,
            level=level,
            watch_from=watch,
            bad_from=bad,
            sentence=sentence,
            hour_median=median([point.value for point in seen]) if seen else None,
            hour=[(timestamp(point.at_ns), point.value) for point in by_minute(seen)],
        )


def by_minute(seen: Sequence[Seen]) -> Sequence[Seen]:
    """At most one value a minute, in order of time: the highest of each clock minute.

    The value of a minute that has ended no longer changes. Where there are no more values than minutes in an
    hour, all are returned.
    """
    if len(seen) <= _HOUR_S / 60:
        return seen
    highest: dict[int, Seen] = {}
    for point in seen:
        minute = point.at_ns // _MINUTE_NS
        if minute not in highest or point.value > highest[minute].value:
            highest[minute] = point
    return list(highest.values())

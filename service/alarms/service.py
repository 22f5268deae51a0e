"""The alarms of the service: runs the checks periodically, and publishes what changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from service.alarms.checks import AlarmChecks
from service.documents.base import timestamp
from service.documents.history import AlarmDocument, AlarmsDocument
from service.events import Broadcaster, Clocks
from service.network_metrics import NetworkMetrics
from settings.errors import NotFoundError
from settings.sections import KINDS, AlarmSettings
from telemetry.alarms import Alarm, AlarmBoard, Change, Level

MOST_PUBLISHED = 32
"""Changes published one by one at a time: a listener's queue holds 64 events."""

_log = logging.getLogger("ecntwin.alarms")

OnChange = Callable[[tuple[Change, ...], Callable[[float], int]], None]


class Alarms:
    """The alarms of one service. ``clock_s`` is monotonic seconds, ``wall_ns`` nanoseconds since 1970.

    ``on_change`` receives the changes and a function from alarm seconds to nanoseconds since 1970.
    """

    def __init__(
        self,
        settings: AlarmSettings,
        checks: AlarmChecks,
        *,
        metrics: NetworkMetrics,
        events: Broadcaster,
        clocks: Clocks,
        on_change: OnChange | None = None,
    ) -> None:
        self._on_change = on_change
        self._every_s = settings.every_s
        self._checks = checks
        self._board = AlarmBoard(settings.rules(), forget_s=settings.forget_s, keep=settings.keep)
        self._metrics = metrics
        self._events = events
        self._clocks = clocks
        self._checking = asyncio.Lock()
        # Alarms of before the start need this long to be raised again, or to count as over.
        self._settled_s = clocks.monotonic_s() + settings.hold_s + settings.clear_s
        self._checked_s: float | None = None
        self._left_off = 0
        self.active: tuple[Alarm, ...] = ()
        self.ended: tuple[Alarm, ...] = ()

    async def run_forever(self) -> None:
        """Runs the checks every ``every_s``; a failure is logged, and the next run is tried."""
        while True:
            await asyncio.sleep(self._every_s)
            try:
                await self.check()
            except Exception:
                _log.exception("alarms could not be checked; they stay as they are until the next check")

    async def check(self) -> tuple[Change, ...]:
        async with self._checking:
            now_s = self._clocks.monotonic_s()
            result = await self._checks.run(self._board.switches)
            # Thousands of ports: not on the event loop.
            changes = await asyncio.to_thread(self._board.update, now_s, result.findings)
            self._checked_s, self._left_off = now_s, self._board.left_off
            self.active, self.ended = self._board.active, self._board.ended
            if result.state is not None or result.silent:
                self._metrics.saw_state(result.state)
            self._metrics.saw_ports(result.ports)
            self._metrics.saw_alarms(self.active, changes)
            self._publish(changes)
            if self._on_change is not None:
                self._on_change(changes, self._wall_clock())
            return changes

    def holding(self, switches: Collection[str]) -> str | None:
        """Which critical alarm keeps policy from changing these switches, in a sentence; None without one."""
        named = frozenset(switches)
        found = [
            alarm
            for alarm in self.active
            if alarm.level is Level.CRITICAL
            and KINDS[alarm.subject.kind].holds
            and (alarm.subject.switch is None or alarm.subject.switch in named)
        ]
        if not found:
            return None
        everywhere = next((alarm for alarm in found if alarm.subject.switch is None), None)
        if everywhere is not None:
            return f"a critical alarm is on every switch ({everywhere.subject.kind}): {everywhere.sentence}"
        first = "; ".join(f"{alarm.subject.kind} on {alarm.subject.of}" for alarm in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        return f"a critical alarm is on its switches ({first}{more})"

    def settling_s(self) -> float:
        """Seconds until alarms of before the start have been raised again, or are over; may be negative."""
        return self._settled_s - self._clocks.monotonic_s()

    def document(self, *, limit: int, ended: bool, after: str | None = None) -> AlarmsDocument:
        """The first ``limit`` active alarms, or of those after the cursor ``after``, and as many ended ones
        if wanted. Raises ``NotFoundError`` for the cursor of an alarm that is active no more.
        """
        cursors = ["_".join(filter(None, alarm.subject)) for alarm in self.active]
        if after is not None and after not in cursors:
            raise NotFoundError(
                f"cursor {after[:80]!r}", None, "that alarm is active no more", "list them from the beginning"
            )
        begin = 0 if after is None else cursors.index(after) + 1
        end = begin + limit
        levels = [alarm.level for alarm in self.active]
        wall_ns = self._wall_clock()
        return AlarmsDocument(
            warning=levels.count(Level.WARNING),
            critical=levels.count(Level.CRITICAL),
            left_off=self._left_off,
            looked=None if self._checked_s is None else timestamp(wall_ns(self._checked_s)),
            alarms=[AlarmDocument.of(alarm, wall_ns) for alarm in self.active[begin:end]],
            ended=[AlarmDocument.of(alarm, wall_ns) for alarm in self.ended[:limit]] if ended else None,
            next=cursors[end - 1] if limit > 0 and end < len(cursors) else None,
        )

    def _wall_clock(self) -> Callable[[float], int]:
        """Converts an alarm's monotonic seconds by the clocks now: a corrected wall clock corrects it too."""
        now_s, now_ns = self._clocks.monotonic_s(), self._clocks.wall_ns()
        return lambda at_s: now_ns - round((now_s - at_s) * 1e9)

    def _publish(self, changes: tuple[Change, ...]) -> None:
        worst_first = sorted(changes, key=lambda change: -max(change.alarm.level, change.before))
        for change in worst_first[:MOST_PUBLISHED]:
            alarm = change.alarm
            worse = change.what != "cleared" and alarm.level > change.before
            _log.log(
                logging.WARNING if worse else logging.INFO,
                "alarm %s %s (%s): %s",
                change.what if change.what != "level" else "now",
                alarm.level.label,
                alarm.subject.kind,
                alarm.sentence,
            )
            self._events.publish(
                "alarm",
                {
                    "what": change.what,
                    "kind": alarm.subject.kind,
                    "subject": alarm.subject.of,
                    "switch": alarm.subject.switch,
                    "level": alarm.level.label,
                    "before": change.before.label if change.before else None,
                    "sentence": alarm.sentence,
                },
            )
        if len(changes) > MOST_PUBLISHED:
            _log.warning("%d more alarms changed: see /v1/alarms", len(changes) - MOST_PUBLISHED)
            self._events.publish("alarm", {"what": "more", "count": len(changes) - MOST_PUBLISHED})

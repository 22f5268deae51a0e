"""Alarms written down from their raise to their end, over restarts; must not judge what is one.

All that is written down of what was: queues, alarms, residuals; must not be asked for any of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

from sqlalchemy import Connection

from service.documents.recommendation import RecommendationDocument
from service.events import Clocks
from service.history.recording import QueueHistory
from service.ingest.counter_owner import PortMonitor
from service.ingest.window_owner import WindowOwner
from settings.model import Settings
from settings.sections import DAY_S
from store import alarm_rows, residual_rows
from store.alarm_rows import AlarmRow, last_alive_ns, open_rows, put
from store.database import Database
from store.queue_rows import NS_PER_S
from store.recorder import Recorder
from store.residual_rows import ResidualRow
from store.tables import takeable
from telemetry.alarms.board import Change, Level, Subject

AWAY = "the service ended while it was there, and when it ran again it was not: it ended by then"


@dataclass(frozen=True, slots=True)
class _Left:
    """What a service before this one left open, and when it was last heard of."""

    rows: dict[Subject, AlarmRow]
    alive_ns: int | None


class AlarmHistory:
    """``wall_ns`` is nanoseconds since 1970. Use from one event loop only.

    What a service before this one left open is the same alarm still if it is raised again within
    ``take_over_s`` of the start, in the seconds of ``clock_s``; else it ended when that was last heard of.
    """

    def __init__(
        self,
        database: Database,
        recorder: Recorder,
        *,
        take_over_s: float,
        clock_s: Callable[[], float],
        wall_ns: Callable[[], int],
    ) -> None:
        self._database = database
        self._recorder = recorder
        self._clock_s = clock_s
        self._began_ns = wall_ns()
        self._until_s = clock_s() + take_over_s
        self._there: dict[Subject, AlarmRow] = {}
        self._left = _Left({}, None)

    async def restore(self) -> None:
        """Reads what was left open; raises ``UnavailableError`` where the database is away."""

        def read(connection: Connection) -> tuple[list[AlarmRow], int | None]:
            return open_rows(connection), last_alive_ns(connection, self._began_ns)

        rows, alive_ns = await self._database.read(read)
        own = {row.key for row in self._there.values()}
        left: dict[Subject, AlarmRow] = {}
        for row in rows:
            if row.key in own:
                continue
            subject = Subject(row.kind, row.subject, row.switch)
            if subject in left or subject in self._there:  # one of them was left by a service still before
                self._end_left([row], alive_ns)
            else:
                left[subject] = row
        self._left = _Left(left, alive_ns)

    def record(self, changes: Sequence[Change], wall_ns: Callable[[float], int]) -> None:
        """Puts down what has changed; ``wall_ns`` makes an alarm's seconds nanoseconds since 1970."""
        rows = [self._changed(change, wall_ns) for change in changes]
        if rows:
            self._put(rows)

    def settle(self) -> None:
        """Ends what was left open and is not there any more, once it has had its time; call now and then."""
        if self._left.rows and self._clock_s() >= self._until_s:
            left, self._left = self._left, _Left({}, None)
            self._end_left(left.rows.values(), left.alive_ns)

    def _changed(self, change: Change, wall_ns: Callable[[float], int]) -> AlarmRow:
        alarm = change.alarm
        kind, of, switch = alarm.subject
        subject = Subject(kind, takeable(of), None if switch is None else takeable(switch))
        before = self._there.pop(subject, None) or self._left.rows.pop(subject, None)
        level, sentence = alarm.level.label, takeable(alarm.sentence)
        if before is None:
            raised_ns = wall_ns(alarm.since_s)
            row = AlarmRow(_key(subject, raised_ns), *subject, level, sentence, raised_ns)
        elif Level[before.level.upper()] >= alarm.level:
            row = before
        else:
            row = replace(before, level=level, sentence=sentence)
        if alarm.ended_s is not None:
            return replace(row, ended_ns=wall_ns(alarm.ended_s), why=alarm.why)
        self._there[subject] = row
        return row

    def _end_left(self, rows: Iterable[AlarmRow], alive_ns: int | None) -> None:
        self._put(
            [replace(row, ended_ns=max(row.raised_ns, alive_ns or row.raised_ns), why=AWAY) for row in rows]
        )

    def _put(self, rows: Sequence[AlarmRow]) -> None:
        def written(connection: Connection) -> None:
            for row in rows:
                put(connection, row)

        self._recorder.put(written)


def _key(subject: Subject, raised_ns: int) -> str:
    """The same for the same alarm, however often it is written."""
    named = repr((subject.kind, subject.of, subject.switch, raised_ns)).encode("utf-8", "backslashreplace")
    return blake2b(named, digest_size=16).hexdigest()


TIDIED_EVERY_S = 60.0
PRUNED_AT_ONCE = 5_000
MOST_ALARMS = 1_000_000
MOST_ALARMS_IN_MEMORY = 10_000

_log = logging.getLogger("ecntwin.history")


class History:
    """``queues`` and ``alarms`` as they are written down. Use from one event loop only."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        recorder: Recorder,
        *,
        window: WindowOwner,
        ports: PortMonitor,
        clocks: Clocks,
    ) -> None:
        self._recorder = recorder
        self._clocks = clocks
        self._keep_ns = round(settings.storage.keep_days * DAY_S * NS_PER_S)
        self._most_alarms = MOST_ALARMS if database.durable else MOST_ALARMS_IN_MEMORY
        self.queues = QueueHistory(
            settings.storage.steps(),
            recorder=recorder,
            durable=database.durable,
            window=window,
            ports=ports,
            clock_s=clocks.monotonic_s,
            wall_ns=clocks.wall_ns,
        )
        self.alarms = AlarmHistory(
            database,
            recorder,
            take_over_s=settings.alarms.forget_s,
            clock_s=clocks.monotonic_s,
            wall_ns=clocks.wall_ns,
        )

    @property
    def lost(self) -> int:
        """Entries that the database did not take in time, or refused, since the service began."""
        return self._recorder.dropped + self.queues.lost

    async def run_forever(self) -> None:
        """Writes queues down, and removes what is too old."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self.queues.run_forever(), name="queue-history")
            both.create_task(self._tidy_forever(), name="history-tidied")

    def round_ended(self, found: RecommendationDocument) -> None:
        """Puts down how far the twin was from what was measured in a round's window."""
        row = ResidualRow(
            self._clocks.wall_ns(),
            found.id,
            found.incumbent.queue_mean_bytes,
            found.measured.queue_mean_bytes,
        )
        self._recorder.put(partial(residual_rows.put, row=row))

    def tidy(self) -> None:
        """Removes some of what is too old, and ends alarms that ended with a service before this one."""
        self.alarms.settle()
        before_ns = self._clocks.wall_ns() - self._keep_ns
        self._recorder.put(
            partial(alarm_rows.prune, ended_before_ns=before_ns, keep=self._most_alarms, most=PRUNED_AT_ONCE),
            key="prune alarms",
        )
        self._recorder.put(
            partial(residual_rows.prune, before_ns=before_ns, most=PRUNED_AT_ONCE), key="prune residuals"
        )

    async def _tidy_forever(self) -> None:
        while True:
            await asyncio.sleep(TIDIED_EVERY_S)
            try:
                self.tidy()
            except Exception:
                _log.exception("the history could not be tidied; it is tried again")

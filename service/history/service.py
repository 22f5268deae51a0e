"""Records the history: queues, residuals, and alarms from raise to end, across restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

from sqlalchemy import Connection

from service.events import Clocks
from service.history.recording import QueueHistory
from service.ingest.counter_owner import PortMonitor
from service.ingest.window_owner import WindowOwner
from settings.model import Settings
from settings.sections import DAY_S
from store import alarm_rows, residual_rows
from store.alarm_rows import AlarmRow, last_alive_ns, open_rows, put
from store.database import Database
from store.recorder import Recorder
from store.residual_rows import ResidualRow
from store.tables import takeable
from telemetry.alarms.board import Change, Level, Subject
from telemetry.settings import NS_PER_S

AWAY = "the service ended while it was there, and when it ran again it was not: it ended by then"


@dataclass(frozen=True, slots=True)
class _LeftOpen:
    """Alarms that the service before this one left open, and when it was last alive."""

    rows: dict[Subject, AlarmRow]
    alive_ns: int | None


class AlarmHistory:
    """An alarm that the service before this one left open continues if it is raised again within
    ``take_over_s`` of the start; else it ended when that service was last alive. For one event loop.
    """

    def __init__(self, database: Database, recorder: Recorder, *, take_over_s: float, clocks: Clocks) -> None:
        self._database = database
        self._recorder = recorder
        self._clock_s = clocks.monotonic_s
        self._began_ns = clocks.wall_ns()
        self._until_s = clocks.monotonic_s() + take_over_s
        self._there: dict[Subject, AlarmRow] = {}
        self._left = _LeftOpen({}, None)

    async def restore(self) -> None:
        """Reads the alarms left open; raises ``UnavailableError``."""

        def read(connection: Connection) -> tuple[list[AlarmRow], int | None]:
            return open_rows(connection), last_alive_ns(connection, self._began_ns)

        rows, alive_ns = await self._database.read(read)
        own = {row.key for row in self._there.values()}
        left: dict[Subject, AlarmRow] = {}
        for row in rows:
            if row.key in own:
                continue
            subject = Subject(row.kind, row.subject, row.switch)
            if subject in left or subject in self._there:  # one is from an even earlier service
                self._end_left([row], alive_ns)
            else:
                left[subject] = row
        self._left = _LeftOpen(left, alive_ns)

    def record(self, changes: Sequence[Change], wall_ns: Callable[[float], int]) -> None:
        """Queues what changed; ``wall_ns`` converts an alarm's seconds to nanoseconds since 1970."""
        rows = [self._changed(change, wall_ns) for change in changes]
        if rows:
            self._put(rows)

    def settle(self) -> None:
        """Ends the alarms left open that were not raised again within ``take_over_s``."""
        if self._left.rows and self._clock_s() >= self._until_s:
            left, self._left = self._left, _LeftOpen({}, None)
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
    """The primary key, the same whenever the alarm is written."""
    named = repr((subject.kind, subject.of, subject.switch, raised_ns)).encode("utf-8", "backslashreplace")
    return blake2b(named, digest_size=16).hexdigest()


PRUNE_EVERY_S = 60.0
PRUNED_AT_ONCE = 5_000
MOST_ALARMS = 1_000_000
MOST_ALARMS_IN_MEMORY = 10_000

_log = logging.getLogger("ecntwin.history")


class History:
    """Records all history, and prunes it; for one event loop."""

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
            clocks=clocks,
        )
        self.alarms = AlarmHistory(database, recorder, take_over_s=settings.alarms.forget_s, clocks=clocks)

    @property
    def lost(self) -> int:
        """Entries dropped since the start: the database refused them, or did not take them in time."""
        return self._recorder.dropped + self.queues.lost

    async def run_forever(self) -> None:
        async with asyncio.TaskGroup() as both:
            both.create_task(self.queues.run_forever(), name="queue-history")
            both.create_task(self._prune_forever(), name="history-tidied")

    def round_ended(
        self, recommendation_id: str, predicted_bytes: float | None, measured_bytes: float | None
    ) -> None:
        """Records the round's residual: the twin's prediction against what was measured."""
        row = ResidualRow(self._clocks.wall_ns(), recommendation_id, predicted_bytes, measured_bytes)
        self._recorder.put(partial(residual_rows.put, row=row))

    def prune(self) -> None:
        """Prunes some of what is too old, and ends stale alarms of the service before this one."""
        self.alarms.settle()
        before_ns = self._clocks.wall_ns() - self._keep_ns
        self._recorder.put(
            partial(alarm_rows.prune, ended_before_ns=before_ns, keep=self._most_alarms, most=PRUNED_AT_ONCE),
            key="prune alarms",
        )
        self._recorder.put(
            partial(residual_rows.prune, before_ns=before_ns, most=PRUNED_AT_ONCE), key="prune residuals"
        )

    async def _prune_forever(self) -> None:
        while True:
            await asyncio.sleep(PRUNE_EVERY_S)
            try:
                self.prune()
            except Exception:
                _log.exception("the history could not be pruned; retrying")

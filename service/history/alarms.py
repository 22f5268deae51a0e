"""Records alarms in the database, from raise to end, and reads those that an earlier service left open."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from service.alarms.attention import Ack
from service.alarms.groups import IncastSite, JoinedAlarm, JoinedChange, ToWallNs
from service.events import Clocks
from store.alarm_rows import AlarmRow, last_alive_ns, open_rows, put
from store.database import Database, Recorder
from store.tables import takeable
from telemetry.alarms import GONE, Alarm, Level, Subject

MOST_MEMBERS = 64
"""Members stored of each alarm; after a restart the others join it when they are found again."""
MOST_LATELY = 1_000
UNRECORDED = "its end could not be recorded; it was over by then"


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """Alarms that the previous service left open, and when that service was last alive."""

    rows: list[AlarmRow]
    alive_ns: int | None

    def seen_ns(self, row: AlarmRow) -> int:
        """When an alarm was last known to be active."""
        return max(row.raised_ns, self.alive_ns or row.raised_ns)


class AlarmHistory:
    """Each alarm is one row, at its worst level. For one event loop."""

    def __init__(self, database: Database, recorder: Recorder, *, clocks: Clocks) -> None:
        self._database = database
        self._recorder = recorder
        self._wall_ns = clocks.wall_ns
        self._began_ns = clocks.wall_ns()
        self._there: dict[str, AlarmRow] = {}
        self._lately: OrderedDict[str, AlarmRow] = OrderedDict()
        self._restored = False

    async def left_open(self) -> LeftOpen:
        """Reads the alarms left open, the first raised first; raises ``UnavailableError``."""

        def read(connection: Connection) -> LeftOpen:
            rows = [
                row
                for row in open_rows(connection)
                if row.key not in self._there and row.key not in self._lately
            ]
            return LeftOpen(rows, last_alive_ns(connection, self._began_ns))

        return await self._database.read(read)

    def settled(self, carried: Iterable[AlarmRow], over: Iterable[AlarmRow], left: LeftOpen) -> None:
        """Continues the rows in ``carried`` and ends the others at the time when they were last known to be
        active.
        """
        self._there.update((row.key, row) for row in carried)
        self._put([replace(row, ended_ns=left.seen_ns(row), why=GONE) for row in over])
        self._restored = True

    def record(self, changes: Sequence[JoinedChange], acks: Mapping[str, Ack], wall_ns: ToWallNs) -> None:
        """Queues the rows of changed alarms."""
        if changes:
            self._put([self._changed(change.alarm, acks.get(change.alarm.id), wall_ns) for change in changes])

    def acknowledged(self, alarm_id: str, ack: Ack | None) -> None:
        """Queues a change of who has acknowledged an active alarm; None: nobody."""
        row = self._there.get(alarm_id)
        if row is not None:
            self._there[alarm_id] = _with_ack(row, ack)
            self._put([self._there[alarm_id]])

    def current(self, row: AlarmRow) -> AlarmRow:
        """The newest version of a row: changes not written to the database yet come first."""
        return self._there.get(row.key) or self._lately.get(row.key) or row

    def tidy(self) -> None:
        """Ends alarms that are open in the database only: their end was lost while the database was away."""
        if not self._restored:
            return
        there, now_ns = frozenset(self._there), self._wall_ns()

        def end(connection: Connection) -> None:
            for row in open_rows(connection):
                if row.key not in there and row.raised_ns <= now_ns:
                    put(connection, replace(row, ended_ns=now_ns, why=UNRECORDED))

        self._recorder.put(end, key="tidy alarms")

    def _changed(self, alarm: JoinedAlarm, ack: Ack | None, wall_ns: ToWallNs) -> AlarmRow:
        before = self._there.pop(alarm.id, None)
        level, sentence = alarm.level.label, takeable(alarm.sentence)
        kind, of, switch = alarm.kind, takeable(alarm.lead.subject.of), alarm.switch
        switch = None if switch is None else takeable(switch)
        if before is None:
            row = AlarmRow(alarm.id, kind, of, switch, level, sentence, wall_ns(alarm.since_s))
        elif Level[before.level.upper()] >= alarm.level:
            row = replace(before, switch=switch)
        else:
            row = replace(before, kind=kind, subject=of, switch=switch, level=level, sentence=sentence)
        row = _with_ack(replace(row, members=members_text(alarm)), ack)
        if alarm.ended_s is None:
            self._there[alarm.id] = row
        else:
            row = replace(row, ended_ns=max(row.raised_ns, wall_ns(alarm.ended_s)), why=alarm.why)
        return row

    def _put(self, rows: Sequence[AlarmRow]) -> None:
        for row in rows:
            if row.ended_ns is not None:
                self._lately[row.key] = row
        while len(self._lately) > MOST_LATELY:
            self._lately.popitem(last=False)

        def written(connection: Connection) -> None:
            for row in rows:
                put(connection, row)

        if rows:
            self._recorder.put(written)


def _with_ack(row: AlarmRow, ack: Ack | None) -> AlarmRow:
    if ack is None:
        return replace(row, acked_by=None, acked_ns=None, ack_note=None)
    return replace(row, acked_by=ack.by, acked_ns=ack.at_ns, ack_note=ack.note)


def members_text(alarm: JoinedAlarm) -> str:
    """The members of an alarm as JSON, its lead first; escaped, so that every database takes it."""
    lead = alarm.lead.subject
    ordered = [alarm.lead, *(one for one in alarm.members if one.subject != lead)][:MOST_MEMBERS]
    site = alarm.incast
    document = {
        "count": len(alarm.members),
        "subjects": [
            [*one.subject, one.level.label, one.value if math.isfinite(one.value) else None]
            for one in ordered
        ],
        "incast": None if site is None else [site.receiver, site.senders, site.switch, site.port],
    }
    return json.dumps(document, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RowMembers:
    """What a row's ``members`` hold: each subject with its level and value (NaN: unknown), and the total
    number.
    """

    subjects: tuple[tuple[Subject, Level, float], ...]
    count: int
    incast: IncastSite | None = None

    @classmethod
    def of(cls, row: AlarmRow) -> RowMembers:
        """Rows of old versions lack ``members`` and have one subject."""
        if row.members is None:
            subject = Subject(row.kind, row.subject, row.switch)
            return cls(((subject, Level[row.level.upper()], math.nan),), 1)
        said = json.loads(row.members)
        return cls(
            tuple(
                (Subject(kind, of, switch), Level[level.upper()], math.nan if value is None else value)
                for kind, of, switch, level, value in said["subjects"]
            ),
            said["count"],
            None if said["incast"] is None else IncastSite(*said["incast"]),
        )

    def alarms(self, row: AlarmRow, *, since_s: float, seen_s: float) -> list[Alarm]:
        """Each subject's alarm as it was when the previous service ended, in this service's seconds."""
        alone = len(self.subjects) == 1 and self.incast is None
        return [
            Alarm(
                subject,
                level,
                value,
                math.nan,
                since_s,
                seen_s,
                row.sentence
                if alone
                else f"{subject.of} had this alarm when the service ended, and has not been measured since",
                carried=True,
            )
            for subject, level, value in self.subjects
        ]

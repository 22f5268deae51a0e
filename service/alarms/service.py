"""The alarms of the service: runs the checks periodically, and publishes what changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from service.alarms.attention import Ack, Silences
from service.alarms.checks import AlarmChecks, CheckResult
from service.alarms.groups import AlarmGroups, JoinedAlarm, JoinedChange, Together, ToWallNs, together
from service.documents.alarms import AlarmGroupDocument
from service.documents.base import timestamp
from service.documents.history import AlarmDocument, AlarmsDocument
from service.events import Broadcaster, Clocks
from service.history.alarms import AlarmHistory, LeftOpen, RowMembers
from service.network_metrics import NetworkMetrics
from settings.alarms import KINDS, AlarmSettings
from settings.errors import NotFoundError, UnprocessableError
from store.alarm_rows import AlarmRow
from store.silence_rows import SilenceRow
from store.tables import takeable
from telemetry.alarms import Alarm, AlarmBoard, Level

MOST_PUBLISHED = 32
"""Changes published one by one at a time: a listener's queue holds 64 events."""
MOST_SUBJECTS = 64

_log = logging.getLogger("ecntwin.alarms")


@dataclass
class Alarms:
    """The alarms of one service: ``active`` by cause, the worst first, and ``ended``, the last first."""

    settings: AlarmSettings
    checks: AlarmChecks
    metrics: NetworkMetrics
    events: Broadcaster
    clocks: Clocks
    history: AlarmHistory
    silences: Silences

    def __post_init__(self) -> None:
        settings = self.settings
        self._kinds = settings.kinds()
        self.metrics.knows_kinds(self._kinds)
        self._board = AlarmBoard(settings.rules(), forget_s=settings.forget_s)
        self._groups = AlarmGroups(keep=settings.keep)
        self._acks: dict[str, Ack] = {}
        self._silenced: frozenset[str] = frozenset()
        self._checking = asyncio.Lock()
        # Alarms of earlier runs need this long to be raised again, or to count as over.
        self._settled_s = self.clocks.monotonic_s() + settings.hold_s + settings.clear_s
        self._checked_s: float | None = None
        self._left_off = 0
        self._members: tuple[Alarm, ...] = ()
        self._together: tuple[Together, ...] = ()
        self._group_of: dict[str, str] = {}
        self._notes: tuple[str, ...] = ()
        self.active: tuple[JoinedAlarm, ...] = ()
        self.ended: tuple[JoinedAlarm, ...] = ()

    async def restore(self) -> None:
        """Continues the alarms that the previous service left open; raises ``UnavailableError``."""
        left = await self.history.left_open()
        await self.silences.restore()
        async with self._checking:
            carried = [row for row in left.rows if self._carry(row, left)]
            self.history.settled(carried, [row for row in left.rows if row not in carried], left)
            self.checks.go_on(alarm for alarm in self._board.active if alarm.carried)
            self._show()
        if carried:
            _log.info("alarms of before the start: %d go on until they are measured again", len(carried))

    def _carry(self, row: AlarmRow, left: LeftOpen) -> bool:
        now_s, now_ns = self.clocks.monotonic_s(), self.clocks.wall_ns()
        said = RowMembers.of(row)
        since_s, seen_s = (now_s - (now_ns - at_ns) / 1e9 for at_ns in (row.raised_ns, left.seen_ns(row)))
        cause = said.subjects[0][0].kind, row.switch
        if said.incast is None and self._groups.has(cause):
            return False  # its subjects are in the new alarm, if they are still over a threshold
        there = said.alarms(row, since_s=since_s, seen_s=seen_s)
        members = [alarm for one in there if (alarm := self._board.carry(now_s, one))]
        if not members:
            return False
        self._groups.carry(row.key, members, cause, incast=said.incast, raised_ns=row.raised_ns)
        if row.acked_by is not None and row.acked_ns is not None:
            self._acks[row.key] = Ack(row.acked_by, row.acked_ns, row.ack_note)
        return True

    async def run_forever(self) -> None:
        """Runs the checks every ``every_s``; a failure is logged, and the next run is tried."""
        while True:
            await asyncio.sleep(self.settings.every_s)
            try:
                await self.check()
            except Exception:
                _log.exception("alarms could not be checked; they stay as they are until the next check")

    async def check(self) -> tuple[JoinedChange, ...]:
        async with self._checking:
            now_s = self.clocks.monotonic_s()
            result = await self.checks.run(self._board.switches)
            # Thousands of ports: not on the event loop.
            changes = await asyncio.to_thread(self._update, now_s, result)
            self._checked_s, self._left_off, self._notes = now_s, self._board.left_off, result.notes
            for change in changes:
                if change.what == "level" and change.alarm.level > change.before:
                    self._acks.pop(change.alarm.id, None)  # it covers only the level it was given at
            before = self._silenced
            self._show()
            if result.state is not None or result.silent:
                self.metrics.saw_state(result.state)
            self.metrics.saw_ports(result.ports)
            told = {change.alarm.id for change in changes}
            heard = [
                JoinedChange("unsilenced", alarm, alarm.level)
                for alarm in self.active
                if alarm.id in before - self._silenced and alarm.id not in told
            ]
            self.metrics.raised_alarms(change.alarm.kind for change in changes if change.what == "raised")
            self._publish((*changes, *heard))
            self.history.record(changes, self._acks, self._wall_clock())
            listed = {alarm.id for alarm in (*self.active, *self.ended)}
            self._acks = {alarm_id: ack for alarm_id, ack in self._acks.items() if alarm_id in listed}
            return changes

    def _update(self, now_s: float, result: CheckResult) -> tuple[JoinedChange, ...]:
        changes = self._board.update(now_s, result.findings)
        return self._groups.update(self._board.active, changes, result.incasts, self._wall_clock())

    def _show(self) -> None:
        """Takes over the result of the last check; not while one runs."""
        self._members = self._board.active
        self.active, self.ended = self._groups.active, self._groups.ended
        self._together = together(self.active)
        self._group_of = {
            alarm.id: group.id for group in self._together if len(group.alarms) > 1 for alarm in group.alarms
        }
        self._apply_silences()

    def _apply_silences(self) -> None:
        among = self.silences.current()
        self._silenced = frozenset(one.id for one in self.active if among and self.silences.of(one, among))
        self.metrics.saw_alarms(
            ((one.kind, one.level) for one in self.active if one.id not in self._silenced),
            silenced=len(self._silenced),
        )

    async def silence(
        self, *, kind: str | None, switch: str | None, until_ns: int, by: str, note: str | None
    ) -> SilenceRow:
        """Keeps a silence and applies it; raises ``RequestError`` where it is invalid or cannot be kept."""
        if kind is not None and kind not in self._kinds:
            own = ", ".join(sorted(self._kinds.keys() - KINDS)) or "none is set"
            raise UnprocessableError(
                "kind", repr(kind), f"conditions of alarms.links are kinds too: {own}", "correct the name"
            )
        row = await self.silences.add(kind=kind, switch=switch, until_ns=until_ns, by=by, note=note)
        self._silences_changed()
        return row

    async def end_silence(self, silence_id: str) -> None:
        """Ends a silence; raises ``NotFoundError`` and ``UnavailableError``."""
        await self.silences.end(silence_id)
        self._silences_changed()

    def _silences_changed(self) -> None:
        """Updates counts and metrics at once; the next check publishes the alarms whose silence has ended."""
        before = self._silenced
        self._apply_silences()
        self._silenced |= before & {one.id for one in self.active}
        self.events.publish("alarm", {"what": "silences"})

    def acknowledge(self, alarm_id: str, by: str, note: str | None) -> AlarmDocument:
        """Acknowledges an active alarm; raises ``NotFoundError``."""
        note = None if note is None else takeable(note)
        return self._acknowledged(alarm_id, Ack(by, self.clocks.wall_ns(), note))

    def withdraw(self, alarm_id: str) -> AlarmDocument:
        """Withdraws an acknowledgement; raises ``NotFoundError``."""
        return self._acknowledged(alarm_id, None)

    def _acknowledged(self, alarm_id: str, ack: Ack | None) -> AlarmDocument:
        alarm = self.get(alarm_id)
        if ack is None:
            self._acks.pop(alarm_id, None)
        else:
            self._acks[alarm_id] = ack
        self.history.acknowledged(alarm_id, ack)
        self.events.publish("alarm", self._event_data("acknowledged" if ack else "unacknowledged", alarm))
        return self._documents([alarm], MOST_SUBJECTS)[0]

    def get(self, alarm_id: str) -> JoinedAlarm:
        """Raises ``NotFoundError`` unless an active alarm has this id."""
        found = next((one for one in self.active if one.id == alarm_id), None)
        if found is None:
            raise NotFoundError(
                f"alarm {alarm_id!r}",
                None,
                "it is not among the active alarms: it never was, or has ended",
                "list them at /v1/alarms",
            )
        return found

    def holding(self, switches: Collection[str]) -> str | None:
        """A sentence on the critical alarm that keeps policy from changing these switches; None if there is
        none.
        """
        named = frozenset(switches)
        found = [
            alarm
            for alarm in self._members
            if alarm.level is Level.CRITICAL
            and self._kinds[alarm.subject.kind].holds
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
        """Seconds until alarms of an earlier run are raised again or have ended; may be negative."""
        return self._settled_s - self.clocks.monotonic_s()

    def document(
        self, *, limit: int, ended: bool, after: str | None = None, subjects: int = MOST_SUBJECTS
    ) -> AlarmsDocument:
        """The first ``limit`` active alarms, or of those after the cursor ``after``, and as many ended ones
        if wanted.

        Each has at most ``subjects`` members. Raises ``NotFoundError`` for the cursor of an alarm that is no
        longer active.
        """
        cursors = [alarm.id for alarm in self.active]
        if after is not None and after not in cursors:
            raise NotFoundError(
                f"cursor {after[:80]!r}",
                None,
                "that alarm is no longer active",
                "list them from the beginning",
            )
        begin = 0 if after is None else cursors.index(after) + 1
        end = begin + limit
        levels = [alarm.level for alarm in self.active]
        known = self._silenced.union(self._acks)
        still_open = [alarm.level for alarm in self.active if alarm.id not in known]
        wall_ns = self._wall_clock()
        listed = self.active[begin:end]
        groups = {self._group_of.get(alarm.id) for alarm in listed}
        return AlarmsDocument(
            warning=levels.count(Level.WARNING),
            critical=levels.count(Level.CRITICAL),
            left_off=self._left_off,
            looked=None if self._checked_s is None else timestamp(wall_ns(self._checked_s)),
            alarms=self._documents(listed, subjects),
            groups=[
                AlarmGroupDocument.of(group, known, subjects=subjects)
                for group in self._together
                if group.id in groups
            ],
            ended=self._documents(self.ended[:limit], subjects) if ended else None,
            acknowledged=sum(alarm.id in self._acks for alarm in self.active),
            silenced=len(self._silenced),
            open_warning=still_open.count(Level.WARNING),
            open_critical=still_open.count(Level.CRITICAL),
            open_causes=sum(group.open_count(known) > 0 for group in self._together),
            next=cursors[end - 1] if limit > 0 and end < len(cursors) else None,
            notes=list(self._notes),
        )

    def _documents(self, alarms: Sequence[JoinedAlarm], subjects: int) -> list[AlarmDocument]:
        among, wall_ns = self.silences.current(), self._wall_clock()
        return [
            AlarmDocument.of(
                alarm,
                wall_ns,
                kind=self._kinds[alarm.kind],
                ack=self._acks.get(alarm.id),
                silence=None if alarm.ended_s is not None or not among else self.silences.of(alarm, among),
                group=None if alarm.ended_s is not None else self._group_of.get(alarm.id),
                subjects=subjects,
            )
            for alarm in alarms
        ]

    def _wall_clock(self) -> ToWallNs:
        """By the clocks as they are now: a corrected wall clock corrects earlier times too."""
        now_s, now_ns = self.clocks.monotonic_s(), self.clocks.wall_ns()
        return lambda at_s: now_ns - round((now_s - at_s) * 1e9)

    def _event_data(self, what: str, alarm: JoinedAlarm, before: Level = Level.NONE) -> dict[str, Any]:
        return {
            "what": what,
            "id": alarm.id,
            "kind": alarm.kind,
            "subject": alarm.lead.subject.of,
            "subjects": len(alarm.members),
            "switch": alarm.switch,
            "level": alarm.level.label,
            "before": before.label if before else None,
            "silenced": alarm.id in self._silenced,
            "sentence": alarm.sentence,
        }

    def _publish(self, changes: Sequence[JoinedChange]) -> None:
        """The worst first; silenced ones are logged at debug level."""
        worst_first = sorted(changes, key=lambda change: -max(change.alarm.level, change.before))
        for change in worst_first[:MOST_PUBLISHED]:
            alarm = change.alarm
            worse = change.what == "unsilenced" or (
                change.what in ("raised", "level") and alarm.level > change.before
            )
            level = logging.WARNING if worse else logging.INFO
            _log.log(
                logging.DEBUG if alarm.id in self._silenced else level,
                "alarm %s %s %s (%s): %s",
                alarm.id,
                {"level": "now", "members": "has other ports,"}.get(change.what, change.what),
                alarm.level.label,
                alarm.kind,
                alarm.sentence,
            )
            self.events.publish("alarm", self._event_data(change.what, alarm, change.before))
        if len(changes) > MOST_PUBLISHED:
            _log.warning("%d more alarms changed: see /v1/alarms", len(changes) - MOST_PUBLISHED)
            self.events.publish("alarm", {"what": "more", "count": len(changes) - MOST_PUBLISHED})

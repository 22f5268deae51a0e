"""Acknowledgements and silences of alarms.

Neither changes an alarm: it stays listed, and a critical one still keeps policy from its switches.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

from service.alarms.groups import JoinedAlarm
from service.documents.base import timestamp
from service.events import Clocks
from settings.errors import ConflictError, NotFoundError, UnprocessableError
from settings.history import DAY_S
from store import silence_rows
from store.database import Database
from store.silence_rows import SilenceRow
from store.tables import takeable

MOST_SILENCE_DAYS = 7
"""Longest silence: a longer one would be forgotten."""
MOST_SILENCES = 200


@dataclass(frozen=True, slots=True)
class Ack:
    """Who acknowledged an alarm, when (nanoseconds since 1970), and a note."""

    by: str
    at_ns: int
    note: str | None


class Silences:
    """The silences of alarms, kept in the database; for one event loop."""

    def __init__(self, database: Database, *, clocks: Clocks) -> None:
        self._database = database
        self._wall_ns = clocks.wall_ns
        self._known: dict[str, SilenceRow] = {}

    async def restore(self) -> None:
        """Reads those in the database; raises ``UnavailableError``."""
        rows = await self._database.read(silence_rows.listed)
        self._known = {row.id: row for row in rows} | self._known

    def current(self) -> list[SilenceRow]:
        """Those that have not ended, the first to end first; the others stay known, as a wall clock that is
        ahead for a while must end none.
        """
        now_ns = self._wall_ns()
        lasting = (row for row in self._known.values() if row.until_ns > now_ns)
        return sorted(lasting, key=lambda row: (row.until_ns, row.id))

    def of(self, alarm: JoinedAlarm, among: Collection[SilenceRow]) -> SilenceRow | None:
        """The first silence to end of those that cover an alarm; None unless each of its kinds is silenced.

        The switch is that of the alarm: what an incast does elsewhere is silenced with it.
        """
        ending: list[SilenceRow] = []
        for kind in {one.subject.kind for one in alarm.members}:
            covering = [
                row for row in among if row.kind in (None, kind) and row.switch in (None, alarm.switch)
            ]
            if not covering:
                return None
            ending.append(max(covering, key=lambda row: row.until_ns))
        return min(ending, key=lambda row: row.until_ns)

    def end_ns(self, given_ns: int | None, for_s: float | None) -> int:
        """When a silence ends, by the given time or length.

        Raises ``UnprocessableError`` unless that lies in the next ``MOST_SILENCE_DAYS``.
        """
        now_ns = self._wall_ns()
        until_ns = now_ns + round((for_s or 0.0) * 1e9) if given_ns is None else given_ns
        if not 0 < until_ns - now_ns <= MOST_SILENCE_DAYS * DAY_S * 1e9:
            raise UnprocessableError(
                "until",
                f"{timestamp(until_ns)}, which here is {(until_ns - now_ns) / 1e9:.0f} s from now",
                f"a silence ends after now and within {MOST_SILENCE_DAYS} days",
                "give a later or an earlier end",
            )
        return until_ns

    async def add(
        self, *, kind: str | None, switch: str | None, until_ns: int, by: str, note: str | None
    ) -> SilenceRow:
        """Keeps a silence. Raises ``ConflictError`` beyond ``MOST_SILENCES``, ``UnavailableError`` without
        the database.
        """
        if len(self.current()) >= MOST_SILENCES:
            raise ConflictError(
                "silences",
                f"one more than {MOST_SILENCES}",
                f"at most {MOST_SILENCES} silences last at a time",
                "end some of those at /v1/alarms/silences",
            )
        row = SilenceRow(
            secrets.token_hex(4),
            kind,
            None if switch is None else takeable(switch),
            self._wall_ns(),
            until_ns,
            by,
            None if note is None else takeable(note),
        )
        await self._database.write(lambda connection: silence_rows.put(connection, row))
        self._known = {one.id: one for one in (*self.current(), row)}
        return row

    def get(self, silence_id: str) -> SilenceRow:
        """Raises ``NotFoundError``."""
        found = next((row for row in self.current() if row.id == silence_id), None)
        if found is None:
            raise NotFoundError(
                f"silence {silence_id!r}", None, "not found, or over", "list them at /v1/alarms/silences"
            )
        return found

    async def end(self, silence_id: str) -> None:
        """Ends a silence. Raises ``NotFoundError``, and ``UnavailableError`` where it cannot be removed."""
        self.get(silence_id)
        await self._database.write(lambda connection: silence_rows.remove(connection, silence_id))
        self._known.pop(silence_id, None)

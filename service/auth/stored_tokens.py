"""Keeps the tokens that are known in step with the database, where commands make and revoke them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from service.auth.known_tokens import KnownTokens, Stored
from settings.callers import Caller, scopes_of
from settings.errors import UnavailableError
from store import token_rows
from store.database import Database
from store.recorder import Recorder

READ_EVERY_S = 2.0
USED_EVERY_READS = 30

_log = logging.getLogger("ecntwin.access")


class StoredTokens:
    """``wall_ns`` is nanoseconds since 1970. Where the database is gone, those last read stay good."""

    def __init__(
        self,
        known: KnownTokens,
        database: Database,
        recorder: Recorder,
        *,
        wall_ns: Callable[[], int],
        read_every_s: float = READ_EVERY_S,
    ) -> None:
        self._known = known
        self._database = database
        self._recorder = recorder
        self._wall_ns = wall_ns
        self._read_every_s = read_every_s
        if database.durable:
            known.stored = Stored(unread=True)  # there may be some: nobody is let in without one till then

    async def read(self) -> None:
        """Reads them once; raises ``UnavailableError``."""
        before, rows = self._known.stored, await self._database.read(token_rows.listed)
        now_ns = self._wall_ns()
        live = [row for row in rows if row.revoked_ns is None and (row.expires_ns or now_ns + 1) > now_ns]
        self._known.stored = Stored(
            live={row.sha256: Caller(row.name, scopes_of(row.scopes)) for row in live},
            expires_s={row.name: row.expires_ns / 1e9 for row in live if row.expires_ns is not None},
            ever=bool(rows),
        )
        if rows and not before.ever and not before.unread:
            _log.warning("a token was made: from now on this service asks for one")

    async def run_forever(self) -> None:
        """Reads them every few seconds, and now and then writes down which were used."""
        reads = 0
        while True:
            await asyncio.sleep(self._read_every_s)
            reads += 1
            try:
                await self.read()
            except UnavailableError:
                continue  # the database itself says so, once
            if reads % USED_EVERY_READS == 0:
                self.note_used()

    def note_used(self) -> None:
        """Has it written down which were used since this was last done."""
        used, self._known.used = self._known.used, {}
        if used:
            at_ns = {name: round(at_s * 1e9) for name, at_s in used.items()}
            self._recorder.put(partial(_write_used, when_ns=at_ns))


def _write_used(connection: Connection, when_ns: dict[str, int]) -> None:
    token_rows.used(connection, when_ns)

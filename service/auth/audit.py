"""The audit log: every requested change is recorded before it is made.

Without the database nothing is changed, except what is always allowed: that is recorded later.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection

from service.auth.rate_limit import RateLimits
from service.events import Clocks, retrieve
from settings.errors import UnavailableError, status_of
from settings.security import Caller
from store import audit_rows
from store.ages import Instant, Uptime
from store.audit_rows import AuditEntry, AuditRow
from store.database import Database, Recorder
from telemetry.settings import NS_PER_DAY, NS_PER_S

DONE = "done"
FORGET_EVERY_S = 3_600.0
FORGOTTEN_AT_ONCE = 1_000
ALWAYS_WITHIN_S = 0.5
REFUSALS_PER_MIN = 60  # refused attempts recorded per caller: repeated ones must not fill the log
MOST_CALLERS = 1_000

_log = logging.getLogger("ecntwin.audit")


@dataclass
class Change:
    """A change under way; the code that makes it sets the JSON documents before and after."""

    before: Any
    after: Any = None


class Audit:
    """Keeps entries for ``keep_days``; for one event loop."""

    def __init__(self, database: Database, recorder: Recorder, *, keep_days: float, clocks: Clocks) -> None:
        self._database = database
        self._recorder = recorder
        self._keep_ns = round(keep_days * NS_PER_DAY)
        self._clocks = clocks
        self._began = self._now()
        self._last_ns = 0
        self._added = 0  # since entries were last forgotten
        self._refusals = RateLimits(
            REFUSALS_PER_MIN / 60, REFUSALS_PER_MIN, most=MOST_CALLERS, clock_s=clocks.monotonic_s
        )

    @asynccontextmanager
    async def change(
        self, caller: Caller, what: str, subject: str, *, before: Any = None, always: bool = False
    ) -> AsyncIterator[Change]:
        """Records a change before the block, and its outcome after it.

        Raises ``UnavailableError``, with nothing changed, where it cannot be recorded; with ``always`` it is
        made all the same, and recorded later.
        """
        entry = self._entry(caller, what, subject, before)
        number: int | None = None
        writing = asyncio.ensure_future(self._database.write(partial(audit_rows.add, entry=entry)))
        writing.add_done_callback(retrieve)  # the wait below may time out
        try:
            # For a freeze, a database that hangs (packets dropped) counts as gone.
            number = await asyncio.wait_for(asyncio.shield(writing), ALWAYS_WITHIN_S if always else None)
        except UnavailableError:
            if not always:
                raise
        except TimeoutError:
            pass  # ``_add_once`` finds the entry if it was written after all
        change, outcome = Change(before), "ended with the service"
        try:
            yield change
            outcome = DONE
        except asyncio.CancelledError:
            outcome = "the caller disconnected before the answer"
            raise
        except Exception as error:
            outcome = _refusal(error)
            raise
        finally:
            self._ended(number, entry, change, outcome)

    def noted(self, caller: Caller, what: str, subject: str, *, outcome: str) -> None:
        """Queues an entry for a change made without an HTTP call."""
        self._later(self._entry(caller, what, subject, None)._replace(outcome=outcome))

    def refused(self, caller: Caller, what: str, subject: str, error: Exception) -> None:
        """Queues an entry of a refused attempt, up to ``REFUSALS_PER_MIN`` of each caller."""
        if self._refusals.of(caller.name).take() == 0.0:
            self._later(self._entry(caller, what, subject, None)._replace(outcome=_refusal(error)))

    async def listed(self, *, limit: int, before: int | None) -> list[AuditRow]:
        """The newest first. Raises ``UnavailableError``."""
        with suppress(UnavailableError):
            await self._recorder.flush()  # queued outcomes
        return await self._database.read(partial(audit_rows.listed, limit=limit, before=before))

    async def run_forever(self) -> None:
        while True:
            self.forget()
            await asyncio.sleep(FORGET_EVERY_S)

    def forget(self) -> None:
        """Removes the oldest of those that are too old: more than came, or callers who are refused once a
        second would let the log grow without end.
        """
        uptime, most = Uptime(self._began, self._now()), FORGOTTEN_AT_ONCE + self._added
        self._added = 0
        old = partial(audit_rows.forget, keep_ns=self._keep_ns, uptime=uptime, most=most)
        self._recorder.put(old, key="audit-forget")

    def _now(self) -> Instant:
        return Instant(self._clocks.wall_ns(), self._clocks.monotonic_s())

    def _entry(self, caller: Caller, what: str, subject: str, before: Any) -> AuditEntry:
        now_ns = self._clocks.wall_ns()
        self._added += 1
        # Unique times; a clock that is set back by more is followed.
        again = 0 <= self._last_ns - now_ns < NS_PER_S
        self._last_ns = self._last_ns + 1 if again else now_ns
        return AuditEntry(
            self._last_ns, caller.name, caller.address or None, what, subject, before=_json(before)
        )

    def _ended(self, number: int | None, entry: AuditEntry, change: Change, outcome: str) -> None:
        _log.info("%s by %s of %s: %s", entry.what, entry.who, entry.subject, outcome)
        before, after = _json(change.before), _json(change.after)
        if number is None:
            self._later(entry._replace(before=before, after=after, outcome=outcome))
        else:
            end = partial(audit_rows.end, number=number, before=before, after=after, outcome=outcome)
            self._recorder.put(end)

    def _later(self, entry: AuditEntry) -> None:
        self._recorder.put(partial(_add_once, entry=entry))


def _add_once(connection: Connection, *, entry: AuditEntry) -> None:
    """Adds or ends the entry: an earlier attempt may have written it."""
    number = audit_rows.number_of(connection, entry)
    if number is None:
        audit_rows.add(connection, entry)
    else:
        audit_rows.end(connection, number, before=entry.before, after=entry.after, outcome=entry.outcome)


def _json(document: Any) -> str | None:
    return None if document is None else json.dumps(document, separators=(",", ":"), default=str)


def _refusal(error: Exception) -> str:
    status = status_of(error)
    return f"{'refused' if status < 500 else 'failed'} ({status}): {error}"

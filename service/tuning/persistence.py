"""Recommendations in the database: written soon after they change, read once memory has dropped them."""

from __future__ import annotations

import logging
import zlib
from collections import deque
from functools import partial

from pydantic import TypeAdapter
from pydantic_core import from_json
from sqlalchemy import Connection

from service.tuning.entry import Entry, queue_ratio
from store import rounds
from store.database import Database, Recorder
from store.rounds import RoundRow

PRUNE_EVERY = 50
MOST_WAITING = 100
NS_PER_DAY = 86_400 * 1_000_000_000

_ENTRY = TypeAdapter(Entry)  # unknown keys are ignored: rows of other versions stay readable
_DOCUMENT = {"said", "switches", "leaves", "window_s", "before", "ran"}
_STANDING = {
    *("status", "support", "staged", "holds", "decided_by", "decided_ns", "caution", "rollout", "pushed"),
    *("expired", "expired_ns"),
}

_log = logging.getLogger("ecntwin.storage")


class SavedRounds:
    """The newest ``keep`` undecided rounds and all decided ones, for at most ``keep_days``.

    While the database is unavailable at most ``waiting`` rounds are queued: each is a megabyte or two.
    """

    def __init__(
        self,
        database: Database,
        recorder: Recorder,
        *,
        keep: int,
        keep_days: float,
        waiting: int = MOST_WAITING,
    ) -> None:
        self._waiting = waiting
        self._newest: deque[str] = deque()
        self._database = database
        self._recorder = recorder
        self._keep = keep
        self._keep_ns = round(keep_days * NS_PER_DAY)
        self._saved = 0

    def save(self, entry: Entry) -> None:
        """Queues a new round."""
        self._recorder.put(lambda connection: rounds.save(connection, row_of(entry)), key=("round", entry.id))
        self._newest.append(entry.id)
        if len(self._newest) > self._waiting:
            self._recorder.drop(("round", self._newest.popleft()))
        self._saved += 1
        if self._saved % PRUNE_EVERY == 1:
            since_ns = entry.created_ns - self._keep_ns
            self._recorder.put(
                partial(rounds.prune, keep=self._keep, decided_since_ns=since_ns), key="prune rounds"
            )

    def save_standing(self, entry: Entry) -> None:
        """Queues a changed decision or rollout progress."""
        self._recorder.put(
            lambda connection: rounds.stand(connection, entry.id, entry.status, _standing(entry)),
            key=("standing", entry.id),
        )

    async def save_now(self, entry: Entry) -> None:
        """Writes it now, after everything queued before; raises ``UnavailableError``."""
        await self._recorder.flush()
        await self._database.write(lambda connection: rounds.save(connection, row_of(entry)))

    def remove(self, entry_id: str) -> None:
        self._recorder.put(partial(rounds.remove, ids=(entry_id,)))

    async def newest(self, limit: int, *, before_ns: int | None = None) -> list[Entry]:
        """Newest first; raises ``UnavailableError``."""
        return await self._database.read(
            lambda connection: [
                entry
                for row in rounds.newest(connection, limit, before_ns=before_ns)
                if (entry := _readable(row)) is not None
            ]
        )

    async def one(self, entry_id: str) -> Entry | None:
        """The entry of that id; raises ``UnavailableError``."""

        def find(connection: Connection) -> Entry | None:
            row = rounds.one(connection, entry_id)
            return None if row is None else _readable(row)

        return await self._database.read(find)

    async def count(self) -> int:
        return await self._database.read(rounds.count)


def row_of(entry: Entry) -> RoundRow:
    document = zlib.compress(_ENTRY.dump_json(entry, include=_DOCUMENT))
    return RoundRow(entry.id, entry.created_ns, entry.status, _standing(entry), document)


def entry_of(row: RoundRow) -> Entry:
    """The entry of a database row; raises ``zlib.error``, ``ValueError``, ``LookupError`` or ``TypeError``
    where the row is damaged.
    """
    document = from_json(zlib.decompress(row.document))
    recommended, incumbent = document["said"]["recommendation"], document["said"]["incumbent"]
    return _ENTRY.validate_python(
        {
            **document,
            **from_json(row.standing),
            "id": row.id,
            "created_ns": row.created_ns,
            "watermark": recommended,
            "queue_ratio": queue_ratio(recommended["queue_mean_bytes"], incumbent["queue_mean_bytes"]),
        }
    )


def _readable(row: RoundRow) -> Entry | None:
    """None for a damaged row, or one of an unknown version: the others are still good."""
    try:
        return entry_of(row)
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        _log.error("recommendation %s cannot be read and is left out: %s", row.id, type(error).__name__)
        return None


def _standing(entry: Entry) -> str:
    return _ENTRY.dump_json(entry, include=_STANDING).decode()

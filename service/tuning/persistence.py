"""Rounds in the database: written soon after they change, read when memory has them no more; must not decide
anything about them.

Rounds by id and by age, from memory and from the database behind it; must not change any.
"""

from __future__ import annotations

import logging
import zlib
from collections import deque
from functools import partial

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection

from service.documents.predictions import WatermarkDocument
from service.documents.recommendation import Decision, PushedDocument, RoundDocument
from service.tuning.recommendations import Entry, KeptRound, Pushed, RecommendationStore, watermark_of
from settings.errors import UnavailableError
from store import rounds
from store.database import Database
from store.recorder import Recorder
from store.rounds import RoundRow
from twin.errors import TwinError

PRUNE_EVERY = 50
MOST_WAITING = 100
NS_PER_DAY = 86_400 * 1_000_000_000

_log = logging.getLogger("ecntwin.storage")


class _Kept(BaseModel):
    """A row's ``document``. Keys of other versions are let be: old rounds stay readable."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    said: RoundDocument
    switches: tuple[str, ...]
    leaves: tuple[str, ...]
    window_s: float


class _Standing(BaseModel):
    """A row's ``standing``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    status: Decision
    staged: WatermarkDocument | None = None
    holds: tuple[str, ...] = ()
    decided_by: str | None = None
    decided_ns: int | None = None
    caution: str | None = None
    rollout: str | None = None
    pushed: tuple[PushedDocument, ...] = ()


class KeptRounds:
    """``keep`` of those that nobody decided on, and all for ``keep_days`` at most.

    Where the database is away ``waiting`` rounds wait for it: each is a megabyte or two.
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
        """A new round, or one whose standing changed; written soon."""
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

    def stand(self, entry: Entry) -> None:
        """What was decided about it, or how far its rollout is; written soon."""
        standing = _standing(entry)
        self._recorder.put(
            lambda connection: rounds.stand(connection, entry.id, entry.status, standing.model_dump_json()),
            key=("standing", entry.id),
        )

    async def decided(self, entry: Entry) -> None:
        """The same at once, after all that was put down before; raises ``UnavailableError``."""
        await self._recorder.flush()
        await self._database.write(lambda connection: rounds.save(connection, row_of(entry)))

    def remove(self, entry_id: str) -> None:
        """Forgets one; soon."""
        self._recorder.put(partial(rounds.remove, ids=(entry_id,)))

    async def newest(self, limit: int, *, before_ns: int | None = None) -> list[Entry]:
        """The newest, newest first; raises ``UnavailableError``."""
        return await self._database.read(
            lambda connection: [
                entry
                for row in rounds.newest(connection, limit, before_ns=before_ns)
                if (entry := _readable(row)) is not None
            ]
        )

    async def one(self, entry_id: str) -> Entry | None:
        """The one of that id; raises ``UnavailableError``."""

        def find(connection: Connection) -> Entry | None:
            row = rounds.one(connection, entry_id)
            return None if row is None else _readable(row)

        return await self._database.read(find)

    async def count(self) -> int:
        """How many there are; raises ``UnavailableError``."""
        return await self._database.read(rounds.count)


def row_of(entry: Entry) -> RoundRow:
    """An entry as it is written."""
    kept = entry.kept
    document = _Kept(
        said=kept.said, switches=kept.switches, leaves=kept.leaves, window_s=kept.window_s
    ).model_dump_json()
    return RoundRow(
        entry.id,
        entry.created_ns,
        entry.status,
        _standing(entry).model_dump_json(),
        zlib.compress(document.encode()),
    )


def _readable(row: RoundRow) -> Entry | None:
    """None for one that no version of this wrote, or whose bytes a disk has changed: all others are good."""
    try:
        return entry_of(row)
    except (zlib.error, ValueError, TwinError) as error:  # pydantic's own are ValueErrors
        _log.error("recommendation %s cannot be read and is left out: %s", row.id, type(error).__name__)
        return None


def entry_of(row: RoundRow) -> Entry:
    """An entry as it was written."""
    kept = _Kept.model_validate_json(zlib.decompress(row.document))
    standing = _Standing.model_validate_json(row.standing)
    return Entry(
        id=row.id,
        created_ns=row.created_ns,
        kept=KeptRound(kept.said, kept.switches, kept.leaves, kept.window_s),
        status=standing.status,
        staged=None if standing.staged is None else watermark_of(standing.staged),
        holds=standing.holds,
        decided_by=standing.decided_by,
        decided_ns=standing.decided_ns,
        pushed=None if standing.rollout is None else Pushed(standing.rollout, standing.pushed),
        caution=standing.caution,
    )


def _standing(entry: Entry) -> _Standing:
    pushed = entry.pushed
    return _Standing(
        status=entry.status,
        staged=None if entry.staged is None else WatermarkDocument.of(entry.staged),
        holds=entry.holds,
        decided_by=entry.decided_by,
        decided_ns=entry.decided_ns,
        caution=entry.caution,
        rollout=None if pushed is None else pushed.rollout,
        pushed=() if pushed is None else pushed.switches,
    )


class Recall:
    """Memory knows the newest best: the database hears of them a moment later, and may be away."""

    def __init__(self, store: RecommendationStore, kept: KeptRounds) -> None:
        self._store = store
        self._kept = kept

    async def newest(self, limit: int, *, before: str | None = None) -> list[Entry]:
        """The newest, newest first; only those before the one of the id ``before``, if that is given.

        Raises ``NotFoundError`` for an id of none. Without its database only what memory has.
        """
        found = self._store.newest(len(self._store))
        oldest_ns = found[-1].created_ns if found else None
        if before is not None:
            one = await self.one(before)
            oldest_ns = one.created_ns if oldest_ns is None else min(oldest_ns, one.created_ns)
            found = [entry for entry in found if entry.created_ns < one.created_ns]
        if len(found) >= limit:
            return found[:limit]
        try:
            older = await self._kept.newest(limit - len(found), before_ns=oldest_ns)
        except UnavailableError:
            older = []
        # Where the wall clock was set back, what is older by it may be in memory all the same.
        return found + [entry for entry in older if self._store.find(entry.id) is None]

    async def one(self, entry_id: str) -> Entry:
        """The one of that id; raises ``NotFoundError``, and ``UnavailableError`` where memory has it not
        and the database is away.
        """
        found = self._store.find(entry_id) or await self._kept.one(entry_id)
        return found or self._store.get(entry_id)

    async def count(self) -> int:
        """How many there are; without the database those in memory."""
        try:
            return max(len(self._store), await self._kept.count())
        except UnavailableError:
            return len(self._store)

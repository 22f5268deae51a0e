"""Rounds by id and by age, from memory and from the database behind it; must not change any."""

from __future__ import annotations

from service.tuning.entry import Entry
from service.tuning.persistence import KeptRounds
from service.tuning.recommendations import RecommendationStore
from settings.errors import UnavailableError


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

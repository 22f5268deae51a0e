"""The service's recommendations: the newest in bounded memory, older ones in the database."""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from pydantic import TypeAdapter
from pydantic_core import from_json
from sqlalchemy import Connection

from rollout.state import RolloutState
from service.documents.round import RoundDocument
from service.history.measured import Measured
from service.tuning.entry import Decision, Entry, PredictedGain, Support, queue_ratio, to_decide
from service.tuning.gate import NOTHING_STAGED, Cleared
from service.tuning.round import RoundResult
from settings.errors import NotFoundError, UnavailableError
from store import rounds
from store.ages import Instant, Uptime
from store.database import Database, Recorder
from store.rounds import RoundRow
from telemetry.settings import NS_PER_DAY, NS_PER_HOUR, NS_PER_S
from twin.search.gain import Policy
from twin.search.recommendation import Recommendation, VerdictKind
from twin.watermark import Watermark

PRUNE_EVERY = 50
PRUNED_AT_ONCE = 2 * PRUNE_EVERY
MOST_WAITING = 100

_ENTRY = TypeAdapter(Entry)  # unknown keys are ignored, so that rows of other versions stay readable
_DOCUMENT = {
    *("said", "switches", "leaves", "window_s", "before", "ran", "together", "senders", "senders_by_class"),
}
_STANDING = {
    *("status", "support", "staged", "holds", "decided_by", "decided_ns", "caution", "rollout", "pushed"),
    *("expired", "expired_ns", "sets"),
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
        monotonic_s: Callable[[], float],
    ) -> None:
        self._waiting = waiting
        self._newest: dict[str, None] = {}  # ids, the last saved last
        self._database = database
        self._recorder = recorder
        self._keep = keep
        self._keep_ns = round(keep_days * NS_PER_DAY)
        self._saved = 0
        self._monotonic_s = monotonic_s
        self._began: Instant | None = None  # of the first round

    def save(self, entry: Entry) -> None:
        """Queues a new round; from the second on, every ``PRUNE_EVERY``th also prunes."""
        self._recorder.put(
            lambda connection: rounds.save(connection, row_of(entry)), key=("round", entry.id), last=True
        )
        self._newest.pop(entry.id, None)  # a repeated round is one of those that wait, not another
        self._newest[entry.id] = None
        if len(self._newest) > self._waiting:
            oldest = next(iter(self._newest))
            del self._newest[oldest]
            self._recorder.drop(("round", oldest))
        self._saved += 1
        now = Instant(entry.created_ns, self._monotonic_s())
        self._began = self._began or now
        if self._saved % PRUNE_EVERY == 2:
            uptime = Uptime(self._began, now)
            old = partial(
                rounds.prune, keep=self._keep, keep_ns=self._keep_ns, uptime=uptime, most=PRUNED_AT_ONCE
            )
            self._recorder.put(old, key="prune rounds")

    def save_standing(self, entry: Entry) -> None:
        """Queues a changed decision or rollout progress."""
        self._recorder.put(
            lambda connection: rounds.stand(connection, entry.id, entry.status, _standing(entry)),
            key=("standing", entry.id),
            last=True,
        )

    async def save_now(self, entry: Entry) -> None:
        """Writes it now, after everything queued before; raises ``UnavailableError``."""
        await self._recorder.flush()
        await self._database.write(lambda connection: rounds.save(connection, row_of(entry)))

    async def newest(self, limit: int) -> list[Entry]:
        """Newest first; raises ``UnavailableError``."""
        return await self._database.read(lambda connection: _all_readable(rounds.newest(connection, limit)))

    async def page(self, limit: int, held: Collection[str], before: str | None) -> list[str] | None:
        """As ``_page``, of the rounds ``held`` and all others saved; raises ``UnavailableError``."""
        return await self._database.read(
            lambda connection: _page({*held, *rounds.ids(connection)}, limit, before)
        )

    async def some(self, entry_ids: Collection[str]) -> list[Entry]:
        """Those of these ids that can be read, in no order; raises ``UnavailableError``."""
        rows = await self._database.read(lambda connection: rounds.some(connection, entry_ids))
        # Some 20 ms each: other queries wait for the database's thread.
        return await asyncio.to_thread(_all_readable, rows)

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
    said = RoundDocument.model_validate(document["said"])
    return _ENTRY.validate_python(
        {
            **document,
            **from_json(row.standing),
            "id": row.id,
            "created_ns": row.created_ns,
            "incumbent": incumbent,
            "watermark": recommended,
            "queue_ratio": queue_ratio(recommended["queue_mean_bytes"], incumbent["queue_mean_bytes"]),
            "gain": _gain_of(said),
            "said": said,
        }
    )


def _gain_of(said: RoundDocument) -> PredictedGain | None:
    if said.score_is != "gain":
        return None
    policy = said.policy
    return PredictedGain(
        value=said.recommendation.score,
        error=said.recommendation.score_error,
        policy=Policy()
        if policy is None
        else Policy(policy.bulk, policy.delay, policy.harm_price, policy.probe),
        policy_name="" if policy is None else policy.name,
    )


def _readable(row: RoundRow) -> Entry | None:
    """None for a damaged row, or one of an unknown version: the others are still good."""
    try:
        return entry_of(row)
    except (zlib.error, ValueError, LookupError, TypeError) as error:
        _log.error("recommendation %s cannot be read and is left out: %s", row.id, type(error).__name__)
        return None


def _all_readable(rows: Iterable[RoundRow]) -> list[Entry]:
    return [entry for row in rows if (entry := _readable(row)) is not None]


def _standing(entry: Entry) -> str:
    return _ENTRY.dump_json(entry, include=_STANDING).decode()


PENDING_FOR_NS = NS_PER_HOUR  # one that waited longer than this across a restart is outdated
STABILITY_OVER_NS = NS_PER_HOUR
_CANNOT_TELL = (VerdictKind.UNCALIBRATED, VerdictKind.UNCONGESTED)


class RecommendationStore:
    """At most ``keep`` entries in memory; the oldest go first. ``clock_ns`` is nanoseconds since 1970.

    Memory is authoritative: the database (``saved``) is written a moment later, and may be unavailable.
    """

    def __init__(self, keep: int, saved: SavedRounds, *, clock_ns: Callable[[], int]) -> None:
        self._keep = keep
        self._saved = saved
        self._clock_ns = clock_ns
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._answers: deque[tuple[int, Watermark, Watermark]] = deque()
        self._count = 0

    def __len__(self) -> int:
        return len(self._entries)

    def begin_unread(self) -> None:
        """Numbers rounds by the time in seconds from now on: above those in the database, which cannot be
        read yet.
        """
        self._count = self._clock_ns() // NS_PER_S

    def add(
        self,
        result: RoundResult,
        wall_s: float,
        cleared: Cleared = NOTHING_STAGED,
        before: Measured | None = None,
        running: Mapping[str, Watermark] | None = None,
        *,
        changed: str | None = None,
        rolling: Collection[str] = (),
        hosts: bool = False,
    ) -> Entry:
        """Adds a round; ``running`` is what switches ran when it began.

        ``changed`` says how traffic changed since the round before; ``rolling`` are the ids of rollouts in
        progress, ``hosts`` as of ``Entry.of``. A round that repeats the newest answer, for the same incumbent
        and unchanged traffic, keeps its id, and only its support grows. So does, whatever the traffic, a
        round that repeats what is being rolled out: there is nothing to approve. Another answer supersedes
        the pending ones, unless the round could not tell.
        """
        now_ns, answer = self._clock_ns(), result.recommendation
        self._answers.append((now_ns, answer.incumbent, answer.watermark))
        while now_ns - self._answers[0][0] > STABILITY_OVER_NS:
            self._answers.popleft()
        comparable = [found for _, ran, found in self._answers if ran == answer.incumbent]
        rolled_out = self._rolled_out(answer, rolling)
        waits = to_decide(answer, hosts=hosts)
        agreed = rolled_out or (None if changed else self._agreeing(answer, waits=waits))
        if agreed is None:
            self._count += 1
            stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%S")
            entry_id, created_ns, rounds = f"{stamp}-{self._count}", now_ns, 1
        else:
            entry_id, created_ns = agreed.id, agreed.created_ns
            rounds = 1 + (agreed.support.rounds if agreed.support else 1)
            changed = agreed.support.changed if agreed.support else None
        support = Support(
            rounds=rounds,
            last_ns=now_ns,
            moments=result.n_moments,
            traffic_s=result.traffic_s,
            hour_rounds=len(comparable),
            hour_agreeing=comparable.count(answer.watermark),
            changed=changed,
        )
        if rolled_out is None:
            entry = Entry.of(
                entry_id,
                created_ns,
                result,
                wall_s=wall_s,
                cleared=cleared,
                before=before,
                support=support,
                running=running,
                hosts=hosts,
            )
            self._saved.save(entry)
        else:
            entry = replace(rolled_out, support=support)  # the rest stays as approved
            self._saved.save_standing(entry)
        if answer.verdict.kind not in _CANNOT_TELL:
            for other in list(self._entries.values()):
                if other.status == "pending" and other.id != entry.id:
                    self.update(replace(other, status="superseded"))
        self._entries.pop(entry.id, None)
        self._entries[entry.id] = entry
        self._trim()
        return entry

    def standing(self, rolling: Collection[str] = ()) -> Entry | None:
        """The recommendation that stays until another answer is surely better: the pending one, else the one
        of ``rolling`` being rolled out.
        """
        newest_first = list(reversed(self._entries.values()))
        pending = (one for one in newest_first if one.status == "pending")
        approved = (one for one in newest_first if one.status == "approved" and one.id in rolling)
        return next(pending, None) or next(approved, None)

    def _rolled_out(self, answer: Recommendation, rolling: Collection[str]) -> Entry | None:
        """The approved recommendation among ``rolling`` that ``answer`` repeats."""
        given = answer.incumbent, answer.watermark
        for one in reversed(self._entries.values()):
            if one.id in rolling and one.status == "approved" and (one.incumbent, one.watermark) == given:
                return one
        return None

    def _agreeing(self, answer: Recommendation, *, waits: bool) -> Entry | None:
        """The newest entry, or the pending one where ``answer`` ``waits`` for a decision, if it repeats that
        and that is undecided.
        """
        newest = next(reversed(self._entries.values()), None)
        found = self.standing() if waits else newest
        if found is None or found.status not in ("pending", "kept"):
            return None
        same = (found.incumbent, found.watermark) == (answer.incumbent, answer.watermark)
        return found if same and (found.status == "pending") == waits else None

    def restore(self, saved: Iterable[Entry]) -> None:
        """Inserts entries of earlier services, newest first, before this one's; memory wins over ``saved``.

        A pending one is superseded where this service has its own, and expires if it is over an hour old.
        """
        now_ns = self._clock_ns()
        own = list(self._entries.values())
        before = [entry for entry in saved if entry.id not in self._entries]
        self._entries.clear()
        for entry in reversed(before):
            self._entries[entry.id] = entry
            # Numbers continue, so that two ids made in the same second differ.
            self._count = max(self._count, _number(entry.id))
            if entry.status == "pending" and own:
                self.update(replace(entry, status="superseded"))
            elif entry.status == "pending" and abs(now_ns - _last_ns(entry)) > PENDING_FOR_NS:
                self.expire(entry, "It was over an hour old when the service started again.")
        self._entries.update((entry.id, entry) for entry in own)
        self._trim()

    def newest(self, limit: int) -> list[Entry]:
        return list(reversed(self._entries.values()))[:limit]

    def find(self, entry_id: str) -> Entry | None:
        """The entry of that id, if it is in memory."""
        return self._entries.get(entry_id)

    def get(self, entry_id: str) -> Entry:
        """The entry of that id in memory; raises ``NotFoundError``."""
        try:
            return self._entries[entry_id]
        except KeyError:
            raise NotFoundError(
                f"recommendation {entry_id!r}",
                None,
                "it was never made, or is no longer kept (storage.keep_recommendations, keep_days)",
                "ecntwin recommendations, or GET /v1/recommendations, lists them",
            ) from None

    async def page(self, limit: int, *, before: str | None = None) -> list[str]:
        """Ids of the newest in memory and database, newest first; with ``before`` only those older than that
        one.

        In order of creation, by their numbers: whatever the wall clock said, and however long a repeated
        one has been in memory. Raises ``NotFoundError`` for an unknown id. Without the database only those
        in memory.
        """
        held = tuple(self._entries)
        try:
            found = await self._saved.page(limit, held, before)
        except UnavailableError:
            found = _page(held, limit, before)
            if found is None:
                raise
        if found is None and before is not None:
            self.get(before)
        return found or []

    async def some(self, entry_ids: Sequence[str]) -> list[Entry]:
        """Those of these ids that are there and can be read, in this order; each is some MB in memory.

        Raises ``UnavailableError`` where one is not in memory and the database is unavailable.
        """
        found = {one: entry for one in entry_ids if (entry := self.find(one)) is not None}
        older = [one for one in entry_ids if one not in found]
        if older:
            found |= {entry.id: entry for entry in await self._saved.some(older)}
        return [found[one] for one in entry_ids if one in found]

    async def fetch(self, entry_id: str) -> Entry:
        """The entry of that id from memory or database; raises ``NotFoundError``, and ``UnavailableError``
        where it is not in memory and the database is unavailable.
        """
        found = self.find(entry_id) or await self._saved.one(entry_id)
        return found or self.get(entry_id)

    async def total(self) -> int:
        """Number of recommendations; without the database the number in memory."""
        try:
            return max(len(self), await self._saved.count())
        except UnavailableError:
            return len(self)

    def current(self) -> Entry:
        """The newest pending or approved change, else the newest round.

        Also one that expired while it was the newest, so that its reason is seen. Raises ``NotFoundError``
        before the first round.
        """
        newest_first = self.newest(len(self._entries))
        for entry in newest_first:
            if entry.status in ("pending", "approved") or (entry is newest_first[0] and entry.expired):
                return entry
        if newest_first:
            return newest_first[0]
        raise NotFoundError(
            "current recommendation",
            None,
            "there is none before the first round, which needs fresh telemetry",
            "post INT reports, then POST /v1/tune",
        )

    def pending(self, entry_id: str) -> Entry:
        """The pending entry of that id; raises ``ConflictError`` if it is not pending."""
        return self.get(entry_id).undecided()

    def expire(self, entry: Entry, reason: str) -> Entry:
        """Expires a pending one; ``reason`` is a sentence on why it is no longer valid."""
        return self.update(replace(entry, status="expired", expired=reason, expired_ns=self._clock_ns()))

    def decide(self, entry: Entry, status: Decision, by: str) -> Entry:
        """Records a decision; returns the updated entry."""
        return self.update(self.decided(entry, status, by))

    def decided(self, entry: Entry, status: Decision, by: str) -> Entry:
        """The entry with a decision that is not recorded yet."""
        return replace(entry, status=status, decided_by=by, decided_ns=self._clock_ns())

    def was_approved(self, entry_id: str, by: str, at_ns: int) -> None:
        """Restores an approval that is in the rollout journal but was not saved before a crash."""
        entry = self.find(entry_id)
        if entry is not None and entry.status in ("pending", "superseded", "expired"):
            self.update(
                replace(
                    entry, status="approved", decided_by=by, decided_ns=at_ns, expired=None, expired_ns=None
                )
            )

    def caution(self, entry: Entry, why: str) -> None:
        """Stores a sentence on why policy does not approve it."""
        if (found := self.find(entry.id)) is not None:
            self.update(replace(found, caution=why))

    def follow(self, entry_id: str, rollout: RolloutState) -> None:
        if (found := self.find(entry_id)) is not None:
            self.update(found.with_rollout(rollout))

    def update(self, entry: Entry) -> Entry:
        """Saves a changed entry, even one that is no longer in memory."""
        if entry.id in self._entries:
            self._entries[entry.id] = entry
        self._saved.save_standing(entry)
        return entry

    def _trim(self) -> None:
        while len(self._entries) > self._keep:
            self._entries.popitem(last=False)


def _last_ns(entry: Entry) -> int:
    """When a round last repeated it."""
    return entry.support.last_ns if entry.support else entry.created_ns


def _number(entry_id: str) -> int:
    number = entry_id.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _page(ids: Collection[str], limit: int, before: str | None) -> list[str] | None:
    """The newest of these ids, newest first; with ``before`` only those older than that one, None where it is
    not among them.
    """
    if before is not None and before not in ids:
        return None
    newest = sorted(ids, key=_place, reverse=True)
    return [one for one in newest if before is None or _place(one) < _place(before)][:limit]


def _place(entry_id: str) -> tuple[int, str]:
    """Orders ids by number, those of one number by their time."""
    return _number(entry_id), entry_id

"""Rounds in the database: the same when read as when written, with what was decided since; not for ever."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest
from sqlalchemy import update

from service.documents.recommendation import recommendation_document
from service.history.measured import Measured
from service.tuning.entry import Entry, Pushed, Support
from service.tuning.recommendations import (
    MOST_WAITING,
    PENDING_FOR_NS,
    PRUNE_EVERY,
    PRUNED_AT_ONCE,
    RecommendationStore,
    SavedRounds,
    entry_of,
    row_of,
)
from service.tuning.round import RoundResult
from settings.errors import ConflictError, NotFoundError
from store import rounds
from store.database import Database, Recorder
from store.tables import recommendations
from tests.unit.service.tuning.rounds import changing, keeping
from twin.prediction import GainFigures
from twin.search.recommendation import VerdictKind
from twin.watermark import Watermark

SECOND_NS = 1_000_000_000
T0_NS = 1_767_225_600 * SECOND_NS

OTHER_TRAFFIC = "load doubled"  # so that the same answer is another recommendation


class Memory:
    """A service's memory of rounds, over a database that outlives it."""

    def __init__(self, url: str, *, keep: int = 10, in_memory: int = 3, begun_ns: int = T0_NS) -> None:
        self.database = Database(url)
        self.database.open()
        self.recorder = Recorder(self.database)
        self.ran_s = 0.0
        self.kept = SavedRounds(
            self.database, self.recorder, keep=keep, keep_days=1.0, monotonic_s=lambda: self.ran_s
        )
        self.store = RecommendationStore(in_memory, self.kept, clock_ns=count(begun_ns, SECOND_NS).__next__)


def over(url: str, scene: Callable[[Memory], Coroutine[Any, Any, None]], **given: Any) -> None:
    memory = Memory(url, **given)
    asyncio.run(scene(memory))
    memory.database.close()


async def page(store: RecommendationStore, limit: int, *, before: str | None = None) -> list[Entry]:
    return await store.some(await store.page(limit, before=before))


FIGURES = GainFigures(1e9, 2.5, None, 7.0, 0.01, None)


def test_an_entry_comes_back_as_it_was() -> None:
    entry = replace(
        Entry.of("1", T0_NS, changing(), wall_s=1.5, before=Measured(FIGURES, (FIGURES,) * 8, 0.25)),
        status="approved",
        staged=Watermark(1_000, 2_000, 0.5),
        holds=("It cools down.",),
        decided_by="ada",
        decided_ns=T0_NS + 1,
        caution="Approved although.",
        rollout="r-1",
        pushed=(Pushed(switch="leaf1", writes=True, diff="- a\n+ b", read_back=None),),
        ran={"leaf1": Watermark(3_000, 4_000, 0.5)},
        expired="It is as it should not be.",
        expired_ns=T0_NS + 2,
    )
    again = entry_of(row_of(entry))
    assert again == entry
    assert recommendation_document(again) == recommendation_document(entry)
    assert again.watermark == changing().recommendation.watermark


def test_a_row_from_before_recommendations_expired_is_read() -> None:
    entry = Entry.of("1", T0_NS, changing(), wall_s=1.5)
    row = row_of(entry)
    document, standing = json.loads(zlib.decompress(row.document)), json.loads(row.standing)
    assert (document.pop("ran"), standing.pop("expired"), standing.pop("expired_ns")) == ({}, None, None)
    packed = zlib.compress(json.dumps(document).encode())
    assert entry_of(row._replace(document=packed, standing=json.dumps(standing))) == entry


def test_a_row_from_before_gains_were_measured_is_read() -> None:
    entry = Entry.of("1", T0_NS, changing(), wall_s=1.5)
    row = row_of(entry)
    document = json.loads(zlib.decompress(row.document))
    assert document.pop("before") is None
    assert entry_of(row._replace(document=zlib.compress(json.dumps(document).encode()))) == entry


def test_a_row_from_before_support_grew_during_a_rollout_is_read() -> None:
    support = Support(rounds=3, last_ns=T0_NS, moments=8, traffic_s=0.08)
    entry = Entry.of("1", T0_NS, changing(), wall_s=1.5, support=support)
    row = row_of(entry)
    document, standing = json.loads(zlib.decompress(row.document)), json.loads(row.standing)
    document["support"] = standing.pop("support")
    packed = zlib.compress(json.dumps(document).encode())
    assert entry_of(row._replace(document=packed, standing=json.dumps(standing))) == entry


def test_what_stands_behind_a_rollout_is_known_to_a_service_started_anew(database_url: str) -> None:
    async def before(memory: Memory) -> None:
        first = memory.store.add(changing(), 1.0)
        memory.store.decide(first, "approved", "ada")
        memory.store.add(changing(), 1.0, rolling={first.id})
        await memory.recorder.flush()

    async def after(memory: Memory) -> None:
        (found,) = await page(memory.store, 10)
        assert found.support is not None
        assert (found.status, found.decided_by, found.support.rounds) == ("approved", "ada", 2)

    over(database_url, before)
    over(database_url, after)


def test_a_service_started_anew_knows_what_was_recommended_and_decided(database_url: str) -> None:
    ids: list[str] = []

    async def before(memory: Memory) -> None:
        for _ in range(5):
            ids.append(memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC).id)
        memory.store.decide(memory.store.pending(ids[4]), "rejected", "ada")
        ids.append(memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC).id)
        await memory.recorder.flush()
        assert [entry.id for entry in await page(memory.store, 10)] == ids[::-1]

    async def after(memory: Memory) -> None:
        memory.store.restore(await memory.kept.newest(3))
        assert len(memory.store) == 3
        found = await page(memory.store, 10)
        assert [entry.id for entry in found] == ids[::-1]
        assert [entry.status for entry in found] == ["pending", "rejected", *["superseded"] * 4]
        assert (found[1].decided_by, (await memory.store.fetch(ids[0])).status) == ("ada", "superseded")
        assert recommendation_document(memory.store.pending(ids[5])).candidates
        assert [entry.id for entry in await page(memory.store, 2, before=ids[3])] == [ids[2], ids[1]]
        assert await memory.store.total() == 6
        new = memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC)
        assert new.id not in ids
        await memory.recorder.flush()
        assert (await memory.kept.newest(2))[1].status == "superseded"
        with pytest.raises(NotFoundError):
            await memory.store.fetch("never")

    over(database_url, before)
    over(database_url, after, begun_ns=T0_NS + 60 * SECOND_NS)


def test_what_waited_for_long_over_a_restart_waits_no_more(database_url: str) -> None:
    async def before(memory: Memory) -> None:
        memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC)
        await memory.recorder.flush()

    async def after(memory: Memory) -> None:
        memory.store.restore(await memory.kept.newest(3))
        found = recommendation_document(memory.store.current())
        assert (found.status, found.expired is not None) == ("expired", True)
        with pytest.raises(ConflictError, match="over an hour old"):
            memory.store.pending(found.id)

    over(database_url, before)
    over(database_url, after, begun_ns=T0_NS + 2 * PENDING_FOR_NS)


def test_rounds_of_before_lie_before_those_that_ran_without_the_database(database_url: str) -> None:
    async def before(memory: Memory) -> None:
        memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC)
        await memory.recorder.flush()

    async def after(memory: Memory) -> None:
        own = memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC)
        memory.store.restore(await memory.kept.newest(3))
        assert [entry.status for entry in memory.store.newest(3)] == ["pending", "superseded"]
        assert memory.store.newest(1) == [own]

    over(database_url, before)
    over(database_url, after, begun_ns=T0_NS + 60 * SECOND_NS)


def test_rounds_in_a_row_that_say_the_same_are_kept_once(database_url: str) -> None:
    async def scene(memory: Memory) -> None:
        for _ in range(4):
            memory.store.add(keeping(), 1.0)
            await memory.recorder.flush()
        assert await memory.kept.count() == 1

    over(database_url, scene)


def test_what_nobody_decided_on_goes_first_and_all_goes_in_the_end(database_url: str) -> None:
    async def scene(memory: Memory) -> None:
        decided = memory.store.decide(
            memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC), "approved", "ada"
        )
        for _ in range(55):  # it prunes at the second and each fiftieth after it
            memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC)
            await memory.recorder.flush()
        assert await memory.kept.count() <= 2 + 1 + 50
        memory.ran_s = 2 * 86_400
        memory.kept.save(replace(decided, id="x", created_ns=T0_NS + 2 * 86_400 * SECOND_NS))
        for number in range(50):
            memory.kept.save(replace(decided, id=f"x{number}", created_ns=T0_NS + 2 * 86_400 * SECOND_NS))
        await memory.recorder.flush()
        assert await memory.kept.one(decided.id) is None
        assert await memory.kept.one("x") is not None

    over(database_url, scene, keep=2)


@pytest.mark.parametrize("wrong_from_start", [True, False])
def test_a_wall_clock_years_ahead_outdates_no_round(database_url: str, wrong_from_start: bool) -> None:
    async def before(memory: Memory) -> None:
        memory.store.decide(memory.store.add(changing(), 1.0), "approved", "ada")
        await memory.recorder.flush()

    async def after(memory: Memory) -> None:
        (decided,) = await memory.kept.newest(1)
        begun_ns = decided.created_ns + SECOND_NS
        for number in range(PRUNE_EVERY + 2):
            wrong = number > 0 or wrong_from_start
            created_ns = begun_ns + number * SECOND_NS + wrong * 20 * 365 * 86_400 * SECOND_NS
            memory.kept.save(replace(decided, id=f"x-{number}", created_ns=created_ns))
            await memory.recorder.flush()
        assert await memory.kept.one(decided.id) is not None

    over(database_url, before)
    over(database_url, after)


def test_few_rounds_are_pruned_at_once_and_none_by_the_first(database_url: str) -> None:
    async def before(memory: Memory) -> None:
        entry = memory.store.add(keeping(), 1.0)
        rows = [row_of(replace(entry, id=f"x-{number}")) for number in range(PRUNED_AT_ONCE + 9)]
        for row in rows:
            await memory.database.write(partial(rounds.save, row=row))

    async def after(memory: Memory) -> None:
        for left in (PRUNED_AT_ONCE + 10, 11):
            memory.store.add(keeping(), 1.0, changed=OTHER_TRAFFIC)
            await memory.recorder.flush()
            assert await memory.kept.count() == left

    over(database_url, before, keep=1_000)
    over(database_url, after, keep=1, begun_ns=T0_NS + 60 * SECOND_NS)


def test_rounds_that_wait_for_the_database_are_as_many_as_there_is_room_for(database_url: str) -> None:
    async def scene(memory: Memory) -> None:
        ids = [memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC).id for _ in range(MOST_WAITING + 3)]
        assert memory.recorder.dropped == 3
        await memory.recorder.flush()
        assert newest_ids(await memory.kept.newest(1_000)) == ids[:2:-1]
        memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC)
        assert memory.recorder.dropped == 3  # those before it are written

    over(database_url, scene, keep=1_000)


def test_a_round_repeated_more_often_than_rounds_may_wait_is_saved_each_time(database_url: str) -> None:
    async def scene(memory: Memory) -> None:
        entry = [memory.store.add(keeping(), 1.0) for _ in range(MOST_WAITING + 2)][-1]
        await memory.recorder.flush()
        assert await memory.kept.one(entry.id) == entry
        assert memory.recorder.dropped == 0

    over(database_url, scene)


@pytest.mark.parametrize("saved_before", [True, False])
def test_what_was_decided_last_is_what_is_saved(database_url: str, saved_before: bool) -> None:
    async def scene(memory: Memory) -> None:
        entry = memory.store.add(changing(), 1.0)
        if saved_before:
            await memory.recorder.flush()
        memory.store.caution(entry, "Not approved by policy.")
        again = memory.store.add(changing(), 1.0)
        assert again.id == entry.id
        expired = memory.store.expire(again, "It is as it should not be.")
        await memory.recorder.flush()
        assert await memory.kept.one(entry.id) == expired

    over(database_url, scene)


def test_pages_leave_nothing_out_where_an_earlier_recommendation_was_repeated(database_url: str) -> None:
    async def scene(memory: Memory) -> None:
        ids = [memory.store.add(changing(), 1.0).id]
        ids += [memory.store.add(uncongested(), 1.0, changed=OTHER_TRAFFIC).id for _ in range(2)]
        assert memory.store.add(changing(), 1.0).id == ids[0]
        await memory.recorder.flush()
        paged: list[str] = []
        while found := newest_ids(await page(memory.store, 1, before=paged[-1] if paged else None)):
            paged += found
        assert paged == ids[::-1]

    over(database_url, scene)


def test_pages_list_rounds_between_a_repeated_one_and_those_in_memory(database_url: str) -> None:
    async def scene(memory: Memory) -> None:
        ids = [memory.store.add(changing(), 1.0).id]
        for _ in range(6):  # more than memory holds, of which the pending one is always the newest
            ids.append(memory.store.add(uncongested(), 1.0, changed=OTHER_TRAFFIC).id)
            assert memory.store.add(changing(), 1.0).id == ids[0]
        await memory.recorder.flush()
        paged: list[str] = []
        while found := newest_ids(await page(memory.store, 2, before=paged[-1] if paged else None)):
            paged += found
        assert paged == ids[::-1]
        assert await memory.store.total() == len(ids)

    over(database_url, scene)


def test_pages_leave_nothing_out_where_the_wall_clock_was_set_back(database_url: str) -> None:
    async def scene(memory: Memory) -> None:
        times = iter(T0_NS + second * SECOND_NS for second in (5, 1, 6, 2, 7, 3))
        store = RecommendationStore(2, memory.kept, clock_ns=times.__next__)
        ids = [store.add(keeping(), 1.0, changed=OTHER_TRAFFIC).id for _ in range(6)]
        await memory.recorder.flush()
        paged: list[str] = []
        while found := newest_ids(await page(store, 1, before=paged[-1] if paged else None)):
            paged += found
        assert paged == ids[::-1]

    over(database_url, scene)


def uncongested() -> RoundResult:
    """A round that could not tell, which supersedes nothing."""
    kept = keeping()
    verdict = replace(kept.recommendation.verdict, kind=VerdictKind.UNCONGESTED)
    return replace(kept, recommendation=replace(kept.recommendation, verdict=verdict))


def test_one_that_cannot_be_read_keeps_no_service_from_the_others(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(memory: Memory) -> None:
        ids = [memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC).id for _ in range(3)]
        await memory.recorder.flush()
        for broken, values in ((ids[0], {"document": b"no zlib"}), (ids[1], {"standing": '{"status":"?"}'})):
            statement = update(recommendations).where(recommendations.c.id == broken).values(values)
            await memory.database.write(lambda connection, one=statement: connection.execute(one))
        assert newest_ids(await memory.kept.newest(3)) == ids[2:]
        older = RecommendationStore(1, memory.kept, clock_ns=lambda: T0_NS)
        assert newest_ids(await page(older, 2)) == ids[2:]  # a page of two: another may follow
        assert await older.page(2, before=ids[1]) == ids[:1]
        assert await memory.kept.one(ids[0]) is None

    over(database_url, scene)
    assert "left out" in caplog.text


def newest_ids(entries: list[Entry]) -> list[str]:
    return [entry.id for entry in entries]


def test_without_its_database_memory_answers(tmp_path: Any) -> None:
    async def scene(memory: Memory) -> None:
        entries = [memory.store.add(changing(), 1.0, changed=OTHER_TRAFFIC) for _ in range(4)]
        memory.database.close()
        assert newest_ids(await page(memory.store, 10)) == newest_ids(entries[:0:-1])
        assert await memory.store.total() == 3
        assert await memory.store.fetch(entries[2].id)

    memory = Memory(f"sqlite:///{tmp_path}/x.db")
    asyncio.run(scene(memory))

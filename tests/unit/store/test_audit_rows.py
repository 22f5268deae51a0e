"""Entries of the audit log on both kinds of database: begun, ended, cut to what fits, paged, forgotten."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from sqlalchemy import func, select

from service.auth.audit import Audit
from service.events import Clocks
from settings.security import LOCAL
from store import audit_rows
from store.ages import Instant, Uptime
from store.audit_rows import UNDER_WAY, AuditEntry
from store.database import Database, Recorder
from store.tables import audit
from telemetry.settings import NS_PER_DAY


def entry(at_ns: int, **changes: str) -> AuditEntry:
    return AuditEntry(at_ns, "ada", "192.0.2.7", "freeze", "all switches")._replace(**changes)


def test_an_entry_is_under_way_until_it_ends(database_url: str) -> None:
    database = Database(database_url)
    database.open()
    number = database.write_now(partial(audit_rows.add, entry=entry(1)))
    (begun,) = database.read_now(partial(audit_rows.listed, limit=9))
    assert (begun.number, begun.entry.outcome) == (number, UNDER_WAY)
    long = "refused (409): " + "é" * 500
    database.write_now(partial(audit_rows.end, number=number, before="{}", after=None, outcome=long))
    (ended,) = database.read_now(partial(audit_rows.listed, limit=9))
    assert ended.entry == begun.entry._replace(before="{}", outcome=long[:200])
    database.close()


def test_texts_longer_than_there_is_room_for_are_cut_and_found_again(database_url: str) -> None:
    database = Database(database_url)
    database.open()
    long = entry(1, who="w" * 500, subject="/" * 500)
    assert not database.read_now(partial(audit_rows.number_of, entry=long))
    database.write_now(partial(audit_rows.add, entry=long))
    assert database.read_now(partial(audit_rows.number_of, entry=long))
    assert not database.read_now(partial(audit_rows.number_of, entry=entry(2)))
    database.close()


def test_pages_and_what_is_old(database_url: str) -> None:
    database = Database(database_url)
    database.open()
    numbers = [database.write_now(partial(audit_rows.add, entry=entry(at_ns))) for at_ns in range(1, 8)]
    assert numbers == sorted(set(numbers))
    found: list[int] = []
    while page := database.read_now(partial(audit_rows.listed, limit=3, before=found[-1] if found else None)):
        found += [row.number for row in page]
    assert found == numbers[::-1]
    for most, left in ((3, [7, 6, 5, 4]), (3, [7, 6, 5]), (3, [7, 6, 5])):
        uptime = Uptime(Instant(8, 0.0), Instant(8, 1e-9))
        old = partial(audit_rows.forget, keep_ns=3, uptime=uptime, most=most)
        database.write_now(old)
        assert times(database) == left
    database.close()


def times(database: Database) -> list[int]:
    return [row.entry.at_ns for row in database.read_now(partial(audit_rows.listed, limit=9))]


@pytest.mark.parametrize("wrong_from_start", [True, False])
def test_a_wall_clock_years_ahead_outdates_no_entry(database: Database, wrong_from_start: bool) -> None:
    day, year = NS_PER_DAY, 365 * NS_PER_DAY
    for at_ns in (year, year + 300 * day):
        database.write_now(partial(audit_rows.add, entry=entry(at_ns)))
    right_ns = year + 301 * day
    wrong_ns = right_ns + 20 * year
    now_ns, now_s = wrong_ns if wrong_from_start else right_ns, 0.0

    async def scene() -> None:
        nonlocal now_ns, now_s
        recorder = Recorder(database)
        clocks = Clocks(monotonic_s=lambda: now_s, wall_ns=lambda: now_ns)
        log = Audit(database, recorder, keep_days=400, clocks=clocks)
        now_ns = wrong_ns
        database.write_now(partial(audit_rows.add, entry=entry(wrong_ns)))  # as a change made meanwhile
        for ran_days, left in ((99, 3), (101, 2)):
            now_s = ran_days * 86_400.0
            log.forget()
            await recorder.flush()
            assert len(times(database)) == left

    asyncio.run(scene())


def test_more_entries_are_forgotten_than_came(database: Database) -> None:
    old = [entry(number)._asdict() for number in range(1, 3_001)]
    database.write_now(lambda one: one.execute(audit.insert(), old))

    async def scene() -> None:
        recorder, now_ns = Recorder(database), 500 * NS_PER_DAY
        log = Audit(database, recorder, keep_days=400, clocks=Clocks(lambda: 0.0, lambda: now_ns))
        database.write_now(partial(audit_rows.add, entry=entry(now_ns - 1)))  # the newest before the start
        for _ in range(1_500):
            log.noted(LOCAL, "tune", "the fabric", outcome="done")
        log.forget()
        await recorder.flush()
        query = select(func.count()).where(audit.c.at_ns <= 3_000)
        assert await database.read(lambda one: one.scalar(query)) == 500
        assert await database.read(lambda one: one.scalar(select(func.count()).select_from(audit))) == 2_001

    asyncio.run(scene())

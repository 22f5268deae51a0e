"""Entries of the audit log on both kinds of database: begun, ended, cut to what fits, paged, forgotten."""

from __future__ import annotations

from functools import partial

from store import audit_rows
from store.audit_rows import UNDER_WAY, AuditEntry
from store.database import Database


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
    assert database.write_now(partial(audit_rows.forget, before_ns=5)) == 4
    assert [row.entry.at_ns for row in database.read_now(partial(audit_rows.listed, limit=9))] == [7, 6, 5]
    database.close()

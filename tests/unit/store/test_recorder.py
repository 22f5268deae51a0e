"""What may wait: written in order, once the database can be, each at most as often as it changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, select

from settings.errors import UnavailableError
from store.database import AT_ONCE, Database, Recorder
from store.tables import journal
from tests.counterparts.postgres_server import PostgresServer

PATIENCE_S = 120.0


def entry(document: str) -> Callable[[Connection], Any]:
    statement = journal.insert().values(at_s=1.0, subject="r", document=document)
    return lambda connection: connection.execute(statement)


def bad(connection: Connection) -> None:
    connection.execute(journal.insert().values(at_s=None, subject="r", document="{}"))


def mistaken(connection: Connection) -> None:
    """As half a character is for SQLite's driver, which no error of a database says."""
    connection.execute(journal.insert().values(at_s=1.0, subject="r", document=json.dumps("x")))
    raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")


async def documents(database: Database) -> list[str]:
    query = select(journal.c.document).order_by(journal.c.number)
    return list(await database.read(lambda connection: connection.scalars(query).all()))


def run(url: str, scene: Callable[[Database], Any]) -> None:
    database = Database(url)
    database.open()
    asyncio.run(scene(database))
    database.close()


def test_everything_is_written_in_order(database_url: str) -> None:
    async def scene(database: Database) -> None:
        recorder = Recorder(database)
        recorder.start()
        many = [str(number) for number in range(2 * AT_ONCE + 10)]
        for one in many:
            recorder.put(entry(one))
        await recorder.stop(PATIENCE_S)
        assert recorder.waiting == 0
        assert await documents(database) == many

    run(database_url, scene)


def test_the_newest_of_a_key_takes_the_place_of_one_that_waits(database_url: str) -> None:
    async def scene(database: Database) -> None:
        recorder = Recorder(database)
        for document, key in (("a1", "a"), ("b", None), ("a2", "a")):
            recorder.put(entry(document), key=key)
        await recorder.flush()
        recorder.put(entry("a3"), key="a")
        await recorder.flush()
        assert await documents(database) == ["a2", "b", "a3"]

    run(database_url, scene)


@pytest.mark.parametrize("poison", [bad, mistaken])
def test_what_cannot_be_written_at_all_keeps_nothing_else_from_it(
    database_url: str, caplog: pytest.LogCaptureFixture, poison: Callable[[Connection], Any]
) -> None:
    async def scene(database: Database) -> None:
        recorder = Recorder(database)
        recorder.start()
        for write in (entry("a"), poison, entry("b")):
            recorder.put(write)
        await recorder.stop(PATIENCE_S)
        assert (recorder.dropped, await documents(database)) == (1, ["a", "b"])
        assert database.failing is None

    run(database_url, scene)
    assert "left out" in caplog.text


def test_of_too_many_the_oldest_are_dropped_and_counted(database_url: str) -> None:
    async def scene(database: Database) -> None:
        recorder = Recorder(database, most_waiting=3)
        for number in range(5):
            recorder.put(entry(str(number)))
        assert (recorder.waiting, recorder.dropped) == (3, 2)
        await recorder.flush()
        assert await documents(database) == ["2", "3", "4"]

    run(database_url, scene)


def test_it_waits_for_a_database_that_comes_back(postgres: PostgresServer) -> None:
    async def scene(database: Database) -> None:
        recorder = Recorder(database, pause_s=0.05)
        recorder.start()
        await asyncio.to_thread(postgres.stop)
        try:
            recorder.put(entry("a"))
            recorder.put(entry("b"))
            with pytest.raises(UnavailableError):
                await recorder.flush()
        finally:
            await asyncio.to_thread(postgres.start)
        await recorder.stop(PATIENCE_S)
        assert await documents(database) == ["a", "b"]

    run(postgres.url(), scene)

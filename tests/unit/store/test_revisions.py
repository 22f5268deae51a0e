"""Topologies and inventories, as often as they changed, and which of them holds after a restart."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

import store.revisions
from service.persistence import Revisions
from settings.errors import NotFoundError
from settings.security import FROM_SETTINGS
from store.database import Database

FILE, OTHER_FILE, PUT = {"a": 1}, {"a": 2}, {"a": 3}


def test_the_file_holds_until_something_is_declared_and_again_once_it_changes(database_url: str) -> None:
    async def scene(revisions: Revisions) -> None:
        assert await revisions.restored("topology", None, FROM_SETTINGS) is None
        assert await revisions.restored("topology", FILE, FROM_SETTINGS) == FILE
        assert await revisions.restored("topology", FILE, FROM_SETTINGS) == FILE
        await revisions.declared("topology", PUT, "ada")
        await revisions.declared("topology", PUT, "bob")  # as whoever declares it every minute does
        assert await revisions.restored("topology", FILE, FROM_SETTINGS) == PUT
        assert await revisions.restored("topology", None, FROM_SETTINGS) == PUT
        assert await revisions.restored("topology", OTHER_FILE, FROM_SETTINGS) == OTHER_FILE
        found = await revisions.listed("topology", 10)
        assert [one.by for one in found] == [FROM_SETTINGS, "ada", FROM_SETTINGS]
        assert (await revisions.one(found[1].number)).document == '{"a":3}'

    database = Database(database_url)
    database.open()
    asyncio.run(scene(Revisions(database, wall_ns=count(1).__next__)))
    database.close()


def test_an_inventory_is_noted_when_it_changes(database_url: str) -> None:
    async def scene(revisions: Revisions) -> None:
        for text in ("x: 1", "x: 1", "x: 2", "x: 1"):
            await revisions.loaded("inventory", text, FROM_SETTINGS)
        found = await revisions.listed(None, 10)
        assert [one.document for one in found] == [""] * 3  # they may be large
        documents = [(await revisions.one(row.number)).document for row in found]
        assert documents == ["x: 1", "x: 2", "x: 1"]
        with pytest.raises(NotFoundError):
            await revisions.one(99)

    database = Database(database_url)
    database.open()
    asyncio.run(scene(Revisions(database, wall_ns=count(1).__next__)))
    database.close()


def test_the_newest_of_a_kind_are_kept_and_the_newest_of_each_author(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.revisions, "KEPT", 3, raising=False)

    async def scene(revisions: Revisions) -> None:
        await revisions.loaded("inventory", "x: 1", FROM_SETTINGS)
        assert await revisions.restored("topology", FILE, FROM_SETTINGS) == FILE
        for number in range(6):
            await revisions.declared("topology", {"a": number}, "ada")
        numbers = [one.number for one in await revisions.listed("topology", 10)]
        assert numbers == [8, 7, 6, 2]
        assert len(await revisions.listed("inventory", 10)) == 1
        # The file is as at the last start: what was declared since holds.
        assert await revisions.restored("topology", FILE, FROM_SETTINGS) == {"a": 5}

    asyncio.run(scene(Revisions(database, wall_ns=count(1).__next__)))

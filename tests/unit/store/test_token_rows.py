"""Tokens in the database: made, revoked, used and read again, and what is written down of it."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import Connection, inspect

from service.auth.tokens import (
    KnownTokens,
    Operator,
    TokenSync,
    checked_scopes,
    create,
    digest_of,
    holds_tokens,
    lifetime_ns,
    new_text,
    revoke,
)
from settings.errors import InputError, UnavailableError
from settings.security import Caller
from store import audit_rows, token_rows
from store.database import Database, Recorder

BY = Operator("command:ada", 1_000)
READ = checked_scopes(["read"])
HOUR_NS = 3_600 * 10**9


class Keeper:
    """A database, what a service knows of its tokens, and its clock."""

    def __init__(self, url: str | None) -> None:
        self.database = Database(url)
        self.now_ns = 10 * HOUR_NS
        self.known = KnownTokens(())
        self.recorder = Recorder(self.database)
        self.stored = TokenSync(self.known, self.database, self.recorder, wall_ns=lambda: self.now_ns)

    def make(self, name: str, *, expires_ns: int | None = None, scopes: str = "read") -> str:
        text = new_text()
        self.database.write_now(
            lambda connection: create(
                connection, name, text, checked_scopes([scopes]), expires_ns=expires_ns, taken=(), by=BY
            )
        )
        return text

    def find(self, text: str) -> Caller | None:
        return self.known.find(digest_of(text), self.now_ns / 1e9)


def test_a_token_is_good_from_the_next_look_until_it_ends(database_url: str) -> None:
    async def scene(keeper: Keeper) -> None:
        assert keeper.known.any, "nobody knows yet whether there are tokens"
        with pytest.raises(UnavailableError):
            await keeper.stored.read()
        keeper.database.open()
        await keeper.stored.read()
        assert not keeper.known.any
        lasting = keeper.make("collector", scopes="telemetry,read")
        brief = keeper.make("visitor", expires_ns=keeper.now_ns + HOUR_NS)
        assert keeper.find(lasting) is None
        await keeper.stored.read()
        found = keeper.find(lasting)
        assert found is not None
        assert (found.name, found.scopes) == ("collector", {"telemetry", "read"})
        assert keeper.find(brief) is not None
        assert keeper.find(lasting + "x") is None
        keeper.now_ns += HOUR_NS
        assert keeper.find(brief) is None, "without another look"
        keeper.database.write_now(lambda connection: revoke(connection, "collector", by=BY))
        await keeper.stored.read()
        assert keeper.find(lasting) is None
        assert keeper.known.any, "a service that asked for tokens goes on to"

    keeper = Keeper(database_url)
    asyncio.run(scene(keeper))
    keeper.database.close()


def test_whether_there_are_tokens_is_seen_without_migrating(database_url: str) -> None:
    assert not holds_tokens(database_url)
    keeper = Keeper(database_url)
    keeper.database.open()
    assert not holds_tokens(database_url)
    keeper.make("ada")

    def make_older(connection: Connection) -> None:
        connection.exec_driver_sql("DROP TABLE lessons")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0005'")

    keeper.database.write_now(make_older)
    assert holds_tokens(database_url)
    assert not keeper.database.read_now(lambda connection: inspect(connection).has_table("lessons"))
    keeper.database.close()


def test_when_it_was_last_used_is_noted_now_and_then(database_url: str) -> None:
    async def scene(keeper: Keeper) -> None:
        keeper.database.open()
        used, unused = keeper.make("used"), keeper.make("unused")
        await keeper.stored.read()
        for _ in range(3):
            keeper.now_ns += 10**9
            assert keeper.find(used) is not None
        keeper.stored.note_used()
        await keeper.recorder.flush()
        rows = {row.name: row for row in await keeper.database.read(token_rows.listed)}
        assert rows["used"].used_ns == keeper.now_ns
        assert rows["unused"].used_ns is None
        assert digest_of(unused) == rows["unused"].sha256

    keeper = Keeper(database_url)
    asyncio.run(scene(keeper))
    keeper.database.close()


def test_neither_the_token_nor_a_part_of_it_is_kept(database_url: str) -> None:
    keeper = Keeper(database_url)
    keeper.database.open()
    text = keeper.make("collector")
    assert text.startswith("ecntwin_")
    assert len(text) == len("ecntwin_") + 43
    rows = keeper.database.read_now(token_rows.listed)
    entries = keeper.database.read_now(lambda connection: audit_rows.listed(connection, limit=9))
    assert text.removeprefix("ecntwin_")[:8] not in repr((rows, entries))
    assert [(row.entry.who, row.entry.what, row.entry.subject) for row in entries] == [
        ("command:ada", "token create", "collector")
    ]
    keeper.database.close()


def test_a_name_is_used_once_and_revoked_once(database_url: str) -> None:
    keeper = Keeper(database_url)
    keeper.database.open()
    keeper.make("collector")
    with pytest.raises(InputError, match="used once"):
        keeper.make("collector")
    keeper.database.write_now(lambda connection: revoke(connection, "collector", by=BY))
    for name, rule in (
        ("collector", "revoked already"),
        ("nobody", "not revoked yet"),
        ("\udcff", "not revoked yet"),
    ):
        with pytest.raises(InputError, match=rule):
            keeper.database.write_now(lambda connection, name=name: revoke(connection, name, by=BY))
    with pytest.raises(InputError, match="used once"):
        keeper.make("collector")
    entries = keeper.database.read_now(lambda connection: audit_rows.listed(connection, limit=9))
    assert [row.entry.what for row in entries] == ["token revoke", "token create"]
    keeper.database.close()


@pytest.mark.parametrize("name", ["", "local", "policy", "oidc:ada", "a b", "-x", "x" * 65, "é"])
def test_a_name_says_plainly_whose_it_is(name: str) -> None:
    keeper = Keeper(None)
    keeper.database.open()
    with pytest.raises(InputError, match="token name"):
        keeper.make(name)
    keeper.database.close()


def test_how_long_and_what_for() -> None:
    assert lifetime_ns("90d") == 90 * 24 * HOUR_NS
    assert lifetime_ns("12h") == 12 * HOUR_NS
    assert lifetime_ns("1y") == 365 * 24 * HOUR_NS
    assert lifetime_ns("100y") == 100 * 365 * 24 * HOUR_NS
    for text in ("", "90", "d", "0d", "-1d", "1m", "1.5d", "101y", "99999y"):
        with pytest.raises(InputError, match="--expires"):
            lifetime_ns(text)
    assert checked_scopes(["read,operate", "admin"]) == {"read", "operate", "admin"}
    for given in ([], [""], ["root"], ["read", "write"]):
        with pytest.raises(InputError, match="--scope"):
            checked_scopes(given)

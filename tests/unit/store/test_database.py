"""The database: one service's, migrated, written whole or not at all, and used again once it is back."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, func, inspect, select, text

from settings.errors import SettingsError, UnavailableError
from store.connection import Session
from store.database import Database
from store.tables import journal, metadata, pulse
from tests.counterparts.postgres_server import PostgresServer

ENTRY = {"at_s": 1.0, "subject": "r", "document": "{}"}


@contextmanager
def opened(url: str | None, *, alone: bool = True) -> Iterator[Database]:
    with closing(Database(url, alone=alone)) as database:
        database.open()
        yield database


def add(connection: Connection, **values: Any) -> None:
    connection.execute(journal.insert().values(**ENTRY | values))


def count(connection: Connection) -> int:
    return connection.scalar(select(func.count()).select_from(journal)) or 0


def test_what_was_written_is_read_and_outlives_the_service(database_url: str) -> None:
    with opened(database_url) as database:
        assert database.durable
        asyncio.run(database.write(add))
        assert asyncio.run(database.read(count)) == 1
    with opened(database_url) as database:
        assert database.read_now(count) == 1


def test_all_that_was_written_is_in_the_one_file_once_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SQLite joins the file beside the database to it as the last connection closes. Of two that close at
    # once neither may be the last: the writer's closes once the reader's is closed.
    path = tmp_path / "j.db"
    steps: list[tuple[Session, str]] = []
    close = Session.close

    def closed(session: Session) -> None:
        steps.append((session, "begins"))
        close(session)
        steps.append((session, "ended"))

    monkeypatch.setattr(Session, "close", closed)
    with opened(f"sqlite:///{path}") as database:
        database.write_now(add)
        assert database.read_now(count) == 1
    (reader, _), _, (writer, _), _ = steps
    assert steps == [(reader, "begins"), (reader, "ended"), (writer, "begins"), (writer, "ended")]
    assert reader is not writer
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".lock"] == ["j.db"]


def test_a_query_that_takes_too_long_is_ended_and_says_what_to_ask_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.connection.ANSWER_WITHIN_S", 0)
    endless = text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n")
    with opened(f"sqlite:///{tmp_path}/j.db") as database:
        with pytest.raises(UnavailableError) as caught:
            database.read_now(lambda connection: connection.scalar(endless))
        assert caught.value.received == "a query that took more than 20 s"
        assert caught.value.remedy == "ask for a shorter span, or for less at once"
        assert (database.failing, database.read_now(count)) == (None, 0)


def test_a_port_that_is_none_is_said_without_a_word_of_the_password() -> None:
    with pytest.raises(SettingsError, match="port is no number") as caught:
        Database("postgresql://ecntwin:s3cret@db.example:port/ecntwin")
    assert "s3cret" not in str(caught.value)


def test_without_a_url_it_is_in_memory() -> None:
    with opened(None) as database:
        assert (database.durable, database.shown) == (False, "in memory")
        database.write_now(add)
        assert asyncio.run(database.read(count)) == 1


def test_the_migrations_make_the_tables_that_the_code_knows(database_url: str) -> None:
    with opened(database_url) as database:
        assert (
            database.read_now(lambda one: compare_metadata(MigrationContext.configure(one), metadata)) == []
        )


def test_a_journal_from_before_there_were_migrations_is_kept(database_url: str) -> None:
    with opened(database_url) as database:
        database.write_now(add)

        def forget_migrations(connection: Connection) -> None:
            for name in inspect(connection).get_table_names():
                if name != "journal":
                    connection.execute(text(f"DROP TABLE {name}"))

        database.write_now(forget_migrations)
    with opened(database_url) as database:
        assert database.read_now(count) == 1
        assert asyncio.run(database.probe())


def test_a_migration_that_fails_leaves_nothing_behind(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any) -> None:
        raise OSError("cut short")

    with monkeypatch.context() as patched:
        patched.setattr("alembic.op.create_index", fails)  # after the first tables were made
        database = Database(database_url)
        with pytest.raises(SettingsError, match="cut short"):
            database.open()
        database.close()
    with opened(database_url) as database:
        database.write_now(add)


def test_one_that_another_program_writes_for_long_is_opened_once_it_has_ended(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/x.db"):
        pass
    database = Database(f"sqlite:///{tmp_path}/x.db")
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError, match="locked"):
            database.open()
    database.open()
    assert asyncio.run(database.probe())
    database.close()


def test_a_database_of_a_later_version_is_refused(database_url: str) -> None:
    with opened(database_url) as database:
        later = text("UPDATE alembic_version SET version_num = '9999'")
        database.write_now(lambda connection: connection.execute(later))
    with pytest.raises(SettingsError, match="revision 9999"), opened(database_url):
        pass


def test_a_link_to_the_database_leads_to_the_same_lock(tmp_path: Path) -> None:
    (tmp_path / "current.db").symlink_to(tmp_path / "real.db")
    with opened(f"sqlite:///{tmp_path}/real.db") as first:
        first.write_now(add)
        with (
            pytest.raises(SettingsError, match="one service alone"),
            opened(f"sqlite:///{tmp_path}/current.db"),
        ):
            pass


def test_a_second_service_is_refused_until_the_first_has_ended(database_url: str) -> None:
    with opened(database_url) as first:
        with pytest.raises(SettingsError, match="one service alone"), opened(database_url):
            pass
        first.write_now(add)  # which the try did not disturb
        with opened(database_url, alone=False) as command:
            command.write_now(add)
        assert first.read_now(count) == 2
    with opened(database_url) as second:
        assert second.read_now(count) == 2


def test_a_transaction_that_fails_writes_nothing(database_url: str) -> None:
    def half(connection: Connection) -> None:
        add(connection)
        connection.execute(pulse.insert().values(id=1, at_ns=None))

    with opened(database_url) as database:
        with pytest.raises(UnavailableError):
            database.write_now(half)
        assert database.failing is not None
        assert database.read_now(count) == 0
        assert asyncio.run(database.probe())
        assert database.failing is None


def test_a_question_that_takes_too_long_is_given_up_and_keeps_nobody_else_waiting(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(database_url):
        pass  # its tables take the time they take
    monkeypatch.setattr("store.connection.ANSWER_WITHIN_S", 3)
    endless = text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) "
        "SELECT count(*) FROM n"
    )
    with opened(database_url) as database:
        with pytest.raises(UnavailableError):
            database.read_now(lambda connection: connection.scalar(endless))
        assert database.read_now(count) == 0
        assert database.failing is None


def test_many_that_write_at_once_lose_nothing(database_url: str) -> None:
    async def scene(database: Database) -> None:
        await asyncio.gather(*(database.write(add) for _ in range(50)))
        assert await database.read(count) == 50

    with opened(database_url) as database:
        asyncio.run(scene(database))


@pytest.mark.parametrize("alone", [True, False])
def test_a_service_logs_what_a_command_says_itself(
    database_url: str, caplog: pytest.LogCaptureFixture, alone: bool
) -> None:
    with opened(database_url, alone=alone) as database:
        for _ in range(2):
            with pytest.raises(UnavailableError):
                database.write_now(lambda one: one.execute(pulse.insert().values(id=1, at_ns=None)))
    assert caplog.text.count("cannot be written") == alone


def test_a_server_that_goes_away_and_comes_back_is_used_again(postgres: PostgresServer) -> None:
    url = postgres.url()
    with opened(url) as database:
        database.write_now(add)
        database.read_now(count)
        postgres.stop()
        try:
            assert not asyncio.run(database.probe())
            with pytest.raises(UnavailableError, match="no switch is set"):
                database.write_now(add)
            with pytest.raises(UnavailableError):
                database.read_now(count)
            assert database.failing
            waiting = Database(url, alone=False)
            with pytest.raises(UnavailableError):  # it may come back: nothing to correct
                waiting.open()
        finally:
            postgres.start()
        database.write_now(add)
        assert database.failing is None
        assert waiting.write_now(count) == 2
        waiting.close()
        assert database.read_now(count) == 2
        with pytest.raises(SettingsError, match="one service alone"), opened(url):
            pass  # the lock was taken anew


def test_a_server_whose_lock_another_took_meanwhile_is_not_written(postgres: PostgresServer) -> None:
    url = postgres.url()
    with opened(url) as first:
        first.write_now(add)
        postgres.stop()
        postgres.start()
        with opened(url) as second:
            with pytest.raises(UnavailableError, match="another service has it"):
                first.write_now(add)
            assert second.read_now(count) == 1
        first.write_now(add)


def test_credentials_that_are_refused_are_a_mistake_in_the_settings(postgres: PostgresServer) -> None:
    url = postgres.url().replace("ecntwin@", "nobody-knows:open-sesame@")
    with pytest.raises(SettingsError) as caught, opened(url):
        pass
    assert "nobody-knows" in caught.value.received
    assert "open-sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["nonsense", "oracle9i://x", "mysql://x/y", "sqlite://", "sqlite:////nowhere/at/all/j.db"]
)
def test_what_cannot_be_opened_is_said(url: str) -> None:
    with pytest.raises(SettingsError) as caught, opened(url):
        pass
    assert caught.value.where == "settings storage.url"


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        Database("nosuchdatabase://me:open-sesame@db.example/ecntwin")
    assert "db.example" in caught.value.received
    assert "open-sesame" not in str(caught.value)


def test_a_directory_or_another_file_is_no_database(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("this is not a database, and longer than a header of one would be" * 20, "utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (folder, other):
        with pytest.raises(SettingsError, match=r"settings storage\.url"), opened(f"sqlite:///{path}"):
            pass
    assert other.read_text("utf-8").startswith("this is not")


def test_a_file_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with opened(f"sqlite:///{path}"):
        pass
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        if os.access(path, os.W_OK):
            pytest.skip("this user may write everything (root)")
        with pytest.raises((SettingsError, UnavailableError)), opened(f"sqlite:///{path}") as database:
            database.write_now(add)
    finally:
        tmp_path.chmod(0o700)


def test_a_file_that_is_taken_away_is_not_written_until_it_is_back(tmp_path: Path) -> None:
    path, away = tmp_path / "j.db", tmp_path / "away.db"
    with opened(f"sqlite:///{path}") as database:
        database.write_now(add)
        path.rename(away)
        with pytest.raises(UnavailableError, match="is gone"):
            database.write_now(add)
        assert not path.exists()
        shutil.copy(away, path)
        with pytest.raises(UnavailableError, match="another file"):
            database.write_now(add)
        away.rename(path)
        database.write_now(add)
        assert database.read_now(count) == 2


def test_a_damaged_file_is_said_and_nothing_is_made_of_it(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with opened(f"sqlite:///{path}") as database:
        for number in range(200):
            database.write_now(lambda connection, n=number: add(connection, document=f"{n}" * 500))
    whole = path.read_bytes()
    path.write_bytes(whole[:8_192] + b"\x5a" * (len(whole) - 8_192))
    database = Database(f"sqlite:///{path}")
    with pytest.raises((SettingsError, UnavailableError), match=r"malformed|database"):
        database.write_now(add)
    database.close()

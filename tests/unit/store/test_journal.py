"""The journal: in order, on disk before anything follows from it, and one service's alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from settings.errors import UnavailableError
from store.database import Database
from store.journal import Journal, JournalEntry


def write(journal: Journal, *documents: bytes, subject: str = "r") -> None:
    async def scene() -> None:
        for number, document in enumerate(documents):
            await journal.append(subject, float(number), document)

    asyncio.run(scene())


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@contextmanager
def opened(path: Path | None) -> Iterator[Journal]:
    database = Database(None if path is None else url_of(path))
    database.open()
    yield Journal(database)
    database.close()


@pytest.mark.parametrize("durable", [False, True])
def test_entries_come_back_as_they_were_and_in_order(tmp_path: Path, durable: bool) -> None:
    with opened(tmp_path / "j.db" if durable else None) as journal:
        assert journal.read() == []
        write(journal, b'{"a": 1}', '{"ä": "ø"}'.encode())
        write(journal, b"{}", subject="freeze")
        assert journal.read() == [
            JournalEntry(1, 0.0, "r", '{"a": 1}'),
            JournalEntry(2, 1.0, "r", '{"ä": "ø"}'),
            JournalEntry(3, 0.0, "freeze", "{}"),
        ]


def test_an_entry_that_is_there_though_its_writer_was_refused_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(url_of(tmp_path / "j.db"))
    database.open()
    journal, commit = Journal(database), database.write

    async def unanswered(transaction: Callable[[Connection], object]) -> None:
        await commit(transaction)
        raise UnavailableError("database", "the connection was closed", "it answers", "look")

    assert journal.read() == []
    for round_of in ("first", "second"):
        monkeypatch.setattr(database, "write", unanswered)
        for _ in range(2):
            with pytest.raises(UnavailableError):
                write(journal, b"doubtful")
        monkeypatch.setattr(database, "write", commit)
        write(journal, round_of.encode())
    assert [entry.document for entry in journal.read()] == ["first", "second"]
    database.close()


def test_many_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "j.db") as journal:

        async def scene() -> None:
            await asyncio.gather(*(journal.append("r", float(n), b"%d" % n) for n in range(100)))

        asyncio.run(scene())
        assert [entry.document for entry in journal.read()] == [str(n) for n in range(100)]


def test_a_journal_is_opened_again_where_it_ended(tmp_path: Path) -> None:
    for number in range(3):
        with opened(tmp_path / "j.db") as journal:
            assert len(journal.read()) == number
            write(journal, b"{}")


def test_what_was_appended_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    script = (
        "import asyncio, os, sys\n"
        "from store.journal import Journal\n"
        "from store.database import Database\n"
        "database = Database(sys.argv[1])\n"
        "database.open()\n"
        "asyncio.run(Journal(database).append('r', 1.0, b'written'))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, url_of(path)], check=False)
    assert done.returncode == -9
    with opened(path) as journal:
        assert [entry.document for entry in journal.read()] == ["written"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 512 KiB."""
    at = tmp_path / "disk"
    at.mkdir()
    mounted = os.geteuid() == 0 and (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(at)], capture_output=True, check=False
        ).returncode
        == 0
    )
    if not mounted:
        pytest.skip("this user may not mount a small disk")
    yield at
    subprocess.run(["umount", "--lazy", str(at)], check=True)


def test_a_full_disk_refuses_and_loses_nothing_and_room_is_enough_to_go_on(small_disk: Path) -> None:
    with opened(small_disk / "j.db") as journal:
        write(journal, b"first")
        ballast = small_disk / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(b"x" * 2**20)
        with pytest.raises(UnavailableError, match="make room") as caught:
            write(journal, *[b"y" * 4_096] * 40)
        assert "full" in caught.value.received
        kept = journal.read()
        assert kept[0].document == "first"
        ballast.unlink()
        write(journal, b"last")
        assert [entry.document for entry in journal.read()] == [*(one.document for one in kept), "last"]

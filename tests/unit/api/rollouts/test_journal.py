"""The journal: in order, on disk before anything follows from it, and one service's alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.errors import SettingsError, UnavailableError
from api.rollouts.journal import Journal, JournalEntry


def write(journal: Journal, *documents: bytes, subject: str = "r") -> None:
    async def scene() -> None:
        for number, document in enumerate(documents):
            await journal.append(subject, float(number), document)

    asyncio.run(scene())


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.mark.parametrize("durable", [False, True])
def test_entries_come_back_as_they_were_and_in_order(tmp_path: Path, durable: bool) -> None:
    journal = Journal(url_of(tmp_path / "j.db") if durable else None)
    assert journal.durable == durable
    assert journal.read() == []
    write(journal, b'{"a": 1}', '{"ä": "ø"}'.encode())
    write(journal, b"{}", subject="freeze")
    assert journal.read() == [
        JournalEntry(1, 0.0, "r", '{"a": 1}'),
        JournalEntry(2, 1.0, "r", '{"ä": "ø"}'),
        JournalEntry(3, 0.0, "freeze", "{}"),
    ]
    journal.close()


def test_many_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    journal = Journal(url_of(tmp_path / "j.db"))

    async def scene() -> None:
        await asyncio.gather(*(journal.append("r", float(n), b"%d" % n) for n in range(100)))

    asyncio.run(scene())
    assert [entry.document for entry in journal.read()] == [str(n) for n in range(100)]
    journal.close()


def test_a_journal_is_opened_again_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    for number in range(3):
        journal = Journal(url_of(path))
        assert len(journal.read()) == number
        write(journal, b"{}")
        journal.close()


def test_what_was_appended_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    script = (
        "import asyncio, os, sys\n"
        "from api.rollouts.journal import Journal\n"
        "journal = Journal(sys.argv[1])\n"
        "asyncio.run(journal.append('r', 1.0, b'written'))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, url_of(path)], check=False)
    assert done.returncode == -9
    journal = Journal(url_of(path))
    assert [entry.document for entry in journal.read()] == ["written"]
    journal.close()


def test_a_second_service_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    url = url_of(tmp_path / "j.db")
    first = Journal(url)
    write(first, b"{}")
    with pytest.raises(SettingsError, match="one service alone"):
        Journal(url)
    write(first, b"{}")  # which the try did not disturb
    first.close()
    second = Journal(url)
    assert len(second.read()) == 2
    second.close()


@pytest.mark.parametrize("url", ["nonsense", "oracle9i://x", "sqlite:////nowhere/at/all/j.db"])
def test_what_cannot_be_opened_is_said(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Journal(url)
    assert caught.value.where == "settings storage.url"


def test_a_password_of_a_database_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        Journal("nosuchdatabase://me:open-sesame@db.example/ecntwin")
    assert "db.example" in caught.value.received
    assert "open-sesame" not in str(caught.value)


def test_a_directory_or_another_file_is_no_journal(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("this is not a database, and longer than a header of one would be" * 20, "utf-8")
    for path in (tmp_path, other):
        with pytest.raises(SettingsError, match=r"settings storage\.url"):
            Journal(url_of(path))
    assert other.read_text("utf-8").startswith("this is not")


def test_a_file_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    Journal(url_of(path)).close()
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        if os.access(path, os.W_OK):
            pytest.skip("this user may write everything (root)")
        with pytest.raises((SettingsError, UnavailableError)):
            write(Journal(url_of(path)), b"{}")
    finally:
        tmp_path.chmod(0o700)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 256 KiB."""
    at = tmp_path / "disk"
    at.mkdir()
    mounted = os.geteuid() == 0 and (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(at)], capture_output=True, check=False
        ).returncode
        == 0
    )
    if not mounted:
        pytest.skip("this user may not mount a small disk")
    yield at
    subprocess.run(["umount", "--lazy", str(at)], check=True)


def test_a_full_disk_refuses_and_loses_nothing_and_room_is_enough_to_go_on(small_disk: Path) -> None:
    journal = Journal(url_of(small_disk / "j.db"))
    write(journal, b"first")
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(b"x" * 2**20)
    with pytest.raises(UnavailableError, match="make room") as caught:
        write(journal, *[b"y" * 4_096] * 20)
    assert "full" in caught.value.received
    kept = journal.read()
    assert kept[0].document == "first"
    ballast.unlink()
    write(journal, b"last")
    assert [entry.document for entry in journal.read()] == [*(one.document for one in kept), "last"]
    journal.close()


class FullDisk(Journal):
    """SQLite's own limit on a file stands for a disk, where none can be mounted."""

    def limit(self) -> None:
        with self._engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def room(self) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1073741823")


def test_a_database_without_room_refuses_and_goes_on_when_there_is_some(tmp_path: Path) -> None:
    journal = FullDisk(url_of(tmp_path / "j.db"))
    write(journal, b"first")
    journal.limit()
    with pytest.raises(UnavailableError, match="full"):
        write(journal, b"y" * 100_000)
    journal.room()
    write(journal, b"last")
    assert [entry.document for entry in journal.read()] == ["first", "last"]
    journal.close()

"""What the service remembers is its own user's to read, whatever the umask."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from settings.errors import SettingsError, UnavailableError
from settings.load import with_storage
from settings.model import Settings
from store.database import Database
from store.tables import pulse

pytestmark = pytest.mark.usefixtures("no_umask")

ALL_OF_IT = ("ecntwin.db", "ecntwin.db-shm", "ecntwin.db-wal", "ecntwin.db.lock")


@contextmanager
def written(path: Path) -> Iterator[Database]:
    with closing(Database(f"sqlite:///{path}")) as database:
        database.open()
        database.write_now(lambda connection: connection.execute(pulse.delete()))
        database.read_now(lambda connection: connection.execute(pulse.select()).all())
        yield database


def modes(folder: Path) -> dict[str, str]:
    return {one.name: f"{one.stat().st_mode & 0o777:03o}" for one in sorted(folder.iterdir())}


def test_each_of_its_files_is_the_owner_s_alone(tmp_path: Path) -> None:
    with written(tmp_path / "ecntwin.db"):
        assert modes(tmp_path) == dict.fromkeys(ALL_OF_IT, "600")


def test_the_file_is_narrow_before_sqlite_opens_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen, connect = tmp_path / "ecntwin.db", [], sqlite3.connect

    def watched(database: str, *arguments: Any, **more: Any) -> sqlite3.Connection:
        assert str(database) == str(path)
        seen.append(modes(tmp_path))
        opened: sqlite3.Connection = connect(database, *arguments, **more)
        return opened

    monkeypatch.setattr("sqlite3.dbapi2.connect", watched)
    with written(path):
        assert seen[0] == {"ecntwin.db": "600"}


def test_a_wide_one_of_an_earlier_version_is_narrowed_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ecntwin.db"
    with closing(sqlite3.connect(path)) as earlier:
        earlier.execute("PRAGMA journal_mode=WAL")
        earlier.execute("CREATE TABLE one (id INTEGER)")
        earlier.commit()
        path.chmod(0o644)
        with written(path):
            assert modes(tmp_path) == dict.fromkeys(ALL_OF_IT, "600")
    with written(path):
        pass
    told = [
        one.message for one in caplog.records if (one.name, one.levelname) == ("ecntwin.storage", "WARNING")
    ]
    assert len(told) == 1
    assert "ecntwin.db (0644)" in told[0]
    assert "ecntwin.db-wal (0644)" in told[0]


def test_what_is_no_database_keeps_its_mode(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "folder").mkdir(0o755)
    (tmp_path / "notes.txt").write_text("longer than the header of a database would be" * 20, "utf-8")
    for path in tmp_path.iterdir():
        with pytest.raises(SettingsError, match="can be opened"), written(path):
            pass
    assert modes(tmp_path) == {"folder": "755", "notes.txt": "666"}
    assert not caplog.records


def test_a_link_keeps_pointing_at_a_narrow_file(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "ecntwin.db").symlink_to(tmp_path / "disk" / "kept.db")
    with written(tmp_path / "ecntwin.db"):
        assert set(modes(tmp_path / "disk").values()) == {"600"}


def test_another_connection_of_this_process_keeps_its_locks(tmp_path: Path) -> None:
    """POSIX ends a process's locks on a file with the first descriptor that is closed."""
    path = tmp_path / "ecntwin.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as first:
        first.execute("PRAGMA journal_mode=DELETE")
        first.execute("CREATE TABLE one (id INTEGER)")
        first.execute("BEGIN EXCLUSIVE")
        database = Database(f"sqlite:///{path}")
        with closing(database), pytest.raises(UnavailableError, match="locked"):
            database.open()
        other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT * FROM one')"
        assert os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", other, str(path)) == 1


@pytest.mark.parametrize("url", ["sqlite:///file:x.db?uri=true", "sqlite:///file:x.db?mode=ro&uri=true"])
def test_a_uri_is_no_path(url: str) -> None:
    with pytest.raises(SettingsError, match="URI"):
        Database(url)


def test_the_folder_made_for_it_is_the_owner_s_alone_and_one_of_yours_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yours = tmp_path / "home"
    yours.mkdir(0o755)
    monkeypatch.setenv("XDG_STATE_HOME", str(yours / ".local" / "state"))
    with_storage(Settings())
    made = [yours / ".local" / "state" / "ecntwin", yours / ".local" / "state", yours / ".local"]
    assert [one.stat().st_mode & 0o777 for one in made] == [0o700] * 3
    assert yours.stat().st_mode & 0o777 == 0o755

"""A real PostgreSQL on loopback, in a folder of its own; skips the test where none is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from tests.counterparts.ports import free_port

_PATIENCE_S = 60.0
_USER = "ecntwin"


def postgres_programs() -> Path:
    """The folder of its programs; skips the test where there is none."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    pytest.skip("PostgreSQL is not installed: scripts/system-packages postgres gets it")


class PostgresServer:
    """One server, at ``port`` of 127.0.0.1; it may be stopped and started again where it was."""

    def __init__(self) -> None:
        self._programs = postgres_programs()
        # Not below pytest's folder: the server may not run as root, and others may not look in there.
        self._folder = Path(tempfile.mkdtemp(prefix="ecntwin-postgres-"))
        self._user = _unprivileged()
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        self._data = self._folder / "data"
        self._databases = 0
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            [
                *(self._programs / "initdb", "--pgdata", self._data, "--username", _USER),
                *("--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
            cwd=self._folder,
        )
        for _ in range(5):  # another process may take a port between asking for it and using it
            self.port = free_port()
            try:
                self.start()
            except RuntimeError:
                self.stop()
                continue
            return
        raise RuntimeError(f"postgres does not start: {self._log()}")

    def url(self) -> str:
        """A new, empty database's."""
        self._databases += 1
        name = f"d{self._databases}"
        self.run(f"CREATE DATABASE {name}")
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{name}"

    def run(self, statement: str) -> None:
        """Runs a statement as its owner."""
        where = f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Begins to serve; raises ``RuntimeError`` where it does not."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self._data, "-p", str(self.port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self._folder}"),
                    *("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self._folder,
            )
        deadline = time.monotonic() + _PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError(self._log())

    def stop(self) -> None:
        """Ends at once, and every connection with it; what was committed is kept."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)  # "fast": it waits for nobody
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def close(self) -> None:
        """Ends it and removes what it holds."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _log(self) -> str:
        return (self._folder / "log").read_text("utf-8", "replace")[-500:]


def _unprivileged() -> str | None:
    """Whom to run it as: postgres refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"

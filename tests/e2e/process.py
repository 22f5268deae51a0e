"""Real ``ecntwin serve``, ``ingest`` and ``lab`` processes and what a test may ask of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 600.0  # only what hangs waits so long, however slow the machine
UNHURRIED = {
    # Rounds that gave way to the tests of another core would take too long.
    "ECNTWIN_SEARCH__NICENESS": "0",
    # What was posted once stays good, however slow the machine is.
    "ECNTWIN_TUNING__STALE_AFTER_S": "86400",
}
LISTENS = re.compile(r"running on (https?://\S+)")


class Served:
    """The process, its URL and its log so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[str] = []
        self.url = ""
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = LISTENS.search(line)
            if found:
                self.url = found[1]
                self._listens.set()
        self._listens.set()

    def wait_until_it_listens(self) -> None:
        assert self._listens.wait(PATIENCE_S), "".join(self.log)
        assert self.url, "".join(self.log)

    def stop(self) -> int:
        """Asks it to stop; its exit code."""
        self.process.terminate()
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def kill(self, *, alone: bool = False) -> None:
        """Ends it and its worker processes, as a power failure would; ``alone`` as a lack of memory would."""
        workers = set() if alone else self.workers()
        self.process.kill()
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def workers(self) -> set[int]:
        """Process ids of its live worker processes (Linux)."""
        found = set()
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text("utf-8").rpartition(")")[2].split()
                command = (entry.parent / "cmdline").read_bytes()
            except OSError:
                continue  # it ended meanwhile
            if int(fields[1]) == self.process.pid and fields[0] != "Z" and b"popen_loky" in command:
                found.add(int(entry.parent.name))
        return found


@contextmanager
def serving(*arguments: str, **settings: str) -> Iterator[Served]:
    """Starts a service on a free port of loopback, and stops it."""
    with _started(["serve", "--port", "0", *arguments], settings) as served:
        yield served


@contextmanager
def lab_at(port: int, *arguments: str, **settings: str) -> Iterator[Served]:
    """Starts a lab that is controlled at that port of loopback, and stops it if it still runs."""
    with _started(["lab", "--listen", f"127.0.0.1:{port}", *arguments], settings) as served:
        yield served


@contextmanager
def ingesting(to: str, *arguments: str, **settings: str) -> Iterator[Served]:
    """Starts an ingest process on a free port of loopback, or the one given, and stops it."""
    with _started(["ingest", "--to", to, "--port", "0", *arguments], settings) as served:
        yield served


@contextmanager
def _started(command: Sequence[str], settings: Mapping[str, str]) -> Iterator[Served]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ECNTWIN_")}
    # No service remembers what that of another test did; a file of settings says itself where it remembers.
    storage = {} if "--config" in command else {"ECNTWIN_STORAGE__URL": "memory"}
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", *command],
        cwd=REPOSITORY,
        env=environment | UNHURRIED | storage | dict(settings),
        stderr=subprocess.PIPE,
        text=True,
    )
    served = Served(process)
    try:
        served.wait_until_it_listens()
        yield served
    finally:
        if process.poll() is None:
            served.stop()

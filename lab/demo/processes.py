"""Child processes that end with the block that started them, however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lab.setup import LeafSpine
from settings.errors import InputError, UnavailableError
from settings.validation import ENV_PREFIX

LOOPBACK = "127.0.0.1"
START_S = 300.0  # four processes start at once, perhaps on a busy machine; a failure is noticed at once
GRACE_S = 6.0
_LISTENS = re.compile(r"running on (http://\S+)")
_SOURCE = Path(__file__).resolve().parents[2]
_LINES_KEPT = 30


class Child:
    """Runs a module of this package in a process and session of its own, so that Ctrl-C does not reach it."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], folder: Path) -> None:
        self.name = name
        self.log: deque[str] = deque(maxlen=_LINES_KEPT)
        self._url: str | None = None
        self._heard = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=folder,
            env=_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True, name=f"ecntwin-demo-{name}")
        self._reader.start()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def url(self) -> str:
        """Waits for the URL that the process listens on; raises ``UnavailableError``."""
        if not self._heard.wait(START_S) or self._url is None:
            raise self.failure("no address it listens on")
        return self._url

    def failure(self, received: str) -> UnavailableError:
        """An error with the last line of its log."""
        said = next((line.strip() for line in reversed(self.log) if line.strip()), "nothing")
        return UnavailableError(
            f"demo, {self.name}",
            f"{received}; it said last: {said}",
            "each of the demo's processes runs to its end",
            "run it again; if it stays so, report it",
        )

    def finish(self) -> None:
        """Waits until it ends; raises ``UnavailableError`` if it failed."""
        if self._process.wait() != 0:
            self._reader.join(1.0)
            raise self.failure(f"exit code {self._process.returncode}")

    def ask_to_end(self) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                self._process.terminate()

    def end(self, grace_s: float) -> None:
        """Waits for ``grace_s``, then kills the process and its children."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        # Its workers are in the same session.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(1.0)
        if self._process.stderr is not None and not self._reader.is_alive():
            self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line)
            found = _LISTENS.search(line)
            if found and self._url is None:
                self._url = found[1].rstrip("/")
                self._heard.set()
        self._heard.set()


class Children:
    """Starts children in ``folder``; all of them have ended when the block is left.

    A thread starts and ends them, so that no interrupt, which only the main thread gets, comes in between.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ecntwin-demo-children")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self, name: str, *arguments: str, module: str = "cli") -> Child:
        """Starts ``ecntwin``, or another module, with these arguments."""

        def begin() -> Child:
            self._children.append(Child(name, module, arguments, self._folder))
            return self._children[-1]

        return self._thread.submit(begin).result()

    def start_service(self, fabric: LeafSpine, settings: dict[str, Any], port: int) -> Child:
        """Starts ``ecntwin serve`` with these settings and ``fabric`` as its declared topology."""
        topology, config = self._folder / "topology.json", self._folder / "ecntwin.yaml"
        topology.write_text(json.dumps(fabric.topology().to_json()), "utf-8")
        declared = settings.get("fabric", {}) | {"topology": str(topology)}
        config.write_text(json.dumps(settings | {"fabric": declared}), "utf-8")  # JSON is YAML
        return self.start("service", "serve", "--config", str(config), "--port", str(port))

    def end(self) -> None:
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    def _end(self) -> None:
        for child in self._children:
            child.ask_to_end()
        for child in self._children:
            child.end(GRACE_S)
        self._children.clear()


def free_ports(asked: Mapping[str, int]) -> list[int]:
    """The loopback port of each name, or any for 0; raises ``InputError`` for one that is taken."""
    with ExitStack() as stack:
        return [_taken(stack.enter_context(socket.socket()), name, port) for name, port in asked.items()]


def _taken(probe: socket.socket, name: str, port: int) -> int:
    """Has ``probe`` listen, so that no other probe gets the same port."""
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind((LOOPBACK, port))
        probe.listen()
    except OSError as error:
        raise InputError(
            name,
            f"{LOOPBACK} port {port} ({(error.strerror or str(error)).lower()})",
            "the demo listens on a port of this machine that nobody else has",
            f"end what listens there, or give another, such as {name} {port + 100}",
        ) from None
    return int(probe.getsockname()[1])


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment without the user's own settings of the service; this source tree leads PYTHONPATH."""
    kept = {name: value for name, value in given.items() if not name.startswith(ENV_PREFIX)}
    paths = [str(_SOURCE), *filter(None, [given.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}

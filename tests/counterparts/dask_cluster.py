"""A real Dask cluster on loopback, its scheduler and each worker a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.counterparts.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 600.0


class DaskCluster:
    """A scheduler and ``n_workers`` workers of one thread each, which import this source tree.

    ``tls``: options of dask's commands that name certificates; ``paths``: what a worker may import from, in
    place of this tree. ``worker_options`` go to every worker.
    """

    def __init__(
        self,
        folder: Path,
        n_workers: int = 2,
        *,
        tls: Sequence[str] = (),
        paths: Sequence[Path] = (REPOSITORY,),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._tls = tuple(tls)
        self._environment = dict(environment or {})
        self._file = folder / "scheduler.json"
        self._workers: list[subprocess.Popen[bytes]] = []
        self._scheduler, self.address = self._first_scheduler()
        try:
            for _ in range(n_workers):
                self.add_worker(paths)
            self.wait_for_workers(n_workers)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def processes(self) -> list[int]:
        """Of the workers that live."""
        return [worker.pid for worker in self._workers if worker.poll() is None]

    def add_worker(self, paths: Sequence[Path] = (REPOSITORY,)) -> None:
        """Starts one more, which need not be known to the scheduler yet."""
        number = len(self._workers)
        options = ["--nthreads", "1", "--no-nanny", "--death-timeout", f"{PATIENCE_S:g}"]
        where = ["--local-directory", str(self._folder / f"worker-{number}"), self.address]
        self._workers.append(self._start("worker", *options, *where, paths=paths))

    def wait_for_workers(self, count: int) -> None:
        """Until the scheduler knows that many: its log says so of each."""
        deadline = time.monotonic() + PATIENCE_S
        while self._log("scheduler").read_text("utf-8").count("Register worker") < count:
            if time.monotonic() > deadline or self._scheduler.poll() is not None:
                raise RuntimeError(f"no {count} dask workers: {self.logs()}")
            time.sleep(0.02)

    def kill(self, process: int) -> None:
        """Ends a worker without a word."""
        worker = next(one for one in self._workers if one.pid == process)
        worker.kill()
        worker.wait()

    def kill_scheduler(self) -> None:
        """Ends the scheduler without a word."""
        self._scheduler.kill()
        self._scheduler.wait()

    def restart_scheduler(self) -> None:
        """A new one where the old one was; it knows no worker."""
        self.kill_scheduler()
        self._file.unlink()
        self._scheduler = self._start_scheduler(port=int(self.address.rpartition(":")[2]))
        self._announced(self._scheduler)

    def freeze_scheduler(self) -> None:
        """Its host answers, and it does not."""
        os.kill(self._scheduler.pid, signal.SIGSTOP)

    def logs(self) -> str:
        """The end of what each process said."""
        return "\n".join(f"{log.name}: {log.read_text('utf-8')[-800:]}" for log in self._folder.glob("*.log"))

    def close(self) -> None:
        """Ends every process."""
        for process in (*self._workers, self._scheduler):
            process.kill()
            process.wait()

    def _first_scheduler(self) -> tuple[subprocess.Popen[bytes], str]:
        for _ in range(5):  # another process may take a port between asking for it and using it
            scheduler = self._start_scheduler(free_port())
            try:
                return scheduler, self._announced(scheduler)
            except RuntimeError:
                scheduler.kill()
                scheduler.wait()
        raise RuntimeError(f"no dask scheduler: {self.logs()}")

    def _announced(self, scheduler: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and scheduler.poll() is None:
            try:
                return str(json.loads(self._file.read_text("utf-8"))["address"])
            except (FileNotFoundError, ValueError):  # ... yet, or half written
                time.sleep(0.02)
        raise RuntimeError(f"no dask scheduler: {self.logs()}")

    def _start_scheduler(self, port: int) -> subprocess.Popen[bytes]:
        return self._start("scheduler", "--scheduler-file", str(self._file), "--port", str(port))

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _start(
        self, what: str, *options: str, paths: Sequence[Path] = (REPOSITORY,)
    ) -> subprocess.Popen[bytes]:
        name = what if what == "scheduler" else f"worker-{len(self._workers)}"
        common = ["--host", "127.0.0.1", "--no-dashboard", *self._tls]
        if self._tls:
            common += ["--protocol", "tls"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(path) for path in paths),
            "DASK_CONFIG": str(self._folder / "no-configuration"),
            **self._environment,
        }
        with self._log(name).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", what, *common, *options],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

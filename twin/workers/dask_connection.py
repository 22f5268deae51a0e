"""A connection to a Dask scheduler: its usable workers (those of this version), and scenarios sent to them.

Every wait has a limit.
"""

from __future__ import annotations

import platform
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from distributed import Client
from distributed.security import Security
from llvmlite.binding import get_host_cpu_name

from twin.errors import ClusterError

_TWIN = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Stamp:
    """Versions of a process; processes with equal stamps predict the same."""

    ecntwin: str
    code: str
    python: str
    numpy: str
    numba: str
    processor: str

    def __str__(self) -> str:
        return (
            f"ecntwin {self.ecntwin} (code {self.code}), Python {self.python}, NumPy {self.numpy}, "
            f"numba {self.numba} for {self.processor}"
        )


@cache
def own_stamp() -> Stamp:
    """The stamp of this process, to compare with a worker's."""
    return Stamp(
        ecntwin=_version(),
        code=code_digest(_TWIN),
        python=".".join(platform.python_version_tuple()[:2]),
        numpy=np.__version__,
        numba=numba.__version__,
        processor=_processor(),
    )


def code_digest(folder: Path) -> str:
    """A short digest of the names and contents of the Python files below ``folder``."""
    digest = blake2b(digest_size=6)
    for file in sorted(folder.rglob("*.py"), key=lambda file: file.relative_to(folder).as_posix()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _processor() -> str:
    """The processor that kernels are compiled for, chosen as by numba."""
    chosen: str | None = numba.config.CPU_NAME  # type: ignore[attr-defined] # set on import
    return chosen or str(get_host_cpu_name())


def _version() -> str:
    try:
        return version("ecntwin")
    except PackageNotFoundError:
        return "from its source tree"


MOST_SENT = 8  # scenarios kept on the workers

T = TypeVar("T")


class LostError(ClusterError):
    """The connection broke or a worker left during a request, which may be repeated."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the trusted CA, and this service's certificate and key."""

    ca: Path
    certificate: Path
    key: Path

    def security(self) -> Security:
        """The files in the form that Dask takes; it then accepts TLS only."""
        return Security(
            require_encryption=True,
            tls_ca_file=str(self.ca),
            tls_client_cert=str(self.certificate),
            tls_client_key=str(self.key),
        )

    def check(self) -> None:
        """Raises ``OSError`` for a missing or invalid file."""
        self.security().get_connection_args("client")


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers of a cluster: threads by address, and why others are refused."""

    threads: Mapping[str, int]
    refused: Mapping[str, str]

    @property
    def n_threads(self) -> int:
        """Number of batches that run at the same time."""
        return sum(self.threads.values())


class Connection:
    """A client of one scheduler. ``warn`` gets one sentence for each worker that is refused.

    Raises ``ClusterError`` where the scheduler cannot be reached within ``timeout_s``.
    """

    def __init__(
        self, scheduler: str, *, tls: TlsFiles | None, timeout_s: float, warn: Callable[[str], None]
    ) -> None:
        self._scheduler = scheduler
        self._timeout_s = timeout_s
        self._warn = warn
        self._stamps: dict[str, Stamp | str] = {}
        self._sent: OrderedDict[str, Any] = OrderedDict()
        self._sending = threading.Lock()
        try:
            self.client: Any = Client(  # half of its calls have no types
                scheduler,
                security=None if tls is None else tls.security(),
                timeout=timeout_s,
                set_as_default=False,
                name="ecntwin",
            )
        except (OSError, ValueError) as error:  # of ssl: files that are missing or hold no certificate
            raise ClusterError(*self._unreachable(error)) from error

    @property
    def usable(self) -> bool:
        """Whether the connection is up, as far as is known."""
        return bool(self.client.status == "running")

    def crew(self) -> Crew:
        """The scheduler's workers; those of another version are refused.

        Waits for a first worker. Raises ``ClusterError`` where none is usable.
        """
        threads = self._answer(self._threads, "no worker")
        unknown = [address for address in threads if address not in self._stamps]
        if unknown:
            self._ask_stamps(unknown)
        refused = {
            address: why
            for address in threads
            if (why := _refusal(address, self._stamps.get(address))) is not None
        }
        fit = {address: count for address, count in threads.items() if address not in refused}
        if not fit:
            rule = f"results are the same only where workers run what the service runs, {own_stamp()}"
            remedy = "start workers and scheduler from the service's own image"
            raise ClusterError(
                f"dask scheduler {self._scheduler}", next(iter(refused.values())), rule, remedy
            )
        return Crew(fit, refused)

    def send(self, file: Path, to: Crew) -> Any:
        """Dask's future of the content of ``file`` on the workers; files are named by their content."""
        with self._sending:
            future = self._sent.pop(file.name, None)
            if future is None:
                content, workers = file.read_bytes(), list(to.threads)

                async def scattered() -> Any:
                    return await self.client.scatter(content, workers=workers, broadcast=True, hash=False)

                # The scheduler may wait for a worker that has just left.
                future = self._answer(scattered, "workers that did not take a scenario", late=LostError)
            self._sent[file.name] = future
            while len(self._sent) > MOST_SENT:
                self._sent.popitem(last=False)
            return future

    def close(self) -> None:
        """Disconnects, which ends this client's tasks."""
        self._sent.clear()
        with suppress(Exception):  # the scheduler may be gone
            self.client.close(timeout=self._timeout_s)

    async def _threads(self) -> dict[str, int]:
        await self.client.wait_for_workers(1)
        found: dict[str, int] = await self.client.scheduler.ncores()
        return found

    def _ask_stamps(self, addresses: list[str]) -> None:

        async def asked() -> dict[str, Any]:
            answers: dict[str, Any] = await self.client.run(own_stamp, workers=addresses, on_error="return")
            return answers

        for address, answer in self._answer(asked, "workers that did not say what they run").items():
            if isinstance(answer, OSError):
                continue  # the worker has ended
            known = answer if isinstance(answer, Stamp) else f"{type(answer).__name__}: {answer}"
            self._stamps[address] = known
            why = _refusal(address, known)
            if why is not None:
                self._warn(f"{why}, this service {own_stamp()}: it is given nothing to do")

    def _answer(
        self, ask: Callable[[], Awaitable[T]], otherwise: str, *, late: type[ClusterError] = ClusterError
    ) -> T:
        """Runs ``ask`` on the client's own loop; raises ``late`` after the timeout."""
        try:
            found: T = self.client.sync(ask, callback_timeout=self._timeout_s)
        except TimeoutError as error:
            raise late(
                f"dask scheduler {self._scheduler}",
                f"{otherwise} within {self._timeout_s:g} s",
                "a round needs workers that answer",
                "start workers for that scheduler, and look into their logs",
            ) from error
        except (OSError, RuntimeError) as error:
            raise LostError(*self._unreachable(error)) from error
        except Exception as error:  # of the scheduler, such as for a worker that has left
            received = f"{type(error).__name__}: {error}"
            rule = "a round needs a scheduler that knows its workers"
            remedy = "look in its log and in the workers'; the next round tries again"
            raise LostError(f"dask scheduler {self._scheduler}", received, rule, remedy) from error
        return found

    def _unreachable(self, error: Exception) -> tuple[str, str, str, str]:
        said = str(error).strip() or type(error).__name__
        return (
            f"dask scheduler {self._scheduler}",
            said.rstrip("."),
            f"a round needs a scheduler that answers within {self._timeout_s:g} s",
            "start it or correct search.dask_scheduler; the next round tries again",
        )


def _refusal(address: str, stamp: Stamp | str | None) -> str | None:
    """Why the worker there is not used; None where nothing is against it."""
    if stamp == own_stamp():
        return None
    if stamp is None:
        return f"worker {address} did not say what it runs"
    if isinstance(stamp, Stamp):
        return f"worker {address} runs {stamp}"
    return f"worker {address} cannot run ecntwin ({stamp})"

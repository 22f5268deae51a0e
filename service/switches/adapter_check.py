"""Makes, checks and reads the adapters of an inventory; finds all problems in one pass."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from settings.inventory_keys import SECRETS, did_you_mean
from switches.base import SwitchAdapter
from switches.device import Device
from switches.errors import CredentialsError, InventoryError, SwitchError
from switches.registry import AdapterRegistry

AT_ONCE = 32

_log = logging.getLogger("ecntwin.switches")


@dataclass(frozen=True, slots=True)
class Made:
    """Adapters by switch, and why the others could not be made."""

    adapters: Mapping[str, SwitchAdapter]
    problems: tuple[SwitchError, ...]

    def close(self) -> None:
        for adapter in self.adapters.values():
            adapter.close()


ReadT = TypeVar("ReadT")
ReadT_co = TypeVar("ReadT_co", covariant=True)


class Reads(Protocol[ReadT_co]):
    """An adapter, of a switch or of a host's NICs."""

    def read(self) -> ReadT_co: ...


@dataclass(frozen=True, slots=True)
class Answer(Generic[ReadT]):
    """The last successful reading, and why the last try failed (None: it did not)."""

    reading: ReadT | None = None
    failure: SwitchError | None = None

    @property
    def reachable(self) -> bool:
        """Whether the last try succeeded; True also before the first."""
        return self.failure is None


def make_adapters(
    devices: Mapping[str, Device], registry: AdapterRegistry, *, clock_ns: Callable[[], int]
) -> Made:
    """An adapter for every switch that can have one; connects to none."""
    adapters: dict[str, SwitchAdapter] = {}
    problems: list[SwitchError] = []
    for name, device in devices.items():
        try:
            if device.platform not in registry.kinds:
                raise _unknown_platform(device, registry)
            adapters[name] = registry.make(device, clock_ns=clock_ns)
        except SwitchError as error:
            problems.append(error)
        except Exception as error:
            problems.append(adapter_failed(device.where, error))
    return Made(adapters, tuple(problems))


def check_inventory(
    devices: Mapping[str, Device],
    registry: AdapterRegistry,
    *,
    clock_ns: Callable[[], int],
    canary: Iterable[str] = (),
) -> tuple[SwitchError, ...]:
    """All problems of platforms, options, secrets, files, and switches that go first; connects to nothing."""
    made = make_adapters(devices, registry, clock_ns=clock_ns)
    made.close()
    problems = list(made.problems)
    for device in devices.values():
        for name in SECRETS:
            try:
                device.credential(name)
            except CredentialsError as error:
                problems.append(error)
        ca_file = device.tls.ca_file
        if ca_file is not None and not ca_file.is_file():
            problems.append(
                InventoryError(
                    f"{device.where} tls.ca_file",
                    f"{ca_file}: no such file",
                    "the authorities' certificates are in a file",
                    "mount it, or correct the path",
                )
            )
    if missing := [name for name in canary if name not in devices]:
        rule = "a canary is a switch of the inventory"
        problems.append(
            InventoryError("settings rollout.canary", ", ".join(missing), rule, "correct the name")
        )
    return tuple(problems)


def read_all(
    adapters: Mapping[str, Reads[ReadT]],
    *,
    at_once: int = AT_ONCE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Mapping[str, Answer[ReadT]]:
    """Reads every switch or host, ``at_once`` at a time; calls ``progress(done, total)`` after each."""
    asks = {name: partial(_ask, name, adapter) for name, adapter in adapters.items()}
    return ask_all(asks, at_once=at_once, progress=progress)


T = TypeVar("T")


def ask_all(
    asks: Mapping[str, Callable[[], T]],
    *,
    at_once: int = AT_ONCE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Mapping[str, T]:
    """The answer of each, ``at_once`` at a time in threads; calls ``progress(done, total)`` after each."""
    threads = ThreadPoolExecutor(at_once, thread_name_prefix="ecntwin-read")
    try:
        asked: dict[Future[T], str] = {threads.submit(ask): name for name, ask in asks.items()}
        answers: dict[str, T] = {}
        progress(0, len(asked))
        for future in as_completed(asked):
            answers[asked[future]] = future.result()
            progress(len(answers), len(asked))
        return {name: answers[name] for name in asks}
    finally:
        # Interrupted, it reads no more switches; running reads end within their timeouts.
        threads.shutdown(wait=False, cancel_futures=True)


class Repeated:
    """A reading of ``what``, made every ``every_s`` seconds, also after one that failed."""

    def __init__(self, what: str, every_s: float, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._what = what
        self._every_s = every_s
        self._sleep = sleep
        self._stopping = threading.Event()

    async def run(self, read: Callable[[], Awaitable[None]]) -> None:
        """At once first; until it is cancelled."""
        try:
            while True:
                try:
                    await read()
                except Exception:
                    _log.exception("reading %s failed; the next reading is tried", self._what)
                await self._sleep(self._every_s)
        finally:
            self._stopping.set()

    def go_on(self, done: int, total: int) -> None:
        """The ``progress`` of a reading in threads: ends it once ``run`` was cancelled."""
        if self._stopping.is_set():
            raise InterruptedError("the service is stopping")


def _ask(name: str, adapter: Reads[ReadT]) -> Answer[ReadT]:
    try:
        return Answer(reading=adapter.read())
    except SwitchError as error:
        return Answer(failure=error)
    except Exception as error:
        return Answer(failure=adapter_failed(f"switch {name!r}", error))


def _unknown_platform(device: Device, registry: AdapterRegistry) -> InventoryError:
    return InventoryError(
        f"switch {device.name!r} platform",
        repr(device.platform),
        f"known platforms are {', '.join(registry.kinds)}",
        did_you_mean(device.platform, registry.kinds, "name one of them"),
    )


def adapter_failed(where: str, error: Exception) -> SwitchError:
    """The error for a bug in an adapter.

    Its message may hold anything, secrets too, so only the exception's type is shown.
    """
    return SwitchError(
        where,
        f"{type(error).__name__} from its adapter",
        "an adapter answers, or raises a SwitchError",
        "report it to the adapter's authors",
    )

"""Follows the counters of the inventory's switches into their window; a failing switch stops no other.

A platform's module is imported when the inventory has such a switch.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Protocol

from service.events import retrieve
from service.ingest.counter_owner import CounterOwner
from service.metrics import Metrics
from settings.telemetry import CounterPollSettings
from switches.device import Device
from switches.errors import SwitchError, UnreachableError
from telemetry.decode.body import Polled

LONGEST_WAIT_S = 60.0

_KEPT_RULE = "each port and queue has one source, in order of time, and fits into the window"
_KEPT_REMEDY = (
    "ecntwin_switch_samples_rejected_total says why: no_room, raise telemetry.counters.max_series; late, "
    "check the switch's clock, and send its counters in no other way"
)

_log = logging.getLogger("ecntwin.counters")


class NoCountersError(SwitchError, reason="no_counters"):
    """The switch answers, but has no counters of the wanted ports and queues."""


class CounterReader(Protocol):
    """Polls a switch's counters. Blocks: it runs in a thread, one call at a time."""

    def read(self) -> Polled:
        """The counters now. Raises ``SwitchError`` only."""

    def abort(self) -> None:
        """Called from another thread: makes a ``read`` under way fail soon."""

    def close(self) -> None:
        """Closes connections; the next ``read`` reopens them."""


class CounterSource(Protocol):
    """The counters of one switch as they come; for one event loop."""

    switch: str
    adapter: str

    async def next_counters(self) -> Polled:
        """The next counters, when they are due. Raises ``SwitchError``; the next call starts over."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """Shared by all polled switches: the interval, and the threads and slots for polls at a time."""

    every_s: float
    threads: Executor
    slots: asyncio.Semaphore


class PolledSource:
    """A ``CounterSource``: one poll every ``every_s`` seconds, the first after ``first_after_s``.

    A poll that takes longer than the device's ``timeout_s`` in all is aborted, even while bytes trickle in.
    """

    def __init__(
        self, device: Device, reader: CounterReader, schedule: PollSchedule, *, first_after_s: float = 0.0
    ) -> None:
        self.switch = device.name
        self.adapter = device.platform
        self._device = device
        self._reader = reader
        self._schedule = schedule
        self._due_after_s = first_after_s
        self._due_s: float | None = None
        self._reading: asyncio.Future[Polled] | None = None

    async def next_counters(self) -> Polled:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._due_after_s if self._due_s is None else self._due_s
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        # Counted from when it was due, so that the pace holds; missed polls are not caught up.
        self._due_s = max(due_s + self._schedule.every_s, loop.time())
        async with self._schedule.slots:
            return await self._poll()

    async def close(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reader.abort()
            await asyncio.wait({self._reading}, timeout=self._device.timeout_s)
        if self._reading is not None and self._reading.done():
            retrieve(self._reading)
        self._reader.close()

    async def _poll(self) -> Polled:
        if self._reading is not None and not self._reading.done():
            raise self._late()  # the thread of the last poll still runs
        loop, timeout_s = asyncio.get_running_loop(), self._device.timeout_s
        self._reading = loop.run_in_executor(self._schedule.threads, self._reader.read)
        if not (await asyncio.wait({self._reading}, timeout=timeout_s))[0]:
            self._reader.abort()
            if not (await asyncio.wait({self._reading}, timeout=timeout_s))[0]:
                raise self._late()
        return self._reading.result()

    def _late(self) -> UnreachableError:
        return UnreachableError(
            self._device.where,
            f"no counters within {self._device.timeout_s:g} s",
            "a switch answers in time",
            "check the switch and its management network",
        )


@dataclass(slots=True)
class _SwitchStatus:
    """When a switch's counters last arrived (monotonic seconds), failures since then, and what was logged."""

    at_s: float | None = None
    failures: int = 0
    reason: str | None = None
    notes: tuple[str, ...] = ()
    problems: bool = False
    refused: bool = False


class CounterPolling:
    """``clock_s`` is monotonic seconds. After a failure a switch is retried after ``every_s``, doubled each
    time up to ``longest_wait_s``. ``stop`` shuts ``threads`` down.
    """

    def __init__(
        self,
        sources: Iterable[CounterSource],
        *,
        counters: CounterOwner,
        metrics: Metrics,
        clock_s: Callable[[], float],
        every_s: float,
        threads: ThreadPoolExecutor | None = None,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        self._sources: Sequence[CounterSource] = tuple(sources)
        self._counters = counters
        self._metrics = metrics
        self._clock_s = clock_s
        self._every_s = every_s
        self._threads = threads
        self._longest_wait_s = max(longest_wait_s, every_s)
        self._status = {source.switch: _SwitchStatus() for source in self._sources}
        self._tasks: list[asyncio.Task[None]] = []
        for source in self._sources:
            metrics.counter_polls.labels(source.adapter)
            metrics.counter_poll_age.labels(source.switch).set_function(
                partial(self._age_or_nan, source.switch)
            )

    @property
    def switches(self) -> tuple[str, ...]:
        return tuple(self._status)

    @property
    def failing(self) -> Mapping[str, str]:
        """The switches whose counters cannot be read, with the failure's reason label."""
        return {switch: status.reason for switch, status in self._status.items() if status.reason is not None}

    def age_s(self, switch: str) -> float | None:
        """Seconds since that switch's counters last arrived; None before the first, or if not polled."""
        status = self._status.get(switch)
        return None if status is None or status.at_s is None else self._clock_s() - status.at_s

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._follow(source), name=f"counters-{source.switch}")
            for source in self._sources
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        closed = await asyncio.gather(*(source.close() for source in self._sources), return_exceptions=True)
        for source, error in zip(self._sources, closed, strict=True):
            if isinstance(error, Exception):  # the other sources are closed all the same
                _log.error("the connection to switch %s could not be closed", source.switch, exc_info=error)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _follow(self, source: CounterSource) -> None:
        status = self._status[source.switch]
        while True:
            try:
                await self._add(source, status, await source.next_counters())
            except SwitchError as error:
                self._failed(source, status, error.reason, str(error))
            except Exception as error:
                _log.exception("polling the counters of switch %s failed unexpectedly", source.switch)
                self._failed(source, status, SwitchError.reason, type(error).__name__)
            else:
                continue
            await asyncio.sleep(min(self._longest_wait_s, self._every_s * 2 ** min(status.failures - 1, 16)))

    async def _add(self, source: CounterSource, status: _SwitchStatus, polled: Polled) -> None:
        if not polled.samples:
            raise NoCountersError(
                f"switch {source.switch!r} ({source.adapter})",
                "no usable counter" + "".join(f"; {note}" for note in polled.notes),
                "the switch must have counters of its ports and queues",
                "turn its counters on",
            )
        kept, given = await self._counters.add(polled.samples), len(polled.samples)
        if not kept:
            raise NoCountersError(
                f"switch {source.switch!r} ({source.adapter})",
                f"{given} samples of counters of which none could be kept",
                _KEPT_RULE,
                _KEPT_REMEDY,
            )
        if kept < given and not status.refused:
            _log.warning(
                "%d of %d samples of counters of switch %s could not be kept: %s; %s",
                *(given - kept, given, source.switch, _KEPT_RULE, _KEPT_REMEDY),
            )
        status.refused = kept < given
        status.at_s = self._clock_s()
        self._metrics.counter_polls.labels(source.adapter).inc()
        self._metrics.counter_values_refused.labels(source.adapter).inc(len(polled.problems))
        if status.failures:
            _log.info("counters of switch %s are back after %d failures", source.switch, status.failures)
            status.failures, status.reason = 0, None
        if polled.notes != status.notes:
            status.notes = polled.notes
            for note in polled.notes or ("it counts all that matters now",):
                _log.info("counters of switch %s: %s", source.switch, note)
        if polled.problems and not status.problems:
            count, first = len(polled.problems), polled.problems[0]
            _log.warning("%d counters of switch %s were left out: %s", count, source.switch, first)
        status.problems = bool(polled.problems)

    def _failed(self, source: CounterSource, status: _SwitchStatus, reason: str, said: str) -> None:
        self._metrics.counter_poll_failures.labels(source.adapter, reason).inc()
        status.failures += 1
        if reason != status.reason:
            status.reason = reason
            _log.warning("no counters from switch %s: %s", source.switch, said)

    def _age_or_nan(self, switch: str) -> float:
        age_s = self.age_s(switch)
        return math.nan if age_s is None else age_s


_PLATFORMS = {
    "openconfig": "service.polling.gnmi:openconfig_source",
    "sonic": "service.polling.sonic:sonic_source",
    "sonic-gnmi": "service.polling.sonic_gnmi:sonic_gnmi_source",
}


def counter_polling(
    devices: Iterable[Device],
    settings: CounterPollSettings,
    counters: CounterOwner,
    *,
    metrics: Metrics,
    clock_s: Callable[[], float],
) -> CounterPolling:
    """The poller of these switches, spread evenly over an interval; it polls none if polling is off."""
    followed = [device for device in devices if settings.poll and device.platform in _PLATFORMS]
    threads = ThreadPoolExecutor(settings.at_once, thread_name_prefix="ecntwin-poll") if followed else None
    sources: list[CounterSource] = []
    if threads is not None:
        schedule = PollSchedule(settings.every_s, threads, asyncio.Semaphore(settings.at_once))
        for number, device in enumerate(followed):
            first_after_s = settings.every_s * number / len(followed)
            make: Callable[..., CounterSource] = resolve_name(_PLATFORMS[device.platform])
            sources.append(make(device, schedule, first_after_s=first_after_s))
    return CounterPolling(
        sources,
        counters=counters,
        metrics=metrics,
        clock_s=clock_s,
        every_s=settings.every_s,
        threads=threads,
    )

"""Follows the counters of many switches into the window; one that fails never stops another.

Must not know how any of them is asked.

Which switches of the inventory give counters, and how each is asked.

A platform is imported when it is met.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from service.ingest.counter_owner import CounterOwner
from service.metrics import Metrics
from service.polling.base import CounterSource, NoCountersError, PollSchedule
from settings.sections import CounterPollSettings
from switches.device import Device
from switches.errors import SwitchError
from telemetry.decode.body import Polled

LONGEST_WAIT_S = 60.0

_KEPT_RULE = "a port or queue is told once, in order of time, and has room"
_KEPT_REMEDY = (
    "ecntwin_switch_samples_rejected_total says why: no_room, raise telemetry.counters.max_series; late, "
    "look at the switch's clock, and send its counters by no other way"
)

_log = logging.getLogger("ecntwin.counters")


@dataclass(slots=True)
class _Heard:
    """Of one switch: when counters last came (monotonic seconds), failures since, and what was logged."""

    at_s: float | None = None
    failures: int = 0
    reason: str | None = None
    notes: tuple[str, ...] = ()
    problems: bool = False
    refused: bool = False


class CounterPolling:
    """``clock_s`` is monotonic seconds. After a failure a switch is asked again after ``every_s``, then twice
    as long and so on up to ``longest_wait_s``. ``threads`` are ended with it.
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
        self._heard = {source.switch: _Heard() for source in self._sources}
        self._tasks: list[asyncio.Task[None]] = []
        for source in self._sources:
            metrics.counter_polls.labels(source.adapter)
            metrics.counter_poll_age.labels(source.switch).set_function(self._age_of(source.switch))

    @property
    def switches(self) -> tuple[str, ...]:
        """Those whose counters are followed."""
        return tuple(self._heard)

    @property
    def failing(self) -> Mapping[str, str]:
        """The switches whose counters do not come, and the reason of each, as failures are counted."""
        return {switch: heard.reason for switch, heard in self._heard.items() if heard.reason is not None}

    def age_s(self, switch: str) -> float | None:
        """Seconds since that switch's counters last came; None before the first, and where none are asked."""
        heard = self._heard.get(switch)
        return None if heard is None or heard.at_s is None else self._clock_s() - heard.at_s

    def start(self) -> None:
        """Begins to follow all of them, on the running event loop."""
        self._tasks = [
            asyncio.create_task(self._follow(source), name=f"counters-{source.switch}")
            for source in self._sources
        ]

    async def stop(self) -> None:
        """Ends that, and lets go of connections and threads."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        closed = await asyncio.gather(*(source.close() for source in self._sources), return_exceptions=True)
        for source, error in zip(self._sources, closed, strict=True):
            if isinstance(error, Exception):  # nobody else's connection, and no thread, is left for it
                _log.error("switch %s could not be let go of", source.switch, exc_info=error)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _follow(self, source: CounterSource) -> None:
        heard = self._heard[source.switch]
        while True:
            try:
                await self._take(source, heard, await source.next_counters())
            except SwitchError as error:
                self._failed(source, heard, error.reason, str(error))
            except Exception as error:
                _log.exception("asking switch %s for counters failed in a way it should not", source.switch)
                self._failed(source, heard, SwitchError.reason, type(error).__name__)
            else:
                continue
            await asyncio.sleep(min(self._longest_wait_s, self._every_s * 2 ** min(heard.failures - 1, 16)))

    async def _take(self, source: CounterSource, heard: _Heard, polled: Polled) -> None:
        if not polled.samples:
            raise NoCountersError(
                f"switch {source.switch!r} ({source.adapter})",
                "no counter that can be believed" + "".join(f"; {note}" for note in polled.notes),
                "the switch reads the counters of its ports and queues",
                "turn them on there",
            )
        kept, given = await self._counters.add(polled.samples), len(polled.samples)
        if not kept:
            raise NoCountersError(
                f"switch {source.switch!r} ({source.adapter})",
                f"{given} samples of counters of which none could be kept",
                _KEPT_RULE,
                _KEPT_REMEDY,
            )
        if kept < given and not heard.refused:
            _log.warning(
                "%d of %d samples of counters of switch %s could not be kept: %s; %s",
                *(given - kept, given, source.switch, _KEPT_RULE, _KEPT_REMEDY),
            )
        heard.refused = kept < given
        heard.at_s = self._clock_s()
        self._metrics.counter_polls.labels(source.adapter).inc()
        self._metrics.counter_values_refused.labels(source.adapter).inc(len(polled.problems))
        if heard.failures:
            _log.info("counters of switch %s come again, after %d failures", source.switch, heard.failures)
            heard.failures, heard.reason = 0, None
        if polled.notes != heard.notes:
            heard.notes = polled.notes
            for note in polled.notes or ("it counts all that matters now",):
                _log.info("counters of switch %s: %s", source.switch, note)
        if polled.problems and not heard.problems:
            count, first = len(polled.problems), polled.problems[0]
            _log.warning("%d counters of switch %s were left out: %s", count, source.switch, first)
        heard.problems = bool(polled.problems)

    def _failed(self, source: CounterSource, heard: _Heard, reason: str, said: str) -> None:
        self._metrics.counter_poll_failures.labels(source.adapter, reason).inc()
        heard.failures += 1
        if reason != heard.reason:
            heard.reason = reason
            _log.warning("no counters from switch %s: %s", source.switch, said)

    def _age_of(self, switch: str) -> Callable[[], float]:
        def age() -> float:
            age_s = self.age_s(switch)
            return math.nan if age_s is None else age_s

        return age


_PLATFORMS = {
    "openconfig": "service.polling.gnmi:openconfig_source",
    "sonic": "service.polling.sonic:sonic_source",
    "sonic-gnmi": "service.polling.sonic_gnmi:sonic_gnmi_source",
}
PLATFORMS = tuple(_PLATFORMS)
"""The platforms whose counters are asked for."""


class SourceMaker(Protocol):
    """Makes the source of one switch without asking it; raises ``InventoryError`` for one it cannot use."""

    def __call__(self, device: Device, schedule: PollSchedule, *, first_after_s: float) -> CounterSource: ...


def counter_polling(
    devices: Iterable[Device],
    settings: CounterPollSettings,
    counters: CounterOwner,
    *,
    metrics: Metrics,
    clock_s: Callable[[], float],
) -> CounterPolling:
    """Who follows the counters of these switches; of none where that is off.

    Their first schedule are spread over one interval, and so are all that follow.
    """
    followed = [device for device in devices if settings.poll and device.platform in _PLATFORMS]
    threads = ThreadPoolExecutor(settings.at_once, thread_name_prefix="ecntwin-poll") if followed else None
    sources: list[CounterSource] = []
    if threads is not None:
        schedule = PollSchedule(settings.every_s, threads, asyncio.Semaphore(settings.at_once))
        for number, device in enumerate(followed):
            first_after_s = settings.every_s * number / len(followed)
            sources.append(_maker(device.platform)(device, schedule, first_after_s=first_after_s))
    return CounterPolling(
        sources,
        counters=counters,
        metrics=metrics,
        clock_s=clock_s,
        every_s=settings.every_s,
        threads=threads,
    )


def _maker(platform: str) -> SourceMaker:
    module, _, name = _PLATFORMS[platform].partition(":")
    maker: SourceMaker = getattr(import_module(module), name)
    return maker

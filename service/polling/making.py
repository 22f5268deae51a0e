"""Which switches of the inventory give counters, and how each is asked.

A platform is imported when it is met.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Protocol

from service.ingest.counter_owner import Counting
from service.metrics import Metrics
from service.polling.api_counter_sources_base import CounterSource
from service.polling.base import Turns
from service.polling.poller import CounterPolling
from settings.counter_settings import CounterPollSettings
from switches.device import Device

_PLATFORMS = {
    "openconfig": "service.polling.openconfig:openconfig_source",
    "sonic": "service.polling.sonic:sonic_source",
    "sonic-gnmi": "service.polling.sonic_gnmi:sonic_gnmi_source",
}
PLATFORMS = tuple(_PLATFORMS)
"""The platforms whose counters are asked for."""


class SourceMaker(Protocol):
    """Makes the source of one switch without asking it; raises ``InventoryError`` for one it cannot use."""

    def __call__(self, device: Device, turns: Turns, *, first_after_s: float) -> CounterSource: ...


def counter_polling(
    devices: Iterable[Device],
    settings: CounterPollSettings,
    *,
    counting: Counting,
    metrics: Metrics,
    clock_s: Callable[[], float],
) -> CounterPolling:
    """Who follows the counters of these switches; of none where that is off.

    Their first turns are spread over one interval, and so are all that follow.
    """
    followed = [device for device in devices if settings.poll and device.platform in _PLATFORMS]
    threads = ThreadPoolExecutor(settings.at_once, thread_name_prefix="ecntwin-poll") if followed else None
    sources: list[CounterSource] = []
    if threads is not None:
        turns = Turns(settings.every_s, threads, asyncio.Semaphore(settings.at_once))
        for number, device in enumerate(followed):
            first_after_s = settings.every_s * number / len(followed)
            sources.append(_maker(device.platform)(device, turns, first_after_s=first_after_s))
    return CounterPolling(
        sources,
        counting=counting,
        metrics=metrics,
        clock_s=clock_s,
        every_s=settings.every_s,
        threads=threads,
    )


def _maker(platform: str) -> SourceMaker:
    module, _, name = _PLATFORMS[platform].partition(":")
    maker: SourceMaker = getattr(import_module(module), name)
    return maker

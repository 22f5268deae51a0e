"""A read of what a switch hashes by is one for all who ask meanwhile."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from service.rollouts.rehash import Rehash
from service.switches.adapters import Adapters
from service.switches.fleet import Fleet
from settings.twin import IncumbentSettings
from switches.base import SwitchAdapter
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.errors import UnreachableError
from switches.hashing.base import HashAdapter
from switches.hashing.values import HashReading
from twin.watermark import Watermark

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0
FOUND = HashReading(setting="seed", value="50")


def device(switch: str, running: Watermark) -> Device:
    return Device(name=switch, platform="dry-run", running=running)


class Slow(HashAdapter):
    """Answers once ``free`` is set."""

    def __init__(self, of: Device) -> None:
        super().__init__(of)
        self.begun, self.free = threading.Event(), threading.Event()
        self.asked = 0
        self.fails: UnreachableError | None = None

    def read(self) -> HashReading:
        self.asked += 1
        self.begun.set()
        assert self.free.wait(PATIENCE_S)
        if self.fails is not None:
            raise self.fails
        return FOUND

    def close(self) -> None:
        """Has no connections."""


async def test_all_who_ask_at_one_time_get_one_reading_and_a_step_waits_for_no_other() -> None:
    slow = Slow(device("leaf1", IncumbentSettings().default.watermark()))
    adapters = SimpleNamespace(
        names=("leaf1",),
        make=lambda switch, running: DryRunAdapter(device(switch, running), clock_ns=lambda: 7),
        make_hash=lambda switch, running: slow,
    )
    fleet = Fleet(IncumbentSettings(), cast(Adapters, adapters))
    unused: Any = None
    rehash = Rehash(settings=unused, fleet=fleet, rollouts=unused, watcher=unused)

    def step(_: SwitchAdapter) -> int:
        return slow.asked

    try:
        gone, *asking = [asyncio.create_task(rehash.read("leaf1")) for _ in range(60)]
        assert await asyncio.to_thread(slow.begun.wait, PATIENCE_S)
        gone.cancel()
        stepping = asyncio.create_task(fleet.step("leaf1", step))
        asking += [asyncio.create_task(rehash.read("leaf1")) for _ in range(60)]
        await asyncio.wait([gone])
        slow.free.set()
        assert await asyncio.gather(*asking) == [FOUND] * 119
        assert gone.cancelled()
        assert (await stepping, slow.asked) == (1, 1)
        slow.fails = UnreachableError("switch 'leaf1'", None, "it answers", "bring it back")
        told = await asyncio.gather(*[rehash.read("leaf1") for _ in range(60)], return_exceptions=True)
        assert (told, slow.asked) == ([slow.fails] * 60, 2)
    finally:
        slow.free.set()
        fleet.close()

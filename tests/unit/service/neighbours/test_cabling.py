"""The cabling while the service runs: a reading that fails is no end, and a stop ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from service.neighbours import cabling as module
from service.neighbours.cabling import Cabling
from service.neighbours.reader import Seen
from settings.sections import NeighbourSettings
from switches.device import Device
from telemetry.neighbours.merge import Assumed
from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours

pytestmark = pytest.mark.anyio

SEEN = {"leaf1": Seen(SwitchNeighbours((Neighbour("Ethernet0", "h1"),), {"Ethernet0": Port(100.0)}))}


async def never(seconds: float) -> None:
    pytest.fail(f"it waits {seconds} s")


def made(sleep: Callable[[float], Awaitable[None]] = never, **settings: Any) -> Cabling:
    return Cabling(
        {"leaf1": Device(name="leaf1", platform="sonic")},
        NeighbourSettings(**settings),
        Assumed(),
        declared=lambda: None,
        wall_ns=lambda: 7,
        sleep=sleep,
    )


async def test_it_ends_at_once_where_nothing_is_to_be_read() -> None:
    cabling = made()
    await cabling.run_forever()
    assert await cabling.current() is None
    assert await cabling.findings() == []


async def test_a_reading_that_fails_is_logged_and_read_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[int] = []
    waits: list[float] = []
    second = asyncio.Event()

    def reading(devices: Any, **how: Any) -> dict[str, Seen]:
        asked.append(how["at_once"])
        if len(asked) == 1:
            raise RuntimeError("a bug")
        return SEEN

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            second.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(module, "read_neighbours", reading)
    cabling = made(sleep, read=True, at_once=3, every_s=60)
    running = asyncio.create_task(cabling.run_forever())
    await second.wait()
    found = await cabling.current()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (asked, waits) == ([3, 3], [60, 60])
    assert "reading LLDP neighbours failed" in caplog.text
    assert found is not None
    assert (found.read_ns, len(found.merged.topology.links)) == (7, 1)

"""The cabling while the service runs: a reading that fails is no end, and a stop ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from service.neighbours import cabling as module
from service.neighbours.cabling import Cabling
from service.neighbours.reader import Seen
from settings.telemetry import NeighbourSettings
from switches.device import Device
from switches.errors import SwitchError
from telemetry.neighbours.merge import Assumed, Merged, merge
from telemetry.neighbours.model import Neighbour, Port, SwitchNeighbours
from telemetry.topology import Host, Link, Topology

pytestmark = pytest.mark.anyio

SEEN = {"leaf1": Seen(SwitchNeighbours((Neighbour("Ethernet0", "h1"),), {"Ethernet0": Port(100.0)}))}


async def never(seconds: float) -> None:
    pytest.fail(f"it waits {seconds} s")


def made(
    sleep: Callable[[float], Awaitable[None]] = never,
    declared: Callable[[], Topology | None] = lambda: None,
    wall_ns: Callable[[], int] = lambda: 7,
    **settings: Any,
) -> Cabling:
    return Cabling(
        {"leaf1": Device(name="leaf1", platform="sonic")},
        NeighbourSettings(**settings),
        Assumed(),
        declared=declared,
        wall_ns=wall_ns,
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


async def test_a_reading_that_ends_during_a_comparison_is_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compares, goes_on = threading.Event(), threading.Event()
    declared: list[Topology] = []
    times = iter((7, 8))

    def merging(*known: Any, **how: Any) -> Merged:
        if declared and not compares.is_set():  # the first comparison with what is declared meanwhile
            compares.set()
            assert goes_on.wait(60)
        return merge(*known, **how)

    monkeypatch.setattr(module, "read_neighbours", lambda devices, **how: SEEN)
    monkeypatch.setattr(module, "merge", merging)
    cabling = made(declared=lambda: declared[-1] if declared else None, wall_ns=lambda: next(times))
    await cabling.read()
    link = Link("leaf1", "h1", rate_gbps=100.0, delay_us=1.0, a_port="Ethernet0")
    declared.append(Topology((Host("h1"),), ("leaf1",), (link,)))
    asked = asyncio.create_task(cabling.current())
    assert await asyncio.to_thread(compares.wait, 60)
    await cabling.read()
    goes_on.set()
    for found in (await asked, await cabling.current()):
        assert found is not None
        assert (found.read_ns, found.declared) == (8, declared[-1])


async def test_what_differs_at_a_switch_that_is_not_read_still_does(monkeypatch: pytest.MonkeyPatch) -> None:
    link = Link("leaf1", "h2", rate_gbps=100.0, delay_us=1.0, a_port="Ethernet0")
    declared = [Topology((Host("h2"),), ("leaf1",), (link,))]
    unread = {"leaf1": Seen(failure=SwitchError("switch 'leaf1'", "nothing", "it answers", "look at it"))}
    cabling = made(declared=lambda: declared[-1])

    async def told(seen: dict[str, Seen]) -> dict[str, float]:
        monkeypatch.setattr(module, "read_neighbours", lambda devices, **how: seen)
        await cabling.read()
        return {one.subject.of: one.value for one in await cabling.findings()}

    for seen in (SEEN, unread, unread):
        assert (await told(seen))["leaf1"] == 1.0
    declared.append(Topology((Host("h1"),), ("leaf1",), (replace(link, b="h1"),)))
    assert await told(unread) == {"leaf1": 0.0}

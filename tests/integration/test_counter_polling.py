"""Counters of the inventory's switches in the running service: in the window, the metrics and the guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.rollouts.watch import Watcher
from tests.counterparts.one_loop import one_loop
from tests.counterparts.polled.openconfig_counters import OpenConfigCounting
from tests.counterparts.polled.sonic_counters import CountersDb
from tests.counterparts.redis_server import RedisServer
from tests.counterparts.switches.gnmi_switch import GnmiSwitch
from tests.integration.service import PATIENCE_S, Running, Wanted, manual, running

__all__ = ["one_loop"]

pytestmark = pytest.mark.anyio

S = 1_000_000_000
LOOK_S = 0.02


@pytest.fixture
def sonic(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis")
    yield server
    server.close()


@pytest.fixture
def counters(sonic: RedisServer) -> Iterator[CountersDb]:
    made = CountersDb(sonic)
    yield made
    made.close()


def settings(folder: Path, switches: dict[str, Any], **polling: Any) -> Wanted:
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump({"switches": switches}))
    return Wanted(
        settings=manual(push={"inventory": path}, telemetry={"counters": {"every_s": 1.0} | polling})
    )


def redis_at(port: int) -> dict[str, Any]:
    return {"platform": "sonic", "address": "127.0.0.1", "port": port, "timeout_s": PATIENCE_S}


@pytest.fixture
async def here(tmp_path: Path, sonic: RedisServer, counters: CountersDb) -> AsyncIterator[Running]:
    async with running(settings(tmp_path, {"leaf1": redis_at(sonic.port)})) as started:
        yield started


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Looks until it is so: what comes is a switch's own doing, and nobody here is told of it."""
    for _ in range(round(PATIENCE_S / LOOK_S)):
        if await true():
            return
        await asyncio.sleep(LOOK_S)
    pytest.fail("it never became so")


async def looked(here: Running, adapter: str = "sonic", more: int = 1) -> None:
    """Until it was looked at so many times more, from begin to end."""
    name = "ecntwin_counter_polls_total"
    wanted = (here.metric(name, adapter=adapter) or 0) + more + 1  # the one under way may have begun before

    async def enough() -> bool:
        return (here.metric(name, adapter=adapter) or 0) >= wanted

    await until(enough)


async def test_counters_of_a_sonic_switch_reach_the_window_and_the_guards(
    here: Running, counters: CountersDb
) -> None:
    await looked(here)
    watcher = Watcher(here.service.window, here.service.counters, silence_s=60.0)
    mark = await watcher.mark(["leaf1"])
    counters.grow("Ethernet0", SAI_PORT_STAT_PFC_3_TX_PKTS=1_000, SAI_PORT_STAT_PFC_4_TX_PKTS=9)
    counters.grow("Ethernet0:3", SAI_QUEUE_STAT_DROPPED_PACKETS=40, SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS=7)
    await looked(here)
    newest_ns = await here.service.counters.newest_ns(["leaf1"])
    assert newest_ns is not None
    grown = await here.service.counters.increase(["leaf1"], mark.counters_ns["leaf1"], newest_ns)
    assert grown.counters[:4] == (1_000, 0, 0, 7)
    assert grown.counters.dropped_packets == 40
    assert grown.ports == 2
    figures = await watcher.since(mark, ["leaf1"])
    last_ns = await here.service.counters.newest_ns(["leaf1"])
    assert last_ns is not None
    later = await here.service.counters.increase(["leaf1"], mark.counters_ns["leaf1"], last_ns)
    assert figures.pfc_frames_per_s is not None  # over the time until then, or until a look in between
    assert 1_000 / later.covered_s <= figures.pfc_frames_per_s <= 1_000 / grown.covered_s
    assert figures.drops_per_s is not None
    assert figures.drops_per_s > 0
    assert figures.pause_share == 0.0
    assert here.metric("ecntwin_counter_poll_age_seconds", switch="leaf1") == 0.0  # the hand's clock stands


async def test_what_is_not_counted_is_no_good_news(here: Running, counters: CountersDb) -> None:
    counters.group("QUEUE", "disable")
    counters.group("PORT", "disable")
    watcher = Watcher(here.service.window, here.service.counters, silence_s=60.0)
    await looked(here)
    mark = await watcher.mark(["leaf1"])
    await looked(here)
    figures = await watcher.since(mark, ["leaf1"])
    assert (figures.pfc_frames_per_s, figures.drops_per_s) == (None, None)


async def test_a_switch_that_goes_away_is_told_and_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = RedisServer(tmp_path / "redis")
    db = CountersDb(first)
    other = GnmiSwitch(OpenConfigCounting())
    switches = {
        "leaf1": redis_at(first.port),
        "leaf2": {
            "platform": "openconfig",
            "address": "127.0.0.1",
            "port": other.port,
            "tls": {"enabled": False},
            "timeout_s": PATIENCE_S,
        },
    }
    async with running(settings(tmp_path, switches)) as here:
        await looked(here)
        db.close()
        first.close()

        async def failed() -> bool:
            labels = {"adapter": "sonic", "reason": "unreachable"}
            return (here.metric("ecntwin_counter_poll_failures_total", **labels) or 0) >= 2

        await until(failed)
        assert here.service.pipeline.counter_polling.failing == {"leaf1": "unreachable"}
        await looked(here, "openconfig")
        again = RedisServer(tmp_path / "redis")
        back = CountersDb(again)
        with again.client(0) as client:
            client.config_set("port", first.port)  # not before: one without counters would be told too
        await looked(here)
        assert here.service.pipeline.counter_polling.failing == {}
        text = (await here.client.get("/metrics")).text
        assert 'ecntwin_counter_poll_age_seconds{switch="leaf2"}' in text
        back.close()
        again.close()
    other.close()
    said = [record.getMessage() for record in caplog.records if record.name == "ecntwin.counters"]
    assert sum(line.startswith("no counters from switch leaf1: ") for line in said) == 1
    assert not any("switch leaf2:" in line and "no counters from" in line for line in said)


async def test_polling_may_be_off(tmp_path: Path, sonic: RedisServer) -> None:
    wanted = settings(tmp_path, {"leaf1": redis_at(sonic.port)}, poll=False)
    async with running(wanted) as here:
        assert here.service.pipeline.counter_polling.switches == ()


async def test_only_platforms_that_offer_counters_are_asked(tmp_path: Path) -> None:
    async with running(settings(tmp_path, {"leaf1": {"platform": "dry-run"}})) as here:
        assert here.service.pipeline.counter_polling.switches == ()
        assert here.metric("ecntwin_counter_poll_age_seconds", switch="leaf1") is None

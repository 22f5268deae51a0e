"""LLDP neighbours in the running service: beside the declared topology, and alarms where they differ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.counterparts.one_loop import one_loop
from tests.counterparts.polled.lldp import Agent, Row, lay_sonic
from tests.counterparts.redis_server import RedisServer
from tests.integration.service import PATIENCE_S, Running, Wanted, manual, running

__all__ = ["one_loop"]

pytestmark = pytest.mark.anyio

LOOK_S = 0.02
AGENT = Agent("leaf1", (Row("Ethernet0", "h1", "ens1f0"), Row("Ethernet4", "h2", "ens1f0")))


@pytest.fixture
def sonic(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis")
    lay_sonic(server, AGENT)
    yield server
    server.close()


def wanted(folder: Path, port: int, **neighbours: Any) -> Wanted:
    leaf1 = {"platform": "sonic", "address": "127.0.0.1", "port": port, "timeout_s": PATIENCE_S}
    path = folder / "inventory.yaml"
    path.write_text(yaml.safe_dump({"switches": {"leaf1": leaf1, "leaf2": {"platform": "dry-run"}}}))
    telemetry = {"counters": {"poll": False}, "neighbours": neighbours}
    return Wanted(settings=manual(push={"inventory": path}, telemetry=telemetry))


@pytest.fixture
async def here(tmp_path: Path, sonic: RedisServer) -> AsyncIterator[Running]:
    async with running(wanted(tmp_path, sonic.port)) as started:
        yield started


def declared(*ports: str) -> dict[str, Any]:
    """Host after host at these ports of leaf1."""
    return {
        "hosts": [{"name": f"h{number}"} for number in range(1, len(ports) + 1)],
        "switches": [{"name": "leaf1"}, {"name": "leaf2"}],
        "links": [
            {"a": f"h{number}", "b": "leaf1", "b_port": port, "rate_gbps": 100, "delay_us": 2.5}
            for number, port in enumerate(ports, 1)
        ],
    }


async def alarms(here: Running) -> list[dict[str, Any]]:
    """Those of the cabling, after another look."""
    await here.service.alarms.check()
    found = (await here.client.get("/v1/alarms")).json()["alarms"]
    return [one for one in found if one["kind"] == "cabling"]


async def test_neighbours_are_not_read_unless_it_is_wanted(here: Running) -> None:
    assert (await here.get("/v1/topology"))["neighbours"] is None
    assert await alarms(here) == []


async def test_neighbours_are_beside_what_is_declared_and_differences_are_alarms(here: Running) -> None:
    await here.service.cabling.read()
    seen = (await here.get("/v1/topology"))["neighbours"]
    assert [one["a_port"] for one in seen["topology"]["links"]] == ["ens1f0", "ens1f0"]
    assert seen["differences"] == seen["problems"] == []
    assert [one["switch"] for one in seen["unread"]] == ["leaf2"]
    assert await alarms(here) == []
    await here.client.put("/v1/topology", json=declared("Ethernet4", "Ethernet0"))
    seen = (await here.get("/v1/topology"))["neighbours"]
    assert [one["kind"] for one in seen["differences"]] == ["moved", "moved"]
    (alarm,) = await alarms(here)
    assert (alarm["subject"], alarm["switch"], alarm["level"]) == ("leaf1", "leaf1", "warning")
    assert alarm["sentence"].startswith(
        "h2 <-> leaf1:Ethernet0 is declared, LLDP sees h1:ens1f0 <-> leaf1:Ethernet0; the latter is taken"
    )
    assert alarm["sentence"].endswith("; and 1 more on leaf1")
    await here.client.put("/v1/topology", json=declared("Ethernet0", "Ethernet4"))
    assert await alarms(here) == []
    assert {
        one["delay_us"] for one in (await here.get("/v1/topology"))["neighbours"]["topology"]["links"]
    } == {2.5}


async def test_a_cable_that_is_moved_is_told_by_the_next_reading(here: Running, sonic: RedisServer) -> None:
    await here.client.put("/v1/topology", json=declared("Ethernet0", "Ethernet4"))
    await here.service.cabling.read()
    assert await alarms(here) == []
    lay_sonic(sonic, Agent("leaf1", (Row("Ethernet0", "h1", "ens1f0"), Row("Ethernet8", "h2", "ens1f0"))))
    await here.service.cabling.read()
    (alarm,) = await alarms(here)
    assert alarm["sentence"] == (
        "LLDP sees h2:ens1f0 <-> leaf1:Ethernet8, which is not declared; it is added; and 1 more on leaf1"
    )


async def test_the_service_reads_them_by_itself_where_it_is_wanted(
    tmp_path: Path, sonic: RedisServer
) -> None:
    async with running(wanted(tmp_path, sonic.port, read=True, every_s=3600)) as here:
        for _ in range(round(PATIENCE_S / LOOK_S)):
            if (await here.get("/v1/topology"))["neighbours"] is not None:
                break
            await asyncio.sleep(LOOK_S)
        assert len((await here.get("/v1/topology"))["neighbours"]["topology"]["links"]) == 2

"""A SONiC switch's counters behind a real redis-server, one server for all tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from switches.device import Device
from tests.counterparts.polled.sonic_counters import CountersDb
from tests.counterparts.redis_server import RedisServer

Describe = Callable[..., Device]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    started = RedisServer(tmp_path_factory.mktemp("redis"))
    yield started
    started.close()


@pytest.fixture
def counters(server: RedisServer) -> Iterator[CountersDb]:
    with server.client(0) as client:
        client.flushall()
    made = CountersDb(server)
    yield made
    made.close()


@pytest.fixture
def describe(server: RedisServer) -> Describe:
    """The switch as an inventory has it."""

    def made(**said: Any) -> Device:
        described: dict[str, Any] = {"address": "127.0.0.1", "port": server.port, "queues": (3, 4)} | said
        return Device(name="leaf1", platform="sonic", **described)

    return made

"""A SONiC switch on loopback, made anew for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from switches.device import Device
from switches.sonic.redis_adapter import SonicAdapter
from tests.counterparts.switches.sonic_switch import SonicSwitch
from twin.watermark import Watermark

PORTS = ("Ethernet0", "Ethernet4", "Ethernet8")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SonicSwitch]:
    switch = SonicSwitch(
        tmp_path_factory.mktemp("sonic"), ports=PORTS, watermark=Watermark(400_000, 1_600_000, 0.2)
    )
    yield switch
    switch.close()


@pytest.fixture
def switch(started: SonicSwitch) -> SonicSwitch:
    started.queue_map = True
    started.reset()
    return started


@pytest.fixture
def adapter(switch: SonicSwitch) -> Callable[..., SonicAdapter]:
    """Makes an adapter to the switch, as another process would; its arguments change its ``Device``."""

    def make(**fields: Any) -> SonicAdapter:
        described: dict[str, Any] = {
            "address": "127.0.0.1",
            "port": switch.port,
            "settle_s": 60.0,
            "timeout_s": 60.0,
        } | fields
        return SonicAdapter(Device(name="leaf1", platform="sonic", **described), clock_ns=lambda: 7)

    return make

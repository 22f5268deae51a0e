"""Alarms as the service keeps them: told worst first and not too many; a look that fails ends none."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from service.alarms.checks import CheckResult
from service.alarms.service import MOST_PUBLISHED, Alarms
from service.events import Broadcaster, Clocks, Event
from service.network_metrics import NetworkMetrics
from settings.sections import AlarmSettings
from telemetry.alarms import Finding, Subject
from telemetry.counters.window import PortRates, Rates

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class World:
    """What is found, and the time."""

    def __init__(self, **settings: Any) -> None:
        self.findings: list[Finding] = []
        self.ports: tuple[PortRates, ...] = ()
        self.now_s = 50.0
        self.wall_ns = 1_767_225_600_000_000_000
        self.fails = False
        self.looked = asyncio.Event()
        self.registry = CollectorRegistry()
        self.events = Broadcaster()
        self.alarms = Alarms(
            AlarmSettings(hold_s=0, clear_s=0, **settings),
            cast(Any, self),
            metrics=NetworkMetrics(self.registry),
            events=self.events,
            clocks=Clocks(lambda: self.now_s, lambda: self.wall_ns),
        )

    async def run(self, awaited: frozenset[str]) -> CheckResult:
        self.looked.set()
        if self.fails:
            self.fails = False
            raise RuntimeError("the network is on fire")
        return CheckResult(list(self.findings), self.ports)

    def storm(self, port: int, share: float, switch: str = "leaf1") -> Finding:
        return Finding(Subject("pfc_storm", f"{switch} {port}", switch), share, f"port {port} is paused")

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def heard(queue: asyncio.Queue[Event | None]) -> list[Event]:
    found = []
    while not queue.empty():
        event = queue.get_nowait()
        assert event is not None
        found.append(event)
    return found


async def test_a_flood_is_told_worst_first_and_the_rest_by_number() -> None:
    world = World()
    world.findings = [world.storm(port, 0.1 if port < 40 else 0.5) for port in range(50)]
    with world.events.listen() as queue:
        assert len(await world.alarms.check()) == 50
        told = heard(queue)
    assert len(told) == MOST_PUBLISHED + 1
    assert [event.data["level"] for event in told[:12]] == ["critical"] * 10 + ["warning"] * 2
    assert told[-1].data == {"what": "more", "count": 50 - MOST_PUBLISHED}
    assert world.metric("ecntwin_alarms", kind="pfc_storm", level="warning") == 40
    assert world.metric("ecntwin_alarms_raised_total", kind="pfc_storm") == 50


async def test_times_are_told_by_the_wall_clock_of_now() -> None:
    world = World()
    world.findings = [world.storm(1, 0.5)]
    await world.alarms.check()
    world.now_s += 90
    world.wall_ns += 90_000_000_000 + 3_600_000_000_000  # somebody has set it an hour on
    document = world.alarms.document(limit=10, ended=False)
    assert document.looked == document.alarms[0].since == "2026-01-01T01:00:00.000Z"


async def test_who_is_held_back_and_why() -> None:
    world = World()
    world.findings = [world.storm(port, 0.5) for port in range(5)]
    world.findings.append(Finding(Subject("telemetry_silent", "INT reports"), 1e3, "nothing comes"))
    world.findings.append(Finding(Subject("unreachable", "leaf2", "leaf2"), 1e3, "it does not answer"))
    await world.alarms.check()
    said = world.alarms.holding(["leaf1", "leaf2"])
    assert said is not None
    assert "pfc_storm on leaf1 0; pfc_storm on leaf1 1; pfc_storm on leaf1 2 and 2 more" in said
    assert world.alarms.holding(["leaf2"]) is None
    assert world.alarms.holding([]) is None


async def test_a_look_that_fails_changes_nothing_and_is_not_the_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(every_s=0.001)
    world.findings = [world.storm(1, 0.5)]
    await world.alarms.check()
    world.fails = True
    world.looked.clear()
    with caplog.at_level(logging.ERROR, "ecntwin.alarms"):
        task = asyncio.create_task(world.alarms.run_forever())
        await world.looked.wait()
        world.looked.clear()
        await world.looked.wait()
        task.cancel()
    assert "they stay as they are" in caplog.text
    assert len(world.alarms.active) == 1


async def test_rates_are_summed_by_switch_and_taken_away_with_it() -> None:
    world = World()
    world.ports = (
        PortRates("leaf1", "1", 1.0, Rates(pause_share=0.1, drops_per_s=2.0), {}),
        PortRates("leaf1", "2", 1.0, Rates(pause_share=0.3, drops_per_s=5.0), {}),
        PortRates("leaf2", "1", 1.0, Rates(pause_share=0.2), {}),
    )
    await world.alarms.check()
    assert world.metric("ecntwin_switch_pause_ratio", switch="leaf1") == 0.3
    assert world.metric("ecntwin_switch_dropped_packets_per_second", switch="leaf1") == 7
    assert world.metric("ecntwin_switch_dropped_packets_per_second", switch="leaf2") is None
    world.ports = world.ports[2:]
    await world.alarms.check()
    assert world.metric("ecntwin_switch_pause_ratio", switch="leaf1") is None
    assert world.metric("ecntwin_switch_pause_ratio", switch="leaf2") == 0.2

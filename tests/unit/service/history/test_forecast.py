"""Forecasts over HTTP: of the history that the database holds, and sentences where that does not do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from store.queue_rows import PortStep, write_step
from tests.integration.http.test_history import get
from tests.integration.service import EPOCH_NS, TOPOLOGY, Running, Wanted, manual, running

pytestmark = pytest.mark.anyio

S = 1_000_000_000
RATE = 12.5e9
PATH = "/v1/history/forecast"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Running]:
    settings = manual(
        storage={"url": f"sqlite:///{tmp_path}/ecntwin.db", "history_coarser": {60: 14}},
        alarms={"every_s": 86_400.0},
    )
    async with running(Wanted(settings=settings)) as made:
        await made.client.put("/v1/topology", json=TOPOLOGY)
        yield made


async def write(
    here: Running, step_s: int, steps: int, *ports: Callable[[int], float | None], skip: range = range(0)
) -> None:
    """Steps up to now in which Ethernet0, Ethernet1, … send so much; without a row where that is below 0."""
    now_ns = EPOCH_NS + round(here.hand.now_s * 1e9)
    until = now_ns // (step_s * S)

    def rows(number: int) -> list[PortStep]:
        sent = [(f"Ethernet{port}", bytes_per_s(number)) for port, bytes_per_s in enumerate(ports)]
        return [
            PortStep("leaf1", name, None, None, value, None, None)
            for name, value in sent
            if value is None or value >= 0
        ]

    def written(connection: Any) -> None:
        for number in range(steps):
            if number not in skip:
                write_step(connection, step_s, (until - steps + number) * step_s * S, rows(number))

    await here.service.database.write(written)


async def test_a_history_that_is_too_short_is_told_with_the_length_that_is_needed(here: Running) -> None:
    assert await get(here, PATH) == {
        "horizon_s": 3_600.0, "step_s": None, "until": "2026-01-01T00:16:40.000Z",
        "ports": [], "total": 0, "next": None,
        "why": "The history is 0 s long; 1 h ahead needs 3 h",
    }  # fmt: skip
    await write(here, 10, 100, lambda _: 1e9)
    found = await get(here, PATH, horizon_s=1_800)
    assert found["why"] == "The history is 16.7 min long; 30 min ahead needs 1.5 h"


async def test_a_history_is_not_said_to_be_longer_than_what_is_needed(here: Running) -> None:
    """Steps of each length may be held for other times: what is told is of the length that lacks least."""
    await write(here, 60, 30, lambda _: 1e9)
    await write(here, 10, 20, lambda _: 1e9)
    assert (await get(here, PATH, horizon_s=360))[
        "why"
    ] == "The history is 30 min long; 6 min ahead needs 40 min"
    await write(here, 10, 60, lambda _: 1e9)
    assert (await get(here, PATH, horizon_s=360))[
        "why"
    ] == "The history is 10 min long; 6 min ahead needs 18 min"


async def test_the_ports_that_will_be_fullest_come_first_in_pages(here: Running) -> None:
    random = np.random.default_rng(1).integers(0, 2, 200).tolist()
    await write(here, 60, 200, lambda _: 2e9, lambda number: 5e9 + 1e9 * random[number], lambda _: None)
    found = await get(here, PATH, limit=2)
    assert (found["step_s"], found["total"], found["why"]) == (60, 3, None)
    first, second = found["ports"]
    assert (first["port"], second["port"]) == ("Ethernet1", "Ethernet0")
    assert second["then_bytes_per_s"] == pytest.approx(2e9)
    assert (second["utilisation"], second["rate_bytes_per_s"]) == (pytest.approx(0.16), RATE)
    assert (second["error_bytes_per_s"], second["path"]) == (pytest.approx(0, abs=1), None)
    assert 0.4e9 < first["error_bytes_per_s"] < 0.6e9
    assert first["low_bytes_per_s"] <= 5.1e9 <= 5.9e9 <= first["high_bytes_per_s"]
    rest = await get(here, PATH, limit=2, after=found["next"])
    (unknown,) = rest["ports"]
    assert (unknown["port"], unknown["method"], unknown["then_bytes_per_s"]) == ("Ethernet2", None, None)
    assert "not known of most of the time" in unknown["why"]
    assert rest["next"] is None
    await get(here, PATH, 404, after="leaf9 Ethernet0")


async def test_one_port_has_every_step_of_its_forecast_bounded_by_its_rate(here: Running) -> None:
    await write(here, 60, 200, lambda number: 12e9 if number % 3 else 9e9)
    found = await get(here, PATH, switch="leaf1", port="Ethernet0", horizon_s=3_600)
    (port,) = found["ports"]
    path = port["path"]
    assert [len(values) for values in path.values()] == [60] * 5
    assert path["at"][:2] == ["2026-01-01T00:16:00.000Z", "2026-01-01T00:17:00.000Z"]
    assert found["until"] == path["at"][0]
    assert max(path["high_bytes_per_s"]) <= RATE
    assert port["then_at"] in path["at"]


async def test_a_short_horizon_takes_short_steps_and_a_gap_is_not_idle(here: Running) -> None:
    gap = range(300, 390)
    await write(here, 10, 400, lambda _: 3e9, lambda number: 1e9 if number > 390 else -1.0, skip=gap)
    await write(here, 60, 70, lambda _: 3e9)
    found = await get(here, PATH, horizon_s=120)
    assert found["step_s"] == 10
    ports = {one["port"]: one for one in found["ports"]}
    assert ports["Ethernet0"]["then_bytes_per_s"] == pytest.approx(3e9)
    assert ports["Ethernet0"]["error_bytes_per_s"] == pytest.approx(0, abs=1)
    assert 0 < ports["Ethernet1"]["error_bytes_per_s"] < 1e9  # where others had rows it sent nothing
    assert (await get(here, PATH, horizon_s=360))["step_s"] == 60


async def test_a_long_time_away_ends_the_history_before_it(here: Running) -> None:
    """200 steps of 60 s are enough for an hour ahead, whatever lies before 1 000 in which nothing ran."""
    await write(here, 60, 1_300, lambda _: 3e9, skip=range(100, 1_100))
    (port,) = (await get(here, PATH))["ports"]
    assert (port["why"], port["then_bytes_per_s"]) == (None, pytest.approx(3e9))
    (alone,) = (await get(here, PATH, switch="leaf1", port="Ethernet0"))["ports"]
    assert len(alone["path"]["at"]) == 60


async def test_what_cannot_be_forecast_is_a_sentence(here: Running) -> None:
    await write(here, 60, 300, lambda _: 3e9)
    found = await get(here, PATH, switch="leaf7", port="Ethernet0")
    assert found["why"] == "leaf7 Ethernet0 is not in the history of the last 5 h"
    assert "leaf7 is not in the history" in (await get(here, PATH, switch="leaf7"))["why"]
    assert "1.5 days" not in (await get(here, PATH, horizon_s=86_400))["why"]
    here.hand.now_s += 3_600
    assert "Nothing was measured since 2026-01-01T00:15:00.000Z" in (await get(here, PATH))["why"]
    refused = await get(here, PATH, 422, port="Ethernet0")
    assert "give switch too" in refused["detail"]
    await get(here, PATH, 422, horizon_s=100_000)


async def test_without_a_history_there_is_no_forecast() -> None:
    async with running(Wanted(settings=manual(storage={"history_step_s": None}))) as here:
        assert "storage.history_step_s is null" in (await get(here, PATH))["why"]


async def test_a_link_that_will_be_full_is_an_alarm_where_a_condition_asks_for_it(tmp_path: Path) -> None:
    full = {"name": "full soon", "figure": "forecast_utilisation", "over": "80%", "ahead_s": 600, "for_s": 0}
    settings = manual(
        storage={"url": f"sqlite:///{tmp_path}/ecntwin.db", "history_coarser": {60: 14}},
        alarms={"every_s": 86_400.0, "links": [full]},
    )
    async with running(Wanted(settings=settings)) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        await here.service.forecasts.look()
        await here.service.alarms.check()
        found = (await here.client.get("/v1/alarms")).json()
        assert found["alarms"] == []
        (note,) = found["notes"]
        assert "forecast_utilisation is not known of any of its 4 ports" in note
        await write(here, 60, 200, lambda _: 0.9 * RATE, lambda _: 0.2 * RATE)
        await here.service.forecasts.look()
        await here.service.alarms.check()
        found = (await here.client.get("/v1/alarms")).json()
        (alarm,) = found["alarms"]
        assert (alarm["subject"], found["notes"]) == ("leaf1 Ethernet0 to h0", [])
        assert "is forecast to carry 90% of its rate within 10 min (full soon: over 80%)" in alarm["sentence"]


async def test_forecasts_of_all_ports_are_made_once_a_step(here: Running) -> None:
    await write(here, 60, 200, lambda _: 2e9)
    before = await get(here, PATH)
    await write(here, 60, 200, lambda _: 4e9)
    assert await get(here, PATH) == before
    here.hand.now_s += 60
    await write(here, 60, 200, lambda _: 4e9)
    (port,) = (await get(here, PATH))["ports"]
    assert port["now_bytes_per_s"] == 4e9


async def test_a_clock_that_was_set_back_keeps_no_forecast(here: Running) -> None:
    await write(here, 60, 200, lambda _: 2e9)
    assert (await get(here, PATH))["total"] == 1
    here.hand.now_s -= 600
    await write(here, 60, 200, lambda _: 4e9)
    (port,) = (await get(here, PATH))["ports"]
    assert port["now_bytes_per_s"] == 4e9

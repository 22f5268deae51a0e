"""The verdict on the fabric over HTTP: figures, thresholds, the last hour, and the sentence."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.documents.base import timestamp
from service.history.condition import Condition, Point
from tests.integration.http.test_history import Traffic
from tests.integration.service import Running, Wanted, manual, running

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _measured_by_the_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(condition: Condition) -> None:
        """Leaves measuring to the test."""

    monkeypatch.setattr(Condition, "run_forever", never)


@pytest.fixture
async def here() -> AsyncIterator[Running]:
    async with running(Wanted(settings=manual())) as one:
        yield one


async def metrics(here: Running) -> dict[str, float]:
    """The metrics of the condition, by what follows ``ecntwin_condition_``."""
    text = (await here.client.get("/metrics")).text
    start = "ecntwin_condition_"
    families = text_string_to_metric_families(text)
    return {
        one.name.removeprefix(start): one.samples[0].value for one in families if one.name.startswith(start)
    }


def figure(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["figures"] if one["name"] == name)
    return found


async def test_nothing_is_known_before_the_first_report(here: Running) -> None:
    found = await here.get("/v1/condition")
    assert (found["level"], found["as_of"]) == ("unknown", None)
    assert found["sentence"] == "Unknown: no INT report has come yet."
    assert {one["value"] for one in found["figures"]} == {None}
    assert all(math.isnan(value) for value in (await metrics(here)).values())


async def test_short_queues_are_well_and_long_ones_are_not(here: Running) -> None:
    traffic, levels, seen = Traffic(here), [], []
    for queue_bytes in (0, 10_000_000, 60_000_000):
        await traffic.passes(queue_bytes=queue_bytes)
        assert await here.service.condition.measure()
        found = await here.get("/v1/condition")
        levels.append(found["level"])
        seen.append(figure(found, "packet_p99_slowdown"))
    assert levels == ["well", "watch", "bad"]
    assert [one["level"] for one in seen] == ["well", "watch", "bad"]
    assert seen[0]["value"] < seen[1]["value"] < seen[2]["value"]
    assert [value for _, value in seen[2]["hour"]] == [one["value"] for one in seen]
    assert seen[2]["hour_median"] == seen[1]["value"]
    assert found["sentence"].startswith("Not well: a small message takes ")
    assert "(limit 50)" in found["sentence"]
    exported = await metrics(here)
    assert exported.pop("figures_level") == 2
    assert (exported["level"], exported["packet_p99_slowdown_ratio"]) == (2, seen[2]["value"])
    told = [math.nan if one["value"] is None else one["value"] for one in found["figures"]]
    assert list(exported.values())[1:] == pytest.approx(told, nan_ok=True)


async def test_a_window_is_measured_once(here: Running) -> None:
    await Traffic(here).passes()
    assert await here.service.condition.measure()
    assert not await here.service.condition.measure()


async def test_old_figures_are_not_told_as_new(here: Running) -> None:
    await Traffic(here).passes()
    await here.service.condition.measure()
    measured = (await here.get("/v1/condition"))["as_of"]
    here.hand.now_s += 100
    assert not await here.service.condition.measure()
    found = await here.get("/v1/condition")
    assert (found["level"], found["as_of"]) == ("unknown", measured)
    assert found["sentence"] == "Unknown: the newest INT report came 100 s ago."
    assert all(math.isnan(value) for value in (await metrics(here)).values())


async def test_a_critical_alarm_is_not_well_whatever_the_figures(here: Running) -> None:
    traffic = Traffic(here)
    await traffic.passes(queue_bytes=0)
    await here.service.condition.measure()
    found = here.service.condition.document(critical_alarms=2)
    assert (found.level, found.sentence) == ("bad", "Not well: 2 critical alarms.")


async def test_alarms_are_not_among_the_figures(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prometheus goes by the figures alone, so that an alarm that somebody silenced does not fire there."""
    await Traffic(here).passes(queue_bytes=0)
    await here.service.condition.measure()
    document = here.service.condition.document(critical_alarms=1)
    monkeypatch.setattr(here.service, "verdict", lambda: document)
    exported = await metrics(here)
    assert (exported["level"], exported["figures_level"]) == (2, 0)


async def test_what_is_older_than_an_hour_is_left_out(here: Running) -> None:
    traffic = Traffic(here)
    await traffic.passes()
    await here.service.condition.measure()
    await traffic.passes(seconds=3_700.0)
    await here.service.condition.measure()
    assert len(figure(await here.get("/v1/condition"), "packet_p99_slowdown")["hour"]) == 1


async def test_a_long_hour_is_told_by_the_highest_of_each_minute(here: Running) -> None:
    await Traffic(here).passes()
    await here.service.condition.measure()
    [newest] = here.service.condition._points
    end_ns = newest.at_ns
    here.service.condition._points.clear()
    values = [1 + (37 * number % 101) / 7 for number in range(360)]
    for number, value in enumerate(values):
        at_ns = end_ns - (359 - number) * 10_000_000_000
        here.service.condition._points.append(Point(at_ns, value, value / 3, value / 7, value / 9, None))
    answer = await here.client.get("/v1/condition")
    assert len(answer.content) < 20_000
    told = figure(answer.json(), "packet_p99_slowdown")
    assert told["hour_median"] == median(values)
    assert told["value"] == values[-1]
    assert 60 <= len(told["hour"]) <= 61  # minutes by the clock
    assert told["hour"] == sorted(told["hour"])
    highest: dict[str, float] = {}
    for point in here.service.condition._points:
        minute = timestamp(point.at_ns)[:16]
        highest[minute] = max(highest.get(minute, 0.0), point.packet_p99_slowdown or 0.0)
    assert {at[:16]: value for at, value in told["hour"]} == highest


async def test_thresholds_are_settings() -> None:
    settings = manual(condition={"packet_p99_slowdown_watch": 1.01, "packet_p99_slowdown_bad": None})
    async with running(Wanted(settings=settings)) as here:
        await Traffic(here).passes(queue_bytes=2_000_000)
        await here.service.condition.measure()
        found = figure(await here.get("/v1/condition"), "packet_p99_slowdown")
        assert (found["level"], found["watch_from"], found["bad_from"]) == ("watch", 1.01, None)

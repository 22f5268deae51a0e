"""Gains predicted for rollouts and measured after them, over HTTP and as metrics."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.http.test_history import Traffic, get
from tests.integration.http.test_rollouts import TUNING, Fleet, Here, started
from tests.integration.service import PATIENCE_S, TOPOLOGY

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.history.gains.LOOK_EVERY_S", 0.001)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with started(
        Fleet(), tuning=TUNING, score="gain", storage={"url": f"sqlite:///{tmp_path}/ecntwin.db"}
    ) as made:
        await made.client.put("/v1/topology", json=TOPOLOGY)
        yield made


async def listed(here: Here, **query: Any) -> list[dict[str, Any]]:
    await here.service.recorder.flush()
    here.hand.now_s += 0.001  # until is not of the span
    gains: list[dict[str, Any]] = (await get(here, "/v1/history/gains", **query))["gains"]
    return gains


async def until(here: Here, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while not true(gain := (await listed(here))[0]):  # noqa: ASYNC110 # a thread measures it
            await asyncio.sleep(0.001)
    return gain


async def approved(here: Here, traffic: Traffic) -> dict[str, Any]:
    await traffic.passes(3, queue_bytes=60_000, seconds=4)
    decided = await here.post(f"{await here.tuned()}/approve")
    await here.ended(decided["rollout"])
    return decided


async def test_a_gain_is_measured_from_windows_before_and_after_a_rollout(here: Here) -> None:
    assert await listed(here) == []
    assert math.isnan(here.metric("ecntwin_gain_measured_ratio") or 0.0)
    traffic = Traffic(here)
    decided = await approved(here, traffic)
    (gain,) = await listed(here)
    assert gain == {
        "at": gain["at"],
        "recommendation": decided["id"],
        "policy": "balanced",
        "predicted": decided["recommendation"]["score"],
        "predicted_error": decided["recommendation"]["score_error"],
        "measured": None,
        "measured_error": None,
        "why": None,
    }
    await traffic.passes(2, queue_bytes=30_000, seconds=4)  # the window still has reports from before
    await asyncio.sleep(0.05)
    assert (await listed(here))[0]["measured"] is None
    await traffic.passes(2, queue_bytes=30_000, seconds=4)
    first = await until(here, lambda gain: gain["measured"] is not None)
    # Packets of 1048 bytes cross two links of 100 Gbit/s and 1 µs, and wait for what they met;
    # acknowledgements of 60 bytes return.
    alone_s = 2 * (2e-6 + (1_048 + 60) / 12.5e9)
    slowdowns = [1 + depth / 12.5e9 / alone_s for depth in (60_000, 30_000)]
    # The goodput of the three senders changes a little too, by how the window cuts it.
    assert first["measured"] == pytest.approx(0.5 * math.log(slowdowns[0] / slowdowns[1]), abs=0.005)
    assert 0 <= first["measured_error"] < 0.05
    outcome = await get(here, f"/v1/recommendations/{decided['id']}/outcome")
    assert outcome["gain"] == first
    assert here.metric("ecntwin_gain_measured_ratio") == pytest.approx(first["measured"])
    assert here.metric("ecntwin_gain_predicted_ratio") == first["predicted"]
    assert here.metric("ecntwin_gain_error_ratio") == pytest.approx(first["predicted"] - first["measured"])
    await traffic.passes(4, queue_bytes=60_000, seconds=4)
    second = await until(here, lambda gain: gain["measured"] != first["measured"])
    assert second["measured"] == pytest.approx(first["measured"] / 2, abs=0.005)
    assert await listed(here, until="2026-01-01T00:16:50Z") == []


async def test_a_rollout_that_is_rolled_back_keeps_what_was_measured_and_says_why(here: Here) -> None:
    traffic = Traffic(here)
    decided = await approved(here, traffic)
    await traffic.passes(4, queue_bytes=30_000, seconds=4)
    measured = await until(here, lambda gain: gain["measured"] is not None)
    await here.rolled_back(decided["rollout"])
    await traffic.passes(4, queue_bytes=90_000, seconds=4)
    await asyncio.sleep(0.05)
    (gain,) = await listed(here)
    assert gain == measured | {"why": gain["why"]}
    assert gain["why"] == "local asked for it"


async def test_a_recommendation_without_a_rollout_has_no_gain(here: Here) -> None:
    await Traffic(here).passes(3, queue_bytes=60_000, seconds=4)
    path = await here.tuned()
    assert (await get(here, f"{path}/outcome"))["gain"] is None
    assert await listed(here) == []


async def test_a_service_started_anew_measures_a_rollout_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.tuning.approvals.ANSWER_WITHIN_S", 0.01)
    fleet, storage = Fleet(), {"url": f"sqlite:///{tmp_path}/ecntwin.db"}
    soaks = {"soak_s": 3_000, "silence_s": 3_000}
    async with started(fleet, rollout=soaks, score="gain", storage=storage) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        await Traffic(here).passes(3, queue_bytes=60_000, seconds=4)
        decided = await here.post(f"{await here.tuned()}/approve")
        rollouts = here.service.rollouts
        async with asyncio.timeout(PATIENCE_S):
            while rollouts.get(decided["rollout"]).state.phase.value != "soak":  # noqa: ASYNC110 # as above
                await asyncio.sleep(0.001)
    async with started(fleet, rollout=soaks, score="gain", storage=storage) as here:
        here.hand.now_s += 60
        assert (await listed(here))[0]["measured"] is None
        traffic = Traffic(here)
        async with asyncio.timeout(PATIENCE_S):
            while (gain := (await listed(here))[0])["measured"] is None:
                await traffic.passes(queue_bytes=30_000, seconds=4)  # some fill the window first
        assert gain["recommendation"] == decided["id"]
        assert gain["measured"] == pytest.approx(0.157, abs=0.02)

"""Ready to take telemetry and answer (``/readyz``) is not ready to recommend (``/v1/readiness``)."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.service import Wanted, manual, running, traffic

pytestmark = pytest.mark.anyio


async def test_a_silent_network_leaves_the_service_ready_and_without_advice() -> None:
    async with running() as here:
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()["ready"], ready.json()["reasons"]) == (200, True, [])
        standing = (await here.client.get("/v1/readiness")).json()
        assert (standing["ready"], standing["advice"], standing["measured"]) == (False, None, False)
        assert "No INT report" in standing["reasons"][0]
        await here.post_reports(traffic())
        found = (await here.client.post("/v1/tune")).json()
        standing = (await here.client.get("/v1/readiness")).json()
        assert (standing["ready"], standing["advice"], standing["reasons"]) == (True, found["id"], [])
        here.hand.now_s += 61
        assert (await here.client.get("/readyz")).status_code == 200
        assert not (await here.client.get("/v1/readiness")).json()["ready"]


async def test_a_database_that_is_away_at_the_start_leaves_the_service_ready() -> None:
    away = manual(storage={"url": "postgresql://nobody@127.0.0.1:1/none"})
    async with running(Wanted(settings=away)) as here:
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()["storage"]["state"]) == (200, "failing")


async def test_a_service_that_stops_is_not_ready() -> None:
    async with running() as here:
        here.service.stop_soon()
        await asyncio.sleep(0)  # the stop begins in the next turn of the event loop
        ready = await here.client.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert ready.json()["reasons"] == ["The service is stopping."]

"""Workers killed in the middle of a round: it is run again or told as failed; the service stays up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.service import PATIENCE_S, SMALL, Running, Wanted, running, traffic
from tests.unit.twin.analytic_engine import HERE
from twin.workers.pool import ProcessWorkers

pytestmark = pytest.mark.anyio


def children() -> set[int]:
    """Live worker processes of this one."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text("utf-8").rpartition(")")[2].split()
            command = (entry.parent / "cmdline").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and b"loky" in command and b"popen" in command:
            found.add(int(entry.parent.name))
    return found


async def service_with(engine: str) -> AsyncIterator[Running]:
    wanted = Wanted(search=replace(SMALL, engine=f"{HERE}:{engine}", batch=8), workers=ProcessWorkers(2))
    async with running(wanted) as started:
        await started.post_reports(traffic())
        yield started


@pytest.fixture
async def sound() -> AsyncIterator[Running]:
    async for started in service_with("AnalyticEngine"):
        yield started


@pytest.fixture
async def deadly() -> AsyncIterator[Running]:
    async for started in service_with("AlwaysDyingEngine"):
        yield started


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="worker processes are found through /proc")
async def test_a_killed_worker_costs_a_retry_and_nothing_else(sound: Running) -> None:
    first = await sound.post("/v1/tune")  # the pool is warm now
    # One that waits would be a candidate of the second round.
    await sound.client.post(f"/v1/recommendations/{first['id']}/reject")
    before = children()
    assert before

    def kill() -> None:
        for process in before:
            os.kill(process, signal.SIGKILL)

    second = await sound.tuned_while(kill)
    assert second.status_code == 200, second.text
    assert second.json()["recommendation"] == first["recommendation"]
    async with asyncio.timeout(PATIENCE_S):
        while before & children():  # noqa: ASYNC110 # the kernel ends them in its own time
            await asyncio.sleep(0.02)
    assert (await sound.post_reports(traffic(10, first=900)))["accepted"] == 10


async def test_workers_that_keep_dying_fail_the_round_and_not_the_service(deadly: Running) -> None:
    answer = await deadly.post("/v1/tune", status=503)
    assert "lost" in answer["received"]
    assert deadly.metric("ecntwin_rounds_total", outcome="failed") == 1
    assert (await deadly.client.get("/healthz")).status_code == 200
    assert (await deadly.post_reports(traffic(10, first=900)))["accepted"] == 10

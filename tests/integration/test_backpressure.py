"""A window that falls behind: what waits is bounded, who is refused is told when to come back, nothing that
was accepted is lost.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest

from tests.integration.service import PATIENCE_S, Running, Wanted, manual, running, traffic

pytestmark = pytest.mark.anyio

BODIES = [json.dumps(traffic(30, first)).encode() for first in (0, 30, 60, 90)]
COUNTERS = json.dumps([{"switch": "leaf1", "port": "Ethernet0", "ts_ns": 1, "tx_bytes": 1}] * 10)
LIMIT = len(BODIES[0]) + len(BODIES[1]) + 10


class Gate:
    """Holds every decoding in the window's thread until it is opened; ``reached`` once ``bodies`` wait."""

    def __init__(self, here: Running, monkeypatch: pytest.MonkeyPatch, *, bodies: int) -> None:
        self._open = threading.Event()
        self._expected = bodies
        self.reached = asyncio.Event()
        self._decoder = here.service.pipeline.formats.decoder
        monkeypatch.setattr(here.service.pipeline.formats, "decoder", self._held_decoder)

    def _held_decoder(self, *given: Any, **named: Any) -> Callable[[], Any]:
        self._expected -= 1
        if self._expected == 0:
            self.reached.set()
        return partial(self._held, self._decoder(*given, **named))

    def _held(self, decode: Callable[[], Any]) -> Any:
        assert self._open.wait(PATIENCE_S)
        return decode()

    def open(self) -> None:
        self._open.set()


async def test_what_finds_no_room_is_refused_and_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = manual(server={"max_pending_bytes": LIMIT})
    async with running(Wanted(settings=settings)) as here:
        gate = Gate(here, monkeypatch, bodies=2)

        async def post(number: int) -> httpx.Response:
            return await here.client.post("/v1/telemetry/int", content=BODIES[number])

        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(post(number)) for number in (0, 1)]
            await gate.reached.wait()
            refused = await post(2)
            counters = await here.client.post("/v1/telemetry/counters", content=COUNTERS)
            gate.open()
        for answer in (refused, counters):
            assert answer.status_code == 429
            assert answer.headers["content-type"] == "application/problem+json"
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["type"] == "urn:ecntwin:problem:busy"
            assert "max_pending_bytes" in answer.json()["rule"]
        assert here.metric("ecntwin_ingest_refused_total") == 2
        assert [task.result().status_code for task in waiting] == [202, 202]
        assert (await post(2)).json()["accepted"] == 30
        assert (await here.client.post("/v1/telemetry/counters", content=COUNTERS)).status_code == 202
        assert here.metric("ecntwin_reports_accepted_total") == 90
        assert here.metric("ecntwin_ingest_pending_bytes") == 0


async def test_a_refused_login_takes_no_room_and_learns_nothing() -> None:
    token = {"name": "collector", "sha256": "0" * 64, "scopes": ["telemetry"]}
    settings = manual(server={"max_pending_bytes": 1}, security={"tokens": [token]})
    async with running(Wanted(settings=settings)) as here:
        answer = await here.client.post("/v1/telemetry/int", content=BODIES[0])
        assert answer.status_code == 401
        assert here.metric("ecntwin_ingest_refused_total") == 0

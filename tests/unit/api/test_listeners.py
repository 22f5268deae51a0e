"""Who listens to events leaves room for others."""

from __future__ import annotations

import asyncio
from collections import Counter
from hashlib import sha256
from typing import Any

import pytest

from service.events import MOST_OF_ONE_CALLER
from tests.integration.service import Running, Wanted, manual, running

pytestmark = pytest.mark.anyio

TOKENS = [
    {"name": name, "sha256": sha256(name.encode()).hexdigest(), "scopes": ["read"]} for name in ("ada", "bob")
]


class Listeners:
    """Calls that stay, and how they were answered."""

    def __init__(self, here: Running) -> None:
        self._here = here
        self._calls: list[asyncio.Task[None]] = []
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        """What all of them are sent."""

    async def ask(self, count: int, token: str) -> Counter[int]:
        """The statuses of so many calls at once."""
        answered: asyncio.Queue[int] = asyncio.Queue()
        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/v1/events",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        left = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answered.put_nowait(message["status"])
            else:
                self.heard.put_nowait(message["body"])

        for _ in range(count):
            call = self._here.app({**scope}, receive, send)
            self._calls.append(asyncio.ensure_future(call))
        return Counter([await answered.get() for _ in range(count)])

    async def leave(self) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


async def test_one_token_leaves_room_for_the_listeners_of_others() -> None:
    async with running(Wanted(settings=manual(security={"tokens": TOKENS}))) as here:
        listeners = Listeners(here)
        try:
            assert await listeners.ask(20, "ada") == {200: MOST_OF_ONE_CALLER, 503: 4}
            answer = await here.client.get("/v1/events", headers={"Authorization": "Bearer ada"})
            assert answer.status_code == 503
            assert "listener number 17 of 'ada'" in answer.json()["received"]
            assert answer.headers["Retry-After"] == "30"
            assert await listeners.ask(2, "bob") == {200: 2}
        finally:
            await listeners.leave()
        assert here.service.events.listeners == 0


async def test_without_tokens_who_calls_from_this_machine_has_them_all() -> None:
    async with running() as here:
        listeners = Listeners(here)
        try:
            assert await listeners.ask(65, "nobody") == {200: 64, 503: 1}
            answer = await here.client.get("/v1/events")
            assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "30")
            assert "listeners are limited" in answer.json()["detail"]
        finally:
            await listeners.leave()


async def test_who_comes_while_a_round_runs_hears_of_it_first() -> None:
    async with running() as here:
        listeners, tuning, events = Listeners(here), here.service.tuning, here.service.events
        events.publish("round", {"stage": "window 1", "done": 3, "total": 24})
        tuning._round_task = under_way = asyncio.get_running_loop().create_future()  # type: ignore[assignment]
        try:
            for frame in (b'event: round\ndata: {"stage":"window 1","done":3,"total":24}', b"event: alarm\n"):
                await listeners.ask(1, "nobody")
                events.publish("alarm", {})
                said = [await listeners.heard.get() for _ in range(2)]
                assert said[0] == b": listening\n\n"
                assert frame in said[1]
                await listeners.leave()
                under_way.cancel()
                listeners = Listeners(here)
        finally:
            await listeners.leave()

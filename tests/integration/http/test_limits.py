"""What each token may ask, in calls and bytes; and that who guesses is held up, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from typing import Any

import httpx
import pytest

from service.auth.tokens import digest_of
from tests.integration.service import PATIENCE_S, Running, Wanted, manual, report, running

pytestmark = pytest.mark.anyio

LONG = "ecntwin_" + "k" * 43
TOKENS = [
    {"name": "eyes", "sha256": sha256(b"eyes").hexdigest(), "scopes": ["read"]},
    {"name": "sink", "sha256": sha256(b"sink").hexdigest(), "scopes": ["telemetry"]},
    {"name": "long", "sha256": digest_of(LONG), "scopes": ["read"]},
]


def guarded(**security: Any) -> Wanted:
    return Wanted(settings=manual(security={"tokens": TOKENS} | security))


async def get(here: Running, token: str, path: str = "/v1/topology") -> httpx.Response:
    return await here.client.get(path, headers={"Authorization": f"Bearer {token}"})


async def statuses(here: Running, token: str, count: int) -> list[int]:
    return [(await get(here, token)).status_code for _ in range(count)]


async def test_a_call_too_many_is_told_when_to_come_again() -> None:
    async with running(guarded(limits={"requests_per_s": 0.5, "burst": 2})) as here:
        assert await statuses(here, "eyes", 3) == [200, 200, 429]
        answer = await get(here, "eyes")
        assert answer.headers["retry-after"] == "2"
        assert answer.headers["content-type"] == "application/problem+json"
        assert "0.5 calls a second, 2 at once" in answer.json()["rule"]
        assert await statuses(here, LONG, 1) == [200], "another token has its own"
        assert here.metric("ecntwin_requests_limited_total", token="eyes", limit="requests") == 2
        assert (await here.client.get("/healthz")).status_code == 200
        here.hand.now_s += 2
        assert await statuses(here, "eyes", 2) == [200, 429]


async def test_one_token_may_have_limits_of_its_own() -> None:
    of = {"eyes": {"burst": 1, "requests_per_s": 1}}
    async with running(guarded(limits={"burst": 3, "requests_per_s": 1}, limits_of=of)) as here:
        assert await statuses(here, "eyes", 2) == [200, 429]
        assert await statuses(here, LONG, 4) == [200, 200, 200, 429]


async def test_bytes_are_waited_for_after_the_body_that_was_too_much() -> None:
    async with running(guarded(limits_of={"sink": {"bytes_per_s": 1_000}})) as here:
        here.client.headers["Authorization"] = "Bearer sink"
        reports: Sequence[dict[str, Any]] = [report(number) for number in range(20)]
        assert (await here.post_reports(reports))["accepted"] == 20
        refused = await here.client.post("/v1/telemetry/int", json=reports)
        assert refused.status_code == 429
        assert "1000 bytes a second" in refused.json()["rule"]
        assert here.metric("ecntwin_requests_limited_total", token="sink", limit="bytes") == 1
        here.hand.now_s += int(refused.headers["retry-after"])
        assert (await here.post_reports([report(20)]))["accepted"] == 1


async def test_a_body_is_held_to_its_tokens_limit() -> None:
    async with running(guarded(limits_of={"sink": {"max_body_bytes": 100}})) as here:
        answer = await here.post(
            "/v1/telemetry/int", status=413, content=b" " * 101, headers={"Authorization": "Bearer sink"}
        )
        assert "at most 100 bytes" in answer["rule"]


async def test_a_body_of_nobody_is_not_read() -> None:
    read: list[int] = []

    async def body() -> Any:
        for number in range(3):
            read.append(number)
            yield b"[" * 1_000

    async with running(guarded()) as here:
        for path in ("/v1/topology", "/v1/freeze"):
            answer = await here.client.put(path, json={"frozen": True} | {"x": "y" * 10_000})
            assert answer.status_code == 401, answer.text
        assert (await here.client.put("/v1/topology", content=body())).status_code == 401
    assert len(read) <= 3


async def test_who_guesses_is_held_up_and_nobody_else() -> None:
    async with running(guarded(failures_per_min=3)) as here:
        assert await statuses(here, "eyes", 1) == [200]
        assert await statuses(here, "guess", 5) == [401, 401, 401, 429, 429]
        refused = await get(here, "guess")
        assert refused.headers["retry-after"] == "20"
        assert "from this address" in refused.json()["rule"]
        # What was good before, and what nobody can guess, is let in from the same address.
        assert await statuses(here, "eyes", 1) == [200]
        assert await statuses(here, LONG, 1) == [200]
        # A short one that nobody has shown yet could be the guess that is right: not now.
        sink = {"Authorization": "Bearer sink"}
        assert (await here.client.get("/v1/telemetry/udp", headers=sink)).status_code == 429
        here.hand.now_s += 20
        assert (await here.client.get("/v1/telemetry/udp", headers=sink)).status_code == 200
        assert here.metric("ecntwin_authentication_failures_total", reason="unknown") == 3
        assert here.metric("ecntwin_authentication_failures_total", reason="too_many") == 4
        # Who says nothing guesses nothing.
        assert [(await here.client.get("/v1/topology")).status_code for _ in range(5)] == [401] * 5


async def test_where_no_token_is_asked_for_nothing_is_limited() -> None:
    async with running(
        Wanted(settings=manual(security={"limits": {"burst": 1, "requests_per_s": 0.01}}))
    ) as here:
        assert [(await here.client.get("/v1/topology")).status_code for _ in range(5)] == [200] * 5


DOCUMENTS = (
    ("PUT", "/v1/topology", 8 << 20),
    ("PUT", "/v1/freeze", 1 << 20),
    ("POST", "/v1/whatif", 1 << 20),
)


@pytest.mark.parametrize(("method", "path", "size"), DOCUMENTS)
@pytest.mark.parametrize("told", [True, False])
async def test_a_document_is_of_a_size_that_holds_nobody_up(
    method: str, path: str, size: int, told: bool
) -> None:
    async def sent(body: bytes) -> AsyncIterator[bytes]:
        yield body

    async with running() as here:
        containers = size // 20
        for body, limit in ((b" " * size + b"{}", f"{size} bytes"), (b"[]," * (containers + 1), containers)):
            answer = await here.client.request(
                method,
                path,
                content=body if told else sent(body),
                headers={"Content-Type": "application/json"},
            )
            assert answer.status_code == 413
            assert f"at most {limit}" in answer.json()["rule"]


@pytest.mark.parametrize(("method", "path"), [one[:2] for one in DOCUMENTS[1:]])
async def test_of_an_object_with_far_too_many_keys_one_mistake_is_told(method: str, path: str) -> None:
    async with running() as here:
        answer = await here.client.request(method, path, json={f"k{number}": 0 for number in range(101)})
        assert answer.status_code == 422
        assert answer.json()["error_count"] == 1
        assert "at most 100 keys" in answer.json()["rule"]


@pytest.mark.parametrize(
    "path", ["/v1/state", "/v1/flows", "/v1/topology", "/v1/recommendations", "/v1/audit", "/metrics"]
)
async def test_large_answers_are_made_while_others_are_served(path: str) -> None:
    async with running() as here:
        await here.post_reports([report(number) for number in range(20)])
        full = threading.Event()
        thread = here.service.answers
        busy = asyncio.get_running_loop().run_in_executor(thread, full.wait, PATIENCE_S)
        asked = asyncio.ensure_future(here.client.get(path))
        for _ in range(100):
            assert (await here.client.get("/healthz")).status_code == 200
        assert not asked.done()
        full.set()
        assert await busy
        assert (await asked).status_code == 200

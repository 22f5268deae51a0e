"""Every route of a running service against its own OpenAPI document: what schemathesis makes up is answered
as the document says, whatever it is.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from hashlib import sha256
from typing import Any

import httpx
import pytest
import schemathesis
import uvicorn
from hypothesis import settings
from schemathesis import Case, SerializationContext
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from api.app import create_app
from tests.counterparts.background import Background
from tests.integration.service import SMALL, TOPOLOGY, manual, traffic
from twin.workers.pool import InProcessWorkers

FUZZ = os.environ.get("ECNTWIN_FUZZ_EXAMPLES")  # set by scripts/fuzz
TRIED = settings(max_examples=15, derandomize=True) if FUZZ is None else settings(max_examples=int(FUZZ) // 4)
TOKEN = "everything"
TOKENS = [
    {
        "name": "all",
        "sha256": sha256(TOKEN.encode()).hexdigest(),
        "scopes": ["telemetry", "read", "operate", "admin"],
    }
]
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ENDLESS = "/v1/events"


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def _as_it_is(context: SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@cache
def document() -> dict[str, Any]:
    """The document of every service; who changes it copies it."""
    return create_app(manual()).openapi()


@cache
def schema(*, tokens: bool) -> Any:
    """The same as schemathesis reads it, without what is only so where there are tokens."""
    mine = deepcopy(document())
    if not tokens:
        for methods in mine["paths"].values():
            for operation in methods.values():
                operation.pop("security", None)
    return schemathesis.openapi.from_dict(mine).exclude(path=ENDLESS)


@contextmanager
def serving(**sections: Any) -> Iterator[str]:
    """The URL of a service on a socket of its own, that has traffic, a recommendation and a rollout."""
    unhurried = {"enabled": False, "stale_after_s": 3_600.0}  # however long the round takes
    app = create_app(manual(tuning=unhurried, **sections), workers=InProcessWorkers(), search=SMALL)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, server_header=False)
    )
    background = Background()
    try:
        ended = asyncio.run_coroutine_threadsafe(server.serve(), background.loop)
        background.run(_started(server), 120)
        try:
            url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            with httpx.Client(base_url=url, headers=BEARER, timeout=120) as client:
                _fill(client)
            yield url
        finally:
            server.should_exit = True
            ended.result(120)
    finally:
        background.close()


def _fill(client: httpx.Client) -> None:
    assert client.put("/v1/topology", json=TOPOLOGY).status_code == 200
    assert client.post("/v1/telemetry/int", json=traffic(300)).status_code == 202
    found = client.post("/v1/tune")
    assert found.status_code == 200, found.text
    approved = client.post(f"/v1/recommendations/{found.json()['id']}/approve")
    assert approved.status_code == 200, approved.text
    lost = {"switch": "leaf1", "port": "Ethernet0", "queue": 3}
    counters = [lost | {"ts_ns": 10**9 * second, "dropped_packets": 10_000 * second} for second in (1, 2)]
    assert client.post("/v1/telemetry/counters", json=counters).json()["accepted"] == 2
    silence = {"switch": "leaf9", "for_s": 3_600}
    assert client.post("/v1/alarms/silences", json=silence).status_code == 201


async def _started(server: uvicorn.Server) -> None:
    while not server.started:  # noqa: ASYNC110 (uvicorn has no event for it)
        await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with serving(security={"tokens": TOKENS, "failures_per_min": 1e9}) as url:
        yield url


@pytest.fixture(scope="module")
def unguarded() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def filled() -> Iterator[str]:
    """One of its own: what is there does not depend on what was made up before. It has an alarm too."""
    with serving(alarms={"every_s": 0.05, "hold_s": 0}) as url:
        while not httpx.get(f"{url}/v1/alarms", timeout=120).json()["alarms"]:
            time.sleep(0.05)
        yield url


# Documents hold rules that a schema cannot say: Kmin up to Kmax, links between nodes that are there.
NOT_CHECKED = [positive_data_acceptance]
# Of telemetry what is good is taken, and what is not is listed.
TAKEN_IN_PARTS = [*NOT_CHECKED, negative_data_rejection]


def not_checked(case: Case) -> list[Any]:
    return TAKEN_IN_PARTS if case.path.startswith("/v1/telemetry/") else NOT_CHECKED


@schema(tokens=True).parametrize()
@TRIED
def test_with_tokens_every_answer_is_one_that_is_documented(case: Case, guarded: str) -> None:
    case.call_and_validate(guarded, headers=BEARER, excluded_checks=not_checked(case), timeout=120)


# What answers is what answers with tokens too; that none is asked for without, most tests here rely on.
@pytest.mark.slow
@schema(tokens=False).parametrize()
@TRIED
def test_without_tokens_every_answer_is_one_that_is_documented(case: Case, unguarded: str) -> None:
    case.call_and_validate(unguarded, excluded_checks=not_checked(case), timeout=120)


KNOWN = {
    "recommendation_id": ("/v1/recommendations", "id"),
    "rollout_id": ("/v1/rollouts", "id"),
    "name": ("/v1/switches", "name"),
    "number": ("/v1/revisions", "number"),
    "alarm_id": ("/v1/alarms", "id"),
    "silence_id": ("/v1/alarms/silences", "id"),
}


@pytest.mark.parametrize(
    ("method", "path"),
    sorted(
        (method, path) for path, methods in document()["paths"].items() for method in methods if "{" in path
    ),
)
def test_what_is_said_of_things_that_are_there_is_documented(method: str, path: str, filled: str) -> None:
    operation = schema(tokens=False)[path][method.upper()]
    (parameter,) = operation.path_parameters
    at, field = KNOWN[parameter.name]
    listed = httpx.get(filled + at, timeout=120).json()
    things = (
        listed if isinstance(listed, list) else next(one for one in listed.values() if isinstance(one, list))
    )
    for thing in things:
        case = operation.Case(path_parameters={parameter.name: thing[field]})
        answer = case.call_and_validate(filled, excluded_checks=NOT_CHECKED, timeout=120)
        assert answer.status_code != 404
    assert things


def test_events_are_what_the_document_says(unguarded: str) -> None:
    described = document()["paths"][ENDLESS]["get"]["responses"]
    with httpx.stream("GET", unguarded + ENDLESS, timeout=120) as answer:
        assert answer.status_code == 200
        (media_type,) = described["200"]["content"]
        assert answer.headers["content-type"].startswith(media_type)
        assert next(answer.iter_lines()) == ": listening"


def test_a_running_service_gives_the_document_that_is_checked_here(guarded: str) -> None:
    assert httpx.get(f"{guarded}/openapi.json", timeout=120).json() == document()

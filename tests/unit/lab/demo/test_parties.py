"""An approval is answered once its rollout has ended, whichever way; never by waiting without end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest

from lab.demo.closed_loop import Answer, ServiceAt
from lab.demo.processes import Child


def rollout(phase: str, *, why: str | None = None, stalled: str | None = None) -> httpx.Response:
    ended = phase in ("done", "rolled_back")
    return httpx.Response(200, json={"phase": phase, "ended": ended, "why": why, "stalled": stalled})


def approved(*rollouts: httpx.Response, patience_s: float = 10.0) -> tuple[Answer, list[str]]:
    """What an approval is answered, and every call; the last rollout is told again and again."""
    told: Iterator[httpx.Response] = iter(rollouts)
    calls: list[str] = []
    now_s = [0.0]
    last: list[httpx.Response] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append(f"{request.method} {request.url.path}")
        if request.method == "POST":
            return httpx.Response(200, json={"id": "x", "rollout": "x-2", "staged": {"kmin_bytes": 1}})
        last[:] = [next(told, last[0] if last else httpx.Response(404))]
        return httpx.Response(last[0].status_code, content=last[0].content)

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    service = ServiceAt(
        cast("Child", None), "http://s", rollout_s=patience_s, clock_s=lambda: now_s[0], sleep_s=sleep
    )
    service.close()
    service._client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://s")
    try:
        return service.approve("x"), calls
    finally:
        service.close()


def test_a_rollout_is_waited_for() -> None:
    answer, calls = approved(rollout("canary"), rollout("fleet"), rollout("done"))
    assert answer.document is not None
    assert answer.document["staged"] == {"kmin_bytes": 1}
    assert calls == ["POST /v1/recommendations/x/approve", *["GET /v1/rollouts/x-2"] * 3]


def test_one_that_was_rolled_back_is_a_failure_with_its_reason() -> None:
    answer, _ = approved(rollout("rolling_back", why="leaf1 is away"), rollout("rolled_back", why="away"))
    assert (answer.document, answer.detail) == (None, "away")


@pytest.mark.parametrize(
    ("last", "says"),
    [(rollout("canary"), "canary"), (rollout("fleet", stalled="the journal is full"), "the journal is full")],
)
def test_one_that_does_not_end_is_a_failure(last: httpx.Response, says: str) -> None:
    answer, calls = approved(last, patience_s=1.0)
    assert answer.document is None
    assert "not ended within 1 s" in answer.detail
    assert says in answer.detail
    assert 10 < len(calls) < 30


def test_one_that_is_forgotten_is_a_failure_in_the_service_s_words() -> None:
    problem: dict[str, Any] = {"detail": "rollout 'x-2': no such id"}
    answer, _ = approved(httpx.Response(404, content=json.dumps(problem).encode()))
    assert (answer.document, answer.detail) == (None, problem["detail"])

"""A stream of events ends with the token that it was asked for with, whatever happens in between."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from starlette.requests import Request

from api.routes import events
from api.routes.events import caller_check, stream
from service.auth.access import Access
from service.auth.tokens import DatabaseTokens, digest_of
from service.events import Broadcaster, Clocks
from service.metrics import AccessMetrics
from settings.security import Caller, SecuritySettings

pytestmark = pytest.mark.anyio

READER = Caller("eyes", frozenset({"read"}))
ASKED = Request({"type": "http", "headers": [(b"authorization", b"Bearer s3cret")]})


def gate() -> Access:
    access = Access(
        SecuritySettings(),
        host="127.0.0.1",
        max_body_bytes=1,
        metrics=AccessMetrics(CollectorRegistry()),
        clocks=Clocks(),
    )
    access.tokens.stored = DatabaseTokens(live={digest_of("s3cret"): READER}, ever=True)
    return access


async def always() -> bool:
    return True


async def test_a_stream_begins_with_what_was_missed() -> None:
    broadcaster = Broadcaster()
    for stage in ("one", "two", "three"):
        broadcaster.publish("round", {"stage": stage})
    told = stream(broadcaster, "eyes", always, "1")
    assert await anext(told) == b""
    assert broadcaster.listeners_of("eyes") == 1
    assert await anext(told) == b": listening\n\n"
    broadcaster.publish("round", {"stage": "four"})
    frames = [await anext(told) for _ in range(3)]
    assert [frame.partition(b"\n")[0] for frame in frames] == [b"id: 2", b"id: 3", b"id: 4"]
    await told.aclose()
    told = stream(broadcaster, "eyes", always, "of another service")
    assert [await anext(told), await anext(told)] == [b"", b": listening\n\n"]
    assert (await anext(told)).startswith(b"id: 4\nevent: reset\ndata: {")
    await told.aclose()
    assert broadcaster.listeners == 0


@pytest.mark.parametrize(
    ("later", "goes_on"),
    [
        (DatabaseTokens(live={digest_of("s3cret"): READER}, ever=True), True),
        (DatabaseTokens(unread=True), True),
        (DatabaseTokens(ever=True), False),
        (
            DatabaseTokens(live={digest_of("s3cret"): Caller("eyes", frozenset({"telemetry"}))}, ever=True),
            False,
        ),
    ],
)
async def test_a_stream_ends_with_its_token(
    later: DatabaseTokens, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RECHECK_S", 0.0)
    broadcaster, access = Broadcaster(), gate()
    told = stream(broadcaster, "eyes", caller_check(access, READER, ASKED))
    assert [await anext(told), await anext(told)] == [b"", b": listening\n\n"]
    broadcaster.publish("round", {"stage": "started"})
    assert b"event: round" in await anext(told)
    access.tokens.stored = later
    broadcaster.publish("round", {"stage": "finished"})
    assert (await anext(told, None) is not None) == goes_on
    await told.aclose()
    assert broadcaster.listeners == 0

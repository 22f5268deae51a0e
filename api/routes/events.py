"""``/v1/events``: server-sent events of reports, rounds, recommendations and decisions, and their replay."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse

from api.deps import Reads, ServiceDep
from service.auth.access import Access
from service.events import MOST_OF_ONE_CALLER, Broadcaster, Event
from settings.errors import ApiError, UnavailableError
from settings.security import Caller

router = APIRouter(prefix="/v1", tags=["events"])

KEEP_ALIVE_S = 15.0
RECHECK_S = 5.0
RETRY_AFTER_S = 30

_NOTHING = Event(0, "", {})


@router.get(
    "/events",
    summary="Listen to events",
    response_class=StreamingResponse,
    response_description="Server-sent events: `id`, `event` and `data`, which is a JSON object.",
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def get_events(
    service: ServiceDep,
    caller: Reads,
    request: Request,
    last_event_id: Annotated[
        str | None, Header(description="`id` of the last event that was heard: those after it come first.")
    ] = None,
) -> StreamingResponse:
    """Events from now on, one JSON object each; a comment line every 15 s keeps the connection open. The
    stream ends when its token expires or is revoked.

    ``id`` counts up by 1. With ``Last-Event-ID`` the events since then come first, of the last 1024; where
    not all are known (the service was started again, or it is too long ago) one event ``reset`` comes
    instead, and the listener reads again what it shows. Without it the newest event of a round under way
    comes first.
    """
    events = service.events
    if events.full:
        raise _refused(f"listener number {events.listeners + 1}", "listeners are limited")
    own = events.listeners_of(caller.name)
    if own >= MOST_OF_ONE_CALLER and caller.kind != "local":
        raise _refused(
            f"listener number {own + 1} of {caller.name!r}",
            f"a caller has {MOST_OF_ONE_CALLER} listeners at most, so that others have room",
        )
    under_way = events.newest("round") if service.tuning.running else None
    told = stream(
        events, caller.name, caller_check(service.access, caller, request), last_event_id, under_way
    )
    await anext(told)
    return StreamingResponse(told, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _refused(received: str, rule: str) -> UnavailableError:
    remedy = "close one, or poll the other routes"
    return UnavailableError("GET /v1/events", received, rule, remedy, retry_after_s=RETRY_AFTER_S)


def caller_check(access: Access, caller: Caller, request: Request) -> Callable[[], Awaitable[bool]]:
    """Rechecks the caller of a stream, whose token may expire or be revoked meanwhile: every 5 s."""
    authorization = request.headers.get("authorization")
    asked_s = asyncio.get_running_loop().time()

    async def holds() -> bool:
        nonlocal asked_s
        now_s = asyncio.get_running_loop().time()
        if now_s - asked_s < RECHECK_S:
            return True
        asked_s = now_s
        try:
            found = await access.caller(authorization, caller.address)
        except UnavailableError:
            return True  # unknown: keep the stream
        except ApiError:
            return False
        return "read" in found.scopes

    return holds


async def stream(
    events: Broadcaster,
    caller: str,
    holds: Callable[[], Awaitable[bool]],
    last_id: str | None = None,
    under_way: Event | None = None,
) -> AsyncGenerator[bytes, None]:
    """Its first part is empty: once that is taken it counts as a listener, so that calls which come together
    do not pass the limits.
    """
    with events.listen(caller) as queue:
        if last_id is not None:
            before = events.since(_number(last_id))
        else:
            before = [] if under_way is None else [under_way]
        yield b""
        yield b": listening\n\n"
        for old in before:
            yield _frame(old)
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
            except TimeoutError:
                event = _NOTHING
            if event is None or not await holds():
                return
            yield b": still here\n\n" if event is _NOTHING else _frame(event)


def _number(event_id: str) -> int:
    """-1 for text that was never an id: no event has that number."""
    return int(event_id) if re.fullmatch("[0-9]{1,18}", event_id) else -1


def _frame(event: Event) -> bytes:
    data = json.dumps(event.data, allow_nan=False, separators=(",", ":"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n".encode()

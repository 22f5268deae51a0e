"""``/v1/events``: server-sent events of reports, rounds, recommendations and decisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from api.deps import Reads, ServiceDep
from service.auth.access import Access
from service.events import Broadcaster, Event
from settings.errors import ApiError, UnavailableError
from settings.security import Caller

router = APIRouter(prefix="/v1", tags=["events"])

KEEP_ALIVE_S = 15.0
RECHECK_S = 5.0

_NOTHING = Event(0, "", {})


@router.get(
    "/events",
    summary="Listen to events",
    response_class=StreamingResponse,
    response_description="Server-sent events: `id`, `event` and `data`, which is a JSON object.",
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def get_events(service: ServiceDep, caller: Reads, request: Request) -> StreamingResponse:
    """Events from now on, one JSON object each; a comment line every 15 s keeps the connection open. The
    stream ends when its token expires or is revoked.
    """
    if service.events.full:
        raise UnavailableError(
            "GET /v1/events",
            f"listener number {service.events.listeners + 1}",
            "listeners are limited",
            "close one, or poll the other routes",
        )
    return StreamingResponse(
        stream(service.events, CallerCheck(service.access, caller, request).holds),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


class CallerCheck:
    """Rechecks the caller of a stream, whose token may expire or be revoked meanwhile."""

    def __init__(self, access: Access, caller: Caller, request: Request) -> None:
        self._access = access
        self._caller = caller
        self._authorization = request.headers.get("authorization")
        self._asked_s = asyncio.get_running_loop().time()

    async def holds(self) -> bool:
        """Whether the caller may still read; checked every 5 s."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._asked_s < RECHECK_S:
            return True
        self._asked_s = now_s
        try:
            found = await self._access.caller(self._authorization, self._caller.address)
        except UnavailableError:
            return True  # unknown: keep the stream
        except ApiError:
            return False
        return "read" in found.scopes


async def stream(events: Broadcaster, holds: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
    with events.listen() as queue:
        yield b": listening\n\n"
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
            except TimeoutError:
                event = _NOTHING
            if event is None or not await holds():
                return
            yield b": still here\n\n" if event is _NOTHING else _frame(event)


def _frame(event: Event) -> bytes:
    data = json.dumps(event.data, allow_nan=False, separators=(",", ":"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n".encode()

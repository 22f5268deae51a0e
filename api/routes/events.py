"""``/v1/events``: server-sent events of reports, rounds, recommendations and decisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from fastapi import APIRouter
from starlette.responses import StreamingResponse

from api.deps import Reads, ServiceDep
from api.errors import UnavailableError
from api.events import Broadcaster, Event

router = APIRouter(prefix="/v1", tags=["events"])

KEEP_ALIVE_S = 15.0


@router.get(
    "/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def get_events(service: ServiceDep, caller: Reads) -> StreamingResponse:
    """Events from now on, one JSON object each; a comment line every 15 s keeps the connection open."""
    if service.events.full:
        raise UnavailableError(
            "GET /v1/events",
            f"listener number {service.events.listeners + 1}",
            "listeners are limited",
            "close one, or poll the other routes",
        )
    return StreamingResponse(
        _stream(service.events), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _stream(events: Broadcaster) -> AsyncIterator[bytes]:
    with events.listen() as queue:
        yield b": listening\n\n"
        while True:
            try:
                event = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event is None:
                return
            yield _frame(event)


def _frame(event: Event) -> bytes:
    data = json.dumps(event.data, allow_nan=False, separators=(",", ":"))
    return f"id: {event.number}\nevent: {event.kind}\ndata: {data}\n\n".encode()

"""Callers are identified, and allowed, before their bodies are read; media type and encoding of a body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.bodies import Patience, below, declared_bytes, too_large
from service.auth.access import Access
from service.ingest.formats import check_encoding
from service.ingest.intake import Intake
from settings.errors import ApiError, StalledError, TooLargeError
from settings.security import Caller

MOST_DOCUMENT_BYTES = 1 << 20
"""Of a JSON body, which is parsed in one go on the event loop; a route may allow more (``MOST_BYTES``)."""

MOST_BYTES = "x-max-body-bytes"
"""The OpenAPI extension with a route's own limit."""

CONTAINER_BYTES = 20
"""Bytes of the size limit charged for each object or array: parsing one costs far more than its two bytes."""

_KEY = "ecntwin_caller"

Ports = Annotated[
    tuple[Annotated[int, Field(ge=0, le=65_535)], ...],
    Query(description="Of a capture, only datagrams to this UDP port; may be given several times."),
]
"""UDP ports given in the query of a call."""


def received(intake: Intake, request: Request) -> AbstractAsyncContextManager[bytes]:
    return intake.body(request.headers.get("content-length", ""), _chunks(request))


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    count = 0
    try:
        async for chunk in request.stream():
            count += len(chunk)
            yield chunk
    except ClientDisconnect as error:
        raise StalledError(
            "request body",
            f"{count} bytes and then nothing",
            "a body is sent whole and without a break",
            "send it again",
        ) from error


def media_type_of(request: Request) -> str:
    """The Content-Type without parameters; empty if there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def encoding_of(request: Request) -> str | None:
    """The Content-Encoding; raises ``UnsupportedMediaError`` for an unknown one."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    check_encoding(encoding)
    return encoding or None


class Admission:
    """Identifies the caller by ``app.state.access``; an error is kept for the route, as some need no caller.

    A body is refused at once unless the caller is known and ``allowed`` accepts the request. A sender may
    pause for ``stalled_s``.
    """

    def __init__(
        self, app: ASGIApp, *, allowed: Callable[[Request], Awaitable[None]], stalled_s: float
    ) -> None:
        self._app = app
        self._allowed = allowed
        self._stalled_s = stalled_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        access: Access = scope["app"].state.access
        headers = Headers(scope=scope)
        found: Caller | ApiError
        try:
            found = await access.caller(headers.get("authorization"), _address(scope))
            access.admit(found)
        except ApiError as error:
            found = error
        scope.setdefault("state", {})[_KEY] = found
        patience = Patience(receive, stalled_s=self._stalled_s)
        body = _Body(access, found, Request(scope), patience.next, self._allowed)
        await self._app(scope, body.next, send)


@dataclass(slots=True)
class _Body:
    """The body of one request as the application reads it."""

    access: Access
    found: Caller | ApiError
    request: Request
    receive: Receive
    allowed: Callable[[Request], Awaitable[None]]
    count: int = 0
    containers: int = 0

    async def next(self) -> Message:
        claimed = declared_bytes(self.request.headers)
        if isinstance(self.found, ApiError):
            message = await self.receive() if claimed == 0 else None
            if message is not None and not message.get("body"):
                return message
            raise below(self.found)
        if self.count == 0:
            try:
                await self.allowed(self.request)
            except ApiError as error:
                raise below(error) from error
        limit_bytes = self.access.body_limit(self.found)
        # FastAPI reads and parses these bodies itself.
        route = self.request.scope.get("route")
        is_document = getattr(route, "body_field", None) is not None
        if is_document:
            extra = getattr(route, "openapi_extra", None) or {}
            limit_bytes = min(limit_bytes, extra.get(MOST_BYTES, MOST_DOCUMENT_BYTES))
        if claimed > limit_bytes:
            raise too_large(f"{claimed} bytes", limit_bytes)
        message = await self.receive()
        body = message.get("body", b"")
        self.count += len(body)
        if body:
            self.access.received(self.found, len(body))
        if self.count > limit_bytes:
            raise too_large(f"more than {limit_bytes} bytes", limit_bytes)
        if is_document:
            self.containers += body.count(b"[") + body.count(b"{")
            most = limit_bytes // CONTAINER_BYTES
            if self.containers > most:
                raise below(
                    TooLargeError(
                        "request body",
                        f"more than {most} objects and arrays",
                        f"a document holds at most {most}",
                        "send less at once",
                    )
                )
        return message


def caller_of(request: Request) -> Caller:
    """The request's caller; raises the ``ApiError`` kept for it."""
    found: Caller | ApiError = request.scope["state"][_KEY]
    if isinstance(found, ApiError):
        raise found
    return found


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return "" if client is None else str(client[0])

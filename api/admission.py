"""ASGI middleware: authenticates before bodies are read, limits bodies, and adds security headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.bodies import Patience, below, too_large
from service.auth.access import Access
from settings.errors import ApiError, TooLargeError
from settings.security import Caller

MOST_DOCUMENT_BYTES = 1 << 20
"""Of a JSON body, which is parsed in one go on the event loop; a route may allow more (``MOST_BYTES``)."""

MOST_BYTES = "x-max-body-bytes"
"""The OpenAPI extension with a route's own limit."""

CONTAINER_BYTES = 20
"""Bytes of the limit that each object or array counts for: parsing one costs far more than its two bytes."""

_KEY = "ecntwin_caller"


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


class _Body:
    """The body of one request as the application reads it."""

    def __init__(
        self,
        access: Access,
        found: Caller | ApiError,
        request: Request,
        receive: Receive,
        allowed: Callable[[Request], Awaitable[None]],
    ) -> None:
        declared = request.headers.get("content-length", "0")
        self._claimed = int(declared) if declared.isdecimal() else 0
        self._access = access
        self._found = found
        self._request = request
        self._receive = receive
        self._allowed = allowed
        self._count = 0
        self._containers = 0

    async def next(self) -> Message:
        if isinstance(self._found, ApiError):
            message = await self._receive() if self._claimed == 0 else None
            if message is not None and not message.get("body") and not message.get("more_body"):
                return message
            raise below(self._found)
        if self._count == 0:
            try:
                await self._allowed(self._request)
            except ApiError as error:
                raise below(error) from error
        limit_bytes = self._access.body_limit(self._found)
        # FastAPI reads and parses these bodies itself.
        route = self._request.scope.get("route")
        is_document = getattr(route, "body_field", None) is not None
        if is_document:
            extra = getattr(route, "openapi_extra", None) or {}
            limit_bytes = min(limit_bytes, extra.get(MOST_BYTES, MOST_DOCUMENT_BYTES))
        if self._claimed > limit_bytes:
            raise too_large(f"{self._claimed} bytes", limit_bytes)
        message = await self._receive()
        size = len(message.get("body", b""))
        self._count += size
        if size:
            self._access.received(self._found, size)
        if self._count > limit_bytes:
            raise too_large(f"more than {limit_bytes} bytes", limit_bytes)
        if is_document:
            self._containers += message.get("body", b"").count(b"[") + message.get("body", b"").count(b"{")
            most = limit_bytes // CONTAINER_BYTES
            if self._containers > most:
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


CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",  # no inline scripts or styles either
        "img-src 'self' data:",  # pictures in style sheets
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
ALWAYS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecurityHeaders:
    """Adds the headers to every answer, errors included. ``hsts_s``: over TLS only; 0 sends none."""

    def __init__(self, app: ASGIApp, *, hsts_s: int) -> None:
        self._app = app
        self._hsts_s = hsts_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add(MutableHeaders(scope=message), scope)
            await send(message)

        await self._app(scope, receive, with_headers)

    def _add(self, headers: MutableHeaders, scope: Scope) -> None:
        for name, value in ALWAYS.items():
            headers[name] = value
        if scope["scheme"] == "https" and self._hsts_s:
            headers["Strict-Transport-Security"] = f"max-age={self._hsts_s}"
        if scope["path"].startswith("/v1/") or scope["path"] == "/metrics":
            headers["Cache-Control"] = "no-store"
        else:
            headers.setdefault("Cache-Control", "no-cache")

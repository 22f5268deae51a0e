"""What every response carries besides its document: a request id, an entity tag and security headers; and how
long it took.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
import uuid
from contextvars import ContextVar
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:  # the lab answers too, and has none
    from service.metrics import AccessMetrics

REQUEST_ID = "X-Request-ID"
TAGGED = ("/v1/", "/openapi.json")

_KEY = "ecntwin_request_id"
_USABLE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LARGE_BYTES = 128 << 10  # hashed in a thread: it would block the event loop for a millisecond
_current: ContextVar[str | None] = ContextVar(_KEY, default=None)


class RequestIds:
    """Takes the caller's ``X-Request-ID`` or makes one, and answers with it.

    An id of other characters than letters, digits, dot, dash and underscore, or of more than 64, is replaced.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        named = given if _USABLE.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})[_KEY] = named
        before = _current.set(named)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = named
            await send(message)

        try:
            await self._app(scope, receive, with_id)
        finally:
            _current.reset(before)


class RequestTimes:
    """Measures the time from a request until its response begins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_s = time.perf_counter()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics: AccessMetrics = scope["app"].state.access.metrics  # the lifespan sets it
                took = metrics.request_seconds.labels(f"{message['status'] // 100}xx")
                took.observe(time.perf_counter() - begun_s)
            await send(message)

        await self._app(scope, receive, timed)


def request_id_of(scope: Scope) -> str:
    named: str = scope["state"][_KEY]
    return named


_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code != ord("\t")}


class RequestFormatter(logging.Formatter):
    """Adds the current request's id to each log line, also in tasks that the request started. Control
    characters are escaped: names from outside neither begin lines nor colour terminals.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        text, named = super().formatMessage(record).translate(_ESCAPED), _current.get()
        return text if named is None else f"{text} [request {named}]"


class EntityTags:
    """``ETag`` on every JSON document, and 304 where ``If-None-Match`` names it.

    The tag is weak: compression changes the bytes and not the document. A tag that the route has set becomes
    the beginning of this one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(TAGGED):
            await self._app(scope, receive, send)
            return
        known = Headers(scope=scope).getlist("if-none-match")
        held: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_document(message):
                held = message
                return
            if held is not None:
                start, held = held, None
                if not message.get("more_body", False):
                    message = await _with_tag(start, message, known)
                await send(start)
            await send(message)

        await self._app(scope, receive, tagged)


def _is_document(start: Message) -> bool:
    return start["status"] == 200 and Headers(scope=start).get("content-type") == "application/json"


async def _with_tag(start: Message, body: Message, known: list[str]) -> Message:
    """Adds the tag to ``start``; returns ``body``, or nothing where the client has this document already."""
    content: bytes = body.get("body", b"")
    tag = await asyncio.to_thread(_tag, content) if len(content) > _LARGE_BYTES else _tag(content)
    headers = MutableHeaders(scope=start)
    if (own := headers.get("ETag")) is not None:
        tag = f"{own[:-1]}.{tag[1:]}"
    headers["ETag"] = f"W/{tag}"
    named = {one.strip().removeprefix("W/") for line in known for one in line.split(",")}
    if named.isdisjoint((tag, "*")):
        return body
    start["status"] = 304
    for name in ("content-length", "content-type"):
        del headers[name]
    return {**body, "body": b""}


def _tag(content: bytes) -> str:
    return f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'


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

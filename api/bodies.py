"""Reads request bodies within their limits, whatever the sender claims about their length."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import ApiError, TooLargeError


class BodyLimit:
    """ASGI middleware: a body over ``limit_bytes`` is a 413, declared or not."""

    def __init__(self, app: ASGIApp, *, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        claimed = int(declared) if declared.isdecimal() else 0
        count = 0

        async def counted() -> Message:
            nonlocal count
            if claimed > self._limit_bytes:
                raise too_large(f"{claimed} bytes", self._limit_bytes)
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._limit_bytes:
                raise too_large(f"more than {self._limit_bytes} bytes", self._limit_bytes)
            return message

        await self._app(scope, counted, send)


def too_large(received: str, limit_bytes: int) -> HTTPException:
    """The 413 of an oversized body."""
    return below(
        TooLargeError(
            "request body", received, f"a body holds at most {limit_bytes} bytes", "post smaller batches"
        )
    )


def below(error: ApiError) -> HTTPException:
    """``error`` as an ``HTTPException``: FastAPI passes nothing else on while it reads a body."""
    carried = HTTPException(getattr(error, "status", 400))
    carried.__cause__ = error
    return carried

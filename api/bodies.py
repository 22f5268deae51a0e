"""Limits of request bodies: their size, and how long a sender may take."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from settings.errors import ApiError, StalledError, TooLargeError

LEAST_BYTES_PER_S = 16_384
"""Minimum rate of a sender in bytes/s: without one, a byte now and then would hold a connection for ever."""


class BodyLimit:
    """ASGI middleware: a body over ``limit_bytes`` is a 413, declared or not."""

    def __init__(self, app: ASGIApp, *, limit_bytes: int) -> None:
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        claimed = declared_bytes(Headers(scope=scope))
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


class Patience:
    """Read timeout (``stalled_s``) and minimum rate (``LEAST_BYTES_PER_S``) for one request body."""

    def __init__(self, receive: Receive, *, stalled_s: float) -> None:
        self._receive = receive
        self._stalled_s = stalled_s
        self._begun_s = asyncio.get_running_loop().time()
        self._received_bytes = 0
        self._whole = False

    async def next(self) -> Message:
        """The next message; waits without limit once the body is complete.

        Raises an ``HTTPException`` with a ``StalledError`` for a sender that is too slow.
        """
        if self._whole:
            return await self._receive()
        now_s = asyncio.get_running_loop().time()
        due_s = min(now_s, self._begun_s + self._received_bytes / LEAST_BYTES_PER_S) + self._stalled_s
        message: Message | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due_s):
                message = await self._receive()
        if message is None:
            raise below(
                StalledError(
                    "request body",
                    f"{self._received_bytes} bytes and then almost nothing for {self._stalled_s:g} s",
                    "a body is sent whole and without a break",
                    "send it again",
                )
            )
        self._received_bytes += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        return message


def declared_bytes(headers: Headers) -> int:
    declared = headers.get("content-length", "0")
    return int(declared) if declared.isdecimal() else 0


def too_large(received: str, limit_bytes: int) -> HTTPException:
    return below(
        TooLargeError(
            "request body", received, f"a body holds at most {limit_bytes} bytes", "post smaller batches"
        )
    )


def below(error: ApiError) -> HTTPException:
    """``error`` as an ``HTTPException``, the only kind FastAPI passes on while it reads a body."""
    carried = HTTPException(getattr(error, "status", 400))
    carried.__cause__ = error
    return carried

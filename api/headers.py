"""Security headers on every answer: page, API, errors and what fails below; must not know what is answered.

They are data and ten lines that add it: a library for that would be more to keep than to write.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",  # scripts, styles, calls: from here, and none of them inline
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
    """ASGI: around everything, so that no answer lacks them. ``hsts_s`` is told over TLS only; 0: never."""

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

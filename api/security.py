"""Who may call: bearer tokens with scopes, compared by hash in constant time; without any, loopback only."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import Request

from api.addresses import is_loopback
from api.errors import ForbiddenError, SettingsError, UnauthorizedError
from api.settings import Scope, SecuritySettings

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_WITHOUT_TOKENS = "call it as 127.0.0.1 or localhost, or configure a token"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is calling: the token's name, or ``local`` where no token is configured."""

    name: str
    scopes: frozenset[Scope]


LOCAL = Caller("local", frozenset({"telemetry", "read", "operate", "admin"}))


def authenticate(security: SecuritySettings, authorization: str | None) -> Caller:
    """The caller an ``Authorization`` header names. Raises ``UnauthorizedError``.

    Every configured hash is compared, so the time taken tells nothing about which one came close.
    """
    if not security.tokens:
        return LOCAL
    scheme, _, text = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise UnauthorizedError(
            "Authorization header",
            "nothing" if not authorization else "no bearer token",
            "this service asks for a bearer token",
            "send Authorization: Bearer <token>",
        )
    digest = hashlib.sha256(text.strip().encode()).hexdigest()
    caller = None
    for token in security.tokens:
        if hmac.compare_digest(digest, token.sha256):
            caller = Caller(token.name, token.scopes)
    if caller is None:
        raise UnauthorizedError(
            "Authorization header",
            "a token nobody configured",
            "its SHA-256 must be among security.tokens",
            "use another token, or have this one configured",
        )
    return caller


def requires(scope: Scope) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency that admits callers holding ``scope`` and returns them."""

    async def admitted(request: Request) -> Caller:
        security: SecuritySettings = request.app.state.settings.security
        refuse_cross_site(request)
        if not security.tokens:
            refuse_foreign_names(request)
        caller = authenticate(security, request.headers.get("authorization"))
        if scope not in caller.scopes:
            raise ForbiddenError(
                f"{request.method} {request.url.path}",
                f"token {caller.name!r} with scopes {', '.join(sorted(caller.scopes))}",
                f"this call needs the scope {scope}",
                "use a token that holds it",
            )
        return caller

    return admitted


def refuse_cross_site(request: Request) -> None:
    """Stops another site's page from acting through an operator's browser (it can send, though not read)."""
    site = request.headers.get("sec-fetch-site", "none")
    if request.method not in _SAFE_METHODS and site not in ("same-origin", "none"):
        raise ForbiddenError(
            f"{request.method} {request.url.path}",
            f"a request from another site ({site})",
            "pages of other sites may not act here",
            "call it from this service's own page, or from a program",
        )


def refuse_foreign_names(request: Request, *, remedy: str = _WITHOUT_TOKENS) -> None:
    """Stops a page whose own name a DNS server points at this machine (rebinding)."""
    name = request.url.hostname or ""
    if not is_loopback(name):
        raise ForbiddenError(
            "Host header",
            repr(name),
            "what only this machine may call answers to loopback names only",
            remedy,
        )


def check_host(host: str, security: SecuritySettings) -> None:
    """Raises ``SettingsError`` where the service would be open to others without a token."""
    if security.tokens or is_loopback(host):
        return
    raise SettingsError(
        "server host",
        repr(host),
        "without a token in security.tokens the service listens on loopback only",
        "configure a token, or use 127.0.0.1",
    )

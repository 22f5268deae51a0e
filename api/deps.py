"""What a route needs of its caller: a scope, and a way in that a browser does not open to other sites.

What routes ask for: the service, and a caller holding a scope; must not hold state of its own.

Work that ends when the client who asked for it goes away; must not know what it is.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from api.admission import caller_of
from service.auth.audit import Audit
from service.service import Service
from settings.errors import ForbiddenError, SettingsError
from settings.security import Caller, Scope, SecuritySettings
from settings.validation import is_loopback

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# RFC 9110: a host and maybe a port, with no user name before it; loopback names have no other signs.
_HOST = re.compile(r"([a-z0-9.-]+|\[[0-9a-f.]*:[0-9a-f:.]*\])(?::[0-9]{1,5})?")
_WITHOUT_TOKENS = "call it as 127.0.0.1 or localhost, or configure a token"


@dataclass(frozen=True, slots=True)
class Requires:
    """A dependency that admits callers holding ``scope`` and returns them."""

    scope: Scope

    async def __call__(self, request: Request) -> Caller:
        """Who calls; raises the ``RequestError`` of who may not."""
        refuse_cross_site(request)
        caller = caller_of(request)
        if caller.kind == "local":
            refuse_foreign_names(request)
            refuse_foreign_origins(request)
        if self.scope not in caller.scopes:
            error = ForbiddenError(
                f"{request.method} {request.url.path}",
                f"token {caller.name!r} with scopes {', '.join(sorted(caller.scopes)) or 'none'}",
                f"this call needs the scope {self.scope}",
                "use a token that holds it",
            )
            audit: Audit | None = request.app.state.access.audit
            if (
                audit is not None
                and request.method not in _SAFE_METHODS
                and self.scope in ("operate", "admin")
            ):
                audit.refused(caller, f"{request.method} call", request.url.path, error)
            raise error
        return caller


async def refuse_uninvited(request: Request) -> None:
    """Asks of the caller what the request's route asks, before anything in the request is looked at: what is
    wrong with that is for those to know who may call. Raises ``RequestError``.
    """
    dependant = getattr(request.scope.get("route"), "dependant", None)
    for needed in [] if dependant is None else dependant.dependencies:
        if isinstance(needed.call, Requires):
            await needed.call(request)


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


def refuse_foreign_origins(request: Request) -> None:
    """The same where a browser does not tell the site: some do not over http. For calls without a token: no
    browser sends one by itself, and a proxy may rewrite the name that is compared here.
    """
    origin = request.headers.get("origin")
    if request.method in _SAFE_METHODS or origin is None or "sec-fetch-site" in request.headers:
        return
    if origin.partition("://")[2] != request.headers.get("host"):
        raise ForbiddenError(
            f"{request.method} {request.url.path}",
            f"a request from {origin[:80]!r}",
            "pages of other sites may not act here",
            "call it from this service's own page, or from a program",
        )


def refuse_foreign_names(request: Request, *, remedy: str = _WITHOUT_TOKENS) -> None:
    """Stops a page whose own name a DNS server points at this machine (rebinding).

    A request without a Host is refused too, although no browser sends one: probes of HTTP/1.0 that leave it
    out (HAProxy's ``httpchk``) ask for /healthz and /readyz, where nothing is asked of a caller.
    """
    given = request.headers.getlist("host")
    found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
    if found is None or not is_loopback(found[1]):
        raise ForbiddenError(
            "Host header",
            " and ".join(repr(one[:80]) for one in given[:2]) or "nothing",
            "what only this machine may call answers to loopback names only",
            remedy,
        )


def check_host(host: str, security: SecuritySettings, *, stored: bool = False) -> None:
    """Raises ``SettingsError`` where the service would be open to others without a token; ``stored``: its
    database has some.
    """
    if security.tokens or security.oidc is not None or stored or is_loopback(host):
        return
    raise SettingsError(
        "server host",
        repr(host),
        "without a token the service listens on loopback only",
        "make one with ecntwin token create, or configure a token in security.tokens, or use 127.0.0.1",
    )


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
PostsTelemetry = Annotated[Caller, Depends(Requires("telemetry"))]
Reads = Annotated[Caller, Depends(Requires("read"))]
Operates = Annotated[Caller, Depends(Requires("operate"))]
Administers = Annotated[Caller, Depends(Requires("admin"))]


T = TypeVar("T")


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """What ``work`` returns; None once the request's client has gone, and ``work`` is cancelled by then.

    The request's body must have been read.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        # Its own errors were raised above, or nobody is left to hear them.
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

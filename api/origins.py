"""Where a request comes from: pages of other sites and foreign host names are refused."""

from __future__ import annotations

import re

from fastapi import Request

from settings.errors import ForbiddenError
from settings.validation import is_loopback

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# RFC 9110: host and optional port, no user name; loopback names need no other characters.
_HOST = re.compile(r"([a-z0-9.-]+|\[[0-9a-f.]*:[0-9a-f:.]*\])(?::[0-9]{1,5})?")
_WITHOUT_TOKENS = "call it as 127.0.0.1 or localhost, or configure a token"


def refuse_cross_site(request: Request) -> None:
    """Stops a page of another site from acting through an operator's browser (CSRF)."""
    site = request.headers.get("sec-fetch-site", "none")
    if request.method not in SAFE_METHODS and site not in ("same-origin", "none"):
        raise _cross_site(request, f"another site ({site})")


def refuse_foreign_origins(request: Request) -> None:
    """The same check for browsers that send no Sec-Fetch-Site, as some do over http.

    Only for calls without a token: a browser never adds one by itself, and a proxy may rewrite the Host
    compared here.
    """
    origin = request.headers.get("origin")
    if request.method in SAFE_METHODS or origin is None or "sec-fetch-site" in request.headers:
        return
    if origin.partition("://")[2] != request.headers.get("host"):
        raise _cross_site(request, repr(origin[:80]))


def _cross_site(request: Request, source: str) -> ForbiddenError:
    return ForbiddenError(
        f"{request.method} {request.url.path}",
        f"a request from {source}",
        "pages of other sites may not act here",
        "call it from this service's own page, or from a program",
    )


def refuse_foreign_names(request: Request, *, remedy: str = _WITHOUT_TOKENS) -> None:
    """Stops DNS rebinding: the Host must be a loopback name.

    Requests without a Host are refused too; probes that omit it (HAProxy's ``httpchk``) use /healthz and
    /readyz, which have no dependency on a caller.
    """
    given = request.headers.getlist("host")
    found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
    if found is None or not is_loopback(found[1]):
        raise ForbiddenError(
            "Host header",
            " and ".join(repr(one[:80]) for one in given[:2]) or "nothing",
            "a service that only this machine may call accepts loopback host names only",
            remedy,
        )

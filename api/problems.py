"""Every error as an RFC 9457 problem document, unknown query parameters among them."""

from __future__ import annotations

import http
import logging
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Mount

from api.answers import request_id_of
from settings.errors import ApiError, RequestError, UnprocessableError, status_of
from settings.validation import Mistake, mistake
from switches.errors import SwitchError
from telemetry.errors import TelemetryError, sentence
from twin.errors import TwinError

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS_LISTED = 20

_log = logging.getLogger("ecntwin.api")

DOMAIN_ERRORS = (TelemetryError, TwinError, SwitchError, ApiError)


def problem(error: Exception) -> dict[str, Any]:
    """The problem document of a domain error, without ``instance``."""
    parts = Mistake(*(getattr(error, part) for part in Mistake._fields))
    notes = list(getattr(error, "__notes__", ()))
    kind = f"urn:ecntwin:problem:{_slug(type(error).__name__)}"
    return _document(kind, status_of(error), parts, detail=str(error), **({"notes": notes} if notes else {}))


def _document(
    kind: str, status: int, parts: Mistake, *, detail: str | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "type": kind,
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": detail or sentence(*parts),
        **parts._asdict(),
        **more,
    }


def problem_response(
    document: Mapping[str, Any], request: Request, headers: Mapping[str, str] | None = None
) -> Response:
    """The response with ``document``, as ``instance`` the request's path, and the request's id."""
    return JSONResponse(
        {**document, "instance": request.url.path, "request_id": request_id_of(request.scope)},
        status_code=document["status"],
        headers=dict(headers) if headers else None,
        media_type=MEDIA_TYPE,
    )


def install(app: FastAPI) -> None:
    for kind in DOMAIN_ERRORS:
        app.add_exception_handler(kind, _domain)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _domain(request: Request, error: Exception) -> Response:
    headers = {}
    if status_of(error) == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status_of(error) == 408:
        headers["Connection"] = "close"  # otherwise the rest of the body would be parsed as a request
    if isinstance(error, RequestError) and error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return problem_response(problem(error), request, headers)


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    malformed = next((entry for entry in error.errors() if entry["type"] == "json_invalid"), None)
    found = [_malformed(malformed)] if malformed else [_mistake(entry) for entry in error.errors()]
    kind, status = ("malformed-json", 400) if malformed else ("invalid-request", 422)
    listed = [entry._asdict() for entry in found[:MOST_ERRORS_LISTED]]
    kind = f"urn:ecntwin:problem:{kind}"
    return problem_response(_document(kind, status, found[0], errors=listed, error_count=len(found)), request)


def _mistake(entry: Mapping[str, Any]) -> Mistake:
    """Like ``settings.validation.mistake``, with its own sentences for missing and unread bodies."""
    if entry["loc"] == ("body",) and entry["type"] == "missing":
        return Mistake("body", None, "this call needs a JSON document", "send one")
    if entry["loc"] == ("body",) and isinstance(entry.get("input"), bytes):
        return Mistake(
            "body",
            f"{len(entry['input'])} bytes that are not said to be JSON",
            "it is a JSON document, and the header says so",
            "send Content-Type: application/json",
        )
    return mistake(entry)


def _malformed(entry: Mapping[str, Any]) -> Mistake:
    reason = str(entry.get("ctx", {}).get("error", "it does not parse")).lower()
    return Mistake(
        "body", f"broken JSON at byte {entry['loc'][-1]}: {reason}", "it is one JSON document", "correct it"
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, ApiError):  # raised below FastAPI, which lets only HTTPException through
        return await _domain(request, error.__cause__)
    status = error.status_code
    path, method = request.url.path, request.method
    headers = dict(error.headers or {})
    if status == 405 and (methods := methods_of(request.app, path)):
        headers = {"Allow": ", ".join(methods)}  # FastAPI names only those of the first matching route
    allowed = headers.get("Allow") or headers.get("allow")
    slash = path.endswith("/") and methods_of(request.app, path.rstrip("/"))
    parts = {
        404: (
            f"{method} {path}",
            None,
            "no such path; paths are listed at /docs",
            "leave out the slash at its end" if slash else "correct the path",
        ),
        405: (
            path,
            f"method {method}",
            f"allowed is {allowed}" if allowed else "another method",
            "change the method",
        ),
        400: (
            "body",
            "what cannot be parsed",
            "it is one JSON document, not nested without end",
            "correct it",
        ),
    }.get(status, (f"{method} {path}", None, str(error.detail), "correct the request"))
    return problem_response(_document("about:blank", status, Mistake(*parts)), request, headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__)
    parts = Mistake(
        f"{request.method} {request.url.path}",
        None,
        "this is a bug in ecntwin; the service goes on",
        "look in its log, and report it",
    )
    return problem_response(_document("urn:ecntwin:problem:internal", 500, parts), request)


def _slug(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("Error")).lower() or "error"


def methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods that this path takes, sorted; none of one below a mount."""
    return [
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        if any(
            route.matches({"type": "http", "path": path, "method": method})[0] is Match.FULL
            for route in app.routes
            if not isinstance(route, Mount)
        )
    ]


async def refuse_unknown_parameters(request: Request) -> None:
    """A dependency: a misspelt query parameter of ``/v1/`` is an error, not a silent default."""
    given = set(request.query_params)
    if not given or not request.url.path.startswith("/v1/"):
        return
    # Of the route, and not of the OpenAPI document: to make that takes the event loop half a second.
    parameters = get_flat_params(request.scope["route"].dependant)
    known = sorted(one.alias for one in parameters if isinstance(one.field_info, Query))
    for name in sorted(given.difference(known)):
        near = get_close_matches(name, known, n=1)
        raise UnprocessableError(
            f"query parameter {name[:80]!r}",
            None,
            f"not known; known here are {', '.join(known)}"
            if known
            else "this call takes no query parameters",
            f"did you mean {near[0]}?" if near else "remove it",
        )

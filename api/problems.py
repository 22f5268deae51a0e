"""What the OpenAPI document says of a path: its methods, and the query parameters that a call knows; those
that it does not know are refused.

Every error as an RFC 9457 problem document: one table from error to status, and handlers for FastAPI.
"""

from __future__ import annotations

import http
import logging
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from settings.errors import ApiError, BusyError, UnprocessableError, status_of
from settings.validation import Mistake, mistake
from switches.errors import SwitchError
from telemetry.errors import TelemetryError, sentence
from twin.errors import TwinError


def methods_of(app: FastAPI, path: str) -> list[str]:
    """What may be done at a path, sorted; empty where it is in no document."""
    return sorted(method.upper() for methods in _operations(app, path) for method in methods)


async def refuse_unknown_parameters(request: Request) -> None:
    """A misspelt query parameter would be a silent default. What is for machines alone bears any."""
    given = set(request.query_params)
    if not given or not request.url.path.startswith("/v1/"):
        return
    found = [
        methods.get(request.method.lower(), {}) for methods in _operations(request.app, request.url.path)
    ]
    known = sorted(
        one["name"] for operation in found for one in operation.get("parameters", ()) if one["in"] == "query"
    )
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


def _operations(app: FastAPI, path: str) -> Iterator[Mapping[str, Any]]:
    for template, methods in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path):
            yield methods


MEDIA_TYPE = "application/problem+json"
MOST_ERRORS_LISTED = 20

_log = logging.getLogger("ecntwin.api")

DOMAIN_ERRORS = (TelemetryError, TwinError, SwitchError, ApiError)


def problem(error: Exception) -> dict[str, Any]:
    """The problem document of a domain error, without ``instance``."""
    status = status_of(error)
    return {
        "type": f"urn:ecntwin:problem:{_slug(type(error).__name__)}",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": str(error),
        **{part: getattr(error, part) for part in ("where", "received", "rule", "remedy")},
        **({"notes": notes} if (notes := list(getattr(error, "__notes__", ()))) else {}),
    }


def problem_response(
    document: Mapping[str, Any], request: Request, headers: Mapping[str, str] | None = None
) -> Response:
    """The document with this request as its ``instance``."""
    return JSONResponse(
        {**document, "instance": request.url.path},
        status_code=document["status"],
        headers=dict(headers) if headers else None,
        media_type=MEDIA_TYPE,
    )


def install(app: FastAPI) -> None:
    """Makes every error of ``app`` a problem document."""
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
        headers["Connection"] = "close"  # what is still to come of the body is no next request
    if isinstance(error, BusyError):
        headers["Retry-After"] = str(error.retry_after_s)
    return problem_response(problem(error), request, headers)


async def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    malformed = next((entry for entry in error.errors() if entry["type"] == "json_invalid"), None)
    found = [_malformed(malformed)] if malformed else [_mistake(entry) for entry in error.errors()]
    first = found[0]
    status = 400 if malformed else 422
    document = {
        "type": f"urn:ecntwin:problem:{'malformed-json' if malformed else 'invalid-request'}",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": sentence(*first),
        **first._asdict(),
        "errors": [entry._asdict() for entry in found[:MOST_ERRORS_LISTED]],
        "error_count": len(found),
    }
    return problem_response(document, request)


def _mistake(entry: Mapping[str, Any]) -> Mistake:
    """As anywhere; a body that is none, or none that was read, is no key."""
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
        "body", f"broken JSON at byte {entry['loc'][-1]}: {reason}", "it is one JSON document", "mend it"
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, ApiError):  # raised below FastAPI, which lets only HTTPException through
        return await _domain(request, error.__cause__)
    status = error.status_code
    path, method = request.url.path, request.method
    headers = dict(error.headers or {})
    if status == 405 and (methods := methods_of(request.app, path)):
        headers = {"Allow": ", ".join(methods)}  # not only those of the route that was met first
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
        400: ("body", "what does not read", "it is one JSON document, not nested without end", "mend it"),
    }.get(status, (f"{method} {path}", None, str(error.detail), "correct the request"))
    where, received, rule, remedy = parts
    document = {
        "type": "about:blank",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": sentence(where, received, rule, remedy),
        "where": where,
        "received": received,
        "rule": rule,
        "remedy": remedy,
    }
    return problem_response(document, request, headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed: %s", request.method, request.url.path, type(error).__name__)
    where = f"{request.method} {request.url.path}"
    rule = "this is a bug in ecntwin; the service goes on"
    remedy = "look in its log, and report it"
    document = {
        "type": "urn:ecntwin:problem:internal",
        "title": "Internal Server Error",
        "status": 500,
        "detail": sentence(where, None, rule, remedy),
        "where": where,
        "received": None,
        "rule": rule,
        "remedy": remedy,
    }
    return problem_response(document, request)


def _slug(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name.removesuffix("Error")).lower() or "error"

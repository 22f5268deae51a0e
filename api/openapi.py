"""Completes the OpenAPI document: error responses and bearer tokens.

The error statuses of a call follow from its parameters, body and path, and from the table ``_MORE``.
"""

from __future__ import annotations

import http
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi

from api.problems import MEDIA_TYPE
from settings.errors import RequestError

_OPEN = frozenset({"/healthz", "/readyz"})
_BEARER = "bearer"

# Besides what follows from a call's shape.
_MORE: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("post", "/v1/telemetry/int"): (415,),
    ("post", "/v1/telemetry/counters"): (415,),
    ("get", "/v1/state"): (409,),
    ("get", "/v1/flows"): (409,),
    ("post", "/v1/tune"): (409, 422, 503),
    ("post", "/v1/whatif"): (409, 503),
    ("get", "/v1/recommendations/current"): (404,),
    ("get", "/v1/recommendations"): (404,),
    ("put", "/v1/freeze"): (503,),
    ("get", "/v1/events"): (503,),
    ("get", "/v1/audit"): (503,),
    ("get", "/v1/history/queues"): (503,),
    ("get", "/v1/history/residuals"): (503,),
    ("get", "/v1/history/alarms"): (503,),
    ("get", "/v1/recommendations/{recommendation_id}/outcome"): (503,),
}

_MEANS = {kind.status: (kind.__doc__ or "").splitlines()[0] for kind in RequestError.__subclasses__()}
_RETRY_AFTER = {
    "Retry-After": {
        "description": "After so many seconds it may be asked again.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_PROBLEM = {
    "type": "object",
    "description": "What went wrong (RFC 9457), and the four parts of every error here.",
    "required": ["type", "title", "status", "detail", "where", "received", "rule", "remedy", "instance"],
    "properties": {
        **{
            name: {"type": "string"}
            for name in ("type", "title", "detail", "where", "rule", "remedy", "instance")
        },
        "received": _TEXT_OR_NULL,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "notes": {"type": "array", "items": {"type": "string"}},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "received", "rule", "remedy"],
                "properties": {
                    **{name: {"type": "string"} for name in ("where", "rule", "remedy")},
                    "received": _TEXT_OR_NULL,
                },
                "additionalProperties": False,
            },
        },
        "error_count": {"type": "integer", "minimum": 1},
    },
    "additionalProperties": False,
}


def install(app: FastAPI) -> None:
    """Replaces the OpenAPI document of ``app`` and its route."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            app.openapi_schema = _completed(made)
        return app.openapi_schema

    @cache
    def written() -> bytes:
        return json.dumps(document()).encode()

    async def answer() -> Response:
        return Response(written(), media_type="application/json")

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to change it
    # FastAPI's own route would serialise it for each call: milliseconds of the event loop.
    app.add_api_route("/openapi.json", answer, methods=["GET", "HEAD"], include_in_schema=False)


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = operation["responses"]
            answers.pop("422", None)  # FastAPI's; never sent
            for status in sorted(set(_statuses(method, path, operation))):
                answers.setdefault(str(status), _answer(status))
            if path not in _OPEN:
                operation["security"] = [{_BEARER: []}]
    components = document["components"]
    components["securitySchemes"] = {
        _BEARER: {
            "type": "http",
            "scheme": "bearer",
            "description": "Asked for where one is configured; else the service listens on loopback only.",
        }
    }
    schemas = components["schemas"]
    schemas["Problem"] = _PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _statuses(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[int]:
    if path not in _OPEN:
        yield from (401, 403, 429)
    if "requestBody" in operation:
        yield from (400, 408, 413, 422)
    if operation.get("parameters"):
        yield 422
    if re.search(r"\{\w+\}", path):
        yield 404
        if method != "get":
            yield from (409, 503)
    yield from _MORE.get((method, path), ())


def _answer(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": f"{http.HTTPStatus(status).phrase}. {_MEANS[status]}",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status == 429:
        described["headers"] = _RETRY_AFTER
    return described

"""What the OpenAPI document says of a path: its methods, and the query parameters that a call knows; those
that it does not know are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request

from settings.errors import UnprocessableError


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
            "it in the URL",
            f"known here are {', '.join(known)}" if known else "this call knows no query parameters",
            f"did you mean {near[0]}?" if near else "remove it",
        )


def _operations(app: FastAPI, path: str) -> Iterator[Mapping[str, Any]]:
    for template, methods in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), path):
            yield methods

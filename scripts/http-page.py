"""Writes docs/reference/http-reference.md from the OpenAPI document; a test fails if it is out of date."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from api.app import create_app
from api.deps import Requires
from api.problems import MEDIA_TYPE
from settings.errors import RequestError
from settings.model import Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "http-reference.md"

HEAD = f"""# HTTP reference

Every route with its scope, parameters and answers; the running service shows the same at `/docs` and as
`/openapi.json`. [The overview](http.md) explains what each route is for.

```sh run service
curl http://127.0.0.1:8080/openapi.json
```

Fields with *or null* are null while unknown. Bodies are JSON unless a route says otherwise. Errors are
problem documents, `{MEDIA_TYPE}`; [errors](#errors) explains each status.

This page is written by `scripts/http-page.py`.
"""
_PLAIN = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}


def sentence(text: str) -> str:
    """A docstring as a paragraph of Markdown."""
    return " ".join(text.split()).replace("``", "`").replace("|", "/")


def type_name(schema: Mapping[str, Any]) -> str:
    """A schema as a person calls it, with links to those that have a table of their own."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(type_name(one) for one in schema[word]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_name(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {type_name(schema['additionalProperties'])}"
    if kind == "string" and schema.get("format") == "binary":
        return "bytes"
    return _PLAIN.get(str(kind), "anything") + bounds(schema)


def bounds(schema: Mapping[str, Any]) -> str:
    """What a number or text must satisfy besides its type."""
    signs = (
        ("exclusiveMinimum", ">"),
        ("minimum", "≥"),
        ("exclusiveMaximum", "<"),
        ("maximum", "≤"),
        ("minLength", "length ≥"),
        ("maxLength", "length ≤"),
    )
    found = [f"{sign} {schema[name]}" for name, sign in signs if name in schema]
    return f", {', '.join(found)}" if found else ""


def shown(value: object) -> str:
    """A default as JSON has it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value) if isinstance(value, (str, int, float)) else f"`{json.dumps(value)}`"


def scopes(app: FastAPI) -> dict[tuple[str, str], str]:
    """(method, path) → the scope that its dependency asks for."""
    found = {}
    for route in _routes(app.routes):
        asked = set(_asked(route.dependant))
        for method in route.methods:
            found[method, route.path_format] = ", ".join(sorted(asked))
    return found


def _routes(routes: Iterable[object]) -> Iterator[APIRoute]:
    """Also those of routers that are included, which newer versions of FastAPI keep as they are."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif (router := getattr(route, "original_router", None)) is not None:
            yield from _routes(router.routes)


def _asked(dependant: Dependant) -> Iterator[str]:
    for inner in dependant.dependencies:
        if isinstance(inner.call, Requires):
            yield inner.call.scope
        yield from _asked(inner)


def content(holder: Mapping[str, Any]) -> str:
    """The media types of a body or an answer, each with what it holds."""
    kinds = holder.get("content", {})
    parts = []
    for media, what in kinds.items():
        schema = what.get("schema") or {}
        name = type_name(schema) if schema else "a stream of it"
        parts.append(name if media == "application/json" else f"`{media}`: {name}")
    return "; ".join(parts)


def route_of(method: str, path: str, route: Mapping[str, Any], scope: str) -> str:
    """One route: heading, what it does, parameters, body, answers."""
    lines = [
        f"\n### {method} {path}\n",
        f"\nScope: {f'`{scope}`' if scope else 'none'}. ",
    ]
    lines.append(sentence(route.get("description", route.get("summary", ""))) + "\n")
    # These are on every route, or on every one that gets a document.
    parameters = [one for one in route["parameters"] if one["name"] not in ("X-Request-ID", "If-None-Match")]
    if parameters:
        lines.append("\n| parameter | in | type | default | |\n|---|---|---|---|---|\n")
        for one in parameters:
            schema = one.get("schema", {})
            note = sentence(one.get("description", ""))
            default = "required" if one.get("required") else shown(schema.get("default"))
            lines.append(f"| `{one['name']}` | {one['in']} | {type_name(schema)} | {default} | {note} |\n")
    if body := route.get("requestBody"):
        lines.append(f"\nBody: {content(body)}.\n")
    answers, problems = [], []
    for status, answer in route["responses"].items():
        if MEDIA_TYPE in answer.get("content", ()):
            problems.append(status)
            continue
        held = content(answer)
        answers.append(f"{status}{f': {held}' if held else ''}")
    errors = f" [Problems](#errors): {', '.join(problems)}." if problems else ""
    lines.append(f"\nAnswers: {'; '.join(answers)}.{errors}\n")
    return "".join(lines)


def schema_of(name: str, schema: Mapping[str, Any]) -> str:
    """One schema with its fields."""
    lines = [f"\n### {name}\n\n{sentence(schema.get('description', ''))}\n"]
    required: Sequence[str] = schema.get("required", ())
    lines.append("\n| field | type | |\n|---|---|---|\n")
    for key, field in schema.get("properties", {}).items():
        note = sentence(field.get("description", ""))
        if key not in required:
            default = f"default {shown(field['default'])}" if "default" in field else "may be left out"
            note = f"{note} {default}".strip()
        lines.append(f"| `{key}` | {type_name(field)} | {note} |\n")
    return "".join(lines)


def errors() -> str:
    """The statuses that the service's own errors have."""
    head = (
        "\n## Errors\n\nEvery error is a problem document (RFC 9457) with `type`, `title`, `status`,\n"
        "`detail`, `instance`, and the parts of the sentence in `detail`: `where`, `received`, `rule`,\n"
        "`remedy`. A body with several mistakes lists them under `errors`. 429 carries `Retry-After`, 503\n"
        "may, 401 `WWW-Authenticate`.\n\n| status | means |\n|---|---|\n"
    )
    means = {
        kind.status: sentence((kind.__doc__ or "").splitlines()[0]) for kind in RequestError.__subclasses__()
    }
    means |= {
        500: "The service met a mistake of its own, logged it and went on.",
        502: "A switch refused, or did not answer.",
    }
    return "".join([head, *(f"| {status} | {means[status]} |\n" for status in sorted(means))])


def page() -> str:
    """The whole page."""
    app = create_app(Settings())
    document = app.openapi()
    asked = scopes(app)
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            key = (method.upper(), path)
            tag = (route.get("tags") or ["other"])[0]
            by_tag.setdefault(tag, []).append(route_of(*key, route, asked.get(key, "")))
    parts = [HEAD]
    for tag, routes in by_tag.items():
        parts += [f"\n## {tag.capitalize()}\n", *routes]
    parts += [errors(), "\n## Documents\n"]
    schemas = document["components"]["schemas"]
    parts += [schema_of(name, schemas[name]) for name in sorted(schemas) if name != "Problem"]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

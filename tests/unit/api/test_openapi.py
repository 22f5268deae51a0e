"""The OpenAPI document explains itself: nothing in it is left without words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from api.app import create_app
from service.documents import admin, history, predictions, recommendation, rollouts, switches, telemetry
from service.ingest import formats
from settings.model import Settings

DOCUMENT: Mapping[str, Any] = create_app(Settings()).openapi()
OPERATIONS: Mapping[str, Mapping[str, Any]] = {
    f"{method.upper()} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


def undescribed(where: str, schema: object) -> Iterator[str]:
    """The properties without a description anywhere in a schema."""
    if isinstance(schema, list):
        for one in schema:
            yield from undescribed(where, one)
    if not isinstance(schema, Mapping):
        return
    for name, one in schema.get("properties", {}).items():
        if not one.get("description", "").strip():
            yield f"{where}.{name}"
        yield from undescribed(f"{where}.{name}", one)
    for part in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
        yield from undescribed(where, schema.get(part))


def test_every_schema_and_every_property_is_described() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert not [name for name, schema in schemas.items() if not schema.get("description")]
    assert not [found for name, schema in schemas.items() for found in undescribed(name, schema)]
    assert not list(undescribed("paths", [inline(one) for one in OPERATIONS.values()]))


def inline(operation: Mapping[str, Any]) -> list[Any]:
    """The schemas inside an operation."""
    holders = [operation.get("requestBody", {}), *operation["responses"].values()]
    return [media.get("schema") for one in holders for media in one.get("content", {}).values()]


@pytest.mark.parametrize(
    "module",
    [admin, history, predictions, recommendation, rollouts, switches, telemetry],
    ids=lambda module: module.__name__.rpartition(".")[2],
)
def test_documents_of_commands_are_described_too(module: object) -> None:
    missing = [
        f"{name}.{field}"
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, BaseModel)
        for field, info in kind.model_fields.items()
        if not info.description
    ]
    assert not missing


@pytest.mark.parametrize("call", OPERATIONS)
def test_every_operation_has_a_name_a_summary_and_a_text_of_its_own(call: str) -> None:
    operation = OPERATIONS[call]
    assert re.fullmatch("[a-z]+(_[a-z]+)*", operation["operationId"])
    assert operation["summary"] != operation["operationId"].replace("_", " ").title()
    assert operation["description"]
    assert operation["tags"]


def test_names_and_summaries_are_of_one_operation_each() -> None:
    for part in ("operationId", "summary"):
        assert len({one[part] for one in OPERATIONS.values()}) == len(OPERATIONS)


@pytest.mark.parametrize("call", OPERATIONS)
def test_every_parameter_body_and_answer_is_described(call: str) -> None:
    operation = OPERATIONS[call]
    said = {f"parameter {one['name']}": one.get("description") for one in operation.get("parameters", ())}
    said |= {f"answer {status}": one.get("description") for status, one in operation["responses"].items()}
    if "requestBody" in operation:
        said["body"] = described_body(operation["requestBody"])
    assert not [name for name, text in said.items() if not text or text == "Successful Response"]


def described_body(body: Mapping[str, Any]) -> str | None:
    """What a request body says of itself, or its schema does."""
    schema = body["content"]["application/json"]["schema"]
    named = DOCUMENT["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    text: str | None = body.get("description") or named.get("description")
    return text


def test_reports_are_posted_in_every_format_that_is_read() -> None:
    said = OPERATIONS["POST /v1/telemetry/int"]["requestBody"]["content"]
    assert {formats.ARROW_TYPE, formats.BINARY_TYPE, formats.HPCC_TYPE} < said.keys()


def test_every_tag_is_explained_and_used() -> None:
    explained = {one["name"] for one in DOCUMENT["tags"] if one["description"]}
    assert explained == {tag for one in OPERATIONS.values() for tag in one["tags"]}

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

Document = Mapping[str, Any]


@pytest.fixture(scope="module")
def document() -> Document:
    made: Document = create_app(Settings()).openapi()
    return made


@pytest.fixture(scope="module")
def operations(document: Document) -> Mapping[str, Document]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
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


def test_every_schema_and_every_property_is_described(
    document: Document, operations: Mapping[str, Document]
) -> None:
    schemas = document["components"]["schemas"]
    assert not [name for name, schema in schemas.items() if not schema.get("description")]
    assert not [found for name, schema in schemas.items() for found in undescribed(name, schema)]
    assert not list(undescribed("paths", [inline(one) for one in operations.values()]))


def test_schemas_are_not_named_by_the_modules_they_are_in(document: Document) -> None:
    assert not [name for name in document["components"]["schemas"] if "__" in name]


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


def test_every_operation_has_a_name_a_summary_and_a_text_of_its_own(
    operations: Mapping[str, Document], subtests: pytest.Subtests
) -> None:
    for call, operation in operations.items():
        with subtests.test(call):
            assert re.fullmatch("[a-z]+(_[a-z]+)*", operation["operationId"])
            assert operation["summary"] != operation["operationId"].replace("_", " ").title()
            assert operation["description"]
            assert operation["tags"]


def test_names_and_summaries_are_of_one_operation_each(operations: Mapping[str, Document]) -> None:
    for part in ("operationId", "summary"):
        assert len({one[part] for one in operations.values()}) == len(operations)


def test_every_parameter_body_and_answer_is_described(
    document: Document, operations: Mapping[str, Document], subtests: pytest.Subtests
) -> None:
    for call, operation in operations.items():
        said = {f"parameter {one['name']}": one.get("description") for one in operation.get("parameters", ())}
        said |= {f"answer {status}": one.get("description") for status, one in operation["responses"].items()}
        if "requestBody" in operation:
            said["body"] = described_body(document, operation["requestBody"])
        with subtests.test(call):
            assert not [name for name, text in said.items() if not text or text == "Successful Response"]


def described_body(document: Document, body: Document) -> str | None:
    """What a request body says of itself, or its schema does."""
    schema = body["content"]["application/json"]["schema"]
    named = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    text: str | None = body.get("description") or named.get("description")
    return text


def test_reports_are_posted_in_every_format_that_is_read(operations: Mapping[str, Document]) -> None:
    said = operations["POST /v1/telemetry/int"]["requestBody"]["content"]
    assert {formats.ARROW_TYPE, formats.BINARY_TYPE, formats.HPCC_TYPE} < said.keys()


def test_every_tag_is_explained_and_used(document: Document, operations: Mapping[str, Document]) -> None:
    explained = {one["name"] for one in document["tags"] if one["description"]}
    assert explained == {tag for one in operations.values() for tag in one["tags"]}

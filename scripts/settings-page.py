"""Writes docs/reference/settings.md from the settings; a test fails if it is out of date."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from settings.model import ENV_DELIMITER, Settings
from settings.validation import ENV_PREFIX

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "settings.md"

HEAD = f"""# Settings

Environment beats file beats default. The file is YAML, given as `ecntwin serve --config FILE`;
`ecntwin check-config FILE` checks one without starting anything. An unknown key is an error.

    telemetry:
      elephant_bytes: 2000000

The environment variable for it is `{ENV_PREFIX}TELEMETRY{ENV_DELIMITER}ELEPHANT_BYTES=2000000`: the section,
two underscores, the key. A list or a section in one variable is JSON.

This page is written by `scripts/settings-page.py`.
"""


def type_name(annotation: Any) -> str:
    """A type as a person who writes YAML calls it."""
    if get_origin(annotation) is Annotated:
        return type_name(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) in (types.UnionType, Union):
        return " or ".join("none" if one is type(None) else type_name(one) for one in get_args(annotation))
    if get_origin(annotation) is tuple:
        return f"list of {type_name(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return "mapping"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping of " + ", ".join(f"`{name}`" for name in annotation.model_fields)
    plain = {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path"}
    return plain.get(annotation, str(annotation))


def bounds(field: FieldInfo) -> str:
    """What the number must satisfy besides its type."""
    signs = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))
    return ", ".join(
        f"{sign} {getattr(rule, name)}"
        for rule in field.metadata
        for name, sign in signs
        if getattr(rule, name, None) is not None
    )


def default(field: FieldInfo) -> str:
    """The default as YAML would have it."""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel):
        return ", ".join(f"{name} {part}" for name, part in value.model_dump().items())
    return "empty" if value in ((), {}) else f"`{list(value) if isinstance(value, tuple) else value}`"


def is_section(annotation: Any) -> bool:
    """Whether it is a section with a table of its own: all of its settings have defaults."""
    return (
        isinstance(annotation, type)
        and issubclass(annotation, BaseModel)
        and not any(field.is_required() for field in annotation.model_fields.values())
    )


def section_of(name: str, section: type[BaseModel], heading: str) -> str:
    """A section, and those inside it."""
    what = " ".join((section.__doc__ or "").split()).replace("``", "`")
    rows, inside = [], []
    for attribute, field in section.model_fields.items():
        key = field.alias or attribute
        if is_section(field.annotation):
            inner = f"{name}.{key}"
            rows.append(f"| `{key}` | [{inner}](#{inner.replace('.', '')}) | |\n")
            inside.append(section_of(inner, field.annotation, heading + "#"))  # type: ignore[arg-type]
        else:
            kind = ", ".join(part for part in (type_name(field.annotation), bounds(field)) if part)
            rows.append(f"| `{key}` | {kind} | {default(field)} |\n")
    table = "| key | type | default |\n|---|---|---|\n"
    return "".join([f"\n{heading} {name}\n\n{what}\n\n{table}", *rows, *inside])


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, field in Settings.model_fields.items():
        section = field.annotation
        assert isinstance(section, type)
        assert issubclass(section, BaseModel)
        parts.append(section_of(name, section, "##"))
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

"""Reads the settings file and the environment into ``Settings``; every mistake is one ``SettingsError``."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings import SettingsError as SourceError

from api.errors import SettingsError
from api.settings import ENV_DELIMITER, ENV_PREFIX, Settings
from api.validation import mistake

CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"  # names the file itself, so it is not a setting
TOKEN_VARIABLE = f"{ENV_PREFIX}TOKEN"  # what commands that call a service send


def load_settings(path: Path | None = None, *, environment: Mapping[str, str] | None = None) -> Settings:
    """Environment over file over defaults. Relative paths in the file start at the file's folder.

    ``environment`` (default: the process's) is only checked for unknown names; values are the process's.
    """
    _check_environment(os.environ if environment is None else environment)
    document = {} if path is None else _resolve(_read(path), path.parent)
    source = "settings" if path is None else f"settings {path.name}"
    try:
        return Settings(**document)
    except SourceError as error:
        raise SettingsError(
            "settings environment",
            str(error),
            "a section in one variable is a JSON object",
            "quote it as JSON",
        ) from error
    except ValidationError as error:
        raise settings_error(error, source) from error


def override(settings: Settings, *, host: str | None = None, port: int | None = None) -> Settings:
    """The same with what the command line says; None leaves a value as it is."""
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    if not given:
        return settings
    try:
        server = type(settings.server).model_validate(settings.server.model_dump() | given)
    except ValidationError as error:
        raise settings_error(error, "option") from error
    return settings.model_copy(update={"server": server})


def settings_error(error: ValidationError, source: str) -> SettingsError:
    """The first mistake in four parts, with the number of the others."""
    found = error.errors(include_url=False)
    first = mistake(found[0], model=Settings, prefix=source)
    others = len(found) - 1
    more = f" ({others} more mistake{'s' if others > 1 else ''} after this one)" if others else ""
    return SettingsError(first.where, first.received, first.rule, first.remedy + more)


def _check_environment(environment: Mapping[str, str]) -> None:
    known = {name.upper() for name in Settings.model_fields}
    for variable in sorted(environment):
        upper = variable.upper()
        if not upper.startswith(ENV_PREFIX) or upper in (CONFIG_VARIABLE, TOKEN_VARIABLE):
            continue
        section = upper.removeprefix(ENV_PREFIX).split(ENV_DELIMITER)[0]
        if section not in known:
            near = get_close_matches(section, sorted(known), n=1)
            raise SettingsError(
                f"environment {variable}",
                f"section {section.lower()!r}",
                f"known sections are {', '.join(sorted(known)).lower()}; {ENV_DELIMITER} goes before a key",
                f"did you mean {near[0].lower()}?" if near else "unset or rename it",
            )


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"settings {path}",
            error.strerror or type(error).__name__,
            "the file must be readable",
            "correct the path",
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"settings {path}", "bytes", "the file must be UTF-8 text", "save it so"
        ) from error
    try:
        document = yaml.load(text, Loader=_UniqueKeys)
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise SettingsError(
            f"settings {path.name}", said, "the file must be YAML", "correct the line"
        ) from error
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise SettingsError(
            f"settings {path.name}",
            type(document).__name__,
            "the file holds sections by name",
            "see the example",
        )
    return document


class _UniqueKeys(yaml.SafeLoader):
    """YAML lets a later key silently replace an earlier one; here that is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(None, None, f"key {key.value!r} twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _resolve(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    fabric = document.get("fabric")
    if not isinstance(fabric, dict) or not isinstance(fabric.get("topology"), str):
        return document
    return document | {"fabric": fabric | {"topology": str(folder / fabric["topology"])}}

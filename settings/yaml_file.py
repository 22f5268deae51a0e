"""YAML files that people write: one mapping of text keys, none of them twice; must not know what they mean.

A message tells the place of a mistake and never the line itself, which may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from settings.errors import SettingsError

# What PyYAML's messages repeat of the file; its names of tokens, such as '<block end>', may stay.
_QUOTED = re.compile(r""" ('[^'<][^']+'|"[^"<][^"]+")""")


class DuplicateKeyError(yaml.MarkedYAMLError):
    """A key that a mapping has already."""


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a file, empty for an empty file; ``what`` names the file's kind in errors.

    Raises ``SettingsError``.
    """
    text = _text(path, what)
    where = f"{what} {path.name}"
    try:
        document = yaml.load(text, Loader=_UniqueKeys)
    except yaml.MarkedYAMLError as error:
        raise SettingsError(where, _said(error), "the file must be YAML", "correct the line") from None
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise SettingsError(where, said, "the file must be YAML", "correct the line") from error
    except (ValueError, RecursionError) as error:  # a date that is none; brackets in brackets without end
        raise SettingsError(
            where, type(error).__name__, "its values must be of YAML's kinds", "quote what is text"
        ) from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise SettingsError(
            where, type(document).__name__, "the file holds sections by name", "see the example"
        )
    return document


class _UniqueKeys(yaml.SafeLoader):
    """YAML lets a later key silently replace an earlier one; here that is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise DuplicateKeyError(None, None, f"key {key.value!r} twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _said(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "something else"
    if not isinstance(error, DuplicateKeyError):
        problem = _QUOTED.sub("", problem)
    mark = error.problem_mark or error.context_mark
    return problem if mark is None else f"{problem} (line {mark.line + 1}, column {mark.column + 1})"


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"{what} {path}",
            error.strerror or type(error).__name__,
            "the file must be readable",
            "correct the path",
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{what} {path}", "bytes", "the file must be UTF-8 text", "save it so") from error

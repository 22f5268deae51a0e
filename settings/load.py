"""Reads the settings file (YAML) and the environment into ``Settings``.

An error gives the place of a mistake and never the line itself, which may hold a secret.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from platformdirs import user_state_path
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError as SourceError

from settings.errors import InputError, SettingsError
from settings.model import ENV_DELIMITER, Settings
from settings.validation import ENV_PREFIX, NOT_SETTINGS, Mistake, in_order, mistake
from twin.workers.private_folder import make_private_folder


def with_storage(settings: Settings) -> Settings:
    """The settings with a database file in the user's state folder where they name no database.

    Raises ``SettingsError`` where that folder cannot be made.
    """
    if settings.storage.url is not None:
        return settings
    folder = user_state_path("ecntwin", appauthor=False)
    try:
        make_private_folder(folder)
    except OSError as error:
        raise SettingsError(
            "settings storage.url",
            None,
            f"without it the user's folder for state is used, and {folder} cannot be made ({error.strerror})",
            "name a database, such as sqlite:///ecntwin.db, or memory",
        ) from error
    storage = settings.storage.model_copy(update={"url": f"sqlite:///{folder / 'ecntwin.db'}"})
    return settings.model_copy(update={"storage": storage})


# What PyYAML's messages repeat of the file; its token names, such as '<block end>', may stay.
_QUOTED = re.compile(r""" ('[^'<][^']+'|"[^"<][^"]+")""")


class DuplicateKeyError(yaml.MarkedYAMLError):
    """A key occurs twice in a mapping."""


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a file, empty for an empty file; ``what`` names the file's kind in errors.

    Raises ``SettingsError``.
    """
    return parse_yaml(read_text(path, what), f"{what} {path.name}")


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """Like ``read_yaml``, for a text."""
    try:
        document = yaml.load(text, Loader=_UniqueKeys)
    except yaml.MarkedYAMLError as error:
        raise SettingsError(where, _said(error), "the file must be YAML", "correct the line") from None
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise SettingsError(where, said, "the file must be YAML", "correct the line") from error
    except (ValueError, RecursionError) as error:  # an invalid date; brackets nested too deeply
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
    """Refuses duplicate keys, of which YAML would silently take the last."""

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
    mark = error.problem_mark or error.context_mark
    at = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
    if isinstance(error, DuplicateKeyError):
        return f"{problem}{at}"
    problem = _QUOTED.sub("", problem).replace("'<stream end>'", "the end of the file")
    return f"text that is not YAML{at} ({problem})"


def read_text(path: Path, what: str) -> str:
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


def read_bytes(path: Path, what: str) -> bytes:
    """The bytes of a file named on the command line; raises ``InputError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        raise InputError(f"{what} {path}", said, "the file must be readable", "correct the path") from error


_SQLITE = "sqlite:///"
_FILES = (
    *("fabric.topology", "push.inventory", "search.dask_ca", "search.dask_certificate", "search.dask_key"),
    *("server.tls_certificate", "server.tls_key", "server.tls_key_password_file", "server.tls_client_ca"),
    *("security.oidc.ca", "tuning.advice_file"),
)


def load_settings(path: Path | None = None) -> Settings:
    """Environment over file over defaults. Relative paths in the file start at the file's folder."""
    unknown = list(_unknown_sections())
    document = {} if path is None else _resolve(read_yaml(path, "settings"), path.parent)
    source = "settings" if path is None else f"settings {path.name}"
    try:
        settings = Settings(**document)
    except SourceError as error:
        raise SettingsError(
            f"environment {_not_json(str(error))}",
            "text that is not JSON",
            "a list or a whole section in one variable is JSON",
            'write a list as ["leaf1", "leaf2"], a section as {"key": value}',
        ) from error
    except ValidationError as error:
        raise settings_error(error, source, unknown) from error
    if unknown:
        raise counted(unknown)
    return settings


_FIELD = re.compile(r'field "(\w+)"')


def _not_json(error: str) -> str:
    """The variables that may be what pydantic-settings, which names only a section, could not parse."""
    section = _FIELD.search(error)
    begin = ENV_PREFIX + (section[1].upper() if section else "")

    def parses(text: str) -> bool:
        try:
            json.loads(text)
        except ValueError:
            return False
        return True

    names = [name for name in sorted(os.environ) if name.upper().startswith(begin)]
    return " or ".join(name for name in names if not parses(os.environ[name])) or f"{begin}…"


def override(settings: Settings, *, host: str | None = None, port: int | None = None) -> Settings:
    """The settings with the host and port of the command line."""
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    if not given:
        return settings
    try:
        server = type(settings.server).model_validate(settings.server.model_dump() | given)
    except ValidationError as error:
        raise settings_error(error, "option") from error
    return settings.model_copy(update={"server": server})


def settings_error(error: ValidationError, source: str, before: Iterable[Mistake] = ()) -> SettingsError:
    """All mistakes, those found ``before`` the first."""
    found = (
        mistake(one, model=Settings, prefix=source, hidden=_may_be_secret(one)) for one in in_order(error)
    )
    return counted([*before, *found])


def _may_be_secret(error: ErrorDetails) -> bool:
    """Whether it is about a text in place of a section or under an unknown key, such as ``password``, or
    about anything in place of a token.
    """
    place = error["loc"]
    if place[:2] == ("security", "tokens"):
        return place[3:4] not in (("name",), ("scopes",))
    return isinstance(error["input"], str) and (len(place) == 1 or error["type"] == "extra_forbidden")


def counted(mistakes: Sequence[Mistake]) -> SettingsError:
    """The first mistake, how many follow it, and each of them as a note."""
    first, *others = mistakes
    more = f" ({len(others)} more mistake{'s' if len(others) > 1 else ''} after this one)" if others else ""
    error = SettingsError(first.where, first.received, first.rule, first.remedy + more)
    for other in others:
        error.add_note(str(SettingsError(*other)))
    return error


def _unknown_sections() -> Iterator[Mistake]:
    """Of variables of the environment."""
    known = {name.upper() for name in Settings.model_fields}
    for variable in sorted(os.environ):
        upper = variable.upper()
        if not upper.startswith(ENV_PREFIX) or upper in NOT_SETTINGS:
            continue
        section = upper.removeprefix(ENV_PREFIX).split(ENV_DELIMITER)[0]
        if section not in known:
            near = get_close_matches(section, sorted(known), n=1)
            yield Mistake(
                f"environment {variable}",
                f"section {section.lower()!r}",
                f"known sections are {', '.join(sorted(known)).lower()}; {ENV_DELIMITER} goes before a key",
                f"did you mean {near[0].lower()}?" if near else "unset or rename it",
            )


def _resolve(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The document with relative files in it beginning at the folder."""
    for name in _FILES:
        document = _replaced(document, name.split("."), lambda text: str(folder / text))
    return _replaced(document, ["storage", "url"], lambda text: _database_beside(text, folder))


def _replaced(document: dict[str, Any], place: list[str], change: Callable[[str], str]) -> dict[str, Any]:
    """The document with ``change`` applied to the text at a place, if there is one."""
    content = document.get(place[0])
    if len(place) == 1:
        return document | {place[0]: change(content)} if isinstance(content, str) else document
    if not isinstance(content, dict):
        return document
    return document | {place[0]: _replaced(content, place[1:], change)}


def _database_beside(url: str, folder: Path) -> str:
    """A relative SQLite path follows three slashes; an absolute one begins with a fourth."""
    name = url.removeprefix(_SQLITE)
    if name == url or not name or name.startswith(("/", ":memory:", "file:")):
        return url
    return _SQLITE + str(folder.absolute() / name)

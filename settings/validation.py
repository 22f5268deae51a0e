"""Checks of addresses and URLs, pydantic's errors in four parts, and names of environment variables."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from twin.errors import ParameterError
from twin.units import BYTES, SECONDS, SHARE, quantity

DURATION: Mapping[str, float] = {**SECONDS, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_DATABASE = re.compile(r"[a-z][a-z0-9_]*(\+[a-z0-9_]+)?://\S*")
_KINDS = re.compile(r"\b(?:int|float|bool)\b")
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):.*@|(?<=password=)([^&]*)")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def server_url(text: str) -> str:
    """``text``, if it is the URL of a server; raises ``ValueError`` with the rule."""
    rule = "it is the http or https URL of a server"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError(rule) from None
    printable = text.isascii() and text.isprintable() and " " not in text
    if not printable or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(rule)
    if parts.query or parts.fragment:
        raise ValueError(f"{rule}, without ? and #")
    if parts.username or parts.password:
        raise ValueError(f"{rule}, without a user name or password")
    return text


def database_url(text: str) -> str:
    """``text``, if it has the form of a database URL; raises ``ValueError``, which does not repeat it."""
    if not _DATABASE.fullmatch(text):
        raise ValueError("it is the URL of a database, such as sqlite:///ecntwin.db")
    return text


def without_password(url: str) -> str:
    return _PASSWORD.sub(lambda found: "***" if found[1] is None else f"{found[1]}:***@", url)


class Section(BaseModel):
    """A part of the settings: frozen, unknown keys refused, no NaN or infinity, no truth for a number, sizes
    also as ``4MB``, Pmax as ``20%``, durations as ``10m``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _as_people_write_it(cls, given: object, info: ValidationInfo) -> object:
        name = info.field_name or ""
        holds = set(_KINDS.findall(str(cls.model_fields[name].annotation)))
        if isinstance(given, bool) and holds and "bool" not in holds:
            raise ValueError(f"it is a {'whole ' * ('float' not in holds)}number, neither true nor false")
        units = BYTES if "bytes" in name else SHARE if name.startswith("pmax") else None
        if name.endswith("_s") and not name.endswith("_per_s"):
            units = DURATION
        if units is None or not isinstance(given, str):
            return given
        try:
            return quantity(name, given, units)
        except ParameterError as error:
            raise ValueError(error.rule) from None


_LONGEST_VALUE = 120
_INSTANCE = re.compile(r" or instance of \w+")
_WORDS = {
    "a valid dictionary or object to extract fields from": "an object",
    "a valid dictionary": "an object",
    "Dictionary should": "An object should",
    " after validation": "",
    "valid tuple": "valid list",
    "valid frozenset": "valid list",
    "Tuple should": "A list should",
    " for <class 'pathlib.Path'>": "",
    "timezone info": "a zone, such as Z",
}


class HiddenValueError(ValueError):
    """The error for a value that may be a secret, and is therefore not shown."""

    def __init__(self, rule: str, remedy: str = "correct the value") -> None:
        self.rule = rule
        self.remedy = remedy
        super().__init__(rule)


class Mistake(NamedTuple):
    where: str
    received: str | None
    rule: str
    remedy: str


HIDDEN = "a value that is not shown"


def mistake(
    error: Mapping[str, Any], *, model: type[BaseModel] | None = None, prefix: str = "", hidden: bool = False
) -> Mistake:
    """One entry of ``ValidationError.errors()``; ``model`` gives the known keys beside an unknown one.

    ``hidden``: the value may be a secret.
    """
    location = tuple(error["loc"])
    where = " ".join(part for part in (prefix, dotted(location)) if part)
    kind = str(error["type"])
    cause: Any = (error.get("ctx") or {}).get("error")
    if all(hasattr(cause, part) for part in ("where", "received", "rule", "remedy")):
        return Mistake(
            f"{where}: {cause.where}" if where else cause.where, cause.received, cause.rule, cause.remedy
        )
    if isinstance(cause, HiddenValueError):
        return Mistake(where, HIDDEN, cause.rule, cause.remedy)
    received = HIDDEN if hidden else shown(error.get("input"))
    if kind == "extra_forbidden":
        known = sorted(_fields(model, location[:-1])) if model else []
        near = get_close_matches(str(location[-1]), known, n=1)
        rule = f"known keys here are {', '.join(known)}" if known else "the key is not known here"
        return Mistake(where, received, rule, f"did you mean {near[0]}?" if near else "remove it")
    if kind == "missing":
        return Mistake(where, None, "this key is needed", "add it")
    message = _INSTANCE.sub("", str(error["msg"]).removeprefix("Value error, "))
    for pythons, ours in _WORDS.items():
        message = message.replace(pythons, ours)
    return Mistake(where, received, message[:1].lower() + message[1:], "correct the value")


def in_order(error: ValidationError) -> list[ErrorDetails]:
    """The errors in order, but missing keys last: a missing key may be a misspelt one."""
    return sorted(error.errors(include_url=False), key=lambda one: one["type"] == "missing")


def dotted(location: Iterable[str | int]) -> str:
    """``("security", "tokens", 0, "name")`` as ``security.tokens[0].name``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: object) -> str:
    """A value for an error: short, and the type instead of a whole document."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return f"an array of {len(value)}"
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _fields(model: type[BaseModel], location: Iterable[str | int]) -> Iterable[str]:
    """The keys known at a place in a document."""
    annotation: Any = model
    for part in location:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            named = (field for name, field in annotation.model_fields.items() if part in (name, field.alias))
            annotation = next((field.annotation for field in named), None)
        elif get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]
        elif get_origin(annotation) is tuple:
            annotation = get_args(annotation)[0]
        else:
            return ()
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        if get_origin(annotation) in (Union, UnionType) and len(kinds) == 1:
            annotation = kinds[0]
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return ()
    return [field.alias or name for name, field in annotation.model_fields.items()]


ENV_PREFIX = "ECNTWIN_"
CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"  # names the settings file itself
TOKEN_VARIABLE = f"{ENV_PREFIX}TOKEN"  # what commands that call a service send
URL_VARIABLE = f"{ENV_PREFIX}URL"  # the service that they call
CA_VARIABLE = f"{ENV_PREFIX}CA"  # who vouches for its certificate
CLIENT_CERTIFICATE_VARIABLE = f"{ENV_PREFIX}CLIENT_CERTIFICATE"  # what is shown to one that asks for it
NOT_SETTINGS = frozenset(
    {CONFIG_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE, CA_VARIABLE, CLIENT_CERTIFICATE_VARIABLE}
)

"""Why a record was left out, in the sender's words: field, value, rule, remedy; imports no decoder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from telemetry.errors import ReportError

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")
_NOT_A_NUMBER = re.compile(rb"[:\[,]\s*(-?(?:NaN|Infinity|nan|inf))\b")
_SHOWN_LENGTH = 60
_MOST_LOOKED_INTO_BYTES = 1 << 16  # of a record, for the value that is wrong


@dataclass(frozen=True, slots=True)
class Wording:
    """What a format's sentences are made of: a record's ``noun``, ``plural`` with its kind, what a ``whole``
    one is, what to send for a value that is ``absent``, and the rule of each field.
    """

    noun: str
    plural: str
    whole: str
    absent: str
    rules: Mapping[str, str]


def explained(at: str, text: bytes, message: str, *, field: str, wording: Wording) -> ReportError:
    """The sentence for a record that is JSON but breaks a rule.

    ``message`` is msgspec's, which names the place inside ``text``; ``field`` is what ``text`` is as a whole
    (``""`` for a record).
    """
    place = _PLACE.search(message)
    path = place["path"] if place else ""
    missing = _MISSING.search(message)
    field = missing["field"] if missing else (_last_key(path) or field)
    where = at + _shown_path(f"{path}.{field}" if missing else path)
    if missing:
        received = "nothing"
    elif message.startswith("Number out of range"):
        received = "a number too large to hold"
    elif len(text) > _MOST_LOOKED_INTO_BYTES:
        received = f"a {wording.noun} of {len(text)} bytes"
    else:
        received = shown(_value_at(text, path))
    rule = wording.rules.get(field, wording.whole)
    return ReportError(where, received, rule, f"correct the exporter; this {wording.noun} was left out")


def broken_json(at: str, text: bytes, message: str, wording: Wording) -> ReportError:
    """The sentence for a record whose JSON does not parse."""
    strange = _NOT_A_NUMBER.search(text)
    if strange:
        return ReportError(
            at,
            strange[1].decode(),
            "JSON numbers are finite",
            f"{wording.absent}; this {wording.noun} was left out",
        )
    if not text:
        return ReportError(at, "nothing", f"a {wording.noun} is a JSON object", "remove the stray comma")
    reason = message.removeprefix("JSON is malformed: ")
    return ReportError(
        at,
        f"{_shown_text(text.decode('utf-8', 'replace'))} ({reason})",
        f"a {wording.noun} is one whole JSON object in UTF-8",
        "send it again, unbroken",
    )


def _last_key(path: str) -> str | None:
    keys = [step["key"] for step in _STEP.finditer(path) if step["key"]]
    return keys[-1] if keys else None


def _shown_path(path: str) -> str:
    return f" {path.removeprefix('.')}" if path else ""


def _value_at(text: bytes, path: str) -> object:
    try:
        value: object = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", "replace")
    for step in _STEP.finditer(path):
        if step["key"] is not None and isinstance(value, dict) and step["key"] in value:
            value = value[step["key"]]
        elif step["index"] is not None and isinstance(value, list) and int(step["index"]) < len(value):
            value = value[int(step["index"])]
        else:
            return value
    return value


def shown(value: object) -> str:
    """A value as the sender would recognise it, cut short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list) and not value:
        return f"an empty {'object' if isinstance(value, dict) else 'array'}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return _shown_text(repr(value))


def _shown_text(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 1] + "…"

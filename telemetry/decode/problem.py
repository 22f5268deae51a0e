"""Why a report was left out, in the sender's words: field, value, rule, remedy; imports no decoder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from telemetry.errors import ReportError

_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$")
_STEP = re.compile(r"\.(?P<key>[^.\[]+)|\[(?P<index>\d+)\]")
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")
_NOT_A_NUMBER = re.compile(rb"[:\[,]\s*(-?(?:NaN|Infinity|nan|inf))\b")
_SHOWN_LENGTH = 60

_RULES: Mapping[str, str] = MappingProxyType(
    {
        "ts_ns": "ts_ns is a whole number of nanoseconds, 0 or more",
        "flow": "flow is an object with src, dst, sport, dport, protocol",
        "src": "src is an address as a non-empty string",
        "dst": "dst is an address as a non-empty string",
        "sport": "sport is a whole number from 0 to 65535",
        "dport": "dport is a whole number from 0 to 65535",
        "protocol": "protocol is a whole number from 0 to 255",
        "packet_bytes": "packet_bytes is a whole number of bytes above 0",
        "sampling_rate": "sampling_rate is above 0 and at most 1",
        "hops": "hops is an array of 1 to 64 hop objects in path order",
        "switch": "switch is a name (1 to 256 characters) or null",
        "ingress_port": "ingress_port is a name (1 to 256 characters) or null",
        "egress_port": "egress_port is a name (1 to 256 characters) or null",
        "queue": "queue is a whole number, 0 or more, or null",
        "queue_bytes": "queue_bytes is a number of bytes, 0 or more, or null",
        "ingress_ts_ns": "ingress_ts_ns is a whole number of nanoseconds, 0 or more, or null",
        "egress_ts_ns": "egress_ts_ns is a whole number of nanoseconds, 0 or more, or null",
        "ecn_marked": "ecn_marked is true, false or null",
    }
)


def explained(at: str, text: bytes, message: str, *, field: str) -> ReportError:
    """The sentence for a report that is JSON but breaks a rule.

    ``message`` is msgspec's, which names the place inside ``text``; ``field`` is what ``text`` is as a whole
    (``""`` for a report).
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
    else:
        received = _shown(_value_at(text, path))
    rule = _RULES.get(
        field, "a report is a JSON object with ts_ns, flow, packet_bytes, sampling_rate and hops"
    )
    return ReportError(where, received, rule, "correct the exporter; this report was left out")


def broken_json(at: str, text: bytes, message: str) -> ReportError:
    """The sentence for a report whose JSON does not parse."""
    strange = _NOT_A_NUMBER.search(text)
    if strange:
        return ReportError(
            at,
            strange[1].decode(),
            "JSON numbers are finite",
            "send null for a hop value the device does not give; this report was left out",
        )
    if not text:
        return ReportError(at, "nothing", "a report is a JSON object", "remove the stray comma")
    reason = message.removeprefix("JSON is malformed: ")
    return ReportError(
        at,
        f"{_shown_text(text.decode('utf-8', 'replace'))} ({reason})",
        "a report is one whole JSON object in UTF-8",
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


def _shown(value: object) -> str:
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

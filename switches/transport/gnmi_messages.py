"""gNMI's messages as values and back: paths, JSON and scalars; must not open anything, or know any platform.

The messages are the gNMI specification's (``gnmi.proto``, as pygnmi ships them).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pygnmi.spec.v080 import gnmi_pb2

from switches.transport.gnmi_path import Elem, GnmiPath

_YEAR_2000_NS = 946_684_800_000_000_000


@dataclass(frozen=True, slots=True)
class PathValue:
    """A value of an answer. ``value`` is a JSON value: a leaf, or a whole part of the tree. ``ts_ns`` is when
    the switch read it, by its clock; 0 where it does not say.
    """

    path: GnmiPath
    value: Any
    ts_ns: int = field(default=0, compare=False)


def to_wire(path: GnmiPath) -> Any:
    """The message of a path."""
    return gnmi_pb2.Path(
        origin=path.origin,
        elem=[gnmi_pb2.PathElem(name=elem.name, key=dict(elem.keys)) for elem in path.elems],
    )


def from_wire(prefix: Any, path: Any) -> GnmiPath:
    """The path that two messages are together."""
    elems = tuple(Elem(elem.name, dict(elem.key)) for part in (prefix, path) for elem in part.elem)
    return GnmiPath(elems, path.origin or prefix.origin)


def to_update(path: GnmiPath, value: Any) -> Any:
    """The message that sets a path to a JSON value."""
    encoded = gnmi_pb2.TypedValue(json_ietf_val=msgspec.json.encode(value))
    return gnmi_pb2.Update(path=to_wire(path), val=encoded)


def values_in(notification: Any) -> Iterator[PathValue]:
    """What a notification tells. Raises ``ValueError`` and ``RecursionError`` for a value that is none."""
    for update in notification.update:
        path = from_wire(notification.prefix, update.path)
        yield PathValue(path, value_of(update.val), _time_of(notification))


def values_as_they_are(notification: Any) -> Iterator[PathValue]:
    """The same, with None for a value that is none: in a stream it costs itself only."""
    for update in notification.update:
        try:
            value = value_of(update.val)
        except (ValueError, RecursionError):
            value = None
        yield PathValue(from_wire(notification.prefix, update.path), value, _time_of(notification))


def _time_of(notification: Any) -> int:
    """Some servers leave it out, or put a number there that is no time: nothing was read before 2000."""
    ts_ns: int = notification.timestamp
    return ts_ns if ts_ns >= _YEAR_2000_NS else 0


def value_of(value: Any) -> Any:
    """A JSON value. Raises as ``values_in`` does."""
    kind = value.WhichOneof("value")
    match kind:
        case "json_ietf_val" | "json_val":
            return msgspec.json.decode(getattr(value, kind))
        case "leaflist_val":
            return [value_of(element) for element in value.leaflist_val.element]
        case "string_val" | "ascii_val" | "int_val" | "uint_val" | "bool_val" | "float_val" | "double_val":
            return getattr(value, kind)
        case _:
            raise ValueError(f"a value of kind {kind}")

"""gNMI paths and values, to and from its messages, and the values of an answer as one tree.

The messages are the gNMI specification's (``gnmi.proto``, as pygnmi ships them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pygnmi.spec.v080 import gnmi_pb2


@dataclass(frozen=True, slots=True)
class Elem:
    """One element of a path; ``keys`` pick an entry of a list."""

    name: str
    keys: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name + "".join(f"[{name}={value}]" for name, value in self.keys.items())


@dataclass(frozen=True, slots=True)
class GnmiPath:
    """An absolute path. Names are not escaped, a slash included."""

    elems: tuple[Elem, ...]
    origin: str = ""

    @classmethod
    def of(cls, *elems: str | tuple[str, Mapping[str, str]], origin: str = "") -> GnmiPath:
        """From names, and pairs of a name and keys: ``of("qos", ("interface", {"interface-id": "Et1"}))``."""
        return cls(
            tuple(Elem(elem) if isinstance(elem, str) else Elem(elem[0], dict(elem[1])) for elem in elems),
            origin,
        )

    def __str__(self) -> str:
        return (f"{self.origin}:" if self.origin else "") + "".join(f"/{elem}" for elem in self.elems)


def listed(paths: Iterable[GnmiPath]) -> str:
    """Paths in a sentence: the first three, and how many more."""
    named = [str(path) for path in paths]
    more = len(named) - 3
    return ", ".join(named[:3]) + (f" and {more} more" if more > 0 else "")


_YEAR_2000_NS = 946_684_800_000_000_000


@dataclass(frozen=True, slots=True)
class PathValue:
    """``value`` is a JSON value: a leaf, or a part of the tree. ``ts_ns`` is the switch's time of reading; 0:
    unknown.
    """

    path: GnmiPath
    value: Any
    ts_ns: int = field(default=0, compare=False)


def to_wire(path: GnmiPath) -> Any:
    return gnmi_pb2.Path(
        origin=path.origin,
        elem=[gnmi_pb2.PathElem(name=elem.name, key=dict(elem.keys)) for elem in path.elems],
    )


def from_wire(prefix: Any, path: Any) -> GnmiPath:
    """The absolute path of a prefix and a path."""
    elems = tuple(Elem(elem.name, dict(elem.key)) for part in (prefix, path) for elem in part.elem)
    return GnmiPath(elems, path.origin or prefix.origin)


def to_update(path: GnmiPath, value: Any) -> Any:
    encoded = gnmi_pb2.TypedValue(json_ietf_val=msgspec.json.encode(value))
    return gnmi_pb2.Update(path=to_wire(path), val=encoded)


def values_in(notification: Any) -> Iterator[PathValue]:
    """Raises ``ValueError`` and ``RecursionError`` for an invalid value."""
    for update in notification.update:
        path = from_wire(notification.prefix, update.path)
        yield PathValue(path, value_of(update.val), _time_of(notification))


def values_as_they_are(notification: Any) -> Iterator[PathValue]:
    """The same with None for an invalid value, which in a stream costs only itself."""
    for update in notification.update:
        try:
            value = value_of(update.val)
        except (ValueError, RecursionError):
            value = None
        yield PathValue(from_wire(notification.prefix, update.path), value, _time_of(notification))


def _time_of(notification: Any) -> int:
    """Time of reading; 0 where the server omits it or sends an invalid number, such as one before 2000."""
    ts_ns: int = notification.timestamp
    return ts_ns if ts_ns >= _YEAR_2000_NS else 0


def value_of(value: Any) -> Any:
    """The value of one message; raises as ``values_in``."""
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


Tree = dict[str, Any]


def tree_of(values: Iterable[PathValue], keys: Mapping[str, str]) -> Tree:
    """Containers as dictionaries of members without the prefix of an OpenConfig module; lists by the text of
    their key.

    Unites values sent whole, by container or leaf by leaf. ``keys`` names the key leaf of each list that
    matters; other lists stay as they came in a JSON value, and are left out of paths. Raises ``ValueError``
    for what is no tree.
    """
    root: Tree = {}
    for one in values:
        if any(elem.keys and _plain(elem.name) not in keys for elem in one.path.elems):
            continue
        node = root
        for elem in one.path.elems[:-1]:
            node = _child(node, _plain(elem.name))
            if elem.keys:
                node = _child(node, _key(elem, keys))
        if not one.path.elems:
            _merge(root, _members(one.value), keys)
            continue
        last = one.path.elems[-1]
        if last.keys:
            name = _plain(last.name)
            entry = _child(_child(node, name), _key(last, keys))
            _merge(entry, _members(one.value), keys)
        else:
            _merge(node, {last.name: one.value}, keys)
    return root


def _merge(node: Tree, members: Mapping[str, Any], keys: Mapping[str, str]) -> None:
    for full_name, value in members.items():
        name = _plain(full_name)
        if isinstance(value, list) and name in keys:
            entries = _child(node, name)
            for entry in value:
                plain = {_plain(member): held for member, held in _members(entry).items()}
                if keys[name] not in plain:
                    raise ValueError(f"an entry of {name} without its {keys[name]}")
                _merge(_child(entries, str(plain[keys[name]])), plain, keys)
        elif isinstance(value, Mapping):
            _merge(_child(node, name), value, keys)
        else:
            node[name] = value


def _key(elem: Elem, keys: Mapping[str, str]) -> str:
    name = keys[_plain(elem.name)]
    if name not in elem.keys:
        raise ValueError(f"an entry of {elem.name} without its {name}")
    return elem.keys[name]


def _child(node: Tree, name: str) -> Tree:
    child = node.setdefault(name, {})
    if not isinstance(child, dict):
        raise ValueError(f"{name} is a value and holds values")
    return child


def _members(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{type(value).__name__} where members belong")
    return value


def _plain(name: str) -> str:
    """A vendor's own leaf keeps its prefix, without which it is none of the model's (RFC 7951, section 4)."""
    module, _, local = name.rpartition(":")
    return local if module.startswith("openconfig-") else name

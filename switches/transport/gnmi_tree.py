"""Values of a gNMI answer as one tree, however the switch cut it: whole, by container or leaf by leaf.

Must not know any platform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from switches.transport.gnmi_messages import PathValue
from switches.transport.gnmi_path import Elem

Tree = dict[str, Any]


def tree_of(values: Iterable[PathValue], keys: Mapping[str, str]) -> Tree:
    """Containers as dictionaries of members without their module prefix; lists by the text of their key.

    ``keys`` names the key leaf of each list that matters; other lists stay as they came where they are part
    of a JSON value, and are left out where a path leads through them. Raises ``ValueError`` for what is no
    tree.
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
    return name.rpartition(":")[2]

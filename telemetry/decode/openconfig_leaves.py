"""Leaves of OpenConfig's models in values as a switch sends them: a tree, a container or single leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_KEYS = ("interface-id", "name", "id")

Step = tuple[str, Mapping[str, str]]
"""A path element: its name, and the keys of a list entry."""

Place = tuple[str, ...]
"""The names of a path, such as ``("interfaces", "interface", "state")``."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A member ``name`` of the container ``place``; ``keys`` are of the lists above, by the list's name."""

    place: Place
    name: str
    keys: Mapping[str, str]
    value: Any


def leaves(path: Sequence[Step], value: object, places: Sequence[Place]) -> Iterator[Leaf]:
    """The members of these containers at or below a path; what else there is is passed over."""
    names: Place = ()
    keys: dict[str, str] = {}
    for full_name, given in path:
        name = _plain(full_name)
        names = (*names, name)
        for key in _KEYS:
            if key in given:
                keys[name] = given[key]
    yield from _below(names, keys, value, places)


def _below(names: Place, keys: Mapping[str, str], value: Any, places: Sequence[Place]) -> Iterator[Leaf]:
    if names[:-1] in places:
        yield Leaf(names[:-1], names[-1], keys, value)
        return
    if not any(names == place[: len(names)] for place in places):
        return
    if isinstance(value, list) and names:
        for entry in value:
            if isinstance(entry, Mapping):
                yield from _below(names, {**keys, **_key_of(names, entry)}, entry, places)
    elif isinstance(value, Mapping):
        for name, member in value.items():
            yield from _below((*names, _plain(str(name))), keys, member, places)


def _key_of(names: Place, entry: Mapping[str, Any]) -> dict[str, str]:
    plain = {_plain(str(name)): value for name, value in entry.items()}
    found = [plain[key] for key in _KEYS if isinstance(plain.get(key), str)]
    return {names[-1]: found[0]} if found else {}


def _plain(name: str) -> str:
    return name.rpartition(":")[2]

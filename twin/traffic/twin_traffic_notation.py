"""Traffic as people write it: a line such as ``websearch:0.6,incast:16@20ms`` or a list of mappings, as YAML
and JSON give it; must import nothing but errors and this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twin.errors import ParameterError
from twin.traffic.checks import inside
from twin.traffic.notation import PATTERNS, pattern
from twin.traffic.phases import Phase, Phases
from twin.traffic.quantities import SECONDS, quantity

_TIMES = {"at": "at_s", "at_s": "at_s", "until": "until_s", "until_s": "until_s"}
_FORM = "NAME[:VALUE][:OPTION=VALUE…][@BEGIN[..END]]"


def read_traffic(document: object, *, where: str = "traffic") -> Phases:
    """The phases that a line or a list of mappings describes.

    A line is items with commas between, each ``NAME[:VALUE][:OPTION=VALUE…][@BEGIN[..END]]``; an item without
    @ begins with the one before it, the first at 0. A mapping has ``pattern``, optionally ``at_s`` and
    ``until_s``, and the pattern's options beside them. Raises ``ParameterError`` naming the item that is
    wrong.
    """
    if isinstance(document, str):
        items: Sequence[object] = _items_of_line(document, where)
    elif isinstance(document, Sequence) and not isinstance(document, bytes):
        items = document
    else:
        raise ParameterError(
            where,
            type(document).__name__,
            "it is a line of text or a list of mappings",
            "see docs/traffic.md",
        )
    return Phases(tuple(_phase(item, f"{where}[{number}]") for number, item in enumerate(items)))


def _items_of_line(line: str, where: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    begin = "0"
    for number, written in enumerate(line.split(",")):
        at = f"{where}[{number}]"
        what, marked, times = written.strip().partition("@")
        name, *options = (part.strip() for part in what.split(":"))
        item: dict[str, Any] = {"pattern": name}
        if marked:
            begin, ranged, end = (part.strip() for part in times.partition(".."))
            if ranged:
                item["until_s"] = end
        item["at_s"] = begin
        for place, option in enumerate(options):
            key, equals, value = (part.strip() for part in option.partition("="))
            if not equals and place == 0 and key and name in PATTERNS:
                key, value = PATTERNS[name].main_option, key
            elif not (equals and key and value) and name in PATTERNS:
                raise ParameterError(at, repr(written.strip()), f"an item is {_FORM}", "correct it")
            if key in item:
                raise ParameterError(at, f"{key} twice", "an option is given once", "drop one")
            item[key] = value
        items.append(item)
    return items


def _phase(item: object, at: str) -> Phase:
    if not isinstance(item, Mapping):
        raise ParameterError(
            at, type(item).__name__, "an item is a mapping with a pattern", "see docs/traffic.md"
        )
    name = item.get("pattern")
    if not isinstance(name, str) or not name:
        received = "nothing" if name in (None, "") else repr(name)
        raise ParameterError(f"{at} pattern", received, f"known: {', '.join(PATTERNS)}", "choose one of them")
    times: dict[str, float] = {}
    options: dict[str, object] = {}
    for key, value in item.items():
        if key in _TIMES:
            if _TIMES[key] in times:
                raise ParameterError(at, f"{_TIMES[key]} twice", "it is given once", "drop one")
            times[_TIMES[key]] = quantity(f"{at} {key}", value, SECONDS)
        elif key != "pattern":
            options[str(key)] = value
    built = pattern(name, options, where=at)
    try:
        return Phase(times.get("at_s", 0.0), built, times.get("until_s"))
    except ParameterError as refused:
        raise inside(at, refused) from None

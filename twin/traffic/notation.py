"""Reads traffic as people write it: a line such as ``websearch:0.6,incast:16@20ms``, or a list of mappings.

Patterns have names and options, numbers may have units (``64KB``, ``20ms``), and phases begin and end at
given times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, get_type_hints

from twin.errors import ParameterError, check_known, check_not_negative
from twin.traffic.base import Hosts, Pattern, Seed, Traffic, check_duration, generator_of, inside
from twin.traffic.patterns import AllToAll, ElephantsAndMice, Incast, Poisson, RingAllReduce
from twin.traffic.sizes import SizeDistribution
from twin.units import BYTES, NO_UNIT, SECONDS, quantity


@dataclass(frozen=True)
class Phase:
    """A pattern from ``at_s`` until ``until_s``; None: until the next phase that begins later, or the end."""

    at_s: float
    pattern: Pattern
    until_s: float | None = None

    def __post_init__(self) -> None:
        check_not_negative("phase at_s", self.at_s)
        if self.until_s is not None:
            check_not_negative("phase until_s", self.until_s)
            if self.until_s <= self.at_s:
                rule = f"it is after at_s ({self.at_s})"
                raise ParameterError("phase until_s", str(self.until_s), rule, "correct one")


@dataclass(frozen=True)
class Phases:
    """Patterns one after the other or at once; a pattern too, so phases may contain phases.

    Each phase draws from its own random stream, so that a phase added at the end changes no other. The end of
    a phase stops no flow that has begun, nor later steps of a collective.
    """

    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not self.phases:
            raise ParameterError("traffic", None, "it has no phase", "give at least one")

    def spans(self, duration_s: float) -> Sequence[tuple[float, float]]:
        """Begin and end of each phase within ``duration_s``; equal where nothing is left of it."""
        begins = sorted({phase.at_s for phase in self.phases})
        spans = []
        for phase in self.phases:
            later = (begin for begin in begins if begin > phase.at_s)
            end = next(later, duration_s) if phase.until_s is None else phase.until_s
            spans.append((min(phase.at_s, duration_s), min(end, duration_s)))
        return spans

    def traffic(self, hosts: Hosts, *, duration_s: float, seed: Seed) -> Traffic:
        check_duration(duration_s)
        streams = generator_of(seed).spawn(len(self.phases))
        parts = []
        for number, (phase, (begin, end)) in enumerate(zip(self.phases, self.spans(duration_s), strict=True)):
            if end == begin:
                continue
            try:
                part = phase.pattern.traffic(hosts, duration_s=end - begin, seed=streams[number])
            except ParameterError as refused:
                raise inside(f"traffic[{number}]", refused) from None
            parts.append(part.shifted(begin))
        return Traffic.merged(*parts)


def whole_number(where: str, value: object) -> int:
    """A whole number, also as text. Raises ``ParameterError`` naming ``where``."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"[-+]?[0-9]{1,18}", value.strip()):
        return int(value)
    raise ParameterError(where, repr(value), "it is a whole number", "correct it")


def host_numbers(where: str, value: object) -> tuple[int, ...]:
    """Hosts as a list of numbers, one number, or ``first..last``. Raises ``ParameterError``."""
    if isinstance(value, str) and ".." in value:
        first, _, last = value.partition("..")
        low, high = whole_number(where, first), whole_number(where, last)
        if not 0 <= low <= high < 2**24:
            raise ParameterError(where, repr(value), "a range is first..last, from 0", "correct it")
        return tuple(range(low, high + 1))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(whole_number(f"{where}[{index}]", host) for index, host in enumerate(value))
    return (whole_number(where, value),)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A named pattern: its class, preset options, and the option that a value without a name sets."""

    build: type[Any]
    main_option: str
    preset: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(one.name for one in fields(self.build) if one.name not in self.preset)


PATTERNS: Mapping[str, Entry] = MappingProxyType(
    {
        **{
            name: Entry(build=Poisson, main_option="load", preset={"sizes": SizeDistribution.named(name)})
            for name in ("websearch", "data-mining", "hadoop")
        },
        "poisson": Entry(build=Poisson, main_option="load"),
        "incast": Entry(build=Incast, main_option="fan_in"),
        "ring-all-reduce": Entry(build=RingAllReduce, main_option="size_bytes"),
        "all-to-all": Entry(build=AllToAll, main_option="each_bytes"),
        "elephants-and-mice": Entry(build=ElephantsAndMice, main_option="mice_load"),
    }
)


def pattern(name: str, options: Mapping[str, object] | None = None, *, where: str = "traffic") -> Pattern:
    """Builds the pattern of that name.

    Options are named as the fields of the pattern, ``_bytes`` and ``_s`` may be left out; values may be text
    with a unit. Raises ``ParameterError`` for an unknown name or option or a bad value.
    """
    check_known(f"{where} pattern", name, PATTERNS)
    entry = PATTERNS[name]
    hints = get_type_hints(entry.build)
    given: dict[str, Any] = {}
    for key, value in (options or {}).items():
        option = _option(key, entry, f"{where} {name}")
        if option in given:
            raise ParameterError(f"{where} {name} {key}", f"{option} twice", "it is given once", "drop one")
        given[option] = _value(f"{where} {name} {option}", option, hints[option], value)
    for one in fields(entry.build):
        if one.default is one.default_factory is MISSING and one.name not in {**entry.preset, **given}:
            rule = f"{name} needs it"
            raise ParameterError(f"{where} {name} {one.name}", None, rule, f"add :{one.name}=VALUE")
    try:
        built: Pattern = entry.build(**entry.preset, **given)
    except ParameterError as refused:
        raise inside(where, refused) from None
    return built


def _option(key: str, entry: Entry, where: str) -> str:
    plain = key.replace("-", "_")
    for option in (plain, f"{plain}_bytes", f"{plain}_s"):
        if option in entry.options:
            return option
    rule = f"options: {', '.join(entry.options)}"
    raise ParameterError(where, f"option {key!r}", rule, "rename or drop it")


def _value(where: str, option: str, hint: Any, value: object) -> Any:
    if value is None and isinstance(None, hint):
        return None
    if hint is SizeDistribution:
        return _sizes(where, value)
    if hint is str:
        return _text(where, value)
    if hint in (int, int | None):
        return whole_number(where, value)
    if hint == tuple[int, ...] | None:
        return host_numbers(where, value)
    units = BYTES if option.endswith("_bytes") else SECONDS if option.endswith("_s") else NO_UNIT
    return quantity(where, value, units)


def _sizes(where: str, value: object) -> SizeDistribution:
    try:
        if isinstance(value, str) and value[:1].isalpha():
            return SizeDistribution.named(value)
        return SizeDistribution.constant(quantity("bytes", value, BYTES))
    except ParameterError as refused:
        raise inside(where, refused) from None


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise ParameterError(where, repr(value), "it is a word", "give its name")
    return value


_TIMES = {"at": "at_s", "at_s": "at_s", "until": "until_s", "until_s": "until_s"}
_FORM = "NAME[:VALUE][:OPTION=VALUE…][@BEGIN[..END]]"


def read_traffic(document: object, *, where: str = "traffic") -> Phases:
    """The phases that a line or a list of mappings describes.

    A line is items separated by commas, each ``NAME[:VALUE][:OPTION=VALUE…][@BEGIN[..END]]``; an item without
    @ begins with the one before it, the first at 0. A mapping has ``pattern``, optionally ``at_s`` and
    ``until_s``, and the pattern's options. Raises ``ParameterError`` naming the item at fault.
    """
    if isinstance(document, str):
        items: Sequence[object] = _items_of_line(document, where)
    elif isinstance(document, Sequence) and not isinstance(document, bytes):
        items = document
    else:
        rule = "it is a line of text or a list of mappings"
        raise ParameterError(where, type(document).__name__, rule, "see docs/twin/traffic.md")
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
        rule = "an item is a mapping with a pattern"
        raise ParameterError(at, type(item).__name__, rule, "see docs/twin/traffic.md")
    name = item.get("pattern")
    if not isinstance(name, str) or not name:
        received = None if name in (None, "") else repr(name)
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

"""The traffic patterns by name, built from options as people write them; must import nothing but errors and
this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, get_type_hints

from twin.errors import ParameterError
from twin.traffic.checks import inside
from twin.traffic.collectives import AllToAll, RingAllReduce
from twin.traffic.incast import Incast
from twin.traffic.pattern import Pattern
from twin.traffic.patterns import ElephantsAndMice
from twin.traffic.poisson import Poisson
from twin.traffic.quantities import BYTES, NO_UNIT, SECONDS, host_numbers, quantity, whole_number
from twin.traffic.sizes import SizeDistribution


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One name of the catalogue: what it builds, and which option a value without a name is."""

    about: str
    build: type[Any]
    main_option: str
    preset: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that can be given."""
        return tuple(one.name for one in fields(self.build) if one.name not in self.preset)


def _of_published_sizes(name: str, what: str) -> Entry:
    return Entry(
        about=f"{what}, Poisson arrivals",
        build=Poisson,
        main_option="load",
        preset={"sizes": SizeDistribution.named(name)},
    )


PATTERNS: Mapping[str, Entry] = MappingProxyType(
    {
        "websearch": _of_published_sizes("websearch", "web search: most bytes in flows over 1 MB"),
        "data-mining": _of_published_sizes("data-mining", "data mining: tiny flows and a few up to 1 GB"),
        "hadoop": _of_published_sizes("hadoop", "Hadoop: mostly under 1 KB"),
        "poisson": Entry(
            about="Poisson arrivals of any sizes: a distribution's name or bytes",
            build=Poisson,
            main_option="load",
        ),
        "incast": Entry(about="bursts of many senders to one receiver", build=Incast, main_option="fan_in"),
        "ring-all-reduce": Entry(
            about="training: all-reduce in rings, with compute in between",
            build=RingAllReduce,
            main_option="size_bytes",
        ),
        "all-to-all": Entry(
            about="training: every rank to every rank, with compute in between",
            build=AllToAll,
            main_option="each_bytes",
        ),
        "elephants-and-mice": Entry(
            about="a few long transfers under many short flows",
            build=ElephantsAndMice,
            main_option="mice_load",
        ),
    }
)


def pattern(name: str, options: Mapping[str, object] | None = None, *, where: str = "traffic") -> Pattern:
    """The pattern of that name; options not given keep their defaults.

    Options are named as the fields of the pattern, ``_bytes`` and ``_s`` may be left out; values may be text
    with a unit. Raises ``ParameterError`` for an unknown name or option and for a value that means nothing.
    """
    if name not in PATTERNS:
        raise ParameterError(
            f"{where} pattern", repr(name), f"known: {', '.join(PATTERNS)}", "choose one of them"
        )
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
            raise ParameterError(
                f"{where} {name} {one.name}", "nothing", f"{name} needs it", f"add :{one.name}=VALUE"
            )
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
    raise ParameterError(where, f"option {key!r}", f"options: {_names(entry.options)}", "rename or drop it")


def _names(names: Any) -> str:
    return ", ".join(names)


def _value(where: str, option: str, hint: Any, value: object) -> Any:
    convert: Callable[[str, object], Any]
    if value is None and isinstance(None, hint):
        return None
    if hint is SizeDistribution:
        convert = _sizes
    elif hint is str:
        convert = _text
    elif hint in (int, int | None):
        convert = whole_number
    elif hint == tuple[int, ...] | None:
        convert = host_numbers
    else:
        units = BYTES if option.endswith("_bytes") else SECONDS if option.endswith("_s") else NO_UNIT
        return quantity(where, value, units)
    return convert(where, value)


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

"""Where a gNMI value is: an origin and named elements, some with keys; must not know gRPC or any platform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Elem:
    """One element of a path; ``keys`` pick an entry of a list."""

    name: str
    keys: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name + "".join(f"[{name}={value}]" for name, value in self.keys.items())


@dataclass(frozen=True, slots=True)
class GnmiPath:
    """An absolute path. Elements hold names as they are: nothing in them is escaped, a slash included."""

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


def listed(paths: Iterable[GnmiPath], *, most: int = 3) -> str:
    """Paths in a sentence: the first few, and how many more."""
    named = [str(path) for path in paths]
    more = len(named) - most
    return ", ".join(named[:most]) + (f" and {more} more" if more > 0 else "")

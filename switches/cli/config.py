"""A configuration as switches print it, nested by indentation; must not know any platform's commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Section: TypeAlias = "dict[str, Section]"


def sections(text: str) -> Section:
    """Each line and the lines below it; what is there twice is one, comments and blanks are dropped."""
    root: Section = {}
    above: list[tuple[int, Section]] = [(-1, root)]
    for line in text.splitlines():
        words = " ".join(line.split())
        if not words or words.startswith("!"):
            continue
        indent = len(line) - len(line.lstrip())
        while above[-1][0] >= indent:
            above.pop()
        above.append((indent, above[-1][1].setdefault(words, {})))
    return root


def below(section: Mapping[str, Section], starts: str) -> Iterable[tuple[str, Section]]:
    """The lines that start so: what follows there, and what is below them."""
    for line, inner in section.items():
        if line.startswith(starts):
            yield line.removeprefix(starts).strip(), inner

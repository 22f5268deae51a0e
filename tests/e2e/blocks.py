"""The fenced blocks of the pages: what each is, and whether it is run; must not run anything.

The word behind the opening fence names the language, and what follows says what a test does with the block:

- ``sh run``: a command exits with 0, or with ``exit=N``; blocks of a page share folder and variables.
- ``sh run service``: the same, with a service on port 8080 that has seen the example.
- ``sh run background``: what stays: it is started, and ended with the page.
- ``console run``: lines after ``$`` are commands, the others their output, in shape.
- ``python run``: a script.
- ``sh no-run: REASON``: not run.
- ``yaml settings``, ``yaml inventory``: what a file of that kind may hold; other languages are only shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pages in ("*.md", "docs/**/*.md", "bench/*.md", "deploy/*.md", "examples/websearch-16/*.md")
    for path in ROOT.glob(pages)
)
RUNNABLE = ("sh", "console", "python")
SHOWN = ("yaml", "json", "text", "ini")
_FLAGS = ("service", "background", "pty")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")
_COMMAND = re.compile(
    r"^(?:\$ |(?:sudo |export |\S*/)?(?:ecntwin|curl|make|docker|kubectl|systemctl|journalctl|python3?|"
    r"pip|git|cd|jq|tcpdump|sqlite3|pg_dump|psql|install|source|apt-get|counterpoll|pfcwd|echo|printf|promtool)\b|"
    r"(?:deploy|scripts)/\S|export \w+=|from \w\S* import|import \w)"
)


class BlockError(Exception):
    """A block that does not say what is to become of it."""


@dataclass(frozen=True)
class Block:
    """One fenced block: where it begins, its language, what is done with it, its lines."""

    page: str
    line: int
    language: str
    words: tuple[str, ...]
    reason: str | None
    text: str

    @property
    def where(self) -> str:
        """Page and line, as an editor opens them."""
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether a test executes it."""
        return "run" in self.words

    @property
    def exit_code(self) -> int:
        """What it must exit with."""
        return next((int(word[5:]) for word in self.words if word.startswith("exit=")), 0)


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in order. Raises ``BlockError``."""
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
    return list(parsed(name, page.read_text("utf-8")))


def parsed(name: str, text: str) -> Iterator[Block]:
    """The blocks of a page's text. Raises ``BlockError`` for one whose fence says too little or is open."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening is None:
            number += 1
            continue
        indent, begins = opening["indent"], number
        number += 1
        while number < len(lines) and lines[number].rstrip() != f"{indent}```":
            number += 1
        if number == len(lines):
            raise BlockError(f"{name}:{begins + 1}: the fence is never closed")
        inside = [line.removeprefix(indent) for line in lines[begins + 1 : number]]
        yield _block(name, begins + 1, opening["info"].strip(), "\n".join(inside) + "\n")
        number += 1


def _block(page: str, line: int, info: str, text: str) -> Block:
    before, colon, reason = info.partition(":")
    language, *words = before.split() or [""]
    block = Block(page, line, language, tuple(words), reason.strip() if colon else None, text)
    if language not in RUNNABLE + SHOWN:
        raise BlockError(
            f"{block.where}: name a language, one of {', '.join(RUNNABLE + SHOWN)}, not {info!r}"
        )
    if language in RUNNABLE and (words[:1] not in (["run"], ["no-run"])):
        raise BlockError(f"{block.where}: say run, or no-run: and why not")
    if "no-run" in words and not block.reason:
        raise BlockError(f"{block.where}: no-run: and why not")
    if block.is_run and (colon or any(not _known(word) for word in words[1:])):
        raise BlockError(f"{block.where}: behind run stand {', '.join(_FLAGS)} or exit=N, not {info!r}")
    return block


def _known(word: str) -> bool:
    return word in _FLAGS or re.fullmatch(r"exit=\d+", word) is not None


def commands_outside_of_fences(text: str) -> list[str]:
    """Indented lines that look like a command: nothing would say whether they are run."""
    found = []
    fenced, before = False, ""
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        code = re.match(r"^(?: {4,}|\t)(\S.*)$", line)
        begins = not before.strip() or before.startswith("    ")
        if not fenced and code is not None and begins and _COMMAND.match(code[1]):
            found.append(line.strip())
        before = line
    return found

"""What commands write to standard output: one JSON document, or text through rich."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from pydantic import BaseModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from twin.search.round import Progress

_WIDE = 200


def print_json(document: BaseModel | dict[str, Any]) -> None:
    """One JSON document, indented, and a newline; NaN becomes null."""
    content = document.model_dump(mode="json", by_alias=True) if isinstance(document, BaseModel) else document
    text = msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
    sys.stdout.write(text + "\n")


def print_line(text: str) -> None:
    """A line of plain text."""
    sys.stdout.write(text + "\n")


def console(*, wide: bool = False) -> Console:
    """Standard output for people; without colours or control codes where it is no terminal.

    ``wide``: what is no terminal takes lines of any sensible length, and so tables that need not be cut.
    """
    screen = _Screen(highlight=False)
    if wide and not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _WIDE
    return screen


class _Screen(Console):
    """Leaves it to the command what happens where whoever read has seen enough."""

    def on_broken_pipe(self) -> NoReturn:
        """Rich would end the process here with an error."""
        raise BrokenPipeError


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """A progress display on standard error; nothing where that is no terminal or ``quiet``."""
    screen = Console(stderr=True)
    if quiet or not screen.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<16}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=screen, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def told(step: Progress) -> None:
            if step.stage not in tasks:
                tasks[step.stage] = bars.add_task(step.stage, total=step.total)
            bars.update(tasks[step.stage], completed=step.done, total=step.total)

        yield told

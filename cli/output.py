"""What commands write to standard output: one JSON document, or text through rich.

From an exception to an exit code and one sentence on standard error; traces go to the debug log only.

Asks a person before something is set: on standard error, and never where nobody is there to answer.

The look of what commands show to people: tables, times, watermarks; must not ask for what it shows.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec
import typer
from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from settings.errors import ApiError, AwayError, InputError, RequestError, SettingsError
from settings.logging import quiet_libraries
from switches.errors import SwitchError
from telemetry.errors import TelemetryError
from twin.errors import SearchError, TwinError
from twin.units import bytes_text, percent_text

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


DONE, FAILED, BAD_INPUT = 0, 1, 2
INTERRUPTED = 130
DEBUG_VARIABLE = "ECNTWIN_LOG__LEVEL"

_log = logging.getLogger("ecntwin.cli")


def run_to_exit_code(app: typer.Typer, arguments: Sequence[str] | None) -> int:
    """Runs the command; every ending is an exit code."""
    if os.environ.get(DEBUG_VARIABLE, "").lower() == "debug":
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
        quiet_libraries()
    command = typer.main.get_command(app)
    try:
        result = command.main(args=arguments, prog_name="ecntwin", standalone_mode=False)
    except typer.Exit as ending:
        return ending.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has seen enough; a second complaint at interpreter exit would follow otherwise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except SystemExit as ending:  # completion's; uvicorn's where it cannot listen, and then it has said why
        return DONE if ending.code in (None, DONE) else FAILED
    except Exception as error:
        return _told(error)
    return result if isinstance(result, int) else DONE


def _told(error: Exception) -> int:
    _log.debug("where it failed", exc_info=error)
    code = exit_code(error)
    if code == FAILED and not isinstance(error, (SearchError, SwitchError, ApiError)):
        _say(
            f"{type(error).__name__}: {error}; this is a mistake of ecntwin's; "
            f"{DEBUG_VARIABLE}=debug shows where; please report it"
        )
    else:
        for sentence in (_sentence(error), *_further_mistakes(error)):
            _say(sentence)
    return code


def _further_mistakes(error: Exception) -> list[str]:
    """Of settings, a line each: who mends a file wants all of them."""
    return list(getattr(error, "__notes__", ())) if isinstance(error, SettingsError) else []


def exit_code(error: Exception) -> int:
    """2 where the caller can correct something, 1 where not."""
    if isinstance(error, (SearchError, SwitchError, RequestError, AwayError)):
        return FAILED
    if isinstance(error, (TwinError, TelemetryError, ApiError)):
        return BAD_INPUT
    usage_code = getattr(error, "exit_code", None)  # click's own errors carry it
    return BAD_INPUT if usage_code == BAD_INPUT else FAILED


def _sentence(error: Exception) -> str:
    format_message = getattr(error, "format_message", None)
    return str(format_message()) if callable(format_message) else str(error)


def _say(sentence: str) -> None:
    sys.stderr.write(f"ecntwin: {' '.join(sentence.split())}\n")


def somebody_there() -> bool:
    """Whether a person could answer."""
    return sys.stdin.isatty()


def require_answer(command: str) -> None:
    """Raises ``InputError`` where nobody is there to say yes."""
    if not somebody_there():
        raise InputError(
            f"ecntwin {command}",
            None,
            "there is no terminal to confirm at",
            "add --yes where this is meant",
        )


def confirm(question: str) -> None:
    """Goes on where the answer is yes, and else ends the command with exit code 1."""
    if not typer.confirm(question, err=True):
        screen_for_asking().print("Nothing was done.")
        raise typer.Exit(FAILED)


def screen_for_asking() -> Console:
    """Standard error: what a question is about is no part of what the command answers."""
    return Console(stderr=True, highlight=False)


NONE = "–"
WIDE = 120  # columns from which on tables tell more


class Mark(Protocol):
    """A watermark, of whatever kind."""

    @property
    def kmin_bytes(self) -> int: ...
    @property
    def kmax_bytes(self) -> int: ...
    @property
    def pmax(self) -> float: ...


def watermark_text(mark: Mark) -> str:
    """``Kmin 20 KB, Kmax 200 KB, Pmax 5 %``."""
    kmin, kmax, pmax = watermark_cells(mark)
    return f"Kmin {kmin}, Kmax {kmax}, Pmax {pmax}"


def watermark_cells(mark: Mark | None) -> tuple[str, str, str]:
    """The three of it, a cell each; dashes where it is not known."""
    if mark is None:
        return NONE, NONE, NONE
    return bytes_text(mark.kmin_bytes), bytes_text(mark.kmax_bytes), percent_text(mark.pmax)


def gbps_text(value_gbps: float) -> str:
    """Four significant digits in Gbit/s."""
    return f"{value_gbps:.4g} Gbit/s"


def count_text(number: int, one: str, several: str | None = None) -> str:
    """``1 switch``, ``1 200 switches``."""
    return f"{number:,} ".replace(",", " ") + (one if number == 1 else several or f"{one}s")


def of_all_text(shown: int, total: int, one: str, several: str | None = None) -> str:
    """``12 rounds``, or ``10 of 12 rounds`` where not all are shown."""
    every = count_text(total, one, several)
    return every if shown >= total else f"{shown} of {every}"


def list_text(names: Iterable[str], most: int = 5) -> str:
    """The first names and how many more there are."""
    listed = list(names)
    more = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {more} more" if more > 0 else "")


def clock_text(at: str) -> str:
    """An RFC 3339 time as the time of day here, to the second; to the minute of its day where not today."""
    then = datetime.fromisoformat(at).astimezone()
    today = then.date() == datetime.now().astimezone().date()
    return then.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


def words_of(name: str) -> Text:
    """A state's name in words, in the colour of what it means."""
    return Text(name.replace("_", " "), style=_STYLES.get(name, ""))


_STYLES = {
    "critical": "bold red",
    "warning": "yellow",
    "pending": "bold",
    "approved": "green",
    "done": "green",
    "set": "green",
    "rejected": "dim",
    "superseded": "dim",
    "kept": "dim",
    "rolled_back": "red",
    "rolling_back": "red",
    "restored": "red",
    "left_alone": "yellow",
}


def headed_table(title: str | None, *columns: str, left: int = 1) -> Table:
    """An empty table in the look of all: the first ``left`` columns hold words, the others figures."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right")
    return table


def labelled_lines() -> Table:
    """An empty grid of a label and what belongs to it, a line each, folded under itself."""
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid

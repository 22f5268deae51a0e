"""Output of the commands: JSON or tables, exit codes and error sentences, confirmation questions."""

from __future__ import annotations

import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
import typer
from pydantic import BaseModel, ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from settings.errors import ApiError, AwayError, InputError, RequestError, SettingsError
from settings.validation import mistake
from switches.errors import InventoryError, SwitchError, UnknownAdapterError
from telemetry.errors import TelemetryError
from twin.errors import SearchError, TwinError, what_did_not_fit
from twin.units import bytes_text, percent_text

if TYPE_CHECKING:
    from cli.answers import MarkAnswer
    from cli.client import Answer
    from service.documents.predictions import WatermarkDocument
    from twin.search.round import Progress
    from twin.watermark import Watermark

    Mark = Watermark | WatermarkDocument | MarkAnswer

_WIDE = 200

T = TypeVar("T")


def print_json(document: BaseModel | dict[str, Any]) -> None:
    """Indented JSON and a newline; NaN becomes null."""
    content = document.model_dump(mode="json", by_alias=True) if isinstance(document, BaseModel) else document
    text = msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
    sys.stdout.write(text + "\n")


def show(
    answer: Answer, kind: type[T], parts: Callable[[T, bool], Iterable[RenderableType]], *, as_json: bool
) -> None:
    """Prints an answer as JSON, or its ``parts`` for people; their flag: at least ``WIDE`` columns."""
    if as_json:
        print_json(answer.document())
        return
    screen = console(wide=True)
    for part in parts(answer.read(kind), screen.width >= WIDE):
        screen.print(part)


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")


def console(*, wide: bool = False) -> Console:
    """Standard output for people; without colours or control codes unless it is a terminal.

    ``wide``: 200 columns unless it is a terminal, so that tables in files and pipes are not cut.
    """
    # Names of devices may hold brackets and colons, which rich would take for styles and emoji.
    screen = _Screen(highlight=False, markup=False, emoji=False)
    if wide and not screen.is_terminal and "COLUMNS" not in os.environ:
        screen.width = _WIDE
    return screen


class _Screen(Console):
    def on_broken_pipe(self) -> NoReturn:
        """rich itself would exit with an error here; ``run_to_exit_code`` handles it."""
        raise BrokenPipeError


@contextmanager
def shown_progress(*, quiet: bool, lines: bool = True) -> Iterator[Callable[[Progress], None] | None]:
    """Progress on standard error: bars on a terminal, else lines if wanted; None if ``quiet``."""
    screen = screen_for_asking()
    if quiet or not screen.is_terminal:
        yield ProgressLines(time.monotonic) if lines and not quiet else None
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

        def update(step: Progress) -> None:
            if step.stage not in tasks:
                tasks[step.stage] = bars.add_task(step.stage, total=step.total)
            bars.update(tasks[step.stage], completed=step.done, total=step.total)

        yield update


@contextmanager
def counted_progress(stage: str, *, quiet: bool, lines: bool = True) -> Iterator[Callable[[int, int], None]]:
    """``shown_progress`` of one stage: of how many are done, and of how many."""
    from twin.search.round import Progress

    with shown_progress(quiet=quiet, lines=lines) as update:
        yield lambda done, total: None if update is None else update(Progress(stage, done, total))


LINE_EVERY_S = 5.0


class ProgressLines:
    """A line on standard error when a stage begins, and another every ``LINE_EVERY_S`` while it runs."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._stage: str | None = None
        self._said_s = 0.0

    def __call__(self, step: Progress) -> None:
        now_s = self._clock_s()
        if step.stage != self._stage or now_s - self._said_s >= LINE_EVERY_S:
            self._stage, self._said_s = step.stage, now_s
            say(f"{step.stage}: {step.done} of {step.total}")


DONE, FAILED, BAD_INPUT = 0, 1, 2
INTERRUPTED = 130
DEBUG_VARIABLE = "ECNTWIN_LOG__LEVEL"

_log = logging.getLogger("ecntwin.cli")
_command_of = cache(typer.main.get_command)  # it takes as long as a short command, and tests run many


def run_to_exit_code(app: typer.Typer, arguments: Sequence[str] | None) -> int:
    """Runs the command and returns its exit code; errors become a sentence on standard error."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # a process may begin without it
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 # as long as the process
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # the lines of a table, where a locale lacks them
    if os.environ.get(DEBUG_VARIABLE, "").lower() == "debug":
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
        quiet_libraries()
    code = DONE
    with suppress(BrokenPipeError):  # the reader closed the pipe, as head does
        code = _run(app, arguments)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # without this the interpreter complains again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _run(app: typer.Typer, arguments: Sequence[str] | None) -> int:
    """The exit code; raises ``BrokenPipeError``."""
    try:
        result = _command_of(app).main(args=arguments, prog_name="ecntwin", standalone_mode=False)
    except typer.Exit as ending:
        return ending.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as ending:  # of shell completion; of uvicorn, which logged why it cannot listen
        if isinstance(ending.__context__, BrokenPipeError):  # typer and rich make an error of it
            raise ending.__context__ from None
        return DONE if ending.code in (None, DONE) else FAILED
    except Exception as error:
        return _report(error)
    return result if isinstance(result, int) else DONE


def _report(error: Exception) -> int:
    _log.debug("traceback", exc_info=error)
    code = exit_code(error)
    if (what := what_did_not_fit(error)) is not None:
        say(
            f"{what} does not fit into memory, which has to hold the fabric, its traffic and its reports; "
            "use fewer hosts, a shorter duration or fewer reports, or a machine (or limit) with more memory"
        )
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        say("no space is left on the device that holds its output or its files; make room, or name another")
    elif code == FAILED and not isinstance(error, (SearchError, SwitchError, ApiError)):
        say(
            f"{type(error).__name__}: {error}; this is a bug in ecntwin; "
            f"please report it with the traceback that {DEBUG_VARIABLE}=debug logs"
        )
    else:
        # Settings errors carry the further mistakes of the file as notes.
        others = getattr(error, "__notes__", ()) if isinstance(error, SettingsError) else ()
        for sentence in (_sentence(error), *others):
            say(sentence)
    return code


def exit_code(error: Exception) -> int:
    """2 if the caller can correct the input, else 1."""
    if isinstance(error, (InventoryError, UnknownAdapterError)):
        return BAD_INPUT
    if isinstance(error, (SearchError, SwitchError, RequestError, AwayError)):
        return FAILED
    if isinstance(error, (TwinError, TelemetryError, ApiError)):
        return BAD_INPUT
    usage_code = getattr(error, "exit_code", None)  # click's own errors carry it
    return BAD_INPUT if usage_code == BAD_INPUT else FAILED


def _sentence(error: Exception) -> str:
    """An error's own sentence; for one of click, such as an unknown option, with the place and a remedy."""
    format_message = getattr(error, "format_message", None)
    if not callable(format_message):
        return str(error)
    context, cause, parameter = (getattr(error, name, None) for name in ("ctx", "__cause__", "param"))
    path = "ecntwin" if context is None else context.command_path
    remedy = f"{path} --help shows what it takes"
    where = path.removeprefix("ecntwin").strip()
    if isinstance(cause, ValidationError) and parameter is not None:
        found = mistake(cause.errors(include_url=False)[0], prefix=f"{where} {parameter.opts[0]}")
        return str(InputError(*found._replace(rule=found.rule.rstrip("."), remedy=remedy)))
    said = str(format_message()).rstrip(".")
    return f"{where}: {said[:1].lower()}{said[1:]}; {remedy}".removeprefix(": ") if said else ""


def say(sentence: str) -> None:
    """A line on standard error; a command goes on where nobody reads it."""
    if sentence:  # click has printed the help already
        with suppress(BrokenPipeError):
            sys.stderr.write(f"ecntwin: {' '.join(sentence.split())}\n")


def require_terminal(command: str) -> None:
    """Raises ``InputError`` if standard input is not a terminal: nobody could confirm."""
    if not sys.stdin.isatty():
        raise InputError(command, None, "there is no terminal to confirm at", "add --yes where this is meant")


def confirm(question: str) -> None:
    """Asks on standard error; unless the answer is yes, ends the command with exit code 1."""
    if not typer.confirm(question, err=True):
        screen_for_asking().print("Nothing was done.")
        raise typer.Exit(FAILED)


def screen_for_asking() -> Console:
    """Console on standard error, so that standard output holds only the command's result."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


NONE = "–"
WIDE = 120  # tables show more columns from this width on


def watermark_text(mark: Mark) -> str:
    """``Kmin 20 KB, Kmax 200 KB, Pmax 5 %``."""
    kmin, kmax, pmax = watermark_cells(mark)
    return f"Kmin {kmin}, Kmax {kmax}, Pmax {pmax}"


def watermark_cells(mark: Mark | None) -> tuple[str, str, str]:
    """Kmin, Kmax, Pmax; dashes for None."""
    if mark is None:
        return NONE, NONE, NONE
    return bytes_text(mark.kmin_bytes), bytes_text(mark.kmax_bytes), percent_text(mark.pmax)


def gbps_text(value_gbps: float) -> str:
    return f"{value_gbps:.4g} Gbit/s"


def count_text(number: int, one: str, several: str | None = None) -> str:
    """``1 switch``, ``1 200 switches``."""
    return f"{number:,} ".replace(",", " ") + (one if number == 1 else several or f"{one}s")


def of_all_text(shown: int, total: int, one: str, several: str | None = None) -> str:
    """``12 rounds``, or ``10 of 12 rounds`` where not all are shown."""
    every = count_text(total, one, several)
    return every if shown >= total else f"{shown} of {every}"


def clock_text(at: str) -> str:
    """An RFC 3339 time in the local zone: time of day if today, else date and minute."""
    then = datetime.fromisoformat(at).astimezone()
    today = then.date() == datetime.now().astimezone().date()
    return then.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


def words_of(name: str) -> Text:
    """A state's name in words and colour."""
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
    "expired": "yellow",
    "kept": "dim",
    "rolled_back": "red",
    "rolling_back": "red",
    "restored": "red",
    "left_alone": "yellow",
    "given_up": "yellow",
}


def headed_table(title: str | None, *columns: str, left: int = 1) -> Table:
    """An empty table; the first ``left`` columns are left-aligned, the others right-aligned."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right")
    return table


def unwrapped(table: Table) -> Table:
    """The table with unfolded values and headings, except where a heading has a line break of its own."""
    for column in table.columns:
        column.no_wrap = True
    return table


def labelled_lines() -> Table:
    """An empty grid of labels and values; long values wrap within their column."""
    grid = Table.grid(padding=(0, 2), pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def configure_logging(level: str, formatter: type[logging.Formatter] = logging.Formatter) -> None:
    """Sets the level (``debug``, ``info``, ...) and format of every logger of this process."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    quiet_libraries()


def quiet_libraries() -> None:
    """Silences request and header logs of httpx (with session cookies), and those of Alembic."""
    for name in ("httpx", "httpcore", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)

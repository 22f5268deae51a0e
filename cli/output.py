"""The look of what commands show to people: tables, times, watermarks; must not ask for what it shows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from twin.units import bytes_text, percent_text

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

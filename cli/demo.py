"""``ecntwin demo``: the whole loop on this machine, against settings that stay, on the same traffic."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from cli.api_cli_output import console, print_json
from lab.demo.conduct import conduct
from lab.demo.documents import DemoDocument
from lab.demo.outcome import Outcome
from lab.demo.picture import picture
from lab.demo.plan import FULL, QUICK
from lab.demo.screen import Shown, opening, queue_lines, result_table, verdict
from settings.errors import InputError
from twin.units import duration_text

PICTURE = Path("ecntwin-demo.svg")
ENDED_BY_SIGNAL = 128


def demo(*, seed: int, quick: bool, drawn: Path | None, as_json: bool) -> None:
    """Plays the demo, shows the table and draws the picture (with ``--json`` only where told to)."""
    plan = QUICK if quick else FULL
    screen = None if as_json else console()
    file = drawn or (None if as_json else PICTURE)
    if drawn is not None:
        _check_writable(drawn)
    if screen is not None:
        screen.print(opening(plan, seed))
    with _ended_by_signals(), Shown(plan, screen) as shown:
        outcome = conduct(plan, seed, shown)
    written = None if file is None else _draw(outcome, file, needed=drawn is not None)
    if screen is None:
        print_json(DemoDocument.of(outcome, None if written is None else str(written)))
        return
    screen.print(result_table(outcome))
    screen.print("Mean queue over time")
    for line in queue_lines(outcome):
        screen.print(line)
    screen.print(f"\n{verdict(outcome)}")
    drawing = f" Picture: {written}." if written else ""
    screen.print(
        f"{duration_text(outcome.wall_s)} in all.{drawing}\n\n"
        "Next: [bold]ecntwin demo --recording[/] for one round in detail, [bold]docs/lab.md[/] for a lab of "
        "your own,\n[bold]ecntwin serve[/] for your fabric."
    )


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A request to terminate ends the block as an interrupt does: the processes in it are ended first."""

    def ended(number: int, frame: FrameType | None) -> None:
        raise typer.Exit(ENDED_BY_SIGNAL + number)

    before = {number: signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_writable(file: Path) -> None:
    if not file.parent.is_dir() or file.is_dir():
        raise InputError(
            "--picture", str(file), "it is a file in a folder that exists", "give such as demo.svg"
        )


def _draw(outcome: Outcome, file: Path, *, needed: bool) -> Path | None:
    """Writes the picture; where nobody asked for it and the folder is not ours to write to, none."""
    try:
        file.write_text(picture(outcome), "utf-8")
    except OSError as error:
        if not needed:
            return None
        said = (error.strerror or type(error).__name__).lower()
        raise InputError("--picture", f"{file}: {said}", "the file can be written", "name another") from error
    return file

"""What the commands that read an inventory and ask its devices share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import typer
from rich.text import Text

from cli.output import BAD_INPUT, counted_progress, screen_for_asking
from service.documents.base import list_text
from service.switches.adapter_check import Answer, Reads, ReadT, read_all
from settings.errors import InputError
from settings.model import Settings

_PLACES_NAMED = 3
NAMED = 2  # of switches or NICs that share a row


def inventory_path(command: str, inventory: Path | None, settings: Settings) -> Path:
    """The inventory that ``command`` reads; raises ``InputError`` where none is named."""
    path = inventory or settings.push.inventory
    if path is None:
        kind = "hosts" if command == "nics" else "switches"
        raise InputError(
            command,
            None,
            f"no inventory; it says where the {kind} are",
            "give --inventory FILE, or push.inventory in the settings",
        )
    return path


def refuse(problems: Collection[object]) -> None:
    """Ends the command where entries of the inventory cannot be used."""
    if problems:
        screen_for_asking().print(*problem_lines(map(str, problems)), sep="\n", soft_wrap=True)
        raise typer.Exit(BAD_INPUT)


def problem_lines(problems: Iterable[str]) -> Iterator[Text]:
    """One line per problem; problems that differ only in the switch share a line."""
    groups: dict[str, list[str]] = {}
    for problem in problems:
        where, received, rest = problem.partition(": received ")
        if not received:
            where, _, rest = problem.partition(": ")
        groups.setdefault(rest, []).append(where)
    for rest, places in groups.items():
        place = list_text(places, _PLACES_NAMED)
        yield Text.assemble(("✗ ", "red"), (place, "bold"), f": {rest}" if rest else "")


def asked(adapters: Mapping[str, Reads[ReadT]], stage: str, *, quiet: bool) -> Mapping[str, Answer[ReadT]]:
    with counted_progress(stage, quiet=quiet, lines=False) as progress:
        return read_all(adapters, progress=progress)

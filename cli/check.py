"""An inventory for people: what is wrong with it, what its switches run; from ``--json``'s documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.table import Table
from rich.text import Text

from cli.output import NONE, headed_table, watermark_text
from service.documents.inventory import InventoryCheckDocument, InventoryReadDocument, ReadSwitchDocument
from twin.units import bytes_text, percent_text

_PLACES_NAMED = 3


def platforms_text(document: InventoryCheckDocument) -> str:
    """``inventory.yaml: 12 switches (2 lab, 10 sonic)``."""
    total = sum(document.platforms.values())
    each = ", ".join(f"{count} {platform}" for platform, count in document.platforms.items())
    return f"{document.path}: {total} switch{'' if total == 1 else 'es'} ({each})"


def problem_lines(problems: Iterable[str]) -> Iterator[Text]:
    """A line for each problem; one that many switches have in the same words is told once."""
    groups: dict[str, list[str]] = {}
    for problem in problems:
        where, _, rest = problem.partition(": received ")
        groups.setdefault(rest, []).append(where)
    for rest, places in groups.items():
        more = len(places) - _PLACES_NAMED
        place = ", ".join(places[:_PLACES_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield Text.assemble(("✗ ", "red"), (place, "bold"), f": {rest}" if rest else "")


def reporting_lines(document: InventoryCheckDocument) -> Iterator[Text]:
    """How many switches send binary INT reports, and which of them no round can set; nothing where none."""
    if not document.reporting:
        return
    several = document.reporting > 1
    yield Text(f"{document.reporting} {'switches report' if several else 'switch reports'} INT by node id")
    for name in document.untuned:
        yield Text.assemble(
            ("≠ ", "yellow"),
            (f"switch {name!r}", "bold"),
            " has no occupancy under int: it is shown, not tuned",
        )


def answered_text(document: InventoryReadDocument) -> Text:
    """``inventory.yaml: 11 of 12 switches answered``."""
    total = len(document.switches)
    return Text(
        f"{document.path}: {document.answered} of {total} switch{'' if total == 1 else 'es'} answered", "bold"
    )


def switches_table(document: InventoryReadDocument) -> Table:
    """What each switch runs."""
    table = headed_table(
        None,
        *("switch", "platform", "reachable", "Kmin", "Kmax", "Pmax", "queues", "drift", "last read"),
        left=3,
    )
    for column in table.columns:
        column.no_wrap = column.header != "queues"
        column.min_width = len(str(column.header))  # where a terminal is too narrow for all
    for one in document.switches:
        table.add_row(
            Text(one.name, "bold"),
            one.platform,
            Text("yes", "green") if one.reachable else Text("no", "red"),
            *_running(one),
            _queues(one),
            _drift(one),
            _clock(one.read_at) if one.read_at else NONE,
        )
    return table


def platforms_table(document: InventoryReadDocument) -> Table:
    """How each platform is written, read back and undone."""
    table = headed_table(
        None, *("platform", "thresholds in", "a change not confirmed", "undo", "read back"), left=5
    )
    kinds = {
        (one.platform, one.units, one.writes, one.dead_man, one.undo, one.read_back)
        for one in document.switches
    }
    for platform, units, writes, dead_man, undo, read_back in sorted(kinds):
        unconfirmed = "undoes itself" if dead_man else "stays" if writes else "is never made"
        table.add_row(platform, units, unconfirmed, undo, read_back)
    return table


def reason_lines(document: InventoryReadDocument) -> Iterator[Text]:
    """Why switches did not answer, and how those that drifted differ."""
    yield from problem_lines(one.detail for one in document.switches if one.detail is not None)
    for one in document.switches:
        if one.drifted and one.expected is not None:
            runs = "does not mark" if one.running is None else f"runs {watermark_text(one.running)}"
            said = watermark_text(one.expected)
            yield Text.assemble(
                ("≠ ", "yellow"), (f"switch {one.name!r}", "bold"), f" {runs}; the settings say {said}"
            )


def _running(one: ReadSwitchDocument) -> tuple[str | Text, str, str]:
    if one.running is None:
        off = bool(one.queues)
        return Text("ECN off", "yellow") if off else NONE, NONE, NONE
    return (
        bytes_text(one.running.kmin_bytes),
        bytes_text(one.running.kmax_bytes),
        percent_text(one.running.pmax),
    )


def _queues(one: ReadSwitchDocument) -> str | Text:
    if not one.queues:
        return NONE if one.running is not None or not one.reachable else Text("none match", "yellow")
    differ = sum(queue.watermark != one.running for queue in one.queues)
    if not differ:
        return f"{len(one.queues)}"
    return Text(f"{len(one.queues)}, {differ} differ{'s' if differ == 1 else ''}", "yellow")


def _clock(read_at: str) -> str:
    """The time of day here, to the second."""
    return datetime.fromisoformat(read_at).astimezone().strftime("%H:%M:%S")


def _drift(one: ReadSwitchDocument) -> str | Text:
    if one.drifted is None:
        return NONE
    return Text("yes", "yellow") if one.drifted else "no"

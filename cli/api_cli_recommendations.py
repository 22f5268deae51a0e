"""``ecntwin recommendations``: what rounds found, and one of them with its why."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cli.answers import RecommendationAnswer, RecommendationsAnswer
from cli.api_cli_output import console, print_json
from cli.client import Answer, ServiceClient
from cli.output import (
    NONE,
    WIDE,
    clock_text,
    headed_table,
    labelled_lines,
    list_text,
    of_all_text,
    watermark_cells,
    watermark_text,
    words_of,
)
from cli.prediction_tables import candidates_table, comparison_table
from twin.units import change_text

CANDIDATES_SHOWN = 5


def several(url: str, limit: int, *, as_json: bool) -> None:
    """Prints the newest."""
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/recommendations", {"limit": limit, "candidates": False})
    if as_json:
        print_json(answer.document())
        return
    found = answer.read(RecommendationsAnswer)
    screen = console(wide=True)
    if not found.recommendations:
        screen.print("No round has run yet.")
        return
    screen.print(recommendations_table(found, wide=screen.width >= WIDE))


def one(url: str, which: str, *, as_json: bool) -> None:
    """Prints one with everything it tried."""
    with ServiceClient.at(url) as service:
        answer = recommendation(service, which)
    if as_json:
        print_json(answer.document())
        return
    screen = console(wide=True)
    for part in recommendation_lines(answer.read(RecommendationAnswer), wide=screen.width >= WIDE):
        screen.print(part)


def recommendation(service: ServiceClient, which: str) -> Answer:
    """The one of that id, or the current one."""
    return service.get(f"/v1/recommendations/{quote(which, safe='')}")


def recommendations_table(found: RecommendationsAnswer, *, wide: bool) -> Table:
    """A line each; ``wide`` tells when and why too."""
    title = f"{of_all_text(len(found.recommendations), found.total, 'round')}, newest first"
    columns = ("id", "status", "Kmin", "Kmax", "Pmax", "queue", *(("found", "why") if wide else ()))
    table = headed_table(title, *columns, left=2)
    for column in table.columns[:-1] if wide else table.columns:
        column.no_wrap = True
    if wide:
        table.columns[-1].justify = "left"
    for one in found.recommendations:
        queue = one.improvement.relative.get("queue_mean") if one.changes else None
        status = words_of(one.status)
        if one.status == "pending" and one.holds:
            status.append(", held", "yellow")
        table.add_row(
            Text(one.id, "bold" if one.status == "pending" else ""),
            status,
            *(watermark_cells(one.recommendation) if one.changes else ("as is", NONE, NONE)),
            NONE if queue is None else change_text(queue),
            *((clock_text(one.created), Text(one.why)) if wide else ()),
        )
    return table


def recommendation_lines(found: RecommendationAnswer, *, wide: bool) -> Iterator[RenderableType]:
    """What it says, why, what it would do and what else was tried."""
    lines = labelled_lines()
    lines.add_row("recommendation", Text(found.id, "bold"))
    lines.add_row("found", f"{clock_text(found.created)}, in {found.wall_s:.1f} s")
    lines.add_row("status", _decision(found))
    lines.add_row("why", found.why)
    for label, sentences in (
        ("held back", found.holds),
        ("caution", [found.caution] if found.caution else []),
        ("second opinion", [found.second_opinion.sentence] if found.second_opinion else []),
        ("remark", found.remarks),
        ("note", found.notes),
    ):
        for sentence in sentences:
            style = "yellow" if label in ("held back", "caution") else ""
            lines.add_row(label, Text(sentence, style))
    if found.changes:
        step = "" if found.staged in (None, _mark(found)) else " (a step towards it)"
        lines.add_row("would set", f"{watermark_text(found.wanted)}{step}")
        lines.add_row("on", list_text(found.switches, 12) or NONE)
    if found.rollout is not None:
        lines.add_row("rollout", found.rollout)
    yield lines
    yield comparison_table(found.incumbent, found.recommendation)
    if found.candidates:
        yield candidates_table(found.candidates, CANDIDATES_SHOWN, origins=wide)
    if found.status == "pending":
        yield Text(f"ecntwin approve {found.id} shows it switch by switch, and asks.", "dim")


def _mark(found: RecommendationAnswer) -> object:
    mark = found.recommendation
    return None if found.staged is None else type(found.staged)(mark.kmin_bytes, mark.kmax_bytes, mark.pmax)


def _decision(found: RecommendationAnswer) -> Text:
    told = words_of(found.status)
    if found.decided_by is not None:
        told.append(f" by {found.decided_by}")
    if found.decided_at is not None:
        told.append(f" at {clock_text(found.decided_at)}")
    return told

"""``ecntwin rollouts``: how far changes have come, and one of them with all that happened."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cli.answers import RolloutAnswer, RolloutsAnswer, RolloutSwitchAnswer
from cli.api_cli_output import console, print_json
from cli.client import ServiceClient
from cli.follow import event_text, said
from cli.output import (
    NONE,
    WIDE,
    clock_text,
    headed_table,
    labelled_lines,
    of_all_text,
    watermark_cells,
    words_of,
)

EVENTS_SHOWN = 30


def several(url: str, limit: int, *, as_json: bool) -> None:
    """Prints the newest."""
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/rollouts", {"limit": limit})
    if as_json:
        print_json(answer.document())
        return
    found = answer.read(RolloutsAnswer)
    screen = console(wide=True)
    if not found.rollouts:
        screen.print("No rollout has begun yet.")
        return
    screen.print(rollouts_table(found, wide=screen.width >= WIDE))


def one(url: str, which: str, *, as_json: bool) -> None:
    """Prints one, with what happened."""
    with ServiceClient.at(url) as service:
        answer = service.get(f"/v1/rollouts/{quote(which, safe='')}")
    if as_json:
        print_json(answer.document())
        return
    screen = console(wide=True)
    for part in rollout_lines(answer.read(RolloutAnswer), wide=screen.width >= WIDE):
        screen.print(part)


def rollouts_table(found: RolloutsAnswer, *, wide: bool) -> Table:
    """A line each; ``wide`` tells by whom and why too."""
    title = f"{of_all_text(len(found.rollouts), found.total, 'rollout')}, newest first"
    table = headed_table(title, "id", "begun", "phase", "set", *(("by", "why") if wide else ()), left=6)
    for column in table.columns[:4]:
        column.no_wrap = True
    for rollout in found.rollouts:
        table.add_row(
            Text(rollout.id, "" if rollout.ended else "bold"),
            clock_text(rollout.proposed_at),
            words_of(rollout.phase),
            f"{len(rollout.done)} of {len(rollout.switches)}",
            *((rollout.approved_by or NONE, _why(rollout)) if wide else ()),
        )
    return table


def _why(rollout: RolloutAnswer) -> Text:
    return Text(f"stands still: {rollout.stalled}", "yellow") if rollout.stalled else Text(rollout.why or "")


def rollout_lines(found: RolloutAnswer, *, wide: bool) -> Iterator[RenderableType]:
    """Where it stands, its switches, and what happened."""
    lines = labelled_lines()
    lines.add_row("rollout", Text(found.id, "bold"))
    lines.add_row("recommendation", found.recommendation)
    lines.add_row("begun", f"{clock_text(found.proposed_at)} by {found.approved_by or 'nobody yet'}")
    lines.add_row(
        "phase", Text.assemble(words_of(found.phase), f" since {clock_text(found.since)}: {said(found)}")
    )
    if found.why:
        lines.add_row("why", found.why)
    yield lines
    yield rollout_table(found, wide=wide)
    for switch in found.switches:
        for note in [*switch.notes, *([switch.detail] if switch.detail else [])]:
            yield Text.assemble((f"{switch.switch}: ", "bold"), note)
    events = found.events or []
    earlier = len(events) - EVENTS_SHOWN
    if earlier > 0:
        yield Text(f"{earlier} earlier ones: --json shows all", "dim")
    for event in events[-EVENTS_SHOWN:]:
        yield event_text(event)


def rollout_table(found: RolloutAnswer, *, wide: bool) -> Table:
    """Each switch and what it runs or shall run; ``wide`` tells what it ran before too."""
    table = headed_table(None, "switch", "stage", "progress", "Kmin", "Kmax", "Pmax", left=3)
    for column in table.columns:
        column.no_wrap = column.header != "switch"
        column.overflow = "fold"
    for one in found.switches:
        table.add_row(
            Text(one.switch, "bold"),
            ("canary" if one.stage == 0 else f"batch {one.stage}") + ("" if one.writes else ", dry run"),
            words_of(one.progress),
            *(_change(one) if wide else watermark_cells(one.after or one.target)),
        )
    return table


def _change(one: RolloutSwitchAnswer) -> Iterator[Text]:
    after = watermark_cells(one.after or one.target)
    for before, now in zip(watermark_cells(one.before), after, strict=True):
        yield Text(now, "dim") if before == now else Text.assemble((f"{before} → ", "dim"), now)

"""``ecntwin rollouts``: how far changes have come, and one of them with all that happened.

``ecntwin rollback``: returns switches to what they ran before.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cli.answers import RolloutAnswer, RolloutsAnswer, RolloutSwitchAnswer
from cli.client import ServiceClient
from cli.follow import event_text, follow, outcome, said
from cli.output import (
    FAILED,
    NONE,
    WIDE,
    clock_text,
    confirm,
    console,
    headed_table,
    labelled_lines,
    list_text,
    of_all_text,
    print_json,
    screen_for_asking,
    somebody_there,
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


def rollback(url: str, which: str, *, yes: bool, wait: bool, as_json: bool) -> None:
    """Exits 0 where every switch was returned (or it was begun, not waiting), 1 where one was left alone.

    Asks where a person is there to answer. A script is not asked: undoing is the safe way.
    """
    path = f"/v1/rollouts/{quote(which, safe='')}"
    with ServiceClient.at(url) as service:
        before = service.get(path).read(RolloutAnswer)
        if not yes and somebody_there():
            screen = screen_for_asking()
            screen.print(rollout_table(before, wide=screen.width >= WIDE))
            confirm(f"Roll {which} back?")
        answer = service.post(f"{path}/rollback")
        lines = None if as_json else console(wide=True)
        if wait:
            answer = follow(service, which, lines=lines, told=len(before.events or []))
    found = answer.read(RolloutAnswer)
    if lines is None:
        print_json(answer.document())
    elif wait:
        lines.print(Text.assemble(words_of(found.phase), f": {outcome(found)}."))
    else:
        lines.print(Text(f"Begun. ecntwin rollouts {found.id} tells how far it has come."))
    if found.left_alone:
        left = list_text(one.switch for one in found.left_alone)
        screen_for_asking().print(
            Text(f"ecntwin: left alone, as somebody else has set them since: {left}"), soft_wrap=True
        )
        raise typer.Exit(FAILED)

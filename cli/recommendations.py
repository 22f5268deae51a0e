"""``ecntwin approve`` and ``reject``: an operator's decision, and what becomes of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.answers import MarkAnswer, RecommendationAnswer, RolloutAnswer, SwitchAnswer
from cli.api_cli_output import console, print_json
from cli.api_cli_recommendations import recommendation
from cli.asking import confirm, require_answer, screen_for_asking
from cli.client import ServiceClient
from cli.errors import FAILED
from cli.follow import follow, outcome
from cli.output import count_text, headed_table, watermark_cells, watermark_text, words_of
from settings.errors import RefusedError


def approve(url: str, which: str, *, yes: bool, wait: bool, as_json: bool) -> None:
    """Exits 0 where it was rolled out (or begun, not waiting), 1 where it was taken back or declined."""
    if not yes:
        require_answer("approve")
    with ServiceClient.at(url) as service:
        found = recommendation(service, which).read(RecommendationAnswer)
        _check_pending(found)
        if not (yes and as_json):
            switches = service.get("/v1/switches").read(list[SwitchAnswer])
            _show_change(found, switches, screen_for_asking() if as_json else console(wide=True))
        if not yes:
            confirm(f"Approve {found.id}?")
        decided = service.post(f"/v1/recommendations/{quote(found.id, safe='')}/approve")
        begun = decided.read(RecommendationAnswer).rollout
        lines = None if as_json else console(wide=True)
        if lines is not None:
            lines.print(f"Approved. Rollout {begun}.", markup=False)
        ended = follow(service, begun, lines=lines) if wait and begun else None
        if ended is not None:  # a rollout that was taken back is told there
            decided = recommendation(service, found.id)
    document: dict[str, Any] = {
        "recommendation": decided.document(),
        "rollout": None if ended is None else ended.document(),
    }
    if as_json:
        print_json(document)
    if ended is not None:
        _end(ended.read(RolloutAnswer), lines)
    elif lines is not None:
        lines.print(Text(f"ecntwin rollouts {begun} tells how far it has come.", "dim"))


def reject(url: str, which: str, *, as_json: bool) -> None:
    """Turns it down."""
    with ServiceClient.at(url) as service:
        answer = service.post(f"/v1/recommendations/{quote(which, safe='')}/reject")
    if as_json:
        print_json(answer.document())
        return
    console(wide=True).print(
        f"{answer.read(RecommendationAnswer).id} rejected; nothing is set.", markup=False
    )


def change_table(found: RecommendationAnswer, switches: list[SwitchAnswer]) -> Table:
    """What an approval changes on each switch that it is about."""
    wanted = watermark_cells(found.wanted)
    by_name = {one.name: one for one in switches}
    concerned = [by_name[name] for name in found.switches if name in by_name]
    title = f"{found.id}: {watermark_text(found.wanted)}"
    table = headed_table(title, "switch", "Kmin", "Kmax", "Pmax", "note")
    table.columns[-1].justify = "left"
    for column in table.columns[:-1]:
        column.no_wrap = True
    for one in concerned:
        now = watermark_cells(one.running)
        cells = [
            Text(after, "dim") if before == after else Text.assemble((f"{before} → ", "dim"), (after, "bold"))
            for before, after in zip(now, wanted, strict=True)
        ]
        table.add_row(Text(one.name, "bold"), *cells, _note(one, found.wanted))
    return table


def _note(one: SwitchAnswer, wanted: MarkAnswer) -> Text:
    notes = [
        text
        for text, holds in (
            ("does not answer", not one.reachable),
            ("drifted: adopt or set it back first", one.drifted and one.writes),
            ("its queues differ", one.running is None and bool(one.queues)),
            ("not known", one.running is None and not one.queues),
            ("no change", one.running == wanted),
        )
        if holds
    ]
    told = Text("; ".join(notes), "yellow" if notes and notes != ["no change"] else "dim")
    if not one.writes:
        told = Text("dry run", "dim").append("; " if notes else "").append(told)
    return told


def _show_change(found: RecommendationAnswer, switches: list[SwitchAnswer], screen: Console) -> None:
    table = change_table(found, switches)
    screen.print(table)
    screen.print(Text(found.why))
    for sentence in [*found.holds, *([found.caution] if found.caution else []), *found.notes]:
        screen.print(Text(f"≠ {sentence}", "yellow"))
    writes = sum(one.writes for one in switches if one.name in found.switches)
    if not writes:
        screen.print("A dry run: no device is written.")
    elif writes < table.row_count:
        screen.print(f"{count_text(writes, 'switch', 'switches')} of {table.row_count} are written.")


def _check_pending(found: RecommendationAnswer) -> None:
    """The service would refuse it too; but a person is not asked about what cannot be."""
    if found.status != "pending":
        raise RefusedError(
            f"recommendation {found.id!r}",
            f"a decision on one that is {found.status.replace('_', ' ')}",
            "only a pending recommendation can be approved",
            "ecntwin recommendations lists them",
        )


def _end(rollout: RolloutAnswer, lines: Console | None) -> None:
    """Says how it ended; exits 1 where it was taken back."""
    if lines is not None:
        lines.print(Text.assemble(words_of(rollout.phase), f": {outcome(rollout)}."))
    if rollout.phase != "done":
        why = f": {rollout.why}" if rollout.why else ""
        screen_for_asking().print(Text(f"ecntwin: rollout {rollout.id} was taken back{why}"), soft_wrap=True)
        raise typer.Exit(FAILED)

"""``ecntwin alarms``: what is wrong now, and where to look first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from cli.answers import AlarmAnswer, AlarmsAnswer
from cli.api_cli_output import console, print_json
from cli.client import ServiceClient
from cli.output import clock_text, count_text, words_of

_INDENT = (0, 0, 0, 2)


def alarms(url: str, limit: int, *, ended: bool, as_json: bool) -> None:
    """Prints them, the worst first."""
    with ServiceClient.at(url) as service:
        answer = service.get("/v1/alarms", {"limit": limit, "all": ended})
    if as_json:
        print_json(answer.document())
        return
    screen = console(wide=True)
    for part in alarm_lines(answer.read(AlarmsAnswer)):
        screen.print(part)


def alarm_lines(found: AlarmsAnswer) -> Iterator[RenderableType]:
    """How many there are, then each with its sentence."""
    yield alarms_text(found)
    told: set[str] = set()
    for one in found.alarms:
        yield from _alarm(one)
        if one.kind not in told:  # many are of one kind
            told.add(one.kind)
            yield Padding(Text(one.look, "dim"), _INDENT)
    hidden = found.critical + found.warning - len(found.alarms)
    if hidden > 0:
        yield Text(f"\n{hidden} more: --limit {found.critical + found.warning} shows all", "dim")
    if found.ended:
        yield Text("\nEnded", "bold")
        for one in found.ended:
            yield from _alarm(one)


def alarms_text(found: AlarmsAnswer) -> Text:
    """``1 critical, 2 warnings``."""
    if not found.critical and not found.warning:
        return Text("No alarms", "green")
    levels = []
    if found.critical:
        levels.append((f"{found.critical} critical", "bold red"))
    if found.warning:
        levels.append((count_text(found.warning, "warning"), "yellow"))
    told = Text(", ").join(Text(text, style) for text, style in levels)
    if found.left_off:
        told.append(f", {found.left_off} more over a threshold that find no room", "yellow")
    return told


def _alarm(one: AlarmAnswer) -> Iterator[RenderableType]:
    ended = "" if one.ended is None else f" until {clock_text(one.ended)}"
    yield Text()
    yield Text.assemble(
        words_of(one.level),
        f"  {one.kind}  ",
        (one.subject, "bold"),
        f"  since {clock_text(one.since)}{ended}",
    )
    yield Padding(Text(one.sentence), _INDENT)
    if one.why:
        yield Padding(Text(one.why, "dim"), _INDENT)

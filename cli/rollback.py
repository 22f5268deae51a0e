"""``ecntwin rollback``: returns switches to what they ran before."""

from __future__ import annotations

from urllib.parse import quote

import typer
from rich.text import Text

from cli.answers import RolloutAnswer
from cli.api_cli_output import console, print_json
from cli.asking import confirm, screen_for_asking, somebody_there
from cli.client import ServiceClient
from cli.errors import FAILED
from cli.follow import follow, outcome
from cli.output import WIDE, list_text, words_of
from cli.rollouts import rollout_table


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

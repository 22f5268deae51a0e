"""``ecntwin freeze`` and ``thaw``: whether switches may be set."""

from __future__ import annotations

from rich.text import Text

from cli.answers import FreezeAnswer
from cli.api_cli_output import console, print_json
from cli.client import ServiceClient
from cli.output import clock_text


def put(url: str, *, frozen: bool, as_json: bool) -> None:
    """Freezes or thaws."""
    with ServiceClient.at(url) as service:
        answer = service.put("/v1/freeze", {"frozen": frozen})
    if as_json:
        print_json(answer.document())
        return
    found = answer.read(FreezeAnswer)
    after = "No switch is set until ecntwin thaw." if found.frozen else "Switches may be set."
    console(wide=True).print(Text.assemble(freeze_text(found), f". {after}"))


def freeze_text(found: FreezeAnswer) -> Text:
    """``Frozen by alice since 14:03:11``, or why that is not known."""
    if found.unknown is not None:
        return Text(f"Frozen or not is unknown: {found.unknown}", "bold yellow")
    if not found.frozen:
        return Text("Not frozen")
    since = "" if found.at is None else f" since {clock_text(found.at)}"
    return Text(f"Frozen by {found.by or 'somebody'}{since}", "bold yellow")

"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from settings.validation import CA_VARIABLE, CONFIG_VARIABLE, URL_VARIABLE

SERVICE = "http://127.0.0.1:8080"


def _trust_in_this_command(authority: Path | None) -> Path | None:
    from settings.tls import trust_in_this_command

    trust_in_this_command(authority)
    return authority


def unset(*names: str, **how: Any) -> Any:
    """An option whose help shows no default."""
    return typer.Option(*names, show_default=False, **how)


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document to standard output and nothing else.")
]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed.")]
Config = Annotated[
    Path | None, typer.Option(envvar=CONFIG_VARIABLE, help="Settings file (YAML).", show_default=False)
]
Url = Annotated[str, typer.Option(envvar=URL_VARIABLE, help="URL of the service.")]
Ca = Annotated[
    Path | None,
    typer.Option(
        envvar=CA_VARIABLE,
        help="PEM file with the CA of its certificate.",
        show_default=False,
        callback=_trust_in_this_command,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Wait = Annotated[bool, typer.Option(help="Follow the rollout until it ends.")]

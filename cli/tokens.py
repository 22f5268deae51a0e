"""The subcommands of ``ecntwin token``; what they do is imported when one runs."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import Config, Json

tokens = typer.Typer(
    name="token",
    help="Make, list and revoke tokens, in the database of the settings; a service may run meanwhile.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.", show_default=False)]


@tokens.command()
def create(
    name: Name,
    scope: Annotated[
        list[str], typer.Option(help="What it may: telemetry, read, operate, admin.", show_default=False)
    ],
    expires: Annotated[
        str | None, typer.Option(help="How long it is good, such as 90d; for ever.", show_default=False)
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Make a token, and print it: it is shown only now."""
    from cli.token import create_token

    create_token(config, name, scope, expires, as_json=as_json)


@tokens.command("list")
def list_(config: Config = None, as_json: Json = False) -> None:
    """List the tokens that were made: scopes, when they expire and were last used."""
    from cli.token import list_tokens

    list_tokens(config, as_json=as_json)


@tokens.command()
def revoke(name: Name, config: Config = None, as_json: Json = False) -> None:
    """Revoke a token; a service that runs refuses it within a few seconds."""
    from cli.token import revoke_token

    revoke_token(config, name, as_json=as_json)

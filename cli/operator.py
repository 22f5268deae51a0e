"""The subcommands that call a running service, and the ids that shells complete for them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.options import SERVICE, Ca, Json, Url, Wait, Yes, unset

COMPLETION_S = 2.0
MOST_COMPLETED = 20


def recommendation_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest recommendations, each with its status and reason."""
    return _newest(ctx, incomplete, "recommendations", "{status}: {why}", candidates=False)


def pending_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The recommendations that await a decision."""
    return [one for one in recommendation_ids(ctx, incomplete) if one[1].startswith("pending: ")]


def rollout_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest rollouts, each with its phase."""
    found = _newest(ctx, incomplete, "rollouts", "{phase}", fields="id,phase")
    return [(rollout, phase.replace("_", " ")) for rollout, phase in found]


def _newest(
    ctx: typer.Context, incomplete: str, kind: str, label: str, **query: bool | str
) -> list[tuple[str, str]]:
    """The ids that begin with the text typed, with labels; none where the service does not answer, as shells
    show no errors.
    """
    from cli.client import ServiceClient
    from settings.errors import ApiError

    try:
        with ServiceClient.at(ctx.params.get("url") or SERVICE, patience_s=COMPLETION_S) as service:
            found = service.get(f"/v1/{kind}", {"limit": MOST_COMPLETED, **query}).document()[kind]
        return [(one["id"], label.format(**one)) for one in found if one["id"].startswith(incomplete)]
    except (ApiError, LookupError, TypeError):
        return []


PANEL = "Ask a running service"


def _id(what: str, completed: Callable[..., list[tuple[str, str]]], metavar: str = "ID") -> Any:
    return typer.Argument(metavar=metavar, help=what, show_default=False, autocompletion=completed)


class FlowClassName(StrEnum):
    MOUSE = "mouse"
    POTENTIAL_ELEPHANT = "potential_elephant"
    ELEPHANT = "elephant"


Rounds = Annotated[int, typer.Option(min=1, max=1_000, help="Number of newest ones to list.")]


def status(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """Summarise the service, the fabric and current changes."""
    from cli.status import status as run

    run(url, as_json=as_json)


def flows(
    flow_class: Annotated[FlowClassName | None, unset("--class", help="Only this class.")] = None,
    switch: Annotated[
        str | None, unset("--switch", help="Only those through a queue of this switch.")
    ] = None,
    host: Annotated[str | None, unset("--host", help="Only those from or to this host.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, most bytes first.")] = 20,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """List the flows of the last window, most bytes first."""
    from cli.status import flows as run

    chosen = None if flow_class is None else flow_class.value
    run(url, chosen, switch, host, limit, as_json=as_json)


def forecast(
    switch: Annotated[str | None, unset("--switch", help="Only ports of this switch.")] = None,
    port: Annotated[str | None, unset("--port", help="Only this port of it, step by step.")] = None,
    horizon: Annotated[str, typer.Option(help="How far ahead, such as 30m, 6h or 1d; a day at most.")] = "1h",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most so many, the fullest first.")] = 20,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Forecast what ports will send, by their own history, with the error that had on it."""
    from cli.status import forecast as run

    run(url, switch, port, horizon, limit, as_json=as_json)


def recommendations(
    recommendation: Annotated[
        str | None, _id("An id, or current: reasons and predictions.", recommendation_ids)
    ] = None,
    limit: Rounds = 10,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """List recommendations, the newest first, or explain one."""
    from cli.recommendations import one, several

    if recommendation is None:
        several(url, limit, as_json=as_json)
    else:
        one(url, recommendation, as_json=as_json)


def approve(
    recommendation: Annotated[str, _id("A recommendation, or current.", pending_ids)],
    with_nics: Annotated[
        bool,
        typer.Option("--with-nics", help="Set its NIC values on all hosts too, and their watermark."),
    ] = False,
    with_roles: Annotated[
        bool,
        typer.Option("--with-roles", help="Set its watermarks by port role, and the one for other ports."),
    ] = False,
    yes: Yes = False,
    wait: Wait = True,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Show what a recommendation changes on each switch, ask, and roll it out.

    Refused where it has expired or is blocked, also with --yes.
    """
    from cli.recommendations import approve as run

    run(url, recommendation, nics=with_nics, roles=with_roles, yes=yes, wait=wait, as_json=as_json)


def reject(
    recommendation: Annotated[str, _id("A recommendation, or current.", pending_ids)],
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Reject a recommendation; nothing is set."""
    from cli.recommendations import reject as run

    run(url, recommendation, as_json=as_json)


def rollouts(
    rollout: Annotated[str | None, _id("An id, or newest: its switches and events.", rollout_ids)] = None,
    limit: Rounds = 10,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """List rollouts, the newest first, or show one."""
    from cli.rollouts import one, several

    if rollout is None:
        several(url, limit, as_json=as_json)
    else:
        one(url, rollout, as_json=as_json)


def rollback(
    rollout: Annotated[str, _id("A rollout, or newest.", rollout_ids, metavar="ROLLOUT")],
    yes: Yes = False,
    wait: Wait = True,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Restore what every switch of a rollout ran before."""
    from cli.rollouts import rollback as run

    run(url, rollout, yes=yes, wait=wait, as_json=as_json)


def give_up(
    rollout: Annotated[str, _id("A rollout, or newest.", rollout_ids, metavar="ROLLOUT")],
    member: Annotated[str, typer.Argument(help="Its switch or host.", show_default=False)],
    reason: Annotated[str, unset("--reason", help="Why, for the record and the audit log.")],
    yes: Yes = False,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Ask, and end the undo of a switch or host that kept failing; it may still run the change."""
    from cli.rollouts import give_up as run

    run(url, rollout, member, reason, yes=yes, as_json=as_json)


def hash_(
    switch: Annotated[str, typer.Argument(help="A switch.", show_default=False)],
    value: Annotated[str | None, typer.Argument(help="What to set; without, it is shown.")] = None,
    yes: Yes = False,
    wait: Wait = True,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Show what a switch hashes ECMP by, or ask, and set it by a rollout."""
    from cli.rollouts import rehash

    rehash(url, switch, value, yes=yes, wait=wait, as_json=as_json)


alarms = typer.Typer(name="alarms", help="List current alarms, the worst first; acknowledge or silence them.")
Note = Annotated[str | None, unset("--note", help="For others to read.")]


@alarms.callback(invoke_without_command=True)
def list_alarms(
    ctx: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Also ended ones.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the worst first.")] = 100,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """List current alarms, the worst first; acknowledge or silence them."""
    from cli.status import alarms as run

    if ctx.invoked_subcommand is None:
        run(url, limit, ended=everything, as_json=as_json)
    else:
        _refuse_options_before(ctx.invoked_subcommand, ctx)


def _refuse_options_before(subcommand: str, group: typer.Context) -> None:
    """Raises ``InputError`` where options are given to the group, which ``subcommand`` would not read."""
    from settings.errors import InputError

    for option in group.command.params:
        source = group.get_parameter_source(option.name or "")
        if source is not None and source.name == "COMMANDLINE":
            rule = f"{subcommand} reads only the options behind it"
            raise InputError(f"alarms {option.opts[0]}", None, rule, "move it there, or leave it out")


@alarms.command()
def ack(
    alarm: Annotated[str, typer.Argument(metavar="ID", help="An alarm.", show_default=False)],
    note: Note = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take an acknowledgement back.")] = False,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Say that somebody looks after an alarm; void once it turns critical."""
    from cli.status import acknowledge as run

    run(url, alarm, note, withdraw=withdraw, as_json=as_json)


@alarms.command()
def silence(
    lasts: Annotated[str, unset("--for", help="How long, such as 30m, 4h or 2d; 7 days at most.")],
    kind: Annotated[str | None, unset("--kind", help="Only this kind, such as pfc_storm.")] = None,
    switch: Annotated[str | None, unset("--switch", help="Only on this switch.")] = None,
    note: Note = None,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Have alarms of a kind, a switch, or both notify nobody; they stay listed."""
    from cli.status import silence as run

    run(url, kind, switch, lasts, note, as_json=as_json)


@alarms.command()
def silences(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """List the silences that have not ended."""
    from cli.status import silences as run

    run(url, as_json=as_json)


@alarms.command()
def unsilence(
    silence_id: Annotated[str, typer.Argument(metavar="SILENCE", help="A silence.", show_default=False)],
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """End a silence now."""
    from cli.status import unsilence as run

    run(url, silence_id, as_json=as_json)


def freeze(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """Stop setting switches until thawed; rollbacks continue."""
    from cli.rollouts import put_freeze

    put_freeze(url, frozen=True, as_json=as_json)


def thaw(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """Allow setting switches again."""
    from cli.rollouts import put_freeze

    put_freeze(url, frozen=False, as_json=as_json)


def watch(
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON and nothing else.")
    ] = False,
) -> None:
    """Print events as they happen, until Ctrl-C."""
    from cli.watch import watch as run

    run(url, as_json=as_json)


COMMANDS = (
    status,
    flows,
    forecast,
    recommendations,
    approve,
    reject,
    rollouts,
    rollback,
    give_up,
    hash_,
    freeze,
    thaw,
    watch,
)


def add_to(app: typer.Typer) -> None:
    for function in COMMANDS:
        app.command(function.__name__.rstrip("_").replace("_", "-"), rich_help_panel=PANEL)(function)
    app.add_typer(alarms, rich_help_panel=PANEL)

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
    return _newest(ctx, incomplete, "recommendations", _status, candidates=False)


def pending_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The recommendations that await a decision."""
    return [one for one in recommendation_ids(ctx, incomplete) if one[1].startswith("pending: ")]


def rollout_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest rollouts, each with its phase."""
    return _newest(ctx, incomplete, "rollouts", lambda one: one["phase"].replace("_", " "))


def _status(one: dict[str, Any]) -> str:
    return f"{one['status']}: {one['why']}"


def _newest(
    ctx: typer.Context, incomplete: str, kind: str, label: Callable[[dict[str, Any]], str], **query: bool
) -> list[tuple[str, str]]:
    """Ids that begin so and their labels; none where the service does not answer: shells show no errors."""
    from cli.client import ServiceClient
    from settings.errors import ApiError

    try:
        with ServiceClient.at(ctx.params.get("url") or SERVICE, patience_s=COMPLETION_S) as service:
            found = service.get(f"/v1/{kind}", {"limit": MOST_COMPLETED, **query}).document()[kind]
        return [(one["id"], label(one)) for one in found if one["id"].startswith(incomplete)]
    except (ApiError, LookupError, TypeError):
        return []


PANEL = "Ask a running service"


class FlowClassName(StrEnum):
    """Flow classes by the service's names."""

    MOUSE = "mouse"
    POTENTIAL_ELEPHANT = "potential_elephant"
    ELEPHANT = "elephant"


Rounds = Annotated[int, typer.Option(min=1, max=1_000, help="The newest so many.")]


def add_to(app: typer.Typer) -> None:
    """Registers them with ``app``."""
    for function in (
        status,
        flows,
        recommendations,
        approve,
        reject,
        rollouts,
        rollback,
        alarms,
        freeze,
        thaw,
        watch,
    ):
        app.command(rich_help_panel=PANEL)(function)


def status(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """How the fabric and the service are: one look."""
    from cli.status import status as run

    run(url, as_json=as_json)


def flows(
    flow_class: Annotated[FlowClassName | None, unset("--class", help="Only these.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many, most bytes first.")] = 20,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """The flows of the last window, most bytes first."""
    from cli.status import flows as run

    run(url, None if flow_class is None else flow_class.value, limit, as_json=as_json)


def recommendations(
    recommendation: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="One of them, or current: why, and what was predicted.",
            show_default=False,
            autocompletion=recommendation_ids,
        ),
    ] = None,
    limit: Rounds = 10,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """What was recommended, the newest first; one of them with its why."""
    from cli.recommendations import one, several

    if recommendation is None:
        several(url, limit, as_json=as_json)
    else:
        one(url, recommendation, as_json=as_json)


def approve(
    recommendation: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A recommendation, or current.", show_default=False, autocompletion=pending_ids
        ),
    ],
    yes: Yes = False,
    wait: Wait = True,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Show what a recommendation changes on each switch, ask, and roll it out."""
    from cli.recommendations import approve as run

    run(url, recommendation, yes=yes, wait=wait, as_json=as_json)


def reject(
    recommendation: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="A recommendation.", show_default=False, autocompletion=pending_ids
        ),
    ],
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Turn a recommendation down; nothing is set."""
    from cli.recommendations import reject as run

    run(url, recommendation, as_json=as_json)


def rollouts(
    rollout: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="One of them: its switches, and all that happened.",
            show_default=False,
            autocompletion=rollout_ids,
        ),
    ] = None,
    limit: Rounds = 10,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """How far changes have come, the newest first."""
    from cli.rollouts import one, several

    if rollout is None:
        several(url, limit, as_json=as_json)
    else:
        one(url, rollout, as_json=as_json)


def rollback(
    rollout: Annotated[
        str,
        typer.Argument(metavar="ROLLOUT", help="A rollout.", show_default=False, autocompletion=rollout_ids),
    ],
    yes: Yes = False,
    wait: Wait = True,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """Return every switch of a rollout to what it ran before."""
    from cli.rollouts import rollback as run

    run(url, rollout, yes=yes, wait=wait, as_json=as_json)


def alarms(
    everything: Annotated[bool, typer.Option("--all", help="Also those that ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many, the worst first.")] = 100,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """What is wrong now, the worst first."""
    from cli.status import alarms as run

    run(url, limit, ended=everything, as_json=as_json)


def freeze(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """Let no switch be set until it is thawed; undoing goes on."""
    from cli.rollouts import put_freeze

    put_freeze(url, frozen=True, as_json=as_json)


def thaw(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """Let switches be set again."""
    from cli.rollouts import put_freeze

    put_freeze(url, frozen=False, as_json=as_json)


def watch(
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON and nothing else.")
    ] = False,
) -> None:
    """Tell what happens as it happens, until Ctrl-C."""
    from cli.watch import watch as run

    run(url, as_json=as_json)

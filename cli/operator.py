"""What the shell offers in place of an id: asks the service, briefly; nothing where that does not answer.

The subcommands that ask a running service; each lives in its own file and is imported when run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import SERVICE, Ca, Json, Url, Wait, Yes

if TYPE_CHECKING:
    from cli.client import ServiceClient

PATIENCE_S = 2.0
OFFERED = 20


def recommendations_known(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest rounds, each with what it says."""
    return _offered(ctx, incomplete, _rounds)


def pending_recommendations(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Those that wait for a decision."""
    return _offered(
        ctx, incomplete, lambda asked: ((one, why) for one, why, pending in _all(asked) if pending)
    )


def rollouts_known(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The newest rollouts, each with its phase."""
    return _offered(ctx, incomplete, _rollouts)


def _offered(
    ctx: typer.Context, incomplete: str, find: Callable[[ServiceClient], Iterator[tuple[str, str]]]
) -> list[tuple[str, str]]:
    from cli.client import ServiceClient
    from settings.errors import ApiError

    try:
        with ServiceClient.at(ctx.params.get("url") or SERVICE, patience_s=PATIENCE_S) as asked:
            return [one for one in find(asked) if one[0].startswith(incomplete)]
    except (ApiError, LookupError, TypeError):
        return []  # a line being typed is no place to complain


def _all(asked: ServiceClient) -> Iterator[tuple[str, str, bool]]:
    found: dict[str, Any] = asked.get(
        "/v1/recommendations", {"limit": OFFERED, "candidates": False}
    ).document()
    for one in found["recommendations"]:
        yield one["id"], f"{one['status']}: {one['why']}", one["status"] == "pending"


def _rounds(asked: ServiceClient) -> Iterator[tuple[str, str]]:
    return ((one, why) for one, why, _ in _all(asked))


def _rollouts(asked: ServiceClient) -> Iterator[tuple[str, str]]:
    found: dict[str, Any] = asked.get("/v1/rollouts", {"limit": OFFERED}).document()
    for one in found["rollouts"]:
        yield one["id"], one["phase"].replace("_", " ")


PANEL = "Ask a running service"


class FlowClassName(StrEnum):
    """The classes of flows, as the service names them."""

    MOUSE = "mouse"
    POTENTIAL_ELEPHANT = "potential_elephant"
    ELEPHANT = "elephant"


Rounds = Annotated[int, typer.Option(min=1, max=1_000, help="The newest so many.")]


def add_to(app: typer.Typer) -> None:
    """Makes them subcommands of ``app``."""
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
    flow_class: Annotated[
        FlowClassName | None, typer.Option("--class", help="Only these.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many, most bytes first.")] = 20,
    url: Url = SERVICE,
    ca: Ca = None,
    as_json: Json = False,
) -> None:
    """The flows of the last window, most bytes first."""
    from cli.tables import flows as run

    run(url, None if flow_class is None else flow_class.value, limit, as_json=as_json)


def recommendations(
    recommendation: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="One of them, or current: why, and what was predicted.",
            show_default=False,
            autocompletion=recommendations_known,
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
            metavar="ID",
            help="A recommendation, or current.",
            show_default=False,
            autocompletion=pending_recommendations,
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
            metavar="ID",
            help="A recommendation.",
            show_default=False,
            autocompletion=pending_recommendations,
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
            autocompletion=rollouts_known,
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
        typer.Argument(
            metavar="ROLLOUT", help="A rollout.", show_default=False, autocompletion=rollouts_known
        ),
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
    from cli.tables import put

    put(url, frozen=True, as_json=as_json)


def thaw(url: Url = SERVICE, ca: Ca = None, as_json: Json = False) -> None:
    """Let switches be set again."""
    from cli.tables import put

    put(url, frozen=False, as_json=as_json)


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

"""What the shell offers in place of an id: asks the service, briefly; nothing where that does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from cli.options import SERVICE

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

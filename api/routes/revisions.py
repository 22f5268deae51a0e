"""``/v1/revisions``: the versions of declared topologies and loaded inventories."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from api.deps import Administers, ServiceDep
from service.documents.admin import RevisionDocument, RevisionsDocument
from service.persistence import Kind

router = APIRouter(prefix="/v1/revisions", tags=["topology"])


@router.get("", summary="List topologies and inventories of the past")
async def get_revisions(
    service: ServiceDep,
    caller: Administers,
    kind: Annotated[Kind | None, Query(description="Only this kind.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="At most so many.")] = 50,
    before: Annotated[
        int | None, Query(ge=1, lt=1 << 63, description="Only those with a lower number.")
    ] = None,
) -> RevisionsDocument:
    """The newest first, without their documents."""
    found = await service.revisions.listed(kind, limit + 1, before)
    return RevisionsDocument(
        revisions=[RevisionDocument.of(one, text=False) for one in found[:limit]],
        next=found[limit - 1].number if len(found) > limit else None,
    )


@router.get("/{number}", summary="Get a revision")
async def get_revision(
    number: Annotated[int, Path(ge=1, lt=1 << 63, description="Number of a revision.")],
    service: ServiceDep,
    caller: Administers,
) -> RevisionDocument:
    """One version with its ``document``; a topology's can be declared again unchanged."""
    return RevisionDocument.of(await service.revisions.one(number), text=True)

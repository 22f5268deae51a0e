"""``/v1/audit``: every requested change, by whom, and its outcome."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.deps import Administers, ServiceDep, json_answer
from service.documents.admin import AuditDocument, AuditEntryDocument

router = APIRouter(prefix="/v1", tags=["access"])


@router.get("/audit", response_model=AuditDocument, summary="List requested changes")
async def get_audit(
    service: ServiceDep,
    caller: Administers,
    limit: Annotated[int, Query(ge=1, le=1_000, description="At most so many entries.")] = 50,
    before: Annotated[
        int | None, Query(ge=1, lt=1 << 63, description="Only entries with a lower number.")
    ] = None,
) -> Response:
    """Every change that was asked for, by whom, and how it ended; the newest first."""
    found = await service.audit.listed(limit=limit + 1, before=before)
    following = found[limit - 1].number if len(found) > limit else None
    return await json_answer(
        service.answers,
        lambda: AuditDocument(entries=[AuditEntryDocument.of(row) for row in found[:limit]], next=following),
    )

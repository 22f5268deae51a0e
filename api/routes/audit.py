"""``/v1/audit``: every requested change, by whom, and its outcome."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.deps import Administers, ServiceDep, json_answer
from service.documents.admin import AuditDocument, AuditEntryDocument

router = APIRouter(prefix="/v1", tags=["access"])


@router.get("/audit", response_model=AuditDocument)
async def get_audit(
    service: ServiceDep,
    caller: Administers,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    before: Annotated[int | None, Query(ge=1, lt=1 << 63)] = None,
) -> Response:
    """The newest first; ``before``: only those with a lower number."""
    found = await service.audit.listed(limit=limit, before=before)
    return await json_answer(
        service.answers, lambda: AuditDocument(entries=[AuditEntryDocument.of(row) for row in found])
    )

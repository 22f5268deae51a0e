"""``/v1/lossless``: what keeps the fabric lossless, checked."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.deps import Reads, ServiceDep
from service.documents.lossless import LosslessDocument

router = APIRouter(prefix="/v1/lossless", tags=["switches"])


@router.get("", summary="Get findings on PFC, ECN and buffers")
async def get_lossless(
    service: ServiceDep,
    caller: Reads,
    limit: Annotated[
        int | None, Query(ge=1, description="At most so many entries of its lists together; by default all.")
    ] = None,
    after: Annotated[
        str | None,
        Query(
            description="Only entries after this cursor, the `next` of a page before.",
            pattern=r"^[0-9]{1,20}_[0-9]{1,9}$",
        ),
    ] = None,
) -> LosslessDocument:
    """Where PFC, ECN, buffers and NICs do not agree on a hop, as last read (``telemetry.lossless.read``)."""
    if service.lossless.last is None:
        return LosslessDocument.never(service.lossless.unread)
    return LosslessDocument.of(service.lossless.last, limit=limit, after=after)

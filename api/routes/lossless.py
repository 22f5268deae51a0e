"""``/v1/lossless``: what keeps the fabric lossless, checked."""

from __future__ import annotations

from fastapi import APIRouter

from api.deps import Reads, ServiceDep
from service.documents.lossless import LosslessDocument

router = APIRouter(prefix="/v1/lossless", tags=["switches"])


@router.get("", summary="Get findings on PFC, ECN and buffers")
async def get_lossless(service: ServiceDep, caller: Reads) -> LosslessDocument:
    """Where PFC, ECN, buffers and NICs do not agree on a hop, as last read (``telemetry.lossless.read``)."""
    if service.lossless.last is None:
        return LosslessDocument.never(service.lossless.unread)
    return LosslessDocument.of(service.lossless.last)

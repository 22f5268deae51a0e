"""``/v1/alarms``: current and ended alarms."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.deps import Reads, ServiceDep
from service.documents.history import AlarmsDocument

router = APIRouter(prefix="/v1", tags=["alarms"])


@router.get("/alarms", summary="List alarms")
async def get_alarms(
    service: ServiceDep,
    caller: Reads,
    everything: Annotated[bool, Query(alias="all", description="Whether to add alarms that ended.")] = False,
    limit: Annotated[int, Query(ge=0, le=10_000, description="At most so many alarms of either kind.")] = 500,
    after: Annotated[
        str | None, Query(description="Only current alarms after this cursor, the `next` of a page before.")
    ] = None,
) -> AlarmsDocument:
    """Current alarms, the worst first; with ``all`` also ended ones."""
    return service.alarms.document(limit=limit, ended=everything, after=after)

"""``/v1/nics``: what the NICs of hosts run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.deps import Fields, Reads, ServiceDep, json_answer
from service.documents.nics import NicsDocument

router = APIRouter(prefix="/v1/nics", tags=["nics"])


@router.get(
    "",
    response_model=NicsDocument,
    summary="List NICs",
    response_description="The hosts of the inventory, with their NICs.",
)
async def get_nics(
    service: ServiceDep,
    caller: Reads,
    limit: Annotated[int | None, Query(ge=1, description="At most so many hosts; by default all.")] = None,
    after: Annotated[
        str | None, Query(description="Only the hosts listed after the one of this name.")
    ] = None,
    fields: Fields = None,
) -> Response:
    """The DCQCN parameters and counters of hosts' NICs as last read, and what the twin makes of them."""
    names = service.nics.names_after(after)[:limit]
    return await json_answer(service.answers, lambda: NicsDocument.of(service.nics, names), fields=fields)

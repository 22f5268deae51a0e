"""``/v1/nics``: what the NICs of hosts run."""

from __future__ import annotations

from fastapi import APIRouter

from api.deps import Reads, ServiceDep
from service.documents.nics import NicsDocument

router = APIRouter(prefix="/v1/nics", tags=["nics"])


@router.get("", summary="List NICs", response_description="The hosts of the inventory, with their NICs.")
async def get_nics(service: ServiceDep, caller: Reads) -> NicsDocument:
    """The DCQCN parameters and counters of hosts' NICs as last read, and what the twin makes of them."""
    return NicsDocument.of(service.nics)

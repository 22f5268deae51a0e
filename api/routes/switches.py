"""``/v1/switches``: what each switch runs, when that was read, and what was or would have been set."""

from __future__ import annotations

from fastapi import APIRouter

from api.deps import Reads, ServiceDep
from api.schemas.switches import SwitchDocument

router = APIRouter(prefix="/v1/switches", tags=["switches"])


@router.get("")
async def get_switches(service: ServiceDep, caller: Reads) -> list[SwitchDocument]:
    """Every switch of the topology, declared or discovered, by name."""
    await service.look_for_switches()
    return await service.fleet.documents()


@router.get("/{name}")
async def get_switch(name: str, service: ServiceDep, caller: Reads) -> SwitchDocument:
    """One switch."""
    await service.look_for_switches()
    return await service.fleet.document(name)

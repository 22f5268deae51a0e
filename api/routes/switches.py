"""``/v1/switches``: what each switch runs, when that was read, and what was or would have been set."""

from __future__ import annotations

from fastapi import APIRouter

from api.deps import Operates, Reads, ServiceDep
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


@router.post("/{name}/adopt")
async def adopt_switch(name: str, service: ServiceDep, caller: Operates) -> SwitchDocument:
    """Takes what it runs now as wanted, whoever set it: it has drifted no more."""
    await service.rollouts.adopt(name, caller.name)
    return await service.fleet.document(name)

"""``/v1/topology``: the declared fabric and the discovered one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from api.admission import MOST_BYTES
from api.deps import Administers, Reads, ServiceDep, json_answer, made_in
from service.documents.telemetry import TopologyDocument
from service.service import Service
from telemetry.topology import topology_from_json

router = APIRouter(prefix="/v1/topology", tags=["topology"])


@router.get("", response_model=TopologyDocument)
async def get_topology(service: ServiceDep, caller: Reads) -> Response:
    """``declared`` (null where none is) and ``discovered`` (null while no report was seen)."""
    return await _both(service)


# Enough for a fabric of ninety thousand cables.
@router.put("", response_model=TopologyDocument, openapi_extra={MOST_BYTES: 8 << 20})
async def put_topology(
    service: ServiceDep, caller: Administers, document: Annotated[dict[str, Any], Body()]
) -> Response:
    """Declares the fabric: hosts, switches, links; it replaces the previous one if it is valid."""
    was = service.window.declared
    before = None if was is None else await made_in(service.answers, was.to_json)
    async with service.audit.change(caller, "topology", "the fabric", before=before) as change:
        declared = await made_in(service.answers, lambda: topology_from_json(document))
        await service.topology.declare(declared, caller.name)
        change.after = await made_in(service.answers, declared.to_json)
    return await _both(service)


async def _both(service: Service) -> Response:
    declared, discovered = service.window.declared, await service.window.discovered()
    return await json_answer(service.answers, lambda: TopologyDocument.of(declared, discovered))

"""``/v1/state`` and ``/v1/flows``: the network as the window shows it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from api.deps import Reads, ServiceDep, json_answer
from service.documents.telemetry import FlowsDocument, StateDocument
from telemetry.state import FlowClass

router = APIRouter(prefix="/v1", tags=["state"])

ClassName = Literal["mouse", "potential_elephant", "elephant"]


@router.get("/state", response_model=StateDocument)
async def get_state(
    service: ServiceDep, caller: Reads, queues: Annotated[int, Query(ge=0, le=10_000)] = 64
) -> Response:
    """Flows by class, the deepest ``queues``, and as many receivers and ports, the worst first."""
    window = service.window
    state = await window.state()
    recent = await service.pipeline.ports.recent()
    age_s, stale = window.age_s(), window.stale
    return await json_answer(
        service.answers, lambda: StateDocument.of(state, recent.ports, age_s=age_s, stale=stale, limit=queues)
    )


@router.get("/flows", response_model=FlowsDocument)
async def get_flows(
    service: ServiceDep,
    caller: Reads,
    flow_class: Annotated[ClassName | None, Query(alias="class")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> Response:
    """The window's flows, most bytes first, of one class or of all."""
    chosen = None if flow_class is None else FlowClass[flow_class.upper()]
    state = await service.window.state()
    return await json_answer(service.answers, lambda: FlowsDocument.of(state, flow_class=chosen, limit=limit))

"""``/v1/topology``, declared and discovered; ``/v1/state`` and ``/v1/flows``: the network in the window."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Response

from api.admission import MOST_BYTES
from api.deps import Administers, Fields, Reads, ServiceDep, json_answer, made_in
from service.documents.telemetry import FlowFilter, FlowsDocument, StateDocument, TopologyDocument
from service.service import Service
from telemetry.state import FlowClass
from telemetry.topology import topology_from_json

router = APIRouter(prefix="/v1")

_TOPOLOGY = "Hosts, switches, and links with their ports, rate in Gbit/s and delay one way in µs."
_EXAMPLE = {
    "hosts": [{"name": "h1"}, {"name": "h2"}],
    "switches": [{"name": "leaf1"}],
    "links": [
        {"a": "h1", "b": "leaf1", "b_port": "Ethernet0", "rate_gbps": 100, "delay_us": 1},
        {"a": "h2", "b": "leaf1", "b_port": "Ethernet8", "rate_gbps": 100, "delay_us": 1},
    ],
}

ClassName = Literal["mouse", "potential_elephant", "elephant"]


@router.get("/topology", tags=["topology"], response_model=TopologyDocument, summary="Get the topology")
async def get_topology(service: ServiceDep, caller: Reads) -> Response:
    """``declared`` (null where none is) and ``discovered`` (null while no report was seen)."""
    return await _both(service)


# Enough for a fabric of ninety thousand cables.
@router.put(
    "/topology",
    tags=["topology"],
    summary="Declare the topology",
    response_model=TopologyDocument,
    openapi_extra={MOST_BYTES: 8 << 20},
)
async def put_topology(
    service: ServiceDep,
    caller: Administers,
    document: Annotated[dict[str, Any], Body(description=_TOPOLOGY, examples=[_EXAMPLE])],
) -> Response:
    """Declares the fabric: hosts, switches, links; it replaces the previous one if it is valid."""
    was = service.window.declared
    before = None if was is None else await made_in(service.answers, was.to_json)
    async with service.audit.change(caller, "topology", "the fabric", before=before) as change:
        declared = await made_in(service.answers, lambda: topology_from_json(document))
        await service.topology.declare(declared, caller.name)
        change.after = await made_in(service.answers, declared.to_json)
    return await _both(service)


@router.get("/state", tags=["state"], response_model=StateDocument, summary="Get the network state")
async def get_state(
    service: ServiceDep,
    caller: Reads,
    fields: Fields = None,
    switch: Annotated[str | None, Query(description="Only queues and ports of this switch.")] = None,
    queues: Annotated[
        int, Query(ge=0, le=10_000, description="At most so many queues, receivers and ports.")
    ] = 64,
) -> Response:
    """Flows by class, the deepest queues, and receivers and ports, the worst first."""
    window = service.window
    state = await window.state()
    recent = await service.pipeline.ports.recent()
    age_s, stale = window.age_s(), window.stale
    return await json_answer(
        service.answers,
        lambda: StateDocument.of(state, recent.ports, age_s=age_s, stale=stale, limit=queues, switch=switch),
        fields=fields,
    )


@router.get("/flows", tags=["state"], response_model=FlowsDocument, summary="List flows")
async def get_flows(
    service: ServiceDep,
    caller: Reads,
    flow_class: Annotated[
        ClassName | None, Query(alias="class", description="Only flows of this class.")
    ] = None,
    switch: Annotated[
        str | None, Query(description="Only flows through an egress queue of this switch.")
    ] = None,
    host: Annotated[str | None, Query(description="Only flows from or to this host.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many flows.")] = 100,
    after: Annotated[
        str | None,
        Query(
            description="Only flows after this cursor, the `next` of a page before.",
            pattern=r"^[0-9]+([.][0-9]+)?(e[+][0-9]+)?_",
        ),
    ] = None,
) -> Response:
    """The window's flows, most bytes first, of one class or of all."""
    chosen = None if flow_class is None else FlowClass[flow_class.upper()]
    state = await service.window.state()
    wanted = FlowFilter(chosen, switch, host)
    return await json_answer(
        service.answers, lambda: FlowsDocument.of(state, wanted, limit=limit, after=after)
    )


async def _both(service: Service) -> Response:
    declared, discovered = service.window.declared, await service.window.discovered()
    return await json_answer(service.answers, lambda: TopologyDocument.of(declared, discovered))

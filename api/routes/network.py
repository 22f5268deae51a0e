"""``/v1/topology``, declared and discovered; ``/v1/state``, ``/v1/fabric``, ``/v1/flows``: the network in the
window.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query, Response

from api.admission import MOST_BYTES
from api.deps import Administers, Fields, Reads, ServiceDep, json_answer, made_in
from service.documents.fabric import FabricDocument, QueueColumnsDocument, SwitchPortsDocument
from service.documents.telemetry import FlowFilter, FlowsDocument, StateDocument, TopologyDocument
from service.service import Service
from switches.errors import UnknownSwitchError
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
async def get_topology(
    service: ServiceDep,
    caller: Reads,
    discovered: Annotated[
        bool, Query(description="Whether to work out what reports show; else `discovered` is null.")
    ] = True,
) -> Response:
    """``declared`` (null where none is), ``discovered`` (null while no report was seen), and what LLDP shows:
    ``neighbours`` (null while it is not read).
    """
    return await _both(service, discovered=discovered)


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
        service.validity.review()
        change.after = await made_in(service.answers, declared.to_json)
        if change.after == before:  # up to 8 MiB each, of whoever declares it again every hour
            change.before = change.after = None
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
    state = await window.shown()
    recent = await service.pipeline.ports.recent()
    age_s, stale = window.age_s(), window.stale
    return await json_answer(
        service.answers,
        lambda: StateDocument.of(state, recent.ports, age_s=age_s, stale=stale, limit=queues, switch=switch),
        fields=fields,
    )


@router.get(
    "/state/queues", tags=["state"], response_model=QueueColumnsDocument, summary="List all queues in columns"
)
async def get_queues(service: ServiceDep, caller: Reads) -> Response:
    """Every queue of the window, the deepest first, in a quarter of the bytes that ``/v1/state`` takes."""
    state = await service.window.shown()
    return await json_answer(service.answers, lambda: QueueColumnsDocument.of(state))


@router.get("/fabric", tags=["state"], response_model=FabricDocument, summary="Get the fabric by pods")
async def get_fabric(service: ServiceDep, caller: Reads, fields: Fields = None) -> Response:
    """Every switch with its deepest queue, its busiest port, marks, pauses and drops, in columns by pod."""
    state = await service.window.shown()
    recent = await service.pipeline.ports.recent()
    fleet, latest = service.fleet, service.latest_fabric
    read_count = fleet.read_count
    return await json_answer(
        service.answers,
        lambda: latest.of(state, recent.ports, fleet.queue_runs(), read_count=read_count),
        fields=fields,
    )


@router.get(
    "/fabric/{name}", tags=["state"], response_model=SwitchPortsDocument, summary="Get a switch's ports"
)
async def get_switch_ports(
    service: ServiceDep,
    caller: Reads,
    name: Annotated[str, Path(description="Name of a switch.", examples=["leaf1"])],
) -> Response:
    """The ports of one switch, with what is at their other ends, and the queues of each."""
    state = await service.window.shown()

    def made() -> SwitchPortsDocument:
        found = SwitchPortsDocument.of(state, name, service.fleet.queue_runs())
        if found is None:
            raise UnknownSwitchError(
                f"switch {name!r}", None, "it is in no report and not in the topology", "see /v1/fabric"
            )
        return found

    return await json_answer(service.answers, made)


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
    state = await service.window.shown()
    wanted = FlowFilter(chosen, switch, host)
    return await json_answer(
        service.answers, lambda: FlowsDocument.of(state, wanted, limit=limit, after=after)
    )


async def _both(service: Service, *, discovered: bool = True) -> Response:
    declared, found = service.window.declared, await service.window.discovered() if discovered else None
    cabled = await service.cabling.current()
    return await json_answer(service.answers, lambda: TopologyDocument.of(declared, found, cabled))

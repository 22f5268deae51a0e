"""``/v1/switches``: the watermarks that switches run, and those set from here."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from api.deps import Fields, Operates, Reads, ServiceDep, fields_of, json_list, made_in
from service.documents.rollouts import RolloutDocument
from service.documents.switches import HashDocument, HashInput, SwitchDocument

router = APIRouter(prefix="/v1/switches", tags=["switches"])

Name = Annotated[str, Path(description="Name of a switch.", examples=["leaf1"])]
_READ = frozenset({"reachable", "detail", "running", "queues", "differs", "read_at", "drifted"})


@router.get(
    "",
    response_model=list[SwitchDocument],
    summary="List switches",
    response_description="The switches, by name.",
)
async def get_switches(
    service: ServiceDep,
    caller: Reads,
    limit: Annotated[int | None, Query(ge=1, description="At most so many; by default all.")] = None,
    after: Annotated[str | None, Query(description="Only those whose name comes after this one.")] = None,
    fields: Fields = None,
) -> Response:
    """Every switch of the topology, declared or discovered, by name; only those that are listed are read.

    None is read where ``fields`` names nothing that is read from it.
    """
    wanted = fields_of(SwitchDocument, fields)
    await service.look_for_switches()
    names = [name for name in service.fleet.names if after is None or name > after]
    found = await service.fleet.documents(names[:limit], read=wanted is None or not _READ.isdisjoint(wanted))
    text = await made_in(service.answers, lambda: json_list(found, wanted))
    return Response(text, media_type="application/json")


@router.get("/{name}", summary="Get a switch")
async def get_switch(name: Name, service: ServiceDep, caller: Reads) -> SwitchDocument:
    """One switch."""
    await service.look_for_switches()
    return await service.fleet.document(name)


@router.post("/{name}/adopt", summary="Adopt what a switch runs")
async def adopt_switch(name: Name, service: ServiceDep, caller: Operates) -> SwitchDocument:
    """Accepts the watermark that the switch runs now, whoever set it; it is then no longer drifted."""
    async with service.audit.change(caller, "adopt", name) as change:
        change.before = _wanted(await service.fleet.document(name))
        await service.rollouts.adopt(name, caller.name)
        document = await service.fleet.document(name)
        change.after = _wanted(document)
    return document


@router.get("/{name}/hash", summary="Get what a switch hashes by")
async def get_hash(name: Name, service: ServiceDep, caller: Reads) -> HashDocument:
    """What it hashes flows by where several ports lead to their destination, read now."""
    await service.look_for_switches()
    return HashDocument.of(await service.rehash.read(name), service.fleet.platform(name))


@router.post("/{name}/hash", status_code=202, summary="Set what a switch hashes by")
async def post_hash(name: Name, body: HashInput, service: ServiceDep, caller: Operates) -> RolloutDocument:
    """Sets it by a rollout of this switch alone, which is watched, journaled and taken back as others are; a
    dry run only records it. It moves every flow that has a choice of ports there.
    """
    await service.look_for_switches()
    async with service.audit.change(caller, "hash", name) as change:
        change.before = {"value": (await service.rehash.read(name)).value}
        rollout = await service.rehash.start(name, body.value, caller.name)
        change.after = {"value": body.value, "rollout": rollout.id}
    return RolloutDocument.of(rollout)


def _wanted(document: SwitchDocument) -> dict[str, Any]:
    """The watermark last set from here, or adopted."""
    return {"watermark": None if document.set_to is None else document.set_to.model_dump()}

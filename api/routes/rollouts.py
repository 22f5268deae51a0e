"""``/v1/rollouts`` and ``/v1/freeze``: progress and rollback of changes, and the stop switch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.deps import (
    Fields,
    Operates,
    Reads,
    RolloutId,
    ServiceDep,
    fields_of,
    json_answer,
    json_list,
    made_in,
)
from service.documents.rollouts import (
    FreezeDocument,
    FreezeInput,
    GiveUpInput,
    RolloutDocument,
    RolloutsDocument,
)
from service.rollouts.rollout import Rollout

router = APIRouter(prefix="/v1", tags=["rollouts"])


@router.get("/rollouts", response_model=RolloutsDocument, summary="List rollouts")
async def get_rollouts(
    service: ServiceDep,
    caller: Reads,
    limit: Annotated[int, Query(ge=1, le=1_000, description="At most so many.")] = 10,
    before: Annotated[str | None, Query(description="Only those older than the one with this id.")] = None,
    fields: Fields = None,
) -> Response:
    """The newest first, without their events. ``fields`` without ``switches`` and ``hosts`` leaves out most
    bytes.
    """
    found = service.rollouts.newest(limit + 1, before=before)
    total = len(service.rollouts)
    following = json.dumps(found[limit - 1].id if len(found) > limit else None)
    wanted = fields_of(RolloutDocument, fields)
    parts = {name: wanted is None or name in wanted for name in ("switches", "hosts")}

    def written() -> bytes:
        each = (RolloutDocument.of(one, **parts, events=False) for one in found[:limit])
        lines = json_list(each, wanted)
        return f'{{"total":{total},"rollouts":{lines},"next":{following}}}'.encode()

    return Response(await made_in(service.answers, written), media_type="application/json")


@router.get("/rollouts/{rollout_id}", response_model=RolloutDocument, summary="Get a rollout")
async def get_rollout(
    rollout_id: RolloutId,
    service: ServiceDep,
    caller: Reads,
    switch: Annotated[str | None, Query(description="Of `switches` only the one of this name.")] = None,
    fields: Fields = None,
) -> Response:
    """One rollout: stages, watermarks of each switch before, now and wanted, and all events."""
    found = service.rollouts.get(rollout_id)
    rollout = replace(found, events=list(found.events))  # as it is now, whatever happens meanwhile
    wanted = fields_of(RolloutDocument, fields)
    parts = {name: wanted is None or name in wanted for name in ("switches", "hosts", "events")}

    def made() -> RolloutDocument:
        document = RolloutDocument.of(rollout, **parts)
        if switch is None:
            return document
        return document.model_copy(
            update={"switches": [one for one in document.switches if one.switch == switch]}
        )

    return await json_answer(service.answers, made, fields=fields)


@router.post("/rollouts/{rollout_id}/rollback", status_code=202, summary="Roll a rollout back")
async def roll_back(rollout_id: RolloutId, service: ServiceDep, caller: Operates) -> RolloutDocument:
    """Restores every switch it set, the last one first; also for finished rollouts."""
    async with service.audit.change(caller, "rollback", rollout_id) as change:
        change.before = {"phase": service.rollouts.get(rollout_id).state.phase.value}
        rollout = await service.rollouts.roll_back(rollout_id, caller.name)
        change.after = {"phase": rollout.state.phase.value}
    return RolloutDocument.of(rollout)


@router.post("/rollouts/{rollout_id}/give-up", summary="Give up an undo")
async def give_up(
    rollout_id: RolloutId, body: GiveUpInput, service: ServiceDep, caller: Operates
) -> RolloutDocument:
    """Ends the undo of a switch or host that kept failing, so that the rollout can end. Nothing is set there:
    it may still run the change, as its `detail` says.
    """
    async with service.audit.change(caller, "give up", f"{body.member} of {rollout_id}") as change:
        change.before = {"progress": _progress(service.rollouts.get(rollout_id), body.member)}
        rollout = await service.rollouts.give_up(rollout_id, body.member, caller.name, body.reason)
        left = rollout.state.members[body.member].detail
        change.after = {"progress": _progress(rollout, body.member), "reason": body.reason, "left": left}
    return RolloutDocument.of(rollout)


@router.get("/freeze", summary="May switches be set")
async def get_freeze(service: ServiceDep, caller: Reads) -> FreezeDocument:
    """Whether switches may be set."""
    return FreezeDocument.of(service.rollouts.freeze)


@router.put("/freeze", summary="Freeze or thaw switches")
async def put_freeze(body: FreezeInput, service: ServiceDep, caller: Operates) -> FreezeDocument:
    """Freezes or thaws: while frozen no switch is set and no rollout begins; rollbacks continue."""
    what, was = "freeze" if body.frozen else "thaw", FreezeDocument.of(service.rollouts.freeze)
    # A freeze must succeed even if the audit log cannot be written.
    async with service.audit.change(
        caller, what, "all switches", before=was.model_dump(), always=body.frozen
    ) as change:
        document = FreezeDocument.of(await service.rollouts.set_freeze(body.frozen, caller.name))
        change.after = document.model_dump()
    return document


def _progress(rollout: Rollout, member: str) -> str | None:
    one = rollout.state.members.get(member)
    return None if one is None else one.progress.value

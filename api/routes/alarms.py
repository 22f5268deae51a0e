"""``/v1/alarms``: current and ended alarms, who knows of them, and silences."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query

from api.deps import Operates, Reads, ServiceDep
from service.alarms.service import MOST_SUBJECTS
from service.documents.alarms import AcknowledgementInput, SilenceDocument, SilenceInput, SilencesDocument
from service.documents.history import AlarmDocument, AlarmsDocument

router = APIRouter(prefix="/v1", tags=["alarms"])


@router.get("/alarms", summary="List alarms")
async def get_alarms(
    service: ServiceDep,
    caller: Reads,
    everything: Annotated[bool, Query(alias="all", description="Whether to add alarms that ended.")] = False,
    limit: Annotated[int, Query(ge=0, le=10_000, description="At most so many alarms of either kind.")] = 500,
    after: Annotated[
        str | None, Query(description="Only current alarms after this cursor, the `next` of a page before.")
    ] = None,
    subjects: Annotated[
        int, Query(ge=1, le=10_000, description="At most so many ports, queues or devices of each alarm.")
    ] = MOST_SUBJECTS,
) -> AlarmsDocument:
    """Current alarms, the worst first; with ``all`` also ended ones."""
    return service.alarms.document(limit=limit, ended=everything, after=after, subjects=subjects)


AlarmId = Annotated[str, Path(description="Id of a current alarm.", examples=["a3f1c29b04d7"])]
SilenceId = Annotated[str, Path(description="Id of a silence.", examples=["9f86d081"])]


@router.post("/alarms/{alarm_id}/ack", summary="Acknowledge an alarm", operation_id="acknowledge_alarm")
async def acknowledge(
    alarm_id: AlarmId,
    service: ServiceDep,
    caller: Operates,
    body: Annotated[AcknowledgementInput | None, Body(description="A note for others.")] = None,
) -> AlarmDocument:
    """Records that the caller looks after it; void once it turns critical. It still holds policy back."""
    async with service.audit.change(caller, "acknowledge", f"alarm {alarm_id}") as change:
        document = service.alarms.acknowledge(alarm_id, caller.name, None if body is None else body.note)
        change.after = {"subject": document.subject, "kind": document.kind, "note": body and body.note}
    return document


@router.delete(
    "/alarms/{alarm_id}/ack", summary="Withdraw an acknowledgement", operation_id="withdraw_acknowledgement"
)
async def withdraw_acknowledgement(alarm_id: AlarmId, service: ServiceDep, caller: Operates) -> AlarmDocument:
    """Withdraws the acknowledgement."""
    async with service.audit.change(caller, "withdraw acknowledgement", f"alarm {alarm_id}"):
        return service.alarms.withdraw(alarm_id)


@router.get("/alarms/silences", summary="List silences", operation_id="list_silences")
async def get_silences(service: ServiceDep, caller: Reads) -> SilencesDocument:
    """The silences that have not ended, the first to end first."""
    return SilencesDocument(silences=[SilenceDocument.of(row) for row in service.alarms.silences.current()])


@router.post("/alarms/silences", status_code=201, summary="Silence alarms", operation_id="silence_alarms")
async def silence(
    body: Annotated[SilenceInput, Body(description="What, and until when.")],
    service: ServiceDep,
    caller: Operates,
) -> SilenceDocument:
    """Silences alarms of a kind, of a switch, or both until a time: they notify nobody, and stay listed."""
    what = " on ".join(part for part in (body.kind or "all alarms", body.switch) if part)
    async with service.audit.change(caller, "silence", what) as change:
        row = await service.alarms.silence(
            kind=body.kind,
            switch=body.switch,
            until_ns=service.alarms.silences.end_ns(body.until_ns, body.for_s),
            by=caller.name,
            note=body.note,
        )
        document = SilenceDocument.of(row)
        change.after = document.model_dump()
    return document


@router.delete("/alarms/silences/{silence_id}", summary="End a silence", operation_id="end_silence")
async def end_silence(silence_id: SilenceId, service: ServiceDep, caller: Operates) -> SilenceDocument:
    """Ends it now: alarms that it covered and that are still active notify again."""
    async with service.audit.change(caller, "end silence", f"silence {silence_id}") as change:
        document = SilenceDocument.of(service.alarms.silences.get(silence_id))
        change.before = document.model_dump()
        await service.alarms.end_silence(silence_id)
    return document

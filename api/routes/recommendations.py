"""``/v1/tune``, ``/v1/advice``, ``/v1/recommendations``: rounds, their results, and decisions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Header, Query, Response

from api.deps import (
    Fields,
    Operates,
    Reads,
    RecommendationId,
    ServiceDep,
    fields_of,
    json_answer,
    json_list,
    made_in,
)
from service.documents.advice import AdviceDocument, AdviserDocument
from service.documents.recommendation import (
    ApproveInput,
    RecommendationDocument,
    RecommendationsDocument,
    recommendation_document,
)
from service.service import Service
from service.tuning.advice import Given
from service.tuning.entry import Entry
from service.tuning.validity import Expected, etag_of
from settings.errors import UnprocessableError

AT_ONCE = 16
"""Rounds in memory at once while they are listed: 3 MB each, and a thousand would be more than all else."""
MOST_WITH_CANDIDATES = 100
"""Rounds of one answer with their candidates, 0.4 MB each."""

router = APIRouter(prefix="/v1", tags=["recommendations"])


@router.post("/tune", summary="Run a round now")
async def post_tune(service: ServiceDep, caller: Operates) -> RecommendationDocument:
    """Runs a round now on the current window; returns its recommendation."""
    async with service.audit.change(caller, "tune", "the fabric", always=True) as change:
        entry = await service.tuning.run_now()
        change.after = {"recommendation": entry.id, "status": entry.status}
    return service.validity.document(service.store.find(entry.id) or entry)


@router.get("/advice", summary="Get the advice of the moment")
async def get_advice(service: ServiceDep, caller: Reads) -> AdviserDocument:
    """What a round would most likely choose for the traffic of the newest look, and how often rounds
    confirmed what was advised before them. Nothing sets it.
    """
    return AdviserDocument.of(service.adviser)


@router.get("/recommendations", response_model=RecommendationsDocument, summary="List recommendations")
async def get_recommendations(
    service: ServiceDep,
    caller: Reads,
    limit: Annotated[
        int, Query(ge=1, le=1_000, description=f"At most so many; {MOST_WITH_CANDIDATES} with candidates.")
    ] = 10,
    candidates: Annotated[bool, Query(description="Whether to list the candidates of each.")] = True,
    before: Annotated[str | None, Query(description="Only those older than the one with this id.")] = None,
    fields: Fields = None,
) -> Response:
    """The newest rounds first, without trajectories."""
    wanted = fields_of(RecommendationDocument, fields)
    candidates = candidates and (wanted is None or "candidates" in wanted)
    if candidates and limit > MOST_WITH_CANDIDATES:
        raise UnprocessableError(
            "query parameter 'limit'",
            str(limit),
            f"rounds with their candidates are listed {MOST_WITH_CANDIDATES} at a time",
            "ask for fewer and follow next, or add candidates=false",
        )
    service.validity.review()
    page = await service.store.page(limit + 1, before=before)
    total = await service.store.total()
    listed, following = page[:limit], json.dumps(page[limit - 1] if len(page) > limit else None)
    texts: list[str] = []
    for begin in range(0, len(listed), AT_ONCE):
        entries = await service.store.some(listed[begin : begin + AT_ONCE])
        # What blocks an approval may be read on the event loop only.
        pending = {
            entry.id: service.validity.document(entry, candidates=candidates, trajectories=False)
            for entry in entries
            if entry.status == "pending"
        }
        each = (
            pending.get(entry.id) or recommendation_document(entry, candidates=candidates, trajectories=False)
            for entry in entries
        )
        texts.append(await made_in(service.answers, partial(json_list, each, wanted)))
    lines = ",".join(text[1:-1] for text in texts if text != "[]")
    answer = f'{{"total":{total},"recommendations":[{lines}],"next":{following}}}'
    return Response(answer.encode(), media_type="application/json")


Candidates = Annotated[bool, Query(description="Whether to add the candidates and trajectories.")]


@router.get(
    "/recommendations/current",
    response_model=RecommendationDocument,
    summary="Get the recommendation in force",
)
async def get_current_recommendation(
    service: ServiceDep, caller: Reads, candidates: Candidates = True, fields: Fields = None
) -> Response:
    """The recommendation in force: the newest pending or approved one, else the newest round. With
    ``candidates=false`` without most of its bytes.
    """
    service.validity.review()
    return await _answer(service, service.store.current(), candidates, fields, service.adviser.newest)


@router.get(
    "/recommendations/{recommendation_id}",
    response_model=RecommendationDocument,
    summary="Get a recommendation",
)
async def get_recommendation(
    recommendation_id: RecommendationId,
    service: ServiceDep,
    caller: Reads,
    candidates: Candidates = True,
    fields: Fields = None,
) -> Response:
    """One round with all its candidates."""
    service.validity.review()
    return await _answer(service, await service.store.fetch(recommendation_id), candidates, fields)


async def _answer(
    service: Service, entry: Entry, candidates: bool, fields: str | None, advice: Given | None = None
) -> Response:
    document = service.validity.document(entry, candidates=candidates)
    if advice is not None:
        document = document.model_copy(update={"advice": AdviceDocument.of(advice)})
    answer = await json_answer(service.answers, lambda: document, fields=fields)
    answer.headers["ETag"] = etag_of(entry)
    return answer


@router.post(
    "/recommendations/{recommendation_id}/approve",
    summary="Approve a recommendation",
    operation_id="approve_recommendation",
)
async def approve(
    recommendation_id: RecommendationId,
    service: ServiceDep,
    caller: Operates,
    body: Annotated[ApproveInput | None, Body(description="What it is expected to replace.")] = None,
    if_match: Annotated[
        str | None, Header(description="Entity tags of the recommendation as the caller read it.")
    ] = None,
) -> RecommendationDocument:
    """Sets it on the switches, by port role and with hosts if asked to, and reads it back; a dry run only
    records what would be set.

    Refused while it is blocked, once it has expired, and where another incumbent is expected, in the body or
    by the ETag in If-Match. ``current`` needs one of the two.
    """
    said = body or ApproveInput()
    expected = Expected(None if said.incumbent is None else said.incumbent.watermark(), if_match)
    if (seen := said.together) is not None:
        together = seen.watermark.watermark(), seen.connectx
        roles = None if seen.by_role is None else seen.by_role.items()
        by_role = None if roles is None else {role: mark.watermark() for role, mark in roles}
        expected = replace(expected, together=together, by_role=by_role, by_class=seen.connectx_by_class)
    async with service.audit.change(caller, "approve", recommendation_id) as change:
        named = service.validity.resolve(recommendation_id, expected)
        entry = await service.approvals.approve(named, caller.name, expected, beside=said.beside)
        document = service.validity.document(entry, candidates=False)
        change.before, change.after = entry.before_and_after()
    return document


@router.post(
    "/recommendations/{recommendation_id}/reject",
    summary="Reject a recommendation",
    operation_id="reject_recommendation",
)
async def reject(
    recommendation_id: RecommendationId, service: ServiceDep, caller: Operates
) -> RecommendationDocument:
    """Rejects it; nothing is set."""
    async with service.audit.change(caller, "reject", recommendation_id) as change:
        entry = await service.approvals.reject(recommendation_id, caller.name)
        document = service.validity.document(entry, candidates=False)
        change.after = {"status": document.status}
    return document

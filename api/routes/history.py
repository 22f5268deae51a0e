"""``/v1/history`` and outcomes of recommendations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AfterValidator, AwareDatetime

from api.deps import Reads, ServiceDep
from service.documents.history import (
    AdviceDocument,
    GainsDocument,
    OutcomeDocument,
    PastAlarmsDocument,
    QueueHistoryDocument,
    ResidualsDocument,
)

HOUR_S = 3_600.0
WEEK_S = 7 * 24 * HOUR_S
MONTH_S = 30 * 86_400.0
QUARTER_S = 13 * WEEK_S
_YEARS = (1971, 2200)  # in any zone

router = APIRouter(prefix="/v1", tags=["history"])


def _in_reach(at: datetime) -> datetime:
    first, last = _YEARS
    if not first <= at.year <= last:
        raise ValueError(f"times lie from {first} to {last}")
    return at


Time = Annotated[AwareDatetime, AfterValidator(_in_reach)]


@router.get("/history/queues", response_model=QueueHistoryDocument)
async def get_queues(
    service: ServiceDep,
    caller: Reads,
    since: Time | None = None,
    until: Time | None = None,
    switch: str | None = None,
    port: str | None = None,
    most: Annotated[int, Query(ge=1, le=5_000)] = 500,
    queues: Annotated[int, Query(ge=1, le=1_000)] = 32,
) -> Response:
    """Queues of ``switch`` and ``port``, or all, the ``queues`` deepest first, by default in the last hour.
    Steps are the finest that give at most ``most``.
    """
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=HOUR_S)
    found = await service.history_reader.queues(span, switch=switch, port=port, most=most, ports=queues)
    return Response(found, media_type="application/json")


@router.get("/history/residuals")
async def get_residuals(
    service: ServiceDep,
    caller: Reads,
    since: Time | None = None,
    until: Time | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> ResidualsDocument:
    """Predicted against measured queue, round by round, the newest first, by default of the last week."""
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=WEEK_S)
    return await service.history_reader.residuals(
        span, limit, held_beyond=service.settings.tuning.residual_limit
    )


@router.get("/history/advice")
async def get_advice(
    service: ServiceDep, caller: Reads, since: Time | None = None, until: Time | None = None
) -> AdviceDocument:
    """What the advice was worth on each day's traffic, by the twin, by default of the last 30 days."""
    return await service.history_reader.advice(
        service.history_reader.span(_ns(since), _ns(until), usual_s=MONTH_S)
    )


@router.get("/history/gains")
async def get_gains(
    service: ServiceDep,
    caller: Reads,
    since: Time | None = None,
    until: Time | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> GainsDocument:
    """Gains predicted for rollouts and measured after them, the newest first, by default of the last
    quarter.
    """
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=QUARTER_S)
    return await service.history_reader.gains(span, limit)


@router.get("/history/alarms")
async def get_past_alarms(
    service: ServiceDep,
    caller: Reads,
    since: Time | None = None,
    until: Time | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> PastAlarmsDocument:
    """Alarms active at any time of the span, by default the last week, the last raised first."""
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=WEEK_S)
    return await service.history_reader.alarms(span, limit)


@router.get("/recommendations/{recommendation_id}/outcome")
async def get_outcome(
    recommendation_id: str,
    service: ServiceDep,
    caller: Reads,
    span_s: Annotated[float, Query(ge=10, le=86_400)] = 600.0,
) -> OutcomeDocument:
    """Predictions beside measurements for ``span_s`` before and after its rollout."""
    found = (await service.store.fetch(recommendation_id)).document(candidates=False)
    known = found.rollout is not None and service.rollouts.knows(found.rollout)
    rollout = service.rollouts.get(found.rollout).state if known and found.rollout else None
    return await service.history_reader.outcome(found, rollout, span_s=span_s)


def _ns(at: datetime | None) -> int | None:
    if at is None:
        return None
    since = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000

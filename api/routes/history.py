"""``/v1/history`` and outcomes of recommendations."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.deps import Reads, RecommendationId, ServiceDep, json_answer
from service.documents.base import GivenTime, nanoseconds
from service.documents.forecast import ForecastDocument
from service.documents.history import (
    AdviceHistoryDocument,
    GainsDocument,
    OutcomeDocument,
    PastAlarmDocument,
    PastAlarmsDocument,
    QueueHistoryDocument,
    ResidualDocument,
    ResidualsDocument,
    RolloutGainDocument,
)
from settings.errors import UnprocessableError

HOUR_S = 3_600.0
WEEK_S = 7 * 24 * HOUR_S
MONTH_S = 30 * 86_400.0
QUARTER_S = 13 * WEEK_S
router = APIRouter(prefix="/v1", tags=["history"])


Since = Annotated[
    GivenTime | None,
    Query(description="Begin of the span, with its zone.", examples=["2026-11-22T20:00:00Z"]),
]
Until = Annotated[
    GivenTime | None,
    Query(description="End of the span, with its zone; by default now.", examples=["2026-11-22T21:00:00Z"]),
]
Limit = Annotated[int, Query(ge=1, le=10_000, description="At most so many.")]


@router.get("/history/queues", response_model=QueueHistoryDocument, summary="Queues over time")
async def get_queue_history(
    service: ServiceDep,
    caller: Reads,
    since: Since = None,
    until: Until = None,
    switch: Annotated[str | None, Query(description="Only ports of this switch.")] = None,
    port: Annotated[str | None, Query(description="Only ports of this name.")] = None,
    most: Annotated[
        int, Query(ge=1, le=5_000, description="Steps are the finest that give at most so many.")
    ] = 500,
    queues: Annotated[
        int, Query(ge=1, le=1_000, description="At most so many ports, the deepest first.")
    ] = 32,
) -> Response:
    """What ports did, step by step, the deepest first, by default in the last hour."""
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=HOUR_S)
    found = await service.history_reader.queues(span, switch=switch, port=port, most=most, ports=queues)
    return Response(found, media_type="application/json")


@router.get("/history/forecast", summary="Forecasts of ports")
async def get_forecast(
    service: ServiceDep,
    caller: Reads,
    switch: Annotated[str | None, Query(description="Only ports of this switch.")] = None,
    port: Annotated[
        str | None, Query(description="Only this port of `switch`, with every step of its forecast.")
    ] = None,
    horizon_s: Annotated[float, Query(ge=60, le=86_400, description="How far ahead, in seconds.")] = HOUR_S,
    limit: Annotated[int, Query(ge=1, le=1_000, description="At most so many ports.")] = 100,
    after: Annotated[
        str | None, Query(description="Only ports after this cursor, the `next` of a page before.")
    ] = None,
) -> ForecastDocument:
    """What ports will send by their own history, with the error that such forecasts had on it; those that
    will be fullest first, of the 500 that sent most in the last day.
    """
    if port is None:
        return await service.forecasts.ranked(horizon_s, switch=switch, limit=limit, after=after)
    if switch is None:
        raise UnprocessableError("port", repr(port), "a port is one of a switch", "give switch too")
    return await service.forecasts.of_port(switch, port, horizon_s)


@router.get("/history/residuals", response_model=ResidualsDocument, summary="Errors of the twin over time")
async def get_residual_history(
    service: ServiceDep, caller: Reads, since: Since = None, until: Until = None, limit: Limit = 1_000
) -> Response:
    """Predicted against measured queue, round by round, the newest first, by default of the last week."""
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=WEEK_S)
    rows = await service.history_reader.residuals(span, limit)
    held_beyond = service.settings.tuning.residual_limit
    return await json_answer(
        service.answers,
        lambda: ResidualsDocument(limit=held_beyond, residuals=[ResidualDocument.of(row) for row in rows]),
    )


@router.get("/history/advice", summary="What the advice was worth, day by day")
async def get_advice_history(
    service: ServiceDep, caller: Reads, since: Since = None, until: Until = None
) -> AdviceHistoryDocument:
    """By the twin on each day's traffic, without a write; by default of the last 30 days."""
    return await service.history_reader.advice(
        service.history_reader.span(_ns(since), _ns(until), usual_s=MONTH_S)
    )


@router.get("/history/gains", response_model=GainsDocument, summary="Gains predicted and measured")
async def get_gain_history(
    service: ServiceDep, caller: Reads, since: Since = None, until: Until = None, limit: Limit = 1_000
) -> Response:
    """Gains predicted for rollouts and measured after them, the newest first, by default of the last
    quarter.
    """
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=QUARTER_S)
    rows = await service.history_reader.gains(span, limit)
    return await json_answer(
        service.answers, lambda: GainsDocument(gains=[RolloutGainDocument.of(row) for row in rows])
    )


@router.get("/history/alarms", response_model=PastAlarmsDocument, summary="Alarms over time")
async def get_alarm_history(
    service: ServiceDep, caller: Reads, since: Since = None, until: Until = None, limit: Limit = 100
) -> Response:
    """Alarms active at any time of the span, by default the last week, the last raised first."""
    span = service.history_reader.span(_ns(since), _ns(until), usual_s=WEEK_S)
    rows = await service.history_reader.alarms(span, limit)
    return await json_answer(
        service.answers, lambda: PastAlarmsDocument(alarms=[PastAlarmDocument.of(row) for row in rows])
    )


@router.get("/recommendations/{recommendation_id}/outcome", summary="What became of a recommendation")
async def get_outcome(
    recommendation_id: RecommendationId,
    service: ServiceDep,
    caller: Reads,
    span_s: Annotated[
        float, Query(ge=10, le=86_400, description="Seconds compared before and after the rollout.")
    ] = 600.0,
) -> OutcomeDocument:
    """Predictions beside measurements for ``span_s`` before and after its rollout."""
    found = await service.store.fetch(recommendation_id)
    known = found.rollout is not None and service.rollouts.knows(found.rollout)
    rollout = service.rollouts.get(found.rollout).state if known and found.rollout else None
    return await service.history_reader.outcome(found, rollout, span_s=span_s)


def _ns(at: datetime | None) -> int | None:
    return None if at is None else nanoseconds(at)

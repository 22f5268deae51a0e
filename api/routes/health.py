"""``/healthz``, ``/readyz``, ``/v1/readiness``, ``/v1/condition`` and ``/metrics``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.deps import Reads, ServiceDep, made_in
from service.documents.admin import (
    HealthDocument,
    ServiceReadinessDocument,
    StandingDocument,
    StorageDocument,
    WindowDocument,
)
from service.documents.fabric import ConditionDocument
from service.service import Service
from settings.version import ecntwin_version

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Is the process alive")
async def get_health() -> HealthDocument:
    """200 while the process answers."""
    return HealthDocument(status="ok", version=ecntwin_version())


@router.get(
    "/readyz",
    summary="Can it take telemetry and answer",
    responses={503: {"model": ServiceReadinessDocument, "description": "Not ready; the reasons."}},
)
async def get_ready(service: ServiceDep, response: Response) -> ServiceReadinessDocument:
    """Whether the service can take telemetry and answer, for load balancers and orchestrators: 200, or 503
    with the reasons. A silent network does not make it unready; ``/v1/readiness`` says whether it can
    recommend.
    """
    reasons = service.unready()
    response.status_code = 503 if reasons else 200
    return ServiceReadinessDocument(
        ready=not reasons, reasons=reasons, window=_window(service), storage=_storage(service)
    )


@router.get("/v1/readiness", summary="Can it recommend")
async def get_readiness(service: ServiceDep, caller: Reads) -> StandingDocument:
    """Whether the service can recommend now, or why not; always 200."""
    reasons = service.without_advice()
    return StandingDocument(
        ready=not reasons,
        reasons=reasons,
        window=_window(service),
        storage=_storage(service),
        measured=not service.window.empty,
        stale=service.window.stale,
        advice=service.store.current().id if len(service.store) else None,
        version=ecntwin_version(),
        scopes=sorted(caller.scopes),
    )


@router.get("/v1/condition", summary="Whether the fabric is well")
async def get_condition(service: ServiceDep, caller: Reads) -> ConditionDocument:
    """Whether the fabric is well: what its traffic gets against thresholds, now and over the last hour."""
    return service.verdict()


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    response_description="Prometheus text or OpenMetrics, whichever is accepted.",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(request: Request, service: ServiceDep, caller: Reads) -> Response:
    """Every metric of the service."""
    accepted = request.headers.get("accept", "")
    service.show_now()  # ages and staleness are those of now
    text, media_type = await made_in(service.answers, lambda: service.metrics.exposition(accepted))
    return Response(text, media_type=media_type)


def _window(service: Service) -> WindowDocument:
    window = service.window
    return WindowDocument(held_s=window.held_s, length_s=window.length_s, warm=window.warm)


def _storage(service: Service) -> StorageDocument:
    """Without the driver's error: /readyz needs no token."""
    failing = service.database_health.failing is not None
    return StorageDocument(
        state="failing" if failing else "ok" if service.database.durable else "memory",
        waiting=service.recorder.waiting,
        says="What is decided cannot be written down, so no switch is set; advice is given as before."
        if failing
        else None,
    )

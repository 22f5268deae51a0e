"""``/healthz``, ``/readyz`` and ``/metrics``: for whoever runs the service."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.deps import Reads, ServiceDep
from api.schemas.health import HealthDocument, ReadinessDocument, StandingDocument
from api.version import ecntwin_version

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> HealthDocument:
    """Whether the process answers; never depends on anything else."""
    return HealthDocument(status="ok", version=ecntwin_version())


@router.get("/readyz", responses={503: {"model": ReadinessDocument}})
async def readyz(service: ServiceDep, response: Response) -> ReadinessDocument:
    """Whether the service can give a recommendation now, and why not."""
    reasons = service.unready()
    response.status_code = 503 if reasons else 200
    return ReadinessDocument(ready=not reasons, reasons=reasons)


@router.get("/v1/readiness")
async def readiness(service: ServiceDep, caller: Reads) -> StandingDocument:
    """What ``/readyz`` says, always as 200: for whoever shows it rather than routes by it."""
    reasons = service.unready()
    return StandingDocument(
        ready=not reasons,
        reasons=reasons,
        measured=service.sensing.age_s() is not None,
        version=ecntwin_version(),
    )


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, service: ServiceDep, caller: Reads) -> Response:
    """Prometheus metrics."""
    text, media_type = service.metrics.exposition(request.headers.get("accept", ""))
    return Response(text, media_type=media_type)

"""The HTTP application of an ingest process: reports, health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request, Response

from api.admission import Ports, encoding_of, media_type_of, received
from api.app import Application, started
from api.deps import PostsTelemetry, Reads
from api.routes.health import get_health
from service.auth.access import Access
from service.documents.admin import ReadinessDocument
from service.documents.telemetry import IngestDocument
from service.events import Clocks
from service.ingest.process import IngestProcess
from settings.model import Settings


def create_ingest_app(settings: Settings, process: IngestProcess) -> FastAPI:
    """The application and its process, which runs from start-up to shut-down."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with started(app, process):
            yield

    app = Application(settings, title="ecntwin ingest", lifespan=lifespan)
    app.state.process = process
    app.state.access = Access(
        settings.security,
        host=settings.server.host,
        max_body_bytes=settings.server.max_body_bytes,
        metrics=process.metrics.access,
        clocks=Clocks(),
    )
    app.include_router(_router)
    return app


def _process(request: Request) -> IngestProcess:
    process: IngestProcess = request.app.state.process
    return process


_router = APIRouter()
_ProcessDep = Annotated[IngestProcess, Depends(_process)]


@_router.post("/v1/telemetry/int", status_code=202, summary="Post INT reports")
async def post_int_reports(
    request: Request, process: _ProcessDep, caller: PostsTelemetry, port: Ports = ()
) -> IngestDocument:
    """INT reports in every format of the service; decoded here and forwarded."""
    async with received(process.intake, request) as body:
        decode = process.formats.decoder(media_type_of(request), encoding_of(request), body, ports=port)
        return await process.ingest(decode, body=body)


_router.get("/healthz", summary="Is the process alive")(get_health)


@_router.get(
    "/readyz",
    summary="Does the service take its reports",
    responses={503: {"model": ReadinessDocument, "description": "Not ready; the reasons."}},
)
async def get_ready(process: _ProcessDep, response: Response) -> ReadinessDocument:
    """Whether the service accepts reports from this process, or why not."""
    reasons = process.unready()
    response.status_code = 503 if reasons else 200
    return ReadinessDocument(ready=not reasons, reasons=reasons)


@_router.get(
    "/metrics",
    summary="Prometheus metrics",
    response_class=Response,
    response_description="Prometheus text or OpenMetrics, whichever is accepted.",
)
async def get_metrics(request: Request, process: _ProcessDep, caller: Reads) -> Response:
    """Prometheus metrics."""
    text, media_type = process.metrics.exposition(request.headers.get("accept", ""))
    return Response(text, media_type=media_type)

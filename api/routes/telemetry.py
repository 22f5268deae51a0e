"""``/v1/telemetry``: reports and counters in. Bodies go to the decoders unread; must not know a field."""

from __future__ import annotations

from fastapi import APIRouter, Request

from api.deps import PostsTelemetry, ServiceDep
from api.errors import UnsupportedMediaError
from api.schemas.telemetry import IngestDocument

router = APIRouter(prefix="/v1/telemetry", tags=["telemetry"])

# curl sends the form type where a script forgot the header; the decoder looks at the bytes anyway.
JSON_TYPES = frozenset(
    {
        "",
        "application/gzip",
        "application/json",
        "application/jsonl",
        "application/ndjson",
        "application/x-gzip",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "text/plain",
    }
)
ENCODINGS = frozenset({"", "gzip", "identity", "x-gzip"})
_BODY = {"schema": {"type": "array", "items": {"type": "object"}}}


_BODY_DOCUMENTED = {
    "requestBody": {
        "content": {"application/json": _BODY, "application/x-ndjson": {"schema": {"type": "string"}}}
    }
}


@router.post("/int", status_code=202, openapi_extra=_BODY_DOCUMENTED)
async def post_int_reports(request: Request, service: ServiceDep, caller: PostsTelemetry) -> IngestDocument:
    """INT reports as a JSON array, one object, or NDJSON; gzip allowed.

    Good reports in a bad batch are kept.
    """
    encoding = _encoding(request, "INT reports")
    return await service.sensing.ingest(await request.body(), encoding)


@router.post("/counters", status_code=202, openapi_extra=_BODY_DOCUMENTED)
async def post_counters(request: Request, service: ServiceDep, caller: PostsTelemetry) -> IngestDocument:
    """Counters of ports and queues as a JSON array, one object, or NDJSON; gzip allowed.

    Good samples in a bad batch are kept.
    """
    encoding = _encoding(request, "counter samples")
    return await service.counting.ingest(await request.body(), encoding)


def _encoding(request: Request, what: str) -> str | None:
    """The body's encoding; raises ``UnsupportedMediaError`` for a type or an encoding not understood."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in JSON_TYPES:
        raise UnsupportedMediaError(
            "Content-Type",
            repr(media),
            f"{what} come as application/json or application/x-ndjson",
            "convert them",
        )
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise UnsupportedMediaError(
            "Content-Encoding", repr(encoding), "gzip and identity are understood", "send one of them"
        )
    return encoding or None

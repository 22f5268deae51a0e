"""``/v1/telemetry``: takes reports and counters, and shows what became of datagrams."""

from __future__ import annotations

from fastapi import APIRouter, Request

from api.admission import Ports, encoding_of, media_type_of, received
from api.deps import PostsTelemetry, ServiceDep
from service.documents.admin import UdpDocument
from service.documents.telemetry import IngestDocument
from service.ingest.formats import ARROW_TYPE, BINARY_TYPE, check_media_type

router = APIRouter(prefix="/v1/telemetry", tags=["telemetry"])

_BODY = {"schema": {"anyOf": [{"type": "array"}, {"type": "object"}]}}  # problems in it are listed
_BODY_DOCUMENTED = {
    "requestBody": {
        "content": {"application/json": _BODY, "application/x-ndjson": {"schema": {"type": "string"}}}
    }
}
_REPORTS_DOCUMENTED = {
    "requestBody": {
        "content": {
            **_BODY_DOCUMENTED["requestBody"]["content"],
            ARROW_TYPE: {"schema": {"type": "string", "format": "binary"}},
            BINARY_TYPE: {"schema": {"type": "string", "format": "binary"}},
        }
    }
}


@router.post("/int", status_code=202, openapi_extra=_REPORTS_DOCUMENTED)
async def post_int_reports(
    request: Request, service: ServiceDep, caller: PostsTelemetry, port: Ports = ()
) -> IngestDocument:
    """INT reports as a JSON array, one object, NDJSON, or an Arrow IPC stream; or in binary: one UDP payload,
    or a capture (pcap, pcapng), of which ``port`` selects datagrams. gzip allowed.

    Good reports in a bad batch are kept.
    """
    async with received(service.pipeline.intake, request) as body:
        decode = service.pipeline.formats.decoder(
            media_type_of(request), encoding_of(request), body, ports=port
        )
        return await service.window.ingest(decode, body=body)


@router.post("/counters", status_code=202, openapi_extra=_BODY_DOCUMENTED)
async def post_counters(request: Request, service: ServiceDep, caller: PostsTelemetry) -> IngestDocument:
    """Counters of ports and queues as a JSON array, one object, or NDJSON; gzip allowed.

    Good samples in a bad batch are kept.
    """
    check_media_type(media_type_of(request), "counter samples")
    async with received(service.pipeline.intake, request) as body:
        return await service.counters.ingest(body, encoding_of(request))


@router.get("/udp")
async def get_udp(service: ServiceDep, caller: PostsTelemetry) -> UdpDocument:
    """UDP addresses, and how many datagrams were received, taken into the window, and dropped."""
    udp = service.pipeline.udp
    return UdpDocument.of([] if udp is None else udp.addresses, None if udp is None else udp.tally())

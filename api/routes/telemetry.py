"""``/v1/telemetry``: takes reports and counters, and shows what became of datagrams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from api.admission import Ports, encoding_of, media_type_of, received
from api.deps import PostsTelemetry, ServiceDep
from service.documents.admin import UdpDocument
from service.documents.telemetry import IngestDocument
from service.ingest.formats import ARROW_TYPE, BINARY_TYPE, HPCC_TYPE, check_media_type

router = APIRouter(prefix="/v1/telemetry", tags=["telemetry"])

_BODY = {"anyOf": [{"type": "array"}, {"type": "object"}]}  # problems in it are listed
_BYTES = {"schema": {"type": "string", "format": "binary"}}


def _documented(description: str, example: Mapping[str, Any], **others: Any) -> dict[str, Any]:
    """The request body of records like ``example``, and by media type of ``others``."""
    content = {
        "application/json": {"schema": _BODY, "example": [example]},
        "application/x-ndjson": {"schema": {"type": "string"}, "example": json.dumps(example)},
    }
    return {"requestBody": {"description": description, "content": {**content, **others}}}


_REPORT = {
    "ts_ns": 1767225600000007652,
    "flow": {"src": "11.0.9.1", "dst": "11.0.15.1", "sport": 10000, "dport": 4791, "protocol": 17},
    "packet_bytes": 1048,
    "sampling_rate": 0.015625,
    "hops": [{"switch": "leaf1", "egress_port": "Ethernet16", "queue": 3, "queue_bytes": 20480}],
}
_SAMPLE = {
    "switch": "leaf1",
    "port": "Ethernet0",
    "queue": 3,
    "ts_ns": 1767225600000000000,
    "pfc_rx_frames": 4,
    "ecn_marked_packets": 18231,
    "dropped_packets": 0,
}
_REPORTS_DOCUMENTED = _documented(
    "One object per sampled packet, as its sink saw it. Times in nanoseconds, sizes in bytes, "
    "`sampling_rate` the share of packets reported; a hop value that the device does not give is left out.",
    _REPORT,
    **{ARROW_TYPE: _BYTES, BINARY_TYPE: _BYTES, HPCC_TYPE: {"schema": _BODY}},
)
_COUNTERS_DOCUMENTED = _documented(
    "One object per reading of a port, or of one queue of it. Counters are cumulative; one that the device "
    "does not give is left out, never 0.",
    _SAMPLE,
)


@router.post("/int", status_code=202, summary="Post INT reports", openapi_extra=_REPORTS_DOCUMENTED)
async def post_int_reports(
    request: Request, service: ServiceDep, caller: PostsTelemetry, port: Ports = ()
) -> IngestDocument:
    """INT reports as a JSON array, one object, NDJSON, or an Arrow IPC stream; INT headers of HPCC in JSON
    records; or in binary: one UDP payload, or a capture (pcap, pcapng), of which ``port`` selects datagrams.
    gzip allowed.

    Good reports in a bad batch are kept.
    """
    async with received(service.pipeline.intake, request) as body:
        decode = service.pipeline.formats.decoder(
            media_type_of(request), encoding_of(request), body, ports=port
        )
        return await service.window.ingest(decode, body=body)


@router.post(
    "/counters", status_code=202, summary="Post counters of switches", openapi_extra=_COUNTERS_DOCUMENTED
)
async def post_counters(request: Request, service: ServiceDep, caller: PostsTelemetry) -> IngestDocument:
    """Counters of ports and queues as a JSON array, one object, or NDJSON; gzip allowed.

    Good samples in a bad batch are kept.
    """
    check_media_type(media_type_of(request), "counter samples")
    async with received(service.pipeline.intake, request) as body:
        return await service.counters.ingest(body, encoding_of(request))


@router.get("/udp", summary="Get UDP listeners")
async def get_udp_listeners(service: ServiceDep, caller: PostsTelemetry) -> UdpDocument:
    """UDP addresses, and how many datagrams were received, taken into the window, and dropped."""
    udp = service.pipeline.udp
    return UdpDocument.of([] if udp is None else udp.addresses, None if udp is None else udp.tally())

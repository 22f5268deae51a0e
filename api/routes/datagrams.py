"""``/v1/telemetry/udp``: for who sends datagrams, what became of them."""

from __future__ import annotations

from fastapi import APIRouter

from api.deps import PostsTelemetry, ServiceDep
from service.documents.admin import UdpDocument

router = APIRouter(prefix="/v1/telemetry", tags=["telemetry"])


@router.get("/udp")
async def get_udp(service: ServiceDep, caller: PostsTelemetry) -> UdpDocument:
    """Where datagrams are taken, and how many were received, taken into the window, and dropped."""
    udp = service.pipeline.udp
    return UdpDocument.of([] if udp is None else udp.addresses, None if udp is None else udp.tally())

"""A lab in this process, spoken to over HTTP without a socket, also from other threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from lab.control import Lab, control_app
from lab.p4_reports import IntReportWriter, IntSender, Taker
from lab.reports import CounterWriter, Poster, ReportWriter
from lab.runner import Binary, Runner
from switches.device import Device
from switches.lab import LabAdapter
from switches.registry import AdapterRegistry
from tests.unit.lab.labs import RATE, fabric_of, parts_of

PATIENCE_S = 120.0
URL = "http://127.0.0.1:9000"


class Bridge(httpx.BaseTransport):
    """Takes blocking calls of other threads to an application on this loop. ``down``: nobody is there."""

    def __init__(self, app: Any) -> None:
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False))
        self._loop = asyncio.get_running_loop()
        self.down = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("Connection refused", request=request)
        asked = self._client.request(
            request.method, request.url, content=request.read(), headers=request.headers
        )
        answer = asyncio.run_coroutine_threadsafe(asked, self._loop).result(PATIENCE_S)
        return httpx.Response(answer.status_code, content=answer.content)


class Later(httpx.BaseTransport):
    """A bridge to an application that is only made later."""

    def __init__(self) -> None:
        self.inner: Bridge | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert self.inner is not None
        return self.inner.handle_request(request)


def adapters_over(transport: httpx.BaseTransport) -> AdapterRegistry:
    """Adapters to labs that ``transport`` reaches; one that is slow to answer is no news."""

    def patient(device: Device, *, clock_ns: Callable[[], int]) -> LabAdapter:
        return LabAdapter(replace(device, timeout_s=PATIENCE_S), clock_ns=clock_ns, transport=transport)

    registry = AdapterRegistry()
    registry.register("lab", patient)
    return registry


@dataclass
class RunningLab:
    """A started lab: its HTTP client, its parts, and the way other threads reach it."""

    client: httpx.AsyncClient
    lab: Lab
    bridge: Bridge

    async def advance(self, until_s: float) -> dict[str, Any]:
        answer = await self.client.post("/advance", json={"until_s": until_s})
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document


@asynccontextmanager
async def running_lab(
    *,
    service: httpx.BaseTransport | None = None,
    stepwise: bool = True,
    int_udp: tuple[str, int] | None = None,
    writer: type[ReportWriter] = ReportWriter,
    **options: Any,
) -> AsyncIterator[RunningLab]:
    """Starts a lab whose reports go to ``service``, in binary by UDP if that is said, and stops it."""
    parts = parts_of(**options)
    poster = None if service is None else Poster("http://127.0.0.1", transport=service, first_pause_s=0.001)
    binary = None
    if int_udp is not None:
        taker = Taker("http://127.0.0.1", transport=service)
        binary = Binary(IntReportWriter(parts.plan, parts.addresses), IntSender(*int_udp, taker=taker))
    runner = Runner(
        fabric_of(parts),
        parts.plan.switch_ports,
        parts.feed,
        writer=writer(parts.plan, parts.addresses, sampling_rate=RATE),
        poster=poster,
        binary=binary,
        counters=CounterWriter(parts.plan),
        duration_s=parts.duration_s,
        stepwise=stepwise,
    )
    lab = Lab(parts.plan, runner, poster, 1, None if binary is None else binary.sender)
    app = control_app(lab)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=URL, timeout=PATIENCE_S) as client:
            yield RunningLab(client, lab, Bridge(app))

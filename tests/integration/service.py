"""A service in this process, spoken to over HTTP without a socket, and small traffic for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from api.app import create_app
from service.events import Clocks
from service.service import Service
from settings.model import Settings
from switches.registry import AdapterRegistry
from tests.unit.twin.analytic_engine import HERE
from twin.search.problem import SearchSettings
from twin.workers.pool import InProcessWorkers, Workers

SMALL = SearchSettings(
    candidates=24,
    narrowed=4,
    leaders=2,
    seeds=2,
    fractions=(1.0,),
    engine=f"{HERE}:AnalyticEngine",
    second_engine=None,
)
EPOCH_NS = 1_767_225_600_000_000_000
PATIENCE_S = 120.0
SETTLED = {"hold_s": 0, "clear_s": 0}
"""Of alarms: policy approves from the start on."""
TOPOLOGY: dict[str, Any] = {
    "hosts": [{"name": f"h{n}", "ip": f"10.0.0.{n}"} for n in range(4)],
    "switches": [{"name": "leaf1"}],
    "links": [
        {"a": f"h{n}", "b": "leaf1", "b_port": f"Ethernet{n}", "rate_gbps": 100, "delay_us": 1}
        for n in range(4)
    ],
}


@dataclass
class Hand:
    """A clock that a test moves."""

    now_s: float = 1_000.0

    def clocks(self) -> Clocks:
        def now_s() -> float:
            return self.now_s

        # Work takes no time by it: on a slow machine alarms would let looks at the window out.
        return Clocks(now_s, lambda: EPOCH_NS + round(self.now_s * 1e9), cost_s=now_s)


@dataclass
class Running:
    """A started service: its HTTP client, its parts, and its clock."""

    client: httpx.AsyncClient
    service: Service
    hand: Hand
    registry: CollectorRegistry
    app: FastAPI

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        """The document of an answer of this status."""
        return _document(await self.client.get(path, params=query or None), status)

    async def post(self, path: str, body: object = None, status: int = 200, **asked: Any) -> Any:
        """The document of an answer of this status; ``asked`` are arguments of httpx."""
        return _document(await self.client.post(path, json=body, **asked), status)

    async def post_reports(self, reports: Sequence[dict[str, Any]]) -> Any:
        return await self.post("/v1/telemetry/int", content=json.dumps(reports), status=202)

    async def feed(self) -> None:
        """Declares the topology, and posts traffic on it."""
        await self.client.put("/v1/topology", json=TOPOLOGY)
        await self.post_reports(traffic())

    async def goes_on(self) -> None:
        """Posts the traffic that follows: enough of it for a round on what was set last."""
        window = self.service.window
        assert window.start_ns is not None
        held = round(window.held_s * 1e5)
        await self.post_reports(traffic(1_100, first=(window.start_ns - EPOCH_NS) // 10_000 + held))

    async def ended(self, rollout: str) -> Any:
        """The document of a rollout, once it has ended."""
        rollouts = self.service.rollouts
        await rollouts.ended(rollouts.get(rollout), within_s=PATIENCE_S)
        return await self.get(f"/v1/rollouts/{rollout}")

    async def rolled_back(self, rollout: str) -> Any:
        await self.post(f"/v1/rollouts/{rollout}/rollback", status=202)
        return await self.ended(rollout)

    async def tuned_while(self, happens: Callable[[], None]) -> httpx.Response:
        """The answer of a round in whose second stage ``happens`` is called."""
        with self.service.events.listen() as queue:
            tuning = asyncio.ensure_future(self.client.post("/v1/tune"))
            while True:
                event = await queue.get()
                assert event is not None
                if event.kind == "round" and event.data["stage"] == "window 1":
                    break
            happens()
            return await tuning

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def _document(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def all_taken(count: int, *, duplicates: int = 0) -> dict[str, Any]:
    """The answer to a body of which nothing is wrong."""
    return {
        "accepted": count,
        "duplicates": duplicates,
        "rejected": 0,
        "errors": [],
        "error_count": 0,
        "unread": [],
    }


INSTALLED = AdapterRegistry.with_installed()  # which looks through every installed package


@dataclass(frozen=True)
class Wanted:
    """What a test changes of the usual small service."""

    settings: Settings = field(default_factory=lambda: manual())
    search: SearchSettings = SMALL
    workers: Workers | None = field(default_factory=InProcessWorkers)  # None: as the settings say
    adapters: AdapterRegistry = INSTALLED


def manual(**sections: Any) -> Settings:
    """Settings whose loop only runs when asked to, and whose stop cuts nothing short, unless a test says
    otherwise.
    """
    server = {"shutdown_grace_s": round(PATIENCE_S)} | sections.pop("server", {})
    return Settings(**({"tuning": {"enabled": False}, "server": server} | sections))


@asynccontextmanager
async def running(wanted: Wanted | None = None) -> AsyncIterator[Running]:
    """Starts a service, and stops it."""
    wanted = wanted or Wanted()
    hand, registry = Hand(), CollectorRegistry()
    app = create_app(
        wanted.settings,
        registry=registry,
        clocks=hand.clocks(),
        workers=wanted.workers,
        adapters=wanted.adapters,
        search=wanted.search,
    )
    async with app.router.lifespan_context(app):
        # Errors of the application become answers, as they do behind a real server.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        service: Service = app.state.service
        service.fleet._patience_s = PATIENCE_S  # here a switch that is slow to answer is no news
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield Running(client, service, hand, registry, app)


def report(number: int, *, src: int = 1, dst: int = 0, **changes: Any) -> dict[str, Any]:
    """One INT report of a flow h``src`` → h``dst`` through leaf1, ``number`` × 10 µs after the epoch."""
    ts_ns = EPOCH_NS + 10_000 * number
    return {
        "ts_ns": ts_ns,
        "flow": {
            "src": f"10.0.0.{src}",
            "dst": f"10.0.0.{dst}",
            "sport": 10_000 + src,
            "dport": 4791,
            "protocol": 17,
        },
        "packet_bytes": 1_048,
        "sampling_rate": 1 / 64,
        "hops": [
            {
                "switch": "leaf1",
                "ingress_port": f"Ethernet{src}",
                "egress_port": f"Ethernet{dst}",
                "queue": 3,
                "queue_bytes": 20_000 + 100 * (number % 50),
                "ingress_ts_ns": ts_ns - 2_000,
                "egress_ts_ns": ts_ns,
                "ecn_marked": number % 10 == 0,
            }
        ],
    } | changes


def traffic(count: int = 900, first: int = 0) -> list[dict[str, Any]]:
    """Three hosts sending to h0 in turn."""
    return [report(first + number, src=1 + number % 3) for number in range(count)]

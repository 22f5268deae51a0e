"""A wall clock that is set by hours, forwards and back: nothing stalls, and nothing has a negative age."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import httpx
import pytest
from prometheus_client import CollectorRegistry

from api.app import create_app
from service.events import Clocks
from tests.integration.service import EPOCH_NS, PATIENCE_S, SMALL, TOPOLOGY, manual, traffic
from twin.workers.pool import InProcessWorkers

pytestmark = pytest.mark.anyio

HOUR_S = 3_600.0


@dataclass
class Hands:
    """A monotonic clock that a test moves on, and a wall clock that is off by so much."""

    now_s: float = 1_000.0
    set_by_s: float = 0.0

    def clocks(self) -> Clocks:
        def wall_ns() -> int:
            return EPOCH_NS + round((self.now_s + self.set_by_s) * 1e9)

        return Clocks(lambda: self.now_s, wall_ns, cost_s=lambda: self.now_s)


@pytest.mark.parametrize("steps_h", [(6, -6), (-6, 6), (-6, -6), (24 * 400, 0)])
async def test_a_wall_clock_that_jumps_stalls_nothing(steps_h: tuple[int, ...]) -> None:
    hands, registry = Hands(), CollectorRegistry()
    app = create_app(
        manual(),
        registry=registry,
        clocks=hands.clocks(),
        workers=InProcessWorkers(),
        search=SMALL,
    )
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert (await client.put("/v1/topology", json=TOPOLOGY)).status_code == 200
            made = []
            for number, step_h in enumerate((0, *steps_h)):
                hands.set_by_s += HOUR_S * step_h
                hands.now_s += 1.0
                posted = await client.post("/v1/telemetry/int", json=traffic(300, first=300 * number))
                assert posted.json()["accepted"] == 300
                hands.now_s += 1.0
                state = (await client.get("/v1/state")).json()
                assert (state["age_s"], state["stale"]) == (1.0, False)
                found = (await client.post("/v1/tune")).json()
                made.append(found["id"])
                approved = await client.post(f"/v1/recommendations/{found['id']}/approve")
                assert approved.status_code == 200, approved.text
                rollouts, rollout_id = app.state.service.rollouts, approved.json()["rollout"]
                await rollouts.ended(rollouts.get(rollout_id), within_s=PATIENCE_S)
                rollout = (await client.get(f"/v1/rollouts/{rollout_id}")).json()
                assert rollout["ended"], rollout
                await app.state.service.alarms.check()
                assert (await client.get("/v1/readiness")).json()["ready"]
                alarms = (await client.get("/v1/alarms?all=true")).json()["alarms"]
                assert not [one for one in alarms if one["kind"] in ("no_reports", "stale")]
                logged = (await client.get("/v1/audit?limit=1")).json()["entries"][0]
                now_s = hands.clocks().wall_ns() / 1e9
                assert datetime.fromisoformat(logged["at"]).timestamp() == pytest.approx(now_s, abs=1.0)
            # The order is that in which they were made, whatever the clock said.
            listed = (await client.get("/v1/recommendations?candidates=false")).json()["recommendations"]
            assert [one["id"] for one in listed] == made[::-1]
            assert len(set(made)) == len(made)

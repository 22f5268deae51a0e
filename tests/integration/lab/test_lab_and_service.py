"""The real lab under the real service: reports in, a watermark set and read back, a lab that is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lab.reports import EPOCH_NS
from rollout.state import Phase
from tests.integration.lab.labs import PATIENCE_S, URL, Bridge, Later, RunningLab, adapters_over, running_lab
from tests.integration.service import SMALL, Running, Wanted, manual, running
from twin.workers.pool import InProcessWorkers

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

OLD = {"kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}
OTHER = {"kmin_bytes": 30_000, "kmax_bytes": 90_000, "pmax": 0.5}
SETTINGS = manual(
    push={"adapter": "lab", "lab_url": URL, "read_every_s": 3_600.0},
    telemetry={"period_s": 0.001, "n_periods": 4},
    tuning={"enabled": False, "margin": 0.0, "cool_down_s": 0.0, "residual_limit": 1e9},
    rollout={"soak_s": 0.0, "batch_soak_s": 0.0, "patience_s": 0.0},
)


@dataclass
class Loop:
    """A lab and the service that sets it."""

    lab: RunningLab
    service: Running

    async def tuned(self) -> dict[str, Any]:
        answer = await self.service.client.post("/v1/tune")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def approved(self, found: dict[str, Any]) -> dict[str, Any]:
        answer = await self.service.client.post(f"/v1/recommendations/{found['id']}/approve")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def rollout(self, rollout_id: str) -> dict[str, Any]:
        """It, once it has ended."""
        rollouts = self.service.service.rollouts
        await rollouts.ended(rollouts.get(rollout_id), within_s=PATIENCE_S)
        document: dict[str, Any] = (await self.service.client.get(f"/v1/rollouts/{rollout_id}")).json()
        assert document["ended"]
        return document

    async def switches(self) -> list[dict[str, Any]]:
        documents: list[dict[str, Any]] = (await self.service.client.get("/v1/switches")).json()
        return documents

    async def set_behind_its_back(self, name: str, watermark: dict[str, Any]) -> None:
        answer = await self.lab.client.put(f"/switches/{name}/watermark", json=watermark)
        assert answer.status_code == 200, answer.text


@asynccontextmanager
async def looped(**fabric: Any) -> AsyncIterator[Loop]:
    to_service = Later()
    async with running_lab(service=to_service, **fabric) as lab:
        wanted = Wanted(
            settings=SETTINGS,
            search=replace(SMALL, margin=0.0),
            adapters=adapters_over(lab.bridge),
            workers=InProcessWorkers(),
        )
        async with running(wanted) as service:
            to_service.inner = Bridge(service.client._transport.app)  # type: ignore[attr-defined]
            yield Loop(lab, service)


@pytest.fixture
async def loop() -> AsyncIterator[Loop]:
    async with looped() as made:
        await made.lab.advance(0.006)
        yield made


async def test_reports_arrive_and_name_the_lab_s_switches(loop: Loop) -> None:
    status = (await loop.lab.client.get("/status")).json()["reports"]
    assert status["made"] == status["posted"] == status["accepted"] > 0
    assert loop.service.metric("ecntwin_reports_accepted_total") == status["made"]
    assert [one["name"] for one in await loop.switches()] == ["leaf1", "leaf2", "spine1", "spine2"]


async def test_counters_arrive_with_the_reports_and_add_up_to_the_figures(loop: Loop) -> None:
    counters = loop.service.service.counters
    status = (await loop.lab.client.get("/status")).json()
    assert status["counters"]["rejected"] == 0
    accepted = loop.service.metric("ecntwin_switch_samples_accepted_total")
    assert status["counters"]["accepted"] == accepted > 0
    assert await counters.newest_ns(["leaf1"]) == EPOCH_NS + 6_000_000
    figures = await loop.lab.advance(0.0085)
    found = await counters.increase(None, EPOCH_NS + 6_000_000, EPOCH_NS + 8_500_000)
    assert found.covered_s == 0.0025
    assert found.counters.dropped_packets == figures["dropped_packets"]
    assert found.counters.pfc_tx_frames == figures["pauses"]
    assert found.counters.tx_packets > 0
    marked = found.counters.ecn_marked_packets / found.counters.tx_packets
    assert marked == pytest.approx(figures["marked_fraction"])


async def test_what_is_approved_runs_and_the_next_round_starts_from_it(loop: Loop) -> None:
    first = await loop.tuned()
    assert {key: first["incumbent"][key] for key in OLD} == OLD
    decided = (await loop.service.client.post(f"/v1/recommendations/{first['id']}/approve")).json()
    assert decided["status"] == "approved", decided
    wanted = decided["staged"]
    for pushed in decided["pushed"]:
        assert (pushed["writes"], pushed["read_back"]) == (True, wanted)
        document = (await loop.lab.client.get(f"/switches/{pushed['switch']}")).json()
        assert document["watermark"] == wanted
        labels = {"switch": pushed["switch"], "role": "current"}
        assert loop.service.metric("ecntwin_watermark_kmin_bytes", **labels) == wanted["kmin_bytes"]
    await loop.lab.advance(0.009)
    second = await loop.tuned()
    assert {key: second["incumbent"][key] for key in wanted} == wanted


async def test_a_round_starts_from_what_was_read_not_from_the_settings(loop: Loop) -> None:
    for name in ("leaf1", "leaf2", "spine1", "spine2"):
        await loop.set_behind_its_back(name, OTHER)
    found = await loop.tuned()
    assert {key: found["incumbent"][key] for key in OTHER} == OTHER


async def test_queues_that_differ_are_listed_and_put_right_by_an_approval(loop: Loop) -> None:
    await loop.set_behind_its_back("leaf1", OTHER | {"ports": ["Ethernet0", "Ethernet1"]})
    shown = (await loop.service.client.get("/v1/switches/leaf1")).json()
    assert shown["running"] is None
    assert [one["port"] for one in shown["queues"] if one["kmin_bytes"] == 30_000] == [
        "Ethernet0",
        "Ethernet1",
    ]
    found = await loop.tuned()
    decided = (await loop.service.client.post(f"/v1/recommendations/{found['id']}/approve")).json()
    assert decided["status"] == "approved", decided
    (leaf1,) = [one for one in decided["pushed"] if one["switch"] == "leaf1"]
    assert "-Ethernet0/3, Ethernet1/3 kmin_bytes: 30000" in leaf1["diff"]
    shown = (await loop.service.client.get("/v1/switches/leaf1")).json()
    assert (shown["running"], shown["queues"]) == (decided["staged"], [])


async def test_a_lab_that_is_away_stops_no_more_than_pushes(loop: Loop) -> None:
    found = await loop.tuned()
    with loop.service.service.events.listen() as heard:
        loop.lab.bridge.down = True
        gone = await loop.switches()
        assert {(one["reachable"], one["running"]["kmin_bytes"]) for one in gone} == {(False, 400_000)}
        assert all("check that it is up" in one["detail"] for one in gone)
        events = [heard.get_nowait() for _ in range(heard.qsize())]
        reachable = [
            event.data["reachable"] for event in events if event is not None and event.kind == "switch"
        ]
        assert reachable == [False] * len(gone)
    assert loop.service.metric("ecntwin_switch_reachable", switch="leaf1") == 0

    at = f"/v1/recommendations/{found['id']}"
    refused = await loop.service.client.post(f"{at}/approve")
    assert refused.status_code == 409
    assert "leaf1, leaf2 cannot be read" in refused.json()["rule"]
    assert "check that it is up" in refused.json()["rule"]
    assert (await loop.service.client.get(at)).json()["status"] == "pending"  # it may come back
    assert (await loop.service.client.get("/v1/rollouts")).json()["total"] == 0

    await loop.lab.advance(0.008)  # its reports still come
    assert (await loop.tuned())["incumbent"]["kmin_bytes"] == 400_000
    assert (await loop.service.client.get("/healthz")).status_code == 200

    loop.lab.bridge.down = False
    assert all(one["reachable"] for one in await loop.switches())
    again = await loop.tuned()
    done = await loop.approved(again)
    assert done["status"] == "approved"
    assert {one["switch"] for one in done["pushed"]} >= {"leaf1", "leaf2"}


async def test_what_others_set_is_shown_as_drift_and_left_alone_until_it_is_adopted(loop: Loop) -> None:
    decided = await loop.approved(await loop.tuned())
    await loop.set_behind_its_back("leaf1", OLD)
    shown = (await loop.service.client.get("/v1/switches/leaf1")).json()
    assert (shown["drifted"], shown["running"], shown["set_to"]) == (True, OLD, decided["staged"])
    assert (await loop.lab.client.get("/switches/leaf1")).json()["watermark"] == OLD
    assert loop.service.metric("ecntwin_watermark_kmin_bytes", switch="leaf1", role="current") == 400_000

    await loop.lab.advance(0.009)
    second = await loop.tuned()
    refused = await loop.service.client.post(f"/v1/recommendations/{second['id']}/approve")
    assert refused.status_code == 409
    problem = refused.json()
    assert "leaf1" in problem["rule"]
    assert "/v1/switches/leaf1" in problem["remedy"]
    assert "/adopt" in problem["remedy"]
    assert (await loop.lab.client.get("/switches/leaf1")).json()["watermark"] == OLD

    adopted = await loop.service.client.post("/v1/switches/leaf1/adopt")
    assert adopted.status_code == 200
    assert (adopted.json()["drifted"], adopted.json()["set_to"]) == (False, OLD)
    assert (await loop.approved(second))["status"] == "approved"


async def test_a_lab_that_stops_between_two_switches_is_undone_once_it_is_back(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.tuning.approvals.ANSWER_WITHIN_S", 0.01)
    found = await loop.tuned()
    bridge, sets = loop.lab.bridge, []
    whole = bridge.handle_request

    def dying(request: Any) -> Any:
        if request.method == "PUT":
            sets.append(request.url.path)
            bridge.down = len(sets) > 1
        return whole(request)

    bridge.handle_request = dying  # type: ignore[method-assign]
    decided = await loop.approved(found)
    rollout = loop.service.service.rollouts.get(decided["rollout"])
    async with asyncio.timeout(PATIENCE_S):
        while rollout.state.phase is not Phase.ROLLING_BACK:  # noqa: ASYNC110 # no event tells of it alone
            await asyncio.sleep(0.02)
    changed = sets[0].split("/")[2]
    assert changed == rollout.state.plan.stages[0][0] == "leaf1"
    # It is not given up: the switch that was set is undone as soon as it can be.
    assert not rollout.state.phase.ended
    assert (await loop.lab.client.get(f"/switches/{changed}")).json()["watermark"] == decided["staged"]
    bridge.down, bridge.handle_request = False, whole  # type: ignore[method-assign]
    async with asyncio.timeout(PATIENCE_S):
        while not rollout.state.phase.ended:
            # Longer than the longest pause between two tries; the last that failed may be told of only now.
            loop.service.hand.now_s += 20
            await asyncio.sleep(0.02)
    ended = await loop.rollout(decided["rollout"])
    assert ended["phase"] == "rolled_back"
    assert {one["progress"] for one in ended["switches"] if one["switch"] == changed} == {"restored"}
    by_name = {one["name"]: one for one in await loop.switches()}
    assert all(one["running"] == OLD for one in by_name.values())

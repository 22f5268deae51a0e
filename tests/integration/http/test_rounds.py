"""Rounds, their answers and the operator's decisions over HTTP."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection

from api.routes.recommendations import AT_ONCE, MOST_WITH_CANDIDATES
from store import rounds
from store.rounds import RoundRow
from switches.base import Capabilities, Reading, StagedChange
from switches.dryrun import DryRunAdapter
from switches.errors import ReadBackError
from switches.registry import AdapterRegistry
from tests.integration.gate import Gate
from tests.integration.service import SMALL, TOPOLOGY, Running, Wanted, manual, running, traffic
from tests.unit.service.tuning.rounds import changing, keeping
from tests.unit.twin.analytic_engine import HERE
from tests.unit.twin.search.test_co_tuning import HERE as CO_TUNED
from twin.search.recommendation import Verdict, VerdictKind

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

DECIDED = {"approve": "approved", "reject": "rejected"}


@pytest.fixture
async def here() -> AsyncIterator[Running]:
    async with running() as started:
        await started.feed()
        yield started


async def test_a_round_answers_with_all_it_was_weighed_against(here: Running) -> None:
    found = await here.post("/v1/tune")
    assert found["changes"]
    assert found["status"] == "pending"
    assert found["incumbent"]["kmin_bytes"] == 400_000
    assert found["recommendation"]["score"] > found["incumbent"]["score"]
    assert found["candidate_count"] == len(found["candidates"]) == 28
    assert found["weights"] == {"throughput": 1.0, "queue": 1.0, "loss": 1.0}
    for one in found["candidates"]:
        terms = one["terms"]
        assert one["score_normalised"] == pytest.approx(terms["throughput"] - terms["queue"] - terms["loss"])
        assert one["score"] == pytest.approx(sum(one["gain"].values()))
    assert {"incumbent", "drawn", "narrowed"} <= {one["origin"] for one in found["candidates"]}
    assert all(one["slowdown"].keys() == {"all", "mice", "medium", "elephant"} for one in found["candidates"])
    assert sum(found["flows"].values()) == 3
    assert found["why"].startswith("Kmin ")
    assert (
        found["lambda"]
        == {"mouse": 0.8, "potential_elephant": 1.25, "elephant": 1.5}[found["dominant_class"]]
    )
    assert found["measured"]["queue_mean_bytes"] > 0
    assert found["seed"] == 1


async def test_flows_of_hosts_that_the_topology_lacks_are_told(here: Running) -> None:
    assert not any("declared topology" in note for note in (await here.post("/v1/tune"))["notes"])
    strange = [one | {"flow": one["flow"] | {"src": "10.9.9.9"}} for one in traffic(300, first=900)[::3]]
    assert (await here.post_reports(strange))["rejected"] == 0
    (told,) = [note for note in (await here.post("/v1/tune"))["notes"] if "declared topology" in note]
    assert told.startswith("The hosts of 1 of 4 flows are not in the declared topology, such as 10.9.9.9: ")
    async with running() as discovered:
        await discovered.post_reports(strange)
        assert not any("declared" in note for note in (await discovered.post("/v1/tune"))["notes"])


async def test_a_second_opinion_is_told_everywhere() -> None:
    search = replace(SMALL, second_engine=f"{HERE}:LongerQueuesEngine")
    async with running(Wanted(search=search)) as here:
        await here.post_reports(traffic())
        assert math.isnan(here.metric("ecntwin_engine_disagreement_ratio") or 0.0)
        found = await here.post("/v1/tune")
        opinion = found["second_opinion"]
        assert opinion["engine"] == f"{HERE}:LongerQueuesEngine"
        assert len(opinion["candidates"]) == 5
        now = opinion["candidates"][0]
        assert now["first"]["kmin_bytes"] == now["second"]["kmin_bytes"] == 400_000
        assert now["second"]["queue_mean_bytes"] > 1.5 * now["first"]["queue_mean_bytes"]
        assert opinion["disagrees"]
        assert opinion["sentence"]
        assert 0.5 < opinion["disagreement_ratio"] < 0.6
        assert here.metric("ecntwin_engine_disagreement_ratio") == opinion["disagreement_ratio"]
        picked = {key: found["improvement"]["best"][key] for key in ("kmin_bytes", "kmax_bytes", "pmax")}
        assert opinion["pick"] == picked
        assert "disagrees" in found["why"]
        assert not any("engines" in hold for hold in found["holds"])


async def test_engines_far_apart_hold_the_recommendation_back() -> None:
    search = replace(SMALL, second_engine=f"{HERE}:LongerQueuesEngine")
    settings = manual(tuning={"enabled": False, "disagreement_limit": 0.4})
    async with running(Wanted(settings=settings, search=search)) as here:
        await here.post_reports(traffic())
        found = await here.post("/v1/tune")
        assert found["changes"]
        assert any("the twin's engines disagree" in hold for hold in found["holds"])


async def test_without_a_second_opinion_there_is_none(here: Running) -> None:
    assert (await here.post("/v1/tune"))["second_opinion"] is None
    assert math.isnan(here.metric("ecntwin_engine_disagreement_ratio") or 0.0)


async def test_what_nics_would_add_comes_with_the_watermark_alone() -> None:
    search = replace(SMALL, engine=f"{CO_TUNED}:SendersMatter", what=("watermark", "nic"))
    async with running(Wanted(search=search)) as here:
        await here.post_reports(traffic())
        found = await here.post("/v1/tune")
        together = found["co_tuning"]
        assert together["recommended"]
        assert "cut interval" in together["sentence"]
        [cut] = [one for one in together["changes"] if one["kind"] == "nic"]
        assert (cut["name"], cut["unit"], cut["before"]) == ("cut interval", "µs", 50)
        assert 0.1 < cut["share"] < together["gain"]
        assert together["connectx"] == dict.fromkeys(
            ("rate_reduce_monitor_period", "min_time_between_cnps"), cut["after"]
        )
        assert together["sensitivities"][0]["name"] == "cut interval"
        staged = {key: found["staged"][key] for key in ("kmin_bytes", "kmax_bytes", "pmax")}
        assert staged == {key: found["recommendation"][key] for key in staged}
        listed = (await here.client.get(f"/v1/recommendations/{found['id']}")).json()
        assert listed["co_tuning"] == together


async def test_paths_of_elephants_come_with_the_watermark_alone() -> None:
    search = replace(SMALL, what=("watermark", "path"))
    async with running(Wanted(search=search)) as here:
        await here.post_reports(traffic())
        found = await here.post("/v1/tune")
        assert found["paths"]["collisions"] == []
        assert found["paths"]["sentence"]
        listed = (await here.client.get(f"/v1/recommendations/{found['id']}")).json()
        assert listed["paths"] == found["paths"]


async def test_a_round_is_kept_and_found_again(here: Running) -> None:
    found = await here.post("/v1/tune")
    assert (await here.client.get("/v1/recommendations/current")).json() == found
    assert (await here.client.get(f"/v1/recommendations/{found['id']}")).json() == found
    listed = (await here.client.get("/v1/recommendations")).json()
    assert listed == {"total": 1, "recommendations": [found | {"trajectories": None}], "next": None}
    short = (await here.client.get("/v1/recommendations?candidates=false")).json()
    assert short["recommendations"] == [found | {"candidates": [], "trajectories": None}]


async def test_many_rounds_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def some(connection: Connection, row_ids: Collection[str]) -> list[RoundRow]:
        asked.append(len(row_ids))
        return read(connection, row_ids)

    read = rounds.some
    monkeypatch.setattr(rounds, "some", some)
    storage = {"url": f"sqlite:///{tmp_path}/ecntwin.db"}
    async with running(Wanted(manual(tuning={"enabled": False, "keep": 1}, storage=storage))) as here:
        made = []
        for _ in range(40):
            made.append(here.service.store.add(changing(), 1.0, changed="load doubled").id)
            await here.service.recorder.flush()
        listed = await here.get("/v1/recommendations", limit=39, candidates=False)
        assert [one["id"] for one in listed["recommendations"]] == made[:0:-1]
        assert listed["next"] == made[1]
        assert (sum(asked), max(asked)) == (38, AT_ONCE)


async def test_rounds_with_candidates_are_listed_in_smaller_pages(here: Running) -> None:
    await here.post("/v1/tune")
    refused = await here.get("/v1/recommendations", 422, limit=MOST_WITH_CANDIDATES + 1)
    assert (refused["where"], refused["received"]) == ("query parameter 'limit'", "101")
    for without in ({"candidates": False}, {"fields": "id"}):
        found = await here.get("/v1/recommendations", limit=1_000, **without)
        assert len(found["recommendations"]) == 1
    found = await here.get("/v1/recommendations", limit=MOST_WITH_CANDIDATES, fields="candidates")
    assert found["recommendations"][0]["candidates"]


async def test_the_same_window_gives_the_same_answer(here: Running) -> None:
    first = await here.post("/v1/tune")
    await here.client.post(f"/v1/recommendations/{first['id']}/reject")  # it would be a candidate
    second = await here.post("/v1/tune")
    for key in ("recommendation", "candidates", "why", "seed"):
        assert first[key] == second[key]
    third = await here.post("/v1/tune")
    assert (third["id"], third["support"]["rounds"]) == (second["id"], 2)


async def test_approving_records_what_would_be_set_and_reads_it_back(here: Running) -> None:
    found = await here.post("/v1/tune")
    decided = (await here.client.post(f"/v1/recommendations/{found['id']}/approve")).json()
    assert (decided["status"], decided["decided_by"]) == ("approved", "local")
    (pushed,) = decided["pushed"]
    assert pushed["switch"] == "leaf1"
    assert not pushed["writes"]
    assert pushed["read_back"] == decided["staged"]
    assert f"+kmin_bytes: {found['recommendation']['kmin_bytes']}" in pushed["diff"]
    switch = (await here.client.get("/v1/switches/leaf1")).json()
    assert switch["adapter"] == "dry-run"
    assert switch["running"]["kmin_bytes"] == 400_000
    assert switch["records"][0]["watermark"] == decided["staged"]
    assert here.metric("ecntwin_rollouts_total", outcome="done") == 1
    rollout = (await here.client.get(f"/v1/rollouts/{decided['rollout']}")).json()
    assert (rollout["phase"], rollout["recommendation"]) == ("done", found["id"])


async def test_rejecting_sets_nothing(here: Running) -> None:
    found = await here.post("/v1/tune")
    decided = (await here.client.post(f"/v1/recommendations/{found['id']}/reject")).json()
    assert (decided["status"], decided["pushed"]) == ("rejected", [])
    assert (await here.client.get("/v1/switches/leaf1")).json()["records"] == []


@pytest.mark.parametrize("first", ["approve", "reject"])
@pytest.mark.parametrize("second", ["approve", "reject"])
async def test_a_decision_stands(here: Running, first: str, second: str) -> None:
    at = f"/v1/recommendations/{(await here.post('/v1/tune'))['id']}"
    assert (await here.client.post(f"{at}/{first}")).status_code == 200
    again = await here.post(f"{at}/{second}", status=409)
    assert DECIDED[first] in again["rule"]


@pytest.mark.parametrize("path", ["", "/approve", "/reject"])
async def test_an_unknown_recommendation_is_a_404(here: Running, path: str) -> None:
    answer = await here.client.request("POST" if path else "GET", f"/v1/recommendations/none{path}")
    assert answer.status_code == 404
    assert "'none'" in answer.json()["where"]
    assert "storage.keep_recommendations" in answer.json()["rule"]


@pytest.mark.parametrize("decision", DECIDED)
async def test_what_is_in_the_database_alone_is_not_unknown(tmp_path: Path, decision: str) -> None:
    storage = {"url": f"sqlite:///{tmp_path}/ecntwin.db"}
    unsure = replace(keeping().recommendation, verdict=Verdict(VerdictKind.UNCALIBRATED, ""))
    async with running(Wanted(manual(tuning={"enabled": False, "keep": 1}, storage=storage))) as here:
        made = []
        for result in (keeping(), changing(), replace(keeping(), recommendation=unsure)):
            made.append(here.service.store.add(result, 1.0).id)  # what cannot tell leaves what waits
            await here.service.recorder.flush()
        kept, pending, _ = made
        for one, status, rule in (
            (kept, "kept", "it is kept; only a pending recommendation can be approved or rejected"),
            (pending, "pending", "only one of the newest 1 rounds (tuning.keep) can be approved or rejected"),
        ):
            assert (await here.get(f"/v1/recommendations/{one}"))["status"] == status
            assert (await here.post(f"/v1/recommendations/{one}/{decision}", status=409))["rule"] == rule


async def test_before_the_first_round_there_is_no_current_one(here: Running) -> None:
    answer = await here.get("/v1/recommendations/current", status=404)
    assert "POST /v1/tune" in answer["remedy"]


async def test_an_empty_or_stale_window_is_a_409() -> None:
    async with running() as here:
        empty = await here.post("/v1/tune", status=409)
        assert empty["where"] == "window"
        await here.post_reports(traffic())
        here.hand.now_s += 61
        stale = await here.post("/v1/tune", status=409)
        assert "61 s old" in stale["received"]
        standing = (await here.client.get("/v1/readiness")).json()
        assert any("61 s ago" in reason for reason in standing["reasons"])
        assert (standing["measured"], standing["stale"]) == (True, True)


async def test_one_round_runs_at_a_time() -> None:
    gate = Gate()
    async with running(Wanted(workers=gate)) as here:
        await here.post_reports(traffic())
        asked = [asyncio.ensure_future(here.client.post("/v1/tune")) for _ in range(3)]
        refused = [await one for one in itertools.islice(asyncio.as_completed(asked), 2)]
        assert [answer.status_code for answer in refused] == [409, 409]
        gate.open.set()
        answers = await asyncio.gather(*asked)
        assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
        assert here.metric("ecntwin_rounds_total", outcome="recommended") == 1


async def test_listeners_follow_a_round_and_the_decision(here: Running) -> None:
    with here.service.events.listen() as queue:
        found = await here.post("/v1/tune")
        await here.client.post(f"/v1/recommendations/{found['id']}/reject")
        heard = []
        while not queue.empty():
            event = queue.get_nowait()
            assert event is not None
            if event.kind in ("round", "recommendation", "decision"):
                heard.append((event.kind, event.data.get("stage") or event.data.get("status")))
    assert heard[0] == ("round", "started")
    assert ("round", "window 1") in heard
    assert heard[-3:] == [("round", "finished"), ("recommendation", "pending"), ("decision", "rejected")]


async def test_a_round_that_gains_too_little_keeps_what_runs(here: Running) -> None:
    settings = SMALL
    async with running(Wanted(search=replace(settings, margin=100.0))) as modest:
        await modest.post_reports(traffic())
        found = await modest.post("/v1/tune")
        assert not found["changes"]
        assert found["status"] == "kept"
        assert found["recommendation"] == found["incumbent"]
        await modest.post("/v1/tune")
        assert (await modest.client.get("/v1/recommendations")).json()["total"] == 1
        assert modest.metric("ecntwin_rounds_total", outcome="kept") == 2
        refused = await modest.client.post(f"/v1/recommendations/{found['id']}/approve")
        assert refused.status_code in (404, 409)


@pytest.mark.parametrize("engine", ["RaisingEngine", "DivergingEngine"])
async def test_a_failing_round_is_told_and_the_service_goes_on(engine: str) -> None:
    broken = replace(SMALL, engine=f"{HERE}:{engine}")
    async with running(Wanted(search=broken)) as here:
        await here.post_reports(traffic())
        answer = await here.client.post("/v1/tune")
        assert answer.status_code == 503
        assert "Traceback" not in answer.text
        assert here.metric("ecntwin_rounds_total", outcome="failed") == 1
        assert here.metric("ecntwin_round_running") == 0
        standing = (await here.client.get("/v1/readiness")).json()
        assert (standing["ready"], standing["advice"]) == (False, None)
        assert not standing["stale"]  # a round may be asked for again
        here.hand.now_s += 7
        standing = (await here.client.get("/v1/readiness")).json()
        assert "last round failed 7 s ago: " in standing["reasons"][0]
        assert (await here.client.get("/readyz")).status_code == 200
        assert (await here.client.get("/healthz")).status_code == 200
        assert (await here.post_reports(traffic(10, first=900)))["accepted"] == 10
        # What failed for another topology says nothing of the one declared now.
        assert (await here.client.put("/v1/topology", json=TOPOLOGY)).status_code == 200
        assert (await here.client.get("/v1/readiness")).json()["ready"]


class Writing(DryRunAdapter):
    """Stands for an adapter that touches its device."""

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="writing", writes=True)


class Forgetful(Writing):
    """Reads back something else than was applied."""

    def verify(self, change: StagedChange) -> Reading:
        raise ReadBackError(
            f"switch {self.switch!r}", "what ran before", f"it must run {change.after}", "look at it"
        )


LENIENT = manual(
    push={"adapter": "other"},
    tuning={"enabled": False, "residual_limit": 1e9},
    rollout={"soak_s": 0, "batch_soak_s": 0},
)


def adapters(kind: type[DryRunAdapter]) -> AdapterRegistry:
    registry = AdapterRegistry()
    registry.register("other", kind)
    return registry


async def test_a_change_that_does_not_take_is_rolled_back_and_says_why() -> None:
    async with running(Wanted(settings=LENIENT, adapters=adapters(Forgetful))) as here:
        await here.post_reports(traffic())
        at = f"/v1/recommendations/{(await here.post('/v1/tune'))['id']}"
        decided = await here.post(f"{at}/approve")
        assert (decided["status"], decided["decided_by"]) == ("rolled_back", "local")
        assert decided["pushed"] == []
        rollout = (await here.client.get(f"/v1/rollouts/{decided['rollout']}")).json()
        assert rollout["phase"] == "rolled_back"
        assert "look at it" in rollout["why"]
        assert [one["action"] for one in (await here.client.get("/v1/switches/leaf1")).json()["records"]] == [
            "undo",
            "set",
        ]
        assert here.metric("ecntwin_rollouts_total", outcome="rolled_back") == 1
        assert here.metric("ecntwin_switch_failures_total", adapter="writing", reason="read_back") == 1
        assert here.metric("ecntwin_switch_rollbacks_total", adapter="writing") == 1
        again = await here.post(f"{at}/approve", status=409)
        assert "rolled_back" in again["rule"]


async def test_a_twin_out_of_step_does_not_write_but_may_be_looked_at_dry() -> None:
    for kind, status in ((Writing, 409), (DryRunAdapter, 200)):
        strict = manual(push={"adapter": "other"}, tuning={"enabled": False, "residual_limit": 1.000001})
        async with running(Wanted(settings=strict, adapters=adapters(kind))) as here:
            await here.post_reports(traffic())
            found = await here.post("/v1/tune")
            assert "times the predicted one" in found["holds"][0]
            answer = await here.client.post(f"/v1/recommendations/{found['id']}/approve")
            assert answer.status_code == status


async def test_a_write_cools_down_before_the_next() -> None:
    async with running(Wanted(settings=LENIENT, adapters=adapters(Writing))) as here:
        await here.post_reports(traffic())
        first = await here.post("/v1/tune")
        assert first["holds"] == []
        assert (await here.client.post(f"/v1/recommendations/{first['id']}/approve")).status_code == 200
        notes = (await here.post("/v1/tune"))["notes"]
        assert any(note.startswith("Nearly all of this traffic is of before switches or") for note in notes)
        await here.goes_on()
        here.hand.now_s += 10
        second = await here.post("/v1/tune")
        assert "cools down until 00:17:10 UTC" in second["holds"][0]
        here.hand.now_s += 21
        assert (await here.post("/v1/tune"))["holds"] == []


async def test_a_step_limit_shortens_what_an_approval_sets() -> None:
    careful = manual(tuning={"enabled": False, "max_step": 1.5})
    async with running(Wanted(settings=careful)) as here:
        await here.post_reports(traffic())
        found = await here.post("/v1/tune")
        assert found["staged"]["kmin_bytes"] >= 400_000 / 1.5 - 1
        assert found["staged"] != {
            key: found["recommendation"][key] for key in ("kmin_bytes", "kmax_bytes", "pmax")
        }

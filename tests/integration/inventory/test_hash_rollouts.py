"""What a switch hashes by, read and set over HTTP: by a rollout that is journaled, watched and taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rollout.plan import Limits, RolloutPlan
from rollout.state import Phase
from tests.counterparts.switches.http_switch import PASSWORD, USER
from tests.counterparts.switches.nvue_switch import NvueSwitch
from tests.integration.service import TOPOLOGY, Running, Wanted, manual, running, traffic
from tests.unit.service.rollouts.world import until
from twin.watermark import Watermark

MARK = Watermark(400_000, 1_600_000, 0.2)
pytestmark = pytest.mark.anyio

HASH = "/v1/switches/leaf1/hash"


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> Iterator[NvueSwitch]:
    monkeypatch.setenv("NVUE_USER", USER)
    monkeypatch.setenv("NVUE_PASSWORD", PASSWORD)
    server = NvueSwitch(MARK)
    server.applied["system"]["forwarding"]["hash-seed"] = 50
    yield server
    assert server.unexpected == []
    server.close()


def seed(switch: NvueSwitch) -> int | None:
    found: int | None = switch.applied["system"]["forwarding"].get("hash-seed")
    return found


def wanted(switch: NvueSwitch, folder: Path, *, enabled: bool = True, **sections: Any) -> Wanted:
    leaf1 = {
        "platform": "nvue",
        "address": switch.url,
        "username": {"env": "NVUE_USER"},
        "password": {"env": "NVUE_PASSWORD"},
        "timeout_s": 60,
        "settle_s": 60,
    }
    inventory = folder / "inventory.yaml"
    inventory.write_text(
        json.dumps({"switches": {"leaf1": leaf1, "leaf2": {"platform": "dry-run"}}}), "utf-8"
    )
    return Wanted(
        settings=manual(
            push={"inventory": str(inventory), "enabled": enabled, "read_every_s": 3_600},
            storage={"url": f"sqlite:///{folder / 'here.db'}"},
            rollout={"soak_s": 0, "batch_soak_s": 0} | sections.pop("rollout", {}),
            alarms={"every_s": 3_600},
            **sections,
        )
    )


def without_depths(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for one in reports:
        del one["hops"][0]["queue_bytes"]
    return reports


async def posted(run: Running, value: str) -> dict[str, Any]:
    """The rollout, once it has ended."""
    answer = await run.post(HASH, {"value": value}, status=202)
    return await run.ended(answer["id"])


async def test_a_hash_is_set_by_a_rollout_and_taken_back(switch: NvueSwitch, tmp_path: Path) -> None:
    async with running(wanted(switch, tmp_path)) as run:
        shown = (await run.client.get(HASH)).json()
        assert (shown["setting"], shown["value"]) == ("system forwarding hash-seed", "50")
        found = await posted(run, "51")
        assert (found["phase"], seed(switch)) == ("done", 51)
        assert found["switches"] == found["hosts"] == []
        [one] = found["hashes"]
        assert (one["switch"], one["before"], one["target"], one["progress"]) == ("leaf1", "50", "51", "set")
        assert "+system forwarding hash-seed: 51" in one["diff"]
        assert (found["summary"]["switches"], found["summary"]["written"]) == (1, 1)
        assert [event["what"] for event in found["events"]] == [
            *("Proposed", "Approved", "HashStaged", "Applying", "Applied", "Verified", "Confirmed", "Checked")
        ]
        found = await run.rolled_back(found["id"])
        assert (found["phase"], seed(switch)) == ("rolled_back", 50)
        audit = (await run.client.get("/v1/audit")).json()["entries"]
        [entry] = [one for one in audit if one["what"] == "hash"]
        assert (entry["before"], entry["after"]["value"]) == ({"value": "50"}, "51")


async def test_a_switch_whose_reports_have_no_depths_is_watched_by_what_they_have(
    switch: NvueSwitch, tmp_path: Path
) -> None:
    watched = {"soak_s": 20, "measure_every_s": 0.001, "silence_s": 100}
    async with running(wanted(switch, tmp_path, rollout=watched)) as run:
        await run.client.put("/v1/topology", json=TOPOLOGY)
        await run.post_reports(without_depths(traffic()))
        begun = await run.post(HASH, {"value": "51"}, status=202)
        assert begun["before"]["queue_mean_bytes"] is None
        assert begun["before"]["throughput_bytes_per_s"] > 0
        rollout = run.service.rollouts.get(begun["id"])
        await until(lambda: rollout.state.phase is Phase.SOAK and rollout.mark is not None)
        run.hand.now_s += 21
        await run.post_reports(without_depths(traffic(first=2_000_000)))
        ended = await run.ended(begun["id"])
        assert (ended["phase"], ended["why"], seed(switch)) == ("done", None, 51)


async def test_a_switch_that_does_not_answer_is_a_502_as_the_openapi_document_says(
    switch: NvueSwitch, tmp_path: Path
) -> None:
    async with running(wanted(switch, tmp_path)) as run:
        switch.close()
        said = (await run.client.get("/openapi.json")).json()["paths"]["/v1/switches/{name}/hash"]
        for method, body in (("get", None), ("post", {"value": "51"})):
            answer = await run.client.request(method, HASH, json=body)
            assert answer.status_code == 502
            assert "502" in said[method]["responses"]


async def test_a_watermark_is_undone_whatever_a_later_rollout_hashes_by(
    switch: NvueSwitch, tmp_path: Path
) -> None:
    plan = RolloutPlan(
        id="r",
        recommendation="",
        targets={"leaf1": Watermark(50_000, 200_000, 0.05)},
        stages=(("leaf1",),),
        limits=Limits(soak_s=0.0),
        written=("leaf1",),
    )
    async with running(wanted(switch, tmp_path)) as run:
        before = deepcopy(switch.applied)
        await run.service.rollouts.start(plan, "ada")
        assert (await run.ended("r"))["phase"] == "done"
        assert switch.applied != before
        hashed = await posted(run, "51")
        for rollout in ("r", hashed["id"]):
            assert (await run.rolled_back(rollout))["phase"] == "rolled_back"
        assert switch.applied == before


async def test_without_push_enabled_nothing_is_set(switch: NvueSwitch, tmp_path: Path) -> None:
    async with running(wanted(switch, tmp_path, enabled=False)) as run:
        found = await posted(run, "51")
        assert (found["phase"], found["hashes"][0]["writes"], seed(switch)) == ("done", False, 50)
        assert "+system forwarding hash-seed: 51" in found["hashes"][0]["diff"]
        assert [asked.method for asked in switch.asked if asked.method != "GET"] == []


async def test_what_others_set_meanwhile_is_left_alone(switch: NvueSwitch, tmp_path: Path) -> None:
    async with running(wanted(switch, tmp_path)) as run:
        found = await posted(run, "51")
        switch.applied["system"]["forwarding"]["hash-seed"] = 99
        await run.client.post(f"/v1/rollouts/{found['id']}/rollback")
        found = await run.ended(found["id"])
        assert (found["hashes"][0]["progress"], seed(switch)) == ("left_alone", 99)
        assert found["summary"]["left_alone"] == ["leaf1"]


async def test_a_rollout_that_a_stop_cut_short_is_known_to_the_next_service(
    switch: NvueSwitch, tmp_path: Path
) -> None:
    async with running(wanted(switch, tmp_path)) as run:
        done = await posted(run, "51")
    async with running(wanted(switch, tmp_path)) as run:
        found = (await run.client.get(f"/v1/rollouts/{done['id']}")).json()
        assert found["hashes"] == done["hashes"]
        await run.client.post(f"/v1/rollouts/{done['id']}/rollback")
        assert (await run.ended(done["id"]))["phase"] == "rolled_back"
        assert seed(switch) == 50


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        (HASH, {"value": "4294967296"}, 422, "name one of those"),
        (HASH, {"value": 51}, 422, "string"),
        (HASH, {}, 422, "value"),
        ("/v1/switches/leaf2/hash", {"value": "1"}, 422, "no adapter reads or sets"),
        ("/v1/switches/leaf9/hash", {"value": "1"}, 404, "not found"),
    ],
)
async def test_what_cannot_be_set_is_refused(
    switch: NvueSwitch, tmp_path: Path, path: str, body: object, status: int, says: str
) -> None:
    async with running(wanted(switch, tmp_path)) as run:
        answer = await run.client.post(path, json=body)
        assert (answer.status_code, seed(switch)) == (status, 50), answer.text
        assert says in answer.text
        assert (await run.client.get("/v1/rollouts")).json()["total"] == 0


async def test_a_freeze_holds_it_back(switch: NvueSwitch, tmp_path: Path) -> None:
    async with running(wanted(switch, tmp_path)) as run:
        await run.client.put("/v1/freeze", json={"frozen": True})
        answer = await run.client.post(HASH, json={"value": "51"})
        assert (answer.status_code, seed(switch)) == (409, 50)
        assert "frozen" in answer.text

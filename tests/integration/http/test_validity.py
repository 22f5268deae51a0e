"""What may not be approved: wrong advice expires, what has to wait is blocked, both with a reason."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from switches.base import QueueWatermark, Reading, StagedChange
from tests.integration.http.test_rollouts import FOREIGN, TUNING, Fleet, Here, started
from tests.integration.service import TOPOLOGY, traffic
from tests.unit.service.rollouts.world import Switch, away
from tests.unit.service.tuning.rounds import keeping

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

INCUMBENT = {"kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}


class DryRun(Switch):
    """Is read like any, and written by nobody."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.writes = False

    def apply(self, change: StagedChange) -> None:
        self._step("apply")

    def verify(self, change: StagedChange) -> Reading:
        return Reading.of(self.switch, [QueueWatermark("e0", 3, change.after)], 7)


@pytest.fixture(params=["written", "dry run"])
async def here(request: pytest.FixtureRequest) -> AsyncIterator[Here]:
    fleet = Fleet({} if request.param == "written" else {"leaf1": DryRun("leaf1")})
    async with started(fleet) as made:
        await made.feed()
        yield made


async def declared(here: Here, before: str, after: str) -> None:
    topology = json.loads(json.dumps(TOPOLOGY).replace(before, after))
    assert (await here.client.put("/v1/topology", json=topology)).status_code == 200


async def stale(here: Here) -> None:
    here.hand.now_s += 61


async def frozen(here: Here) -> None:
    await here.freeze(True)


async def set_by_hand(here: Here) -> None:
    here.switches["leaf1"].running = FOREIGN


async def renamed(here: Here) -> None:
    await declared(here, "leaf1", "torX")


async def unreachable(here: Here) -> None:
    here.switches["leaf1"].meets["read"] = [away("leaf1") for _ in range(9)]
    await here.get("/v1/switches")


async def newer(here: Here) -> None:
    await here.tuned()


CASES = {
    stale: ("expired", "No INT report came for 61 s, longer than 60 s"),
    frozen: ("pending", "Switches are frozen by local"),
    set_by_hand: (
        "expired",
        "leaf1 now runs Kmin 800 KB, Kmax 3.2 MB, Pmax 10 %, and it was made for Kmin 400 KB",
    ),
    renamed: ("expired", "leaf1 is not in the topology declared since"),
    unreachable: ("pending", "leaf1 cannot be read (leaf1: received no answer"),
    newer: ("superseded", "it is superseded"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_what_is_no_longer_good_is_not_approved(
    here: Here, case: Callable[[Here], Awaitable[None]]
) -> None:
    at = await here.tuned()
    before = await here.get(at)
    assert (before["status"], before["expired"], before["blocked"]) == ("pending", None, [])
    await case(here)
    status, reason = CASES[case]
    problem = await here.refused(f"{at}/approve")
    assert reason in problem["rule"]
    after = await here.get(at)
    assert after["status"] == status
    if status == "expired":
        assert problem["rule"] == f"it is expired: {after['expired']['reason'].removesuffix('.')}"
        assert after["expired"]["at"] >= after["created"]
        assert (await here.get("/v1/recommendations/current"))["id"] == after["id"], "its reason is seen"
    elif status == "pending":
        (block,) = after["blocked"]
        assert f"{problem['rule']}." == f"it is blocked: {block['reason']}"
    assert "apply" not in here.switches["leaf1"].calls
    assert (await here.get("/v1/rollouts"))["total"] == 0


async def test_what_a_replaced_topology_ends_is_told_at_once_and_what_it_leaves_goes_on(here: Here) -> None:
    at = await here.tuned()
    await declared(here, "h3", "h9")
    assert (await here.get(at))["status"] == "pending"
    await declared(here, "leaf1", "torX")
    assert here.service.store.get(at.rpartition("/")[2]).status == "expired"


async def test_without_reports_of_the_declared_fabric_nothing_is_approved_or_said_to_be_ready(
    here: Here,
) -> None:
    at = await here.tuned()
    assert (await here.get("/v1/readiness"))["ready"]
    await declared(here, "Ethernet3", "Ethernet9")  # h3's, whose reports the window holds
    standing = await here.get("/v1/readiness")
    assert (standing["ready"], standing["measured"], standing["window"]["held_s"]) == (False, False, 0)
    (reason,) = standing["reasons"]
    assert reason.startswith("No INT report has come since the topology was declared; ")
    (block,) = (await here.get(at))["blocked"]
    assert block["reason"] == "No INT report has come since the topology was declared."
    assert block["reason"].removesuffix(".") in (await here.refused(f"{at}/approve"))["rule"]
    assert "another topology was declared" in (await here.get("/v1/state", 409))["rule"]
    assert not await here.service.condition.measure()
    unknown = "Unknown: no INT report has come since the topology was declared."
    assert (await here.get("/v1/condition"))["sentence"] == unknown
    await here.post_reports([one for one in traffic() if one["hops"][0]["ingress_port"] == "Ethernet3"])
    (block,) = (await here.get(at))["blocked"]
    assert block["reason"] == (
        "All 300 INT reports that came since the topology was declared were rejected: they name a switch or "
        "port that the declared topology lacks."
    )
    (reason,) = (await here.get("/v1/readiness"))["reasons"]
    assert reason == f"{block['reason'].removesuffix('.')}; {block['remedy']}."
    await here.post_reports([one for one in traffic() if one["hops"][0]["ingress_port"] != "Ethernet3"])
    assert (await here.get("/v1/readiness"))["ready"]
    assert (await here.get(at))["blocked"] == []
    assert (await here.post(f"{at}/approve"))["status"] == "approved"


@pytest.mark.parametrize(
    "body",
    [
        {"incumbent": None, "Incumbent": INCUMBENT | {"pmax": 0.3}},
        {"part": ["watermark", "nic"]},
        {"together": {"watermark": INCUMBENT, "byRole": {}}},
    ],
    ids=lambda body: list(body)[-1],
)
async def test_a_precondition_that_is_misspelt_approves_nothing(here: Here, body: dict[str, Any]) -> None:
    at = await here.tuned()
    problem = await here.post(f"{at}/approve", body, status=422)
    assert "the key is not known here" in problem["rule"]
    assert (await here.get(at))["status"] == "pending"
    assert "apply" not in here.switches["leaf1"].calls


async def test_values_that_are_told_and_not_among_the_parts_approve_nothing(here: Here) -> None:
    at = await here.tuned()
    problem = await here.post(f"{at}/approve", {"together": {"watermark": INCUMBENT}}, status=422)
    assert "name them in parts" in problem["rule"]
    assert (await here.get(at))["status"] == "pending"


async def test_after_a_rollback_what_was_made_for_the_change_is_over() -> None:
    async with started() as here:
        await here.feed()
        decided = await here.approved()
        await here.goes_on()
        at = await here.tuned()
        await here.rolled_back(decided["rollout"])
        shown = await here.get(at)
        assert (shown["status"], "and it was made for" in shown["expired"]["reason"]) == ("expired", True)
        assert "it is expired" in (await here.refused(f"{at}/approve"))["rule"]
        assert "it is expired" in (await here.refused(f"{at}/reject"))["rule"]
        await here.goes_on()
        again = await here.get(await here.tuned())
        assert {name: again["incumbent"][name] for name in INCUMBENT} == INCUMBENT


async def test_what_only_waits_may_be_approved_afterwards(here: Here) -> None:
    at = await here.tuned()
    await frozen(here)
    [block] = (await here.get(at))["blocked"]
    assert block == {
        "reason": "Switches are frozen by local.",
        "remedy": "thaw them first (ecntwin thaw)",
        "until": None,
    }
    await here.freeze(False)
    assert (await here.get(at))["blocked"] == []
    assert (await here.post(f"{at}/approve"))["status"] == "approved"


async def test_policy_asks_the_same() -> None:
    async with started(rollout={"auto": True}) as auto:
        await auto.feed()
        await auto.freeze(True)
        found = await auto.post("/v1/tune")
        assert (found["status"], len(found["blocked"])) == ("pending", 1)


async def test_listeners_hear_what_ends_and_what_blocks(here: Here) -> None:
    before = await here.tuned()
    validity = here.service.validity
    with here.service.events.listen() as queue:
        await frozen(here)
        validity.review()
        await here.freeze(False)
        validity.review()
        at = await here.tuned()  # nothing is to be told of it
        validity.review()
        await stale(here)
        validity.review()
        heard = []
        while not queue.empty():
            event = queue.get_nowait()
            if event is not None and event.kind == "validity":
                heard.append(event.data)
    frozen_ = "Switches are frozen by local."
    assert [(one["id"], one["status"], one["blocked"]) for one in heard] == [
        (before.rpartition("/")[2], "pending", [frozen_]),
        (before.rpartition("/")[2], "pending", []),
        (at.rpartition("/")[2], "expired", []),
    ]
    assert heard[2]["expired"] == (await here.get(at))["expired"]["reason"]


async def test_a_restart_waits_for_telemetry_and_ends_what_is_outdated(tmp_path: Path) -> None:
    storage, fleet = {"url": f"sqlite:///{tmp_path}/memory.db"}, Fleet()
    async with started(fleet, storage=storage) as first:
        await first.feed()
        at = await first.tuned()
    async with started(fleet, storage=storage) as second:
        (block,) = (await second.get(at))["blocked"]
        assert block["reason"] == "No INT report has come yet."
        assert block["reason"].removesuffix(".") in (await second.refused(f"{at}/approve"))["rule"]
        second.hand.now_s += 61
        assert (await second.get(at))["status"] == "expired"
    async with started(fleet, storage=storage) as third:
        assert "No INT report came" in (await third.get(at))["expired"]["reason"]


async def test_an_approval_names_what_it_replaces(here: Here) -> None:
    at = await here.tuned()
    client = here.client
    tag = (await client.get(at)).headers["ETag"]
    assert (await client.get("/v1/recommendations/current")).headers["ETag"] == tag
    other = await client.post(f"{at}/approve", json={"incumbent": INCUMBENT | {"pmax": 0.3}})
    assert other.status_code == 409
    assert "what runs now is Kmin 400 KB, Kmax 1.6 MB, Pmax 20 %" in other.json()["rule"]
    stranger = await client.post(f"{at}/approve", headers={"If-Match": '"another"'})
    assert stranger.status_code == 412
    assert tag.removeprefix("W/").rpartition(".")[0] in stranger.json()["rule"]
    current = "/v1/recommendations/current/approve"
    for headers in ({}, {"If-Match": "*"}):
        blind = await client.post(current, headers=headers)
        assert blind.status_code == 428
        assert at.rpartition("/")[2] in blind.json()["remedy"]
    assert (await here.get(at))["status"] == "pending"
    seen = await client.post(current, json={"incumbent": INCUMBENT}, headers={"If-Match": f'"x", {tag}'})
    assert (seen.status_code, seen.json()["status"]) == (200, "approved")


async def test_a_gate_is_told_with_the_time_it_opens() -> None:
    async with started(tuning=TUNING | {"cool_down_s": 60}) as here:
        await here.feed()
        await here.approved()
        await here.goes_on()
        found = await here.post("/v1/tune")
        (block,) = found["blocked"]
        assert block["until"] == "2026-01-01T00:17:40.000Z"
        assert "until 00:17:40 UTC" in block["reason"]


async def test_a_later_round_that_finds_the_twin_out_of_step_holds_what_waits() -> None:
    async with started() as here:
        await here.feed()
        at = await here.tuned()
        unsure = keeping().recommendation
        here.service.validity.gate.round_ended(unsure, 1e12, age_s=0.0)
        (hold,) = (await here.get(at))["holds"]
        assert hold.startswith("Held: the measured queue is 0.00 times the predicted one")
        assert hold.removesuffix(".") in (await here.refused(f"{at}/approve"))["rule"]
        here.service.validity.gate.round_ended(unsure, 0.0, age_s=0.0)
        assert (await here.post(f"{at}/approve"))["status"] == "approved"


async def test_what_a_round_finds_on_reports_that_came_behind_the_newest_is_held() -> None:
    def ahead(first: int) -> list[dict[str, Any]]:
        """Of a sink whose clock is three seconds ahead; the window's end follows it."""
        return [one | {"ts_ns": one["ts_ns"] + 3_000_000_000} for one in traffic(20, first=first)]

    async with started() as here:
        await here.feed()
        await here.post_reports(ahead(900))
        await here.tuned()  # what came before the clock's step lay behind nothing
        await here.post_reports(traffic(300, first=1_000))
        found = await here.post("/v1/tune")
        (hold,) = found["holds"]
        assert hold.startswith("Held: 100 % of the INT reports since the last round were seconds behind")
        problem = await here.refused(f"/v1/recommendations/{found['id']}/approve")
        assert hold.removesuffix(".") in problem["rule"]
        await here.post_reports(ahead(1_300))
        assert (await here.post("/v1/tune"))["holds"] == []

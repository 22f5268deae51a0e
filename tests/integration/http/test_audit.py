"""Every change is written down with who, from where, what it was and is; refusals too; nothing without it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from service.rollouts.notify import GUARD
from service.tuning.approvals import POLICY
from settings.errors import UnavailableError
from switches.errors import ReadBackError
from tests.integration.http.test_rollouts import started
from tests.integration.service import PATIENCE_S, SETTLED, TOPOLOGY, Running, Wanted, manual, running, traffic

pytestmark = pytest.mark.anyio

SCOPES = ("telemetry", "read", "operate", "admin")
TOKENS = [
    {"name": scope, "sha256": sha256(scope.encode()).hexdigest(), "scopes": sorted({scope, "read"})}
    for scope in SCOPES
]


def as_(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Running]:
    settings = manual(
        security={"tokens": TOKENS},
        storage={"url": f"sqlite:///{tmp_path}/ecntwin.db"},
        push={"read_every_s": 60},
    )
    async with running(Wanted(settings=settings)) as started:
        yield started


async def entries(here: Running, **query: int) -> list[dict[str, Any]]:
    answer = await here.client.get("/v1/audit", params=query, headers=as_("admin"))
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


async def recommended(here: Running) -> str:
    """A recommendation that waits."""
    await here.client.put("/v1/topology", json=TOPOLOGY, headers=as_("admin"))
    here.client.headers.update(as_("telemetry"))
    await here.post_reports(traffic())
    del here.client.headers["Authorization"]
    answer = await here.post("/v1/tune", headers=as_("operate"))
    return str(answer["id"])


async def test_a_change_is_written_down_with_what_was_and_what_is(here: Running) -> None:
    for frozen in (True, False):
        await here.client.put("/v1/freeze", json={"frozen": frozen}, headers=as_("operate"))
    await here.client.put("/v1/topology", json=TOPOLOGY, headers=as_("admin"))
    topology, thaw, freeze = await entries(here)
    assert (freeze["who"], freeze["address"]) == ("operate", "127.0.0.1")
    assert (freeze["what"], freeze["outcome"]) == ("freeze", "done")
    assert (freeze["before"]["frozen"], freeze["after"]["frozen"]) == (False, True)
    assert (thaw["what"], thaw["before"]["by"], thaw["after"]["frozen"]) == ("thaw", "operate", False)
    assert (topology["who"], topology["before"]) == ("admin", None)
    assert [one["name"] for one in topology["after"]["switches"]] == ["leaf1"]


async def test_a_topology_that_is_declared_again_is_not_kept_again(here: Running) -> None:
    for links in (TOPOLOGY["links"], TOPOLOGY["links"], TOPOLOGY["links"][:3]):
        declared = {**TOPOLOGY, "hosts": TOPOLOGY["hosts"][: len(links)], "links": links}
        await here.client.put("/v1/topology", json=declared, headers=as_("admin"))
    third, second, first = await entries(here)
    assert [len(one["after"]["links"]) for one in (third, first)] == [3, 4]
    assert len(third["before"]["links"]) == 4
    assert (second["before"], second["after"], second["outcome"]) == (None, None, "done")


async def test_the_life_of_a_recommendation(here: Running) -> None:
    named = await recommended(here)
    rollout = (await here.post(f"/v1/recommendations/{named}/approve", headers=as_("operate")))["rollout"]
    again = await here.client.post(f"/v1/recommendations/{named}/reject", headers=as_("operate"))
    assert again.status_code == 409
    await here.client.post(f"/v1/rollouts/{rollout}/rollback", headers=as_("operate"))
    undone, rejected, approval, tuned, _ = await entries(here)
    assert (tuned["what"], tuned["after"]["recommendation"]) == ("tune", named)
    assert (approval["what"], approval["subject"], approval["outcome"]) == ("approve", named, "done")
    assert approval["after"]["rollout"] == rollout
    assert approval["after"]["watermark"] != approval["before"]["watermark"]
    assert set(approval["after"]["watermark"]) == {"kmin_bytes", "kmax_bytes", "pmax"}
    assert rejected["what"] == "reject"
    assert rejected["outcome"].startswith("refused (409): ")
    assert (undone["what"], undone["subject"]) == ("rollback", rollout)


async def test_whoever_may_not_is_written_down_and_not_too_often(here: Running) -> None:
    for _ in range(100):
        answer = await here.client.put("/v1/freeze", json={"frozen": True}, headers=as_("read"))
        assert answer.status_code == 403
    await here.client.get("/v1/telemetry/udp", headers=as_("read"))
    found = await entries(here, limit=200)
    assert len(found) == 60
    assert {(one["who"], one["subject"]) for one in found} == {("read", "/v1/freeze")}
    assert all(one["outcome"].startswith("refused (403): ") for one in found)


async def test_what_is_not_found_is_refused_too(here: Running) -> None:
    await here.client.post("/v1/switches/nothing/adopt", headers=as_("operate"))
    await here.client.put("/v1/topology", json={"hosts": 3}, headers=as_("admin"))
    topology, adopted = await entries(here)
    assert adopted["outcome"].startswith("refused (404): ")
    assert topology["outcome"].startswith("refused (422): ")


async def test_pages(here: Running) -> None:
    for _ in range(5):
        await here.client.put("/v1/freeze", json={"frozen": True}, headers=as_("operate"))
    everything = await entries(here)
    first = await entries(here, limit=2)
    second = await entries(here, limit=2, before=first[-1]["number"])
    assert first + second == everything[:4]
    assert await entries(here, before=everything[-1]["number"]) == []


async def test_with_the_database_gone_nothing_is_changed_but_what_may_always_be(
    here: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = await recommended(here)
    database = here.service.database
    written = database.write

    async def gone(transaction: Any) -> Any:
        raise UnavailableError("database", "nothing", "it answers", "bring it back")

    monkeypatch.setattr(database, "write", gone)
    calls: Sequence[tuple[str, str, Any]] = [
        ("POST", f"/v1/recommendations/{named}/approve", None),
        ("POST", f"/v1/recommendations/{named}/reject", None),
        ("PUT", "/v1/topology", TOPOLOGY),
        ("POST", "/v1/switches/leaf1/adopt", None),
        ("PUT", "/v1/freeze", {"frozen": False}),
    ]
    for method, path, body in calls:
        token = "admin" if path.endswith("topology") else "operate"
        answer = await here.client.request(method, path, json=body, headers=as_(token))
        assert answer.status_code == 503, (path, answer.text)
    assert (await here.client.post("/v1/tune", headers=as_("operate"))).status_code == 200, "advice goes on"
    await here.client.put("/v1/freeze", json={"frozen": True}, headers=as_("operate"))
    assert (await here.client.get("/v1/freeze", headers=as_("read"))).json()["frozen"], (
        "it holds all the same"
    )
    monkeypatch.setattr(database, "write", written)
    frozen, tuned, *_ = await entries(here)
    assert (tuned["what"], tuned["outcome"]) == ("tune", "done")
    assert frozen["what"] == "freeze"
    assert frozen["outcome"].startswith("failed (503): ")


async def test_a_freeze_waits_for_no_database_that_hangs(here: Running) -> None:
    held, service = threading.Event(), here.service
    hanging = asyncio.create_task(service.database.write(lambda connection: held.wait(2 * PATIENCE_S)))
    asking = asyncio.create_task(here.client.put("/v1/freeze", json={"frozen": True}, headers=as_("operate")))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not service.rollouts.freeze.frozen:  # noqa: ASYNC110 # nobody tells
                await asyncio.sleep(0.02)
        assert not hanging.done()
    finally:
        held.set()
    assert (await asking).status_code == 200
    assert [(one["what"], one["outcome"]) for one in await entries(here)] == [("freeze", "done")]


async def test_what_policy_does_by_itself_is_written_down(tmp_path: Path) -> None:
    settings = manual(
        rollout={"auto": True},
        alarms=SETTLED,
        storage={"url": f"sqlite:///{tmp_path}/ecntwin.db"},
        tuning={"enabled": False, "residual_limit": 1e9, "cool_down_s": 0},
    )
    async with running(Wanted(settings=settings)) as here:
        await here.feed()
        await here.client.post("/v1/tune")
        found = (await here.client.get("/v1/audit")).json()["entries"]
    by_policy = [one for one in found if one["who"] == POLICY]
    assert [one["what"] for one in by_policy] == ["approve"]
    assert by_policy[0]["address"] is None
    assert by_policy[0]["outcome"] == "done"
    assert {one["who"] for one in found} == {POLICY, "local"}


async def test_what_is_old_is_forgotten(tmp_path: Path) -> None:
    storage = {"url": f"sqlite:///{tmp_path}/ecntwin.db", "keep_audit_days": 0.5}
    async with running(Wanted(settings=manual(storage=storage))) as here:
        for frozen in (True, False):
            await here.client.put("/v1/freeze", json={"frozen": frozen})
            here.hand.now_s += 40_000
        for left in (["thaw"], []):
            here.service.audit.forget()
            found = (await here.client.get("/v1/audit")).json()["entries"]
            assert [one["what"] for one in found] == left
            here.hand.now_s += 10_000


async def test_what_a_guard_takes_back_is_written_down_and_an_operators_word_once() -> None:
    async with started() as here:
        await here.feed()
        recommendation = await here.tuned()
        here.switches["leaf1"].meets["verify"] = [
            ReadBackError("leaf1", "another value", "it is ours", "look")
        ]
        failed = (await here.post(f"{recommendation}/approve"))["rollout"]
        assert (await here.ended(failed))["phase"] == "rolled_back"
        await here.goes_on()
        good = (await here.approved())["rollout"]
        await here.ended(good)
        await here.rolled_back(good)
        found = (await here.get("/v1/audit"))["entries"]
        undone = [one for one in found if one["what"] == "rollback"]
        assert [(one["who"], one["subject"]) for one in reversed(undone)] == [
            (GUARD.name, failed),
            ("local", good),
        ]
        assert undone[1]["outcome"].startswith("begun: ")

"""What a service remembers over a restart, and what it does while it cannot remember."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from store.tables import revisions
from tests.counterparts.postgres_server import PostgresServer
from tests.integration.service import PATIENCE_S, TOPOLOGY, Running, Wanted, manual, running, traffic

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

OTHER = {**TOPOLOGY, "hosts": [*TOPOLOGY["hosts"], {"name": "h9", "ip": "10.0.0.9"}]}
OTHER["links"] = [
    *TOPOLOGY["links"],
    {"a": "h9", "b": "leaf1", "b_port": "Ethernet9", "rate_gbps": 100, "delay_us": 1},
]

SCOPES = ["admin", "operate", "read", "telemetry"]
TOKEN = {"name": "ada", "sha256": sha256(b"secret").hexdigest(), "scopes": SCOPES}


@pytest.fixture(autouse=True)
def _waits_for_the_last_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL may notice late that the service before has ended, and hold its lock until then."""
    monkeypatch.setattr("store.connection._TRIES", round(10 * PATIENCE_S))


def over(url: str, **sections: Any) -> Any:
    return running(Wanted(settings=manual(storage={"url": url}, **sections)))


async def tuned(here: Running) -> dict[str, Any]:
    await here.post_reports(traffic())
    return await here.post("/v1/tune")


async def eventually(here: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await here():  # noqa: ASYNC110 # it is asked over HTTP
            await asyncio.sleep(0.02)


async def test_a_restarted_service_knows_topology_rounds_decisions_and_rollouts(database_url: str) -> None:
    async with over(database_url) as first:
        assert (await first.client.put("/v1/topology", json=TOPOLOGY)).status_code == 200
        rejected = await tuned(first)
        await first.client.post(f"/v1/recommendations/{rejected['id']}/reject")
        approved = await tuned(first)
        await first.client.post(f"/v1/recommendations/{approved['id']}/approve")
        await tuned(first)
        before = (await first.get("/v1/recommendations?limit=9"))["recommendations"]
        whole = await first.get(f"/v1/recommendations/{rejected['id']}")
        topology = (await first.get("/v1/topology"))["declared"]
        rollouts = await first.get("/v1/rollouts")
    async with over(database_url) as second:
        (blocked,) = (await second.get("/v1/recommendations/current"))["blocked"]
        assert blocked["reason"] == "No INT report has come yet."
        await second.post_reports(traffic())
        assert (await second.get("/v1/recommendations?limit=9"))["recommendations"] == before
        again = await second.get(f"/v1/recommendations/{rejected['id']}")
        assert again == whole
        assert len(again["candidates"]) == again["candidate_count"] > 0
        assert (again["status"], again["decided_by"]) == ("rejected", "local")
        assert (await second.get("/v1/topology"))["declared"] == topology
        assert await second.get("/v1/rollouts") == rollouts
        assert await second.get("/v1/recommendations/current")
        pending = before[0]["id"]
        answer = await second.client.post(f"/v1/recommendations/{pending}/approve")
        assert (answer.status_code, answer.json()["status"]) == (200, "approved")


async def test_what_a_caller_names_is_no_trouble_of_the_database(database_url: str) -> None:
    read = {"name": "eyes", "sha256": sha256(b"read").hexdigest(), "scopes": ["read"]}
    async with over(database_url, security={"tokens": [TOKEN, read]}) as here:
        here.client.headers["Authorization"] = "Bearer read"
        nobodys = "/v1/recommendations/a%00b"
        assert (await here.client.get(nobodys)).status_code == 404
        assert (await here.client.get("/v1/history/queues?switch=%00")).status_code == 200
        assert (await here.client.post(f"{nobodys}/reject")).status_code == 403  # written down soon
        here.client.headers["Authorization"] = "Bearer secret"
        assert (await here.client.post(f"{nobodys}/reject")).status_code == 404
        entries = (await here.get("/v1/audit"))["entries"]
        assert [one["outcome"][:13] for one in entries] == ["refused (404)", "refused (403)"]
        assert (here.service.database.failing, here.service.recorder.dropped) == (None, 0)


@pytest.mark.parametrize(("call", "status"), [("approve", "approved"), ("reject", "rejected")])
async def test_a_decision_that_was_answered_holds_though_the_service_was_killed_then(
    database_url: str, call: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with over(database_url) as first:
        await first.client.put("/v1/topology", json=TOPOLOGY)
        found = await tuned(first)
        await first.service.recorder.flush()
        # What may wait is never written: a kill comes first.
        monkeypatch.setattr(first.service.recorder, "put", lambda write, key=None, last=False: None)
        answer = await first.client.post(f"/v1/recommendations/{found['id']}/{call}")
        assert (answer.status_code, answer.json()["status"]) == (200, status)
    async with over(database_url) as second:
        again = await second.get(f"/v1/recommendations/{found['id']}")
        assert (again["status"], again["decided_by"]) == (status, "local")
        assert (await second.client.post(f"/v1/recommendations/{found['id']}/approve")).status_code == 409


async def test_the_topology_of_the_settings_gives_way_to_a_later_one_until_it_changes(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(TOPOLOGY), "utf-8")

    async def hosts(here: Running) -> int:
        return len((await here.get("/v1/topology"))["declared"]["hosts"])

    of_file = {"topology": file}
    async with over(database_url, fabric=of_file) as here:
        assert await hosts(here) == 4
        assert (await here.client.put("/v1/topology", json=OTHER)).status_code == 200
    async with over(database_url, fabric=of_file) as here:
        assert await hosts(here) == 5
        found = (await here.get("/v1/revisions?kind=topology"))["revisions"]
        assert [one["by"] for one in found] == ["local", "settings"]
        one = await here.get(f"/v1/revisions/{found[1]['number']}")
        assert len(json.loads(one["document"])["hosts"]) == 4
    file.write_text(
        json.dumps({**TOPOLOGY, "hosts": TOPOLOGY["hosts"][:4], "links": TOPOLOGY["links"]}), "utf-8"
    )
    async with over(database_url, fabric=of_file) as here:
        assert await hosts(here) == 5  # the file says what it said
    changed = {**TOPOLOGY, "links": [{**link, "rate_gbps": 400} for link in TOPOLOGY["links"]]}
    file.write_text(json.dumps(changed), "utf-8")
    async with over(database_url, fabric=of_file) as here:
        assert await hosts(here) == 4


async def test_without_its_database_it_advises_and_sets_nothing_and_goes_on_when_it_is_back(
    postgres: PostgresServer,
) -> None:
    url = postgres.url()
    async with over(url) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        known = await tuned(here)
        await here.client.post(f"/v1/recommendations/{known['id']}/reject")
        await asyncio.to_thread(postgres.stop)
        try:
            found = await tuned(here)
            assert found["status"] == "pending"
            approving = await here.client.post(f"/v1/recommendations/{found['id']}/approve")
            _says_it_is_away(approving)
            _says_it_is_away(await here.client.put("/v1/topology", json=OTHER))
            assert len((await here.get("/v1/topology"))["declared"]["hosts"]) == 4
            assert (await here.get(f"/v1/recommendations/{found['id']}"))["status"] == "pending"
            assert (await here.get("/v1/recommendations?limit=9"))["total"] == 2
        finally:
            await asyncio.to_thread(postgres.start)
        approving = await here.client.post(f"/v1/recommendations/{found['id']}/approve")
        assert approving.json()["status"] == "approved", approving.text
    async with over(url) as here:
        kept = (await here.get("/v1/recommendations?limit=9"))["recommendations"]
        assert [(one["id"], one["status"]) for one in kept] == [
            (found["id"], "approved"),
            (known["id"], "rejected"),
        ]


async def test_a_service_that_starts_without_its_database_takes_it_up_later(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.persistence.RETRY_EVERY_S", 0.05)
    url = postgres.url()
    async with over(url) as first:
        await first.client.put("/v1/topology", json=TOPOLOGY)
        old = await tuned(first)
        await first.client.post(f"/v1/recommendations/{old['id']}/approve")
        older = [await tuned(first), old]
    await asyncio.to_thread(postgres.stop)
    try:
        # Tokens of the settings: those in the database are not known yet.
        async with over(url, security={"tokens": [TOKEN]}) as here:
            here.client.headers["Authorization"] = "Bearer secret"
            here.hand.now_s += 100.0
            found = await tuned(here)
            _says_it_is_away(await here.client.post(f"/v1/recommendations/{found['id']}/approve"))
            assert (await here.client.get(f"/v1/recommendations/{old['id']}")).status_code == 503
            await asyncio.to_thread(postgres.start)

            async def remembers() -> bool:
                return (
                    await here.client.get(f"/v1/rollouts/{old['id']}")
                ).status_code == 200  # they come last

            await eventually(remembers)
            assert (await here.get("/v1/topology"))["declared"]
            assert (await here.get(f"/v1/recommendations/{old['id']}"))["status"] == "approved"
            listed = (await here.get("/v1/recommendations"))["recommendations"]
            assert [one["id"] for one in listed] == [one["id"] for one in (found, *older)]
            approving = await here.client.post(f"/v1/recommendations/{found['id']}/approve")
            assert approving.json()["status"] == "approved", approving.text
    finally:
        await asyncio.to_thread(postgres.stop)
        await asyncio.to_thread(postgres.start)


async def test_a_journal_that_cannot_be_read_is_not_taken_for_a_thaw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.persistence.RETRY_EVERY_S", 0.05)
    file = tmp_path / "ecntwin.db"
    async with over(f"sqlite:///{file}") as first:
        thawed = {"frozen": False, "by": None, "at": None, "unknown": None, "saved": True}
        assert await first.get("/v1/freeze") == thawed
        frozen = (await first.client.put("/v1/freeze", json={"frozen": True})).json()
    whole = file.read_bytes()
    with closing(sqlite3.connect(file)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'journal'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    file.write_bytes(whole[: size * (page - 1)] + bytes(size) + whole[size * page :])
    async with over(f"sqlite:///{file}") as here:
        told = await here.get("/v1/freeze")
        assert (told["frozen"], told["by"], told["at"]) == (True, None, None)
        assert "could not be read" in told["unknown"]
        assert here.metric("ecntwin_switches_frozen") == 1
        with file.open("r+b") as kept:  # never cut short: the service reads it meanwhile
            kept.write(whole)

        async def knows() -> bool:
            return bool(await here.get("/v1/freeze") == frozen)

        await eventually(knows)


async def test_a_freeze_made_while_the_database_is_away_outlasts_a_restart_once_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.rollouts.manager.PAUSE_S", 0.05)
    file, aside = tmp_path / "ecntwin.db", tmp_path / "aside.db"
    async with over(f"sqlite:///{file}") as first:
        file.rename(aside)
        _says_it_is_away(await first.client.put("/v1/freeze", json={"frozen": True}))
        frozen = await first.get("/v1/freeze")
        assert (frozen["frozen"], frozen["by"], frozen["saved"]) == (True, "local", False)
        aside.rename(file)

        async def saved() -> bool:
            return bool(await first.get("/v1/freeze") == frozen | {"saved": True})

        await eventually(saved)
    async with over(f"sqlite:///{file}") as second:
        assert await second.get("/v1/freeze") == frozen | {"saved": True}


def _says_it_is_away(answer: httpx.Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.json()["remedy"]
    assert "Traceback" not in answer.text


async def test_a_topology_that_an_earlier_version_took_and_this_one_does_not_is_left_aside(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with over(database_url) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        old = revisions.insert().values(
            kind="topology", at_ns=1, by="ada", sha256="x", document='{"cables":[]}'
        )
        await here.service.database.write(lambda connection: connection.execute(old))
    async with over(database_url) as here:
        assert (await here.get("/v1/topology"))["declared"] is None
        await here.client.put("/v1/topology", json=TOPOLOGY)
    assert "the topology that was declared last: received key 'cables'" in caplog.text

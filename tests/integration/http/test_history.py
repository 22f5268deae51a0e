"""What was, over HTTP: queues step by step, residuals, alarms over a restart, and what became of advice."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.documents.history import PastAlarmDocument, ResidualDocument, RolloutGainDocument
from service.history.service import QueueHistory
from store import gain_rows, lesson_rows, residual_rows
from store.alarm_rows import AlarmRow
from store.gain_rows import GainRow
from store.residual_rows import ResidualRow
from tests.integration.http.test_alarms import LOOKS, Port
from tests.integration.http.test_rollouts import TUNING, Fleet, started
from tests.integration.service import PATIENCE_S, TOPOLOGY, Running, Wanted, manual, report, running
from twin.advice.lessons import Lesson

pytestmark = pytest.mark.anyio

BEGAN = "2026-01-01T00:16:40.000Z"  # the clock of these tests, 1 000 s after the year began
S = 1_000_000_000


async def get(here: Running, path: str, status: int = 200, **query: Any) -> dict[str, Any]:
    return await here.get(path, status=status, **query)


@dataclass
class Traffic:
    """Reports of leaf1, ten seconds of which are posted, looked at and written down at a time."""

    here: Running
    sent: int = 0
    held: dict[str, int] = field(default_factory=dict)

    async def passes(self, times: int = 1, *, queue_bytes: int = 20_000, seconds: float = 10.0) -> None:
        for _ in range(times):
            self.here.hand.now_s += seconds
            reports = []
            for number in range(100):
                one = report(100 * round(self.here.hand.now_s * 1_000) + number, src=1 + number % 3)
                one["hops"][0]["queue_bytes"] = queue_bytes
                reports.append(one)
            await self.here.post_reports(reports)
            await self.looks()

    async def looks(self) -> None:
        await self.here.service.alarms.check()
        await self.here.service.history.queues.record()
        await self.here.service.recorder.flush()


@pytest.fixture(autouse=True)
def _written_by_the_tests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that the service writes by itself between two of a test would be one more."""

    async def never(history: QueueHistory) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(QueueHistory, "run_forever", never)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Running]:
    settings = manual(storage={"url": f"sqlite:///{tmp_path}/ecntwin.db"}, alarms=LOOKS)
    async with running(Wanted(settings=settings)) as made:
        await made.client.put("/v1/topology", json=TOPOLOGY)
        yield made


async def test_before_anything_was_seen_there_is_nothing(here: Running) -> None:
    found = await get(here, "/v1/history/queues")
    assert found == {"since": "2025-12-31T23:16:40.000Z", "until": BEGAN, "step_s": 10, "queues": []}
    assert await get(here, "/v1/history/residuals") == {"limit": 1.5, "residuals": []}
    assert await get(here, "/v1/history/alarms") == {"alarms": []}
    await get(here, "/v1/recommendations/nothing/outcome", 404)


async def test_queues_are_written_down_step_by_step(here: Running) -> None:
    traffic = Traffic(here)
    await traffic.passes(queue_bytes=20_000)
    await traffic.passes(queue_bytes=60_000)
    (queue,) = (await get(here, "/v1/history/queues"))["queues"]
    assert (queue["switch"], queue["port"]) == ("leaf1", "Ethernet0")
    assert queue["at"] == ["2026-01-01T00:16:50.000Z"]
    here.hand.now_s += 1  # until is not of it any more
    (queue,) = (await get(here, "/v1/history/queues"))["queues"]
    assert queue["at"] == ["2026-01-01T00:16:50.000Z", "2026-01-01T00:17:00.000Z"]
    assert queue["depth_max_bytes"] == [20_000, 60_000]
    for mean, most in zip(queue["depth_bytes"], queue["depth_max_bytes"], strict=True):
        assert 0 < mean <= most
    assert all(throughput > 0 for throughput in queue["throughput_bytes_per_s"])
    assert all(marks > 0 for marks in queue["marked_packets_per_s"])
    assert queue["pause_share"] == [None, None]


async def test_what_the_window_showed_is_written_once_and_nothing_once_it_is_silent(here: Running) -> None:
    traffic = Traffic(here)
    await traffic.passes()
    for _ in range(8):
        here.hand.now_s += 10
        await traffic.looks()
    (queue,) = (await get(here, "/v1/history/queues"))["queues"]
    assert len(queue["at"]) == 1


async def test_no_state_is_worked_out_for_history_alone(
    here: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Traffic(here).passes()

    async def explode() -> None:
        raise AssertionError("it was asked for")

    monkeypatch.setattr(here.service.window, "state", explode)
    monkeypatch.setattr(here.service.pipeline.ports, "recent", explode)
    here.hand.now_s += 10
    assert not await here.service.history.queues.record()


async def test_pauses_come_from_counters_and_of_ports_without_reports_where_there_are_some(
    here: Running,
) -> None:
    paused, idle, marked = Port(here), Port(here, "leaf9"), Port(here, "leaf8")
    for _ in range(2):
        await paused.passes(5, pfc_pause_ns=S // 4)
        await idle.passes(0.1, pfc_pause_ns=0, ecn_marked_packets=0)
        await marked.passes(0.1, ecn_marked_packets=50)
    await Traffic(here).passes(seconds=1)
    here.hand.now_s += 10
    found = {one["switch"]: one for one in (await get(here, "/v1/history/queues"))["queues"]}
    assert set(found) == {"leaf1", "leaf8"}
    assert found["leaf1"]["pause_share"] == [pytest.approx(0.25, rel=0.1)]
    assert found["leaf8"]["depth_bytes"] == found["leaf8"]["throughput_bytes_per_s"] == [None]
    assert found["leaf8"]["marked_packets_per_s"][0] > 0


async def test_counters_alone_are_written_where_no_report_comes(here: Running) -> None:
    port = Port(here)
    for _ in range(2):
        await port.passes(5, pfc_pause_ns=S // 2)
    await Traffic(here).looks()
    here.hand.now_s += 10
    (queue,) = (await get(here, "/v1/history/queues"))["queues"]
    assert (queue["pause_share"], queue["depth_bytes"]) == ([pytest.approx(0.5)], [None])


async def test_a_longer_time_is_told_in_coarser_steps(here: Running) -> None:
    traffic = Traffic(here)
    await traffic.passes(6 * 3 + 1)
    until = "2026-01-01T00:21:00Z"
    fine = await get(here, "/v1/history/queues", since="2026-01-01T00:16:00Z", until=until)
    assert (fine["step_s"], len(fine["queues"][0]["at"])) == (10, 19)
    minutes = await get(here, "/v1/history/queues", since="2026-01-01T00:16:00Z", until=until, most=10)
    (queue,) = minutes["queues"]
    assert minutes["step_s"] == 60
    assert queue["at"] == [f"2026-01-01T00:{minute}:00.000Z" for minute in (16, 17, 18)]
    assert queue["depth_bytes"][1] == pytest.approx(sum(fine["queues"][0]["depth_bytes"][1:7]) / 6)
    year = await get(here, "/v1/history/queues", since="2025-02-01T00:00:00Z", most=5)
    assert year["step_s"] > 86_400 * 60
    assert len(year["queues"][0]["at"]) == 1


async def test_queues_are_chosen_by_switch_port_and_depth(here: Running) -> None:
    reports = []
    for number in range(300):
        one = report(100_000 + number, src=1 + number % 3, dst=0 if number % 2 else 2)
        one["hops"][0]["queue_bytes"] = 5_000 if number % 2 else 50_000
        reports.append(one)
    here.hand.now_s += 10
    await here.post_reports(reports)
    await Traffic(here).looks()
    here.hand.now_s += 10

    async def ports(**query: Any) -> list[str]:
        return [one["port"] for one in (await get(here, "/v1/history/queues", **query))["queues"]]

    assert await ports() == ["Ethernet2", "Ethernet0"]
    assert await ports(queues=1) == ["Ethernet2"]
    assert await ports(switch="leaf1", port="Ethernet0") == ["Ethernet0"]
    assert await ports(switch="leaf2") == await ports(port="Ethernet9") == []


@pytest.mark.parametrize(
    "query",
    [
        {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-02T00:00:00Z"},
        {"since": "yesterday"},
        {"since": "2026-01-01T00:00:00"},
        {"until": "0001-01-01T00:00:00Z"},
        {"until": "9999-12-31T23:59:59Z"},
        {"until": "0001-01-01T00:00:00+14:00"},
        {"most": 0},
        {"most": 5_001},
        {"queues": 0},
    ],
    ids=str,
)
async def test_what_cannot_be_meant_is_a_problem(here: Running, query: dict[str, Any]) -> None:
    problem = await get(here, "/v1/history/queues", 422, **query)
    assert {"where", "received", "rule", "remedy"} <= problem.keys()


async def test_each_round_leaves_a_residual_also_one_that_keeps_what_runs(here: Running) -> None:
    traffic = Traffic(here)
    rounds = []
    for _ in range(3):
        await traffic.passes()
        rounds.append((await here.client.post("/v1/tune")).json())
        await here.service.recorder.flush()
    here.hand.now_s += 1
    found = (await get(here, "/v1/history/residuals"))["residuals"]
    assert [one["recommendation"] for one in found] == [one["id"] for one in reversed(rounds)]
    taught = await here.service.database.read(lambda connection: lesson_rows.newest(connection, 2))
    lessons = [Lesson.unpacked(one) for one in taught]
    assert [len(one.tried) for one in lessons if one is not None] == [
        one["candidate_count"] for one in rounds[1:]
    ], "of the newest rounds, the oldest first"
    newest, told = found[0], rounds[-1]
    assert newest["predicted_bytes"] == told["measured"]["predicted_queue_mean_bytes"]
    assert newest["measured_bytes"] == told["measured"]["queue_mean_bytes"]
    assert newest["residual_ratio"] == pytest.approx(told["measured"]["residual_ratio"])
    assert len((await get(here, "/v1/history/residuals", limit=2))["residuals"]) == 2
    until = "2026-01-01T00:16:55Z"
    assert len((await get(here, "/v1/history/residuals", until=until))["residuals"]) == 1
    (day,) = (await get(here, "/v1/history/advice"))["days"]
    gains = [one["improvement"]["score_gain"] if one["changes"] else 0.0 for one in rounds]
    assert (day["day"], day["rounds"]) == ("2026-01-01", 3)
    assert day["advised"] == sum(one["changes"] for one in rounds) > 0
    assert day["gain"] == pytest.approx(sum(gains) / 3)


def of_file(path: Path, **sections: Any) -> Wanted:
    return Wanted(settings=manual(**({"storage": {"url": f"sqlite:///{path}"}, "alarms": LOOKS} | sections)))


async def past_alarms(here: Running) -> list[dict[str, Any]]:
    await here.service.recorder.flush()
    here.hand.now_s += 0.001
    alarms: list[dict[str, Any]] = (await get(here, "/v1/history/alarms"))["alarms"]
    return alarms


async def storm(here: Running, seconds: int = 15, pause_ns: int = S // 10) -> None:
    port = Port(here)
    await port.passes(1, pfc_pause_ns=0)
    for _ in range(seconds // 5):
        await port.passes(5, pfc_pause_ns=pause_ns)


async def test_past_alarms_are_built_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    of = PastAlarmDocument.of

    def noted(row: AlarmRow) -> PastAlarmDocument:
        threads.append(threading.get_ident())
        return of(row)

    monkeypatch.setattr(PastAlarmDocument, "of", noted)
    async with running(Wanted(settings=manual(alarms=LOOKS))) as here:
        await storm(here)
        assert await past_alarms(here)
    assert threads
    assert threading.get_ident() not in threads


async def test_residuals_and_gains_are_built_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[type, int] = {}
    for kind in (ResidualDocument, RolloutGainDocument):

        def noted(row: Any, *, kind: Any = kind, of: Any = kind.of) -> Any:
            threads[kind] = threading.get_ident()
            return of(row)

        monkeypatch.setattr(kind, "of", noted)
    async with running() as here:
        at_ns = here.service.history_reader.wall_ns() - S
        residual, gain = ResidualRow(at_ns, "1", 2.0, 3.0), GainRow("1", at_ns, "balanced", 0.5, 0.1)
        await here.service.database.write(lambda connection: residual_rows.put(connection, residual))
        await here.service.database.write(lambda connection: gain_rows.put(connection, gain))
        assert (await get(here, "/v1/history/residuals"))["residuals"][0]["measured_bytes"] == 3.0
        assert (await get(here, "/v1/history/gains"))["gains"][0]["predicted"] == 0.5
    assert threads.keys() == {ResidualDocument, RolloutGainDocument}
    assert threading.get_ident() not in threads.values()


async def test_an_alarm_is_kept_from_its_raise_to_its_end_at_its_worst(tmp_path: Path) -> None:
    async with running(of_file(tmp_path / "ecntwin.db")) as here:
        port = Port(here)
        await port.passes(1, pfc_pause_ns=0)
        for _ in range(3):
            await port.passes(5, pfc_pause_ns=S // 10)
        (row,) = await past_alarms(here)
        assert (row["kind"], row["level"], row["switch"], row["ended"]) == (
            "pfc_storm", "warning", "leaf1", None,
        )  # fmt: skip
        for _ in range(4):
            await port.passes(5, pfc_pause_ns=S // 2)
        for _ in range(7):
            await port.passes(5, pfc_pause_ns=0)
        (row,) = await past_alarms(here)
        assert (row["level"], row["why"]) == ("critical", None)
        assert "50.0%" in row["sentence"]
        assert row["raised"] == "2026-01-01T00:16:56.000Z"
        assert row["raised"] < row["ended"]


async def test_an_alarm_that_is_there_again_after_a_restart_is_the_same(tmp_path: Path) -> None:
    wanted = of_file(tmp_path / "ecntwin.db")
    async with running(wanted) as here:
        await storm(here)
        (before,) = await past_alarms(here)
    async with running(wanted) as here:
        here.hand.now_s += 100
        (left,) = await past_alarms(here)
        assert left == before
        await storm(here, pause_ns=S // 2)
        (row,) = await past_alarms(here)
        assert row["level"] == "critical"
        assert row == before | {"level": "critical", "sentence": row["sentence"]}
        here.hand.now_s += 700
        here.service.history.prune()
        (row,) = await past_alarms(here)
        assert row["ended"] is None


async def test_an_alarm_that_is_gone_after_a_restart_ended_when_the_service_was_last_heard_of(
    tmp_path: Path,
) -> None:
    wanted = of_file(tmp_path / "ecntwin.db")
    async with running(wanted) as here:
        await storm(here)
        here.hand.now_s += 20
        await here.service.database.probe()
    async with running(wanted) as here:
        here.hand.now_s += 300
        await here.service.alarms.check()
        (row,) = await past_alarms(here)
        assert row["ended"] is None  # as nothing was measured yet, it may be there
        (listed,) = (await get(here, "/v1/alarms"))["alarms"]
        assert (listed["id"], listed["since"], listed["carried"]) == (row["id"], row["raised"], True)
        here.hand.now_s += 400
        await here.service.alarms.check()
        (row,) = await past_alarms(here)
        assert (await get(here, "/v1/alarms"))["alarms"] == []
        assert row["why"].startswith("the service ended while it was there")
        # What was heard of it before it "began", which here is the same moment of a clock that began anew.
        assert row["ended"] == row["raised"]


async def test_what_was_predicted_stands_beside_what_was_measured(tmp_path: Path) -> None:
    storage = {"url": f"sqlite:///{tmp_path}/ecntwin.db"}
    async with started(Fleet(), tuning=TUNING, storage=storage) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        traffic = Traffic(here)
        await traffic.passes(6, queue_bytes=60_000)
        path = await here.tuned()
        pending = await get(here, f"{path}/outcome")
        assert (pending["rollout"], pending["before"], pending["after"], pending["since"]) == (None,) * 4
        assert pending["predicted"]["incumbent"]["queue_mean_bytes"] > 0
        approved = await here.post(f"{path}/approve")
        await here.ended(approved["rollout"])
        at_once = await get(here, f"{path}/outcome")
        assert at_once["after"] is None
        assert at_once["before"]["steps"] >= 5
        await traffic.passes(6, queue_bytes=30_000)
        found = await get(here, f"{path}/outcome", span_s=40)
        assert (found["phase"], found["switches"], found["rollout"]) == (
            "done",
            ["leaf1"],
            approved["rollout"],
        )
        assert found["before"]["queue_max_bytes"] == 60_000
        assert found["after"]["queue_max_bytes"] == 30_000
        assert found["after"]["ports"] == 1
        assert found["queue_change"] == pytest.approx(
            found["after"]["queue_mean_bytes"] / found["before"]["queue_mean_bytes"] - 1
        )
        assert found["queue_change"] < 0
        assert found["since"] < found["until"]
        said = approved["measured"]["residual_ratio"]
        assert found["residual_ratio"] == pytest.approx(said)


async def test_long_spans_are_compared_in_longer_steps(tmp_path: Path) -> None:
    storage = {"url": f"sqlite:///{tmp_path}/ecntwin.db"}
    async with started(Fleet(), tuning=TUNING, storage=storage) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        traffic = Traffic(here)
        await traffic.passes(24)
        path = await here.tuned()
        await here.ended((await here.post(f"{path}/approve"))["rollout"])
        await traffic.passes(6)
        short, hour = [await get(here, f"{path}/outcome", span_s=span_s) for span_s in (600, 3_600)]
        assert (short["before"]["step_s"], hour["before"]["step_s"]) == (10, 60)
        assert 0 < hour["before"]["steps"] <= 6 < short["before"]["steps"]
        # As long as little has passed since, it is told in as short steps as ever.
        assert hour["after"] == short["after"]
        assert hour["after"]["step_s"] == 10


async def broken(here: Running, path: Path) -> None:
    """Takes the database away, and has the service find that out."""
    shutil.move(path, path.with_suffix(".away"))
    assert not await here.service.database.probe()
    await here.service.alarms.check()


async def test_what_is_answered_while_the_database_is_gone_is_in_the_openapi_document(tmp_path: Path) -> None:
    path = tmp_path / "ecntwin.db"
    async with running(of_file(path)) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        await broken(here, path)
        said = (await here.client.get("/openapi.json")).json()["paths"]
        asked = [call for call in said if call != "/v1/events"]
        for call in asked:
            for method in said[call].keys() & {"get", "put"}:
                url = call.replace("{number}", "1").replace("{name}", "leaf1")
                body = {"json": TOPOLOGY if call == "/v1/topology" else {"frozen": False}}
                answer = await here.client.request(method, url, **({} if method == "get" else body))
                assert str(answer.status_code) in said[call][method]["responses"], (call, answer.text)


async def test_while_the_database_is_gone_all_of_it_is_503_and_advice_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "ecntwin.db"
    async with running(of_file(path, rollout={"auto": True}, tuning=TUNING)) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        await Traffic(here).passes()
        found = (await here.client.post("/v1/tune")).json()
        await broken(here, path)
        for call in ("history/queues", "history/residuals", "history/alarms"):
            problem = await get(here, f"/v1/{call}", 503)
            assert "database" in problem["where"]
        await get(here, f"/v1/recommendations/{found['id']}/outcome", 503)
        alarm = (await get(here, "/v1/alarms"))["alarms"][0]
        assert (alarm["kind"], alarm["level"]) == ("storage", "critical")
        assert "No switch is set" in alarm["sentence"]
        assert "gone" in alarm["sentence"]
        assert here.metric("ecntwin_storage_failing") == 1
        ready = await here.client.get("/readyz")
        assert ready.status_code == 200
        assert (ready.json()["storage"]["state"], ready.json()["ready"]) == ("failing", True)
        assert str(tmp_path) not in ready.text
        for _ in range(3):
            here.hand.now_s += 10
            await Traffic(here).here.service.alarms.check()
        new = (await here.client.post("/v1/tune")).json()
        assert new["status"] == "pending"  # policy waits, and says why
        assert (
            "critical alarm is on every switch (storage)"
            in (await get(here, f"/v1/recommendations/{new['id']}"))["caution"]
        )
        shutil.move(path.with_suffix(".away"), path)
        await here.service.recorder.flush()
        await here.service.alarms.check()
        assert (await get(here, "/readyz"))["storage"]["state"] == "ok"
        assert here.metric("ecntwin_storage_failing") == 0
        ended = {one["kind"]: one["ended"] is not None for one in await past_alarms(here)}
        assert ended["storage"]


async def test_what_can_wait_no_longer_is_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ecntwin.db"
    async with running(of_file(path)) as here:
        await here.client.put("/v1/topology", json=TOPOLOGY)
        await broken(here, path)
        monkeypatch.setattr("service.history.service.MOST_WAITING_ROWS", 0)
        for _ in range(4):  # one step always waits
            here.hand.now_s += 10
            await here.post_reports([report(round(here.hand.now_s * 1_000) + n) for n in range(50)])
            await here.service.alarms.check()
            await here.service.history.queues.record()
        await here.service.alarms.check()
        found = {one["kind"]: one for one in (await get(here, "/v1/alarms"))["alarms"]}
        assert found["history_lost"]["level"] == "warning"
        assert here.metric("ecntwin_storage_dropped_total") == 3
        assert (here.metric("ecntwin_storage_waiting") or 0) > 0
        here.hand.now_s += 10
        await here.service.alarms.check()
        here.hand.now_s += LOOKS["clear_s"] or 0
        await here.service.alarms.check()
        assert "history_lost" not in {one["kind"] for one in (await get(here, "/v1/alarms"))["alarms"]}


async def test_readiness_shows_how_far_the_window_has_filled() -> None:
    async with running() as here:
        empty = (await here.client.get("/readyz")).json()
        assert empty["window"] == {"held_s": 0, "length_s": 10, "warm": False}
        storage = empty["storage"]  # of which an alarm may be waiting to be written down
        assert (storage["state"], storage["says"]) == ("memory", None)
        await here.post_reports([report(n) for n in (0, 250_000)])
        filling = await get(here, "/readyz")
        assert filling["window"]["held_s"] == pytest.approx(2.5)
        assert not filling["window"]["warm"]
        await here.post_reports([report(n * 90_000) for n in range(1, 11)])
        assert (await get(here, "/readyz"))["window"]["warm"]


@asynccontextmanager
async def beside(here: Running) -> AsyncIterator[httpx.AsyncClient]:
    yield here.client


async def test_an_answer_has_an_end(here: Running) -> None:
    answer = await here.get("/v1/history/queues?most=5000&queues=1000", status=422)
    assert "500000 points (steps × ports)" in answer["rule"]
    assert (await here.client.get("/v1/history/queues?most=500&queues=1000")).status_code == 200


async def test_nobody_who_asks_for_much_keeps_the_service_from_answering(here: Running) -> None:
    await Traffic(here).passes(3)
    async with beside(here) as client:
        answers = await asyncio.wait_for(
            asyncio.gather(*(client.get("/v1/history/queues") for _ in range(20)), client.get("/healthz")),
            PATIENCE_S,
        )
    assert {answer.status_code for answer in answers} == {200}

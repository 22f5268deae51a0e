"""Rollouts over HTTP: how far each has come, taken back, frozen; drift adopted; who may, and who hears."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rollout.state import Phase
from service.rollouts.rollout import Rollout
from switches.errors import UnreachableError
from switches.registry import AdapterRegistry
from tests.integration.gate import Gate
from tests.integration.service import SETTLED, SMALL, Running, Wanted, manual, running, traffic
from tests.unit.service.rollouts.world import OLD, PATIENCE_S, Switch
from twin.search.score import ScoreName
from twin.watermark import Watermark
from twin.workers.pool import InProcessWorkers, Workers

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

FOREIGN = Watermark(800_000, 3_200_000, 0.1)
TUNING = {"enabled": False, "residual_limit": 1e9, "cool_down_s": 0}


@pytest.fixture
def answered_soon(answered_once_ended: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a rollout that is held up: its approval is answered before it has ended."""
    monkeypatch.setattr("service.tuning.approvals.ANSWER_WITHIN_S", 0.01)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 # it is another thread that does it
            await asyncio.sleep(0.005)


@dataclass
class Here(Running):
    """A service over switches in memory, which know what they were made to do."""

    switches: dict[str, Switch]

    async def freeze(self, frozen: bool) -> dict[str, Any]:
        answer = await self.client.put("/v1/freeze", json={"frozen": frozen})
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    async def refused(self, path: str, status: int = 409) -> dict[str, Any]:
        problem = await self.post(path, status=status)
        assert {"where", "received", "rule", "remedy"} <= problem.keys()
        return problem

    async def tuned(self) -> str:
        """The path of a recommendation that waits."""
        found = await self.post("/v1/tune")
        assert (found["status"], found["holds"]) == ("pending", []), found["why"]
        return f"/v1/recommendations/{found['id']}"

    async def approved(self) -> dict[str, Any]:
        return await self.post(f"{await self.tuned()}/approve")


@dataclass
class Fleet:
    """The switches behind an adapter kind of their own."""

    switches: dict[str, Switch] = field(default_factory=dict)

    def registry(self) -> AdapterRegistry:
        registry = AdapterRegistry()
        registry.register("memory", lambda device, *, clock_ns: self.of(device.name))
        return registry

    def of(self, name: str) -> Switch:
        return self.switches.setdefault(name, Switch(name))


@asynccontextmanager
async def started(
    fleet: Fleet | None = None,
    *,
    rollout: dict[str, Any] | None = None,
    tuning: dict[str, Any] | None = None,
    # By the min-max score a second round on the same traffic finds another change.
    score: ScoreName = "normalised",
    steady: bool = False,
    workers: Workers | None = None,
    **sections: Any,
) -> AsyncIterator[Here]:
    fleet = fleet or Fleet()
    settings = manual(
        push={"adapter": "memory", "read_every_s": 3_600},
        tuning=TUNING | (tuning or {}),
        alarms={"every_s": 3_600} | SETTLED,  # clocks jump here: silence would be one, and hold policy back
        rollout={"soak_s": 0, "batch_soak_s": 0} | (rollout or {}),
        **sections,
    )
    search = SMALL if steady else replace(SMALL, score=score, margin=0.0, near_tie=0.0)
    wanted = Wanted(
        settings=settings,
        search=search,
        adapters=fleet.registry(),
        workers=workers or InProcessWorkers(),
    )
    async with running(wanted) as service:
        yield Here(**vars(service), switches=fleet.switches)


@pytest.fixture
async def here() -> AsyncIterator[Here]:
    async with started() as made:
        await made.feed()
        yield made


async def test_a_rollout_is_told_from_end_to_end(here: Here) -> None:
    assert await here.get("/v1/rollouts") == {"total": 0, "rollouts": [], "next": None}
    decided = await here.approved()
    rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
    assert (rollout["phase"], rollout["ended"], rollout["why"], rollout["approved_by"]) == (
        "done",
        True,
        None,
        "local",
    )
    assert (rollout["stages"], rollout["recommendation"]) == ([["leaf1"]], decided["id"])
    (switch,) = rollout["switches"]
    assert (switch["switch"], switch["progress"], switch["writes"], switch["stage"]) == (
        "leaf1",
        "set",
        True,
        0,
    )
    assert switch["before"]["kmin_bytes"] == OLD.kmin_bytes
    assert switch["target"] == switch["after"] == switch["read_back"] == decided["staged"]
    assert [event["what"] for event in rollout["events"]] == [
        *("Proposed", "Approved", "Staged", "Applying", "Applied", "Verified", "Confirmed", "Checked"),
    ]
    assert rollout["events"][-1]["detail"] == "leaf1"
    assert [one["phase"] for one in rollout["phases"]] == ["proposed", "approved", "canary", "done"]
    listed = await here.get("/v1/rollouts?limit=1")
    assert listed == {"total": 1, "rollouts": [rollout | {"events": None}], "next": None}
    summary = {
        "switches": 1,
        "written": 1,
        "progress": {"set": 1},
        "written_progress": {"set": 1},
        "left_alone": [],
        "target": decided["staged"],
        "hosts": 0,
        "hosts_written": 0,
        "hosts_progress": {},
        "left_out": [],
        "given_up": [],
    }
    assert rollout["summary"] == summary
    slim = await here.get("/v1/rollouts?fields=id,phase,summary")
    counted = {"id": rollout["id"], "phase": "done", "summary": summary}
    assert slim == {"total": 1, "rollouts": [counted], "next": None}
    assert await here.get(f"/v1/rollouts/{rollout['id']}?fields=id,events") == {
        "id": rollout["id"],
        "events": rollout["events"],
    }
    one = {name: rollout["switches"][0][name] for name in ("switch", "diff")}
    only = f"/v1/rollouts/{rollout['id']}?fields=switches.switch,switches.diff"
    assert await here.get(only) == await here.get(f"{only}&switch=leaf1") == {"switches": [one]}
    assert await here.get(f"{only}&switch=none") == {"switches": []}
    listed = await here.get("/v1/rollouts?fields=id,events.what")
    assert listed["rollouts"] == [{"id": rollout["id"], "events": None}]
    for path in ("/v1/rollouts", f"/v1/rollouts/{rollout['id']}"):
        assert (await here.client.get(f"{path}?fields=nothing")).status_code == 422
    assert (await here.client.get("/v1/rollouts?limit=0")).status_code == 422
    assert here.metric("ecntwin_rollouts_begun_total") == 1
    assert here.metric("ecntwin_rollouts_total", outcome="done") == 1
    assert here.metric("ecntwin_rollouts_active") == 0
    for step in ("stage", "apply", "verify", "confirm", "check"):
        count = here.metric("ecntwin_switch_step_duration_seconds_count", adapter="memory", step=step)
        assert count == 1


async def test_an_operator_takes_a_finished_rollout_back(here: Here) -> None:
    decided = await here.approved()
    assert here.switches["leaf1"].running != OLD
    rollout = await here.rolled_back(decided["rollout"])
    assert (rollout["phase"], rollout["why"]) == ("rolled_back", "local asked for it")
    assert rollout["switches"][0]["progress"] == "restored"
    assert here.switches["leaf1"].running == OLD
    document = await here.get(f"/v1/recommendations/{decided['id']}")
    assert (document["status"], document["pushed"]) == ("rolled_back", [])
    shown = await here.get("/v1/switches/leaf1")
    assert (shown["drifted"], shown["running"]["kmin_bytes"]) == (False, OLD.kmin_bytes)
    assert here.metric("ecntwin_rollouts_total", outcome="rolled_back") == 1
    assert here.metric("ecntwin_switch_rollbacks_total", adapter="memory") == 1


async def test_an_unknown_rollout_is_a_404(here: Here) -> None:
    problem = await here.refused("/v1/rollouts/none/rollback", 404)
    assert "/v1/rollouts" in problem["remedy"]
    assert (await here.client.get("/v1/rollouts/none")).status_code == 404


@pytest.mark.usefixtures("answered_soon")
async def test_an_approval_that_takes_long_is_answered_and_goes_on(here: Here) -> None:
    here.switches["leaf1"].gate.clear()
    at = await here.tuned()
    decided = await here.post(f"{at}/approve")
    assert (decided["status"], decided["pushed"]) == ("approved", [])
    await until(lambda: "apply" in here.switches["leaf1"].calls)
    here.service.fleet._patience_s = 0.01  # it cannot be read while it is set
    assert here.metric("ecntwin_rollouts_active") == 1
    rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
    assert (rollout["phase"], rollout["ended"]) == ("canary", False)
    problem = await here.refused(f"{await here.tuned()}/approve")
    assert decided["rollout"] in problem["rule"]
    here.switches["leaf1"].gate.set()
    assert (await here.ended(decided["rollout"]))["phase"] == "done"
    assert (await here.get(at))["pushed"][0]["read_back"] == decided["staged"]


@pytest.mark.usefixtures("answered_soon")
async def test_rounds_stand_behind_what_is_being_rolled_out() -> None:
    async with started(steady=True) as here:
        await here.feed()
        at = await here.tuned()
        leaf = here.switches["leaf1"]
        leaf.gate.clear()
        await here.post(f"{at}/approve")
        await until(lambda: "apply" in leaf.calls)
        here.service.fleet._patience_s = 0.01  # it cannot be read while it is set
        again = await here.post("/v1/tune")
        assert (f"/v1/recommendations/{again['id']}", again["status"]) == (at, "approved")
        assert (again["support"]["rounds"], again["blocked"]) == (2, [])
        assert (await here.get("/v1/recommendations"))["total"] == 1
        leaf.gate.set()
        assert (await here.ended(again["rollout"]))["phase"] == "done"


async def test_a_round_that_a_rollout_overtakes_stands_behind_it() -> None:
    gate = Gate()
    gate.open.set()
    async with started(steady=True, workers=gate) as here:
        await here.feed()
        at = await here.tuned()
        gate.entered.clear()
        gate.open.clear()
        round_ = asyncio.create_task(here.post("/v1/tune"))
        await until(gate.entered.is_set)
        decided = await here.post(f"{at}/approve")
        assert (await here.ended(decided["rollout"]))["phase"] == "done"
        gate.open.set()
        again = await round_
        assert (f"/v1/recommendations/{again['id']}", again["status"]) == (at, "approved")
        assert (await here.get("/v1/recommendations"))["total"] == 1


async def test_while_frozen_nothing_is_approved_and_undoing_goes_on(here: Here) -> None:
    thawed = {"frozen": False, "by": None, "at": None, "unknown": None, "saved": True}
    assert await here.get("/v1/freeze") == thawed
    decided = await here.approved()
    frozen = await here.freeze(True)
    assert (frozen["frozen"], frozen["by"]) == (True, "local")
    assert await here.get("/v1/freeze") == frozen
    assert here.metric("ecntwin_switches_frozen") == 1
    await here.goes_on()
    waiting = await here.tuned()
    problem = await here.refused(f"{waiting}/approve")
    assert "frozen by local" in problem["rule"]
    assert (await here.get(waiting))["status"] == "pending"
    assert (await here.rolled_back(decided["rollout"]))["phase"] == "rolled_back"
    assert (await here.get(waiting))["status"] == "expired"  # it was made for what no longer runs
    await here.goes_on()
    waiting = await here.tuned()
    await here.freeze(False)
    assert here.metric("ecntwin_switches_frozen") == 0
    assert (await here.post(f"{waiting}/approve"))["status"] == "approved"


@pytest.mark.parametrize("body", [{}, {"frozen": "yes"}, {"frozen": 1}, {"frozen": True, "why": "x"}])
async def test_a_freeze_is_one_word(here: Here, body: dict[str, Any]) -> None:
    assert (await here.client.put("/v1/freeze", json=body)).status_code == 422
    assert not (await here.get("/v1/freeze"))["frozen"]


async def test_drift_stops_approvals_until_it_is_adopted(here: Here) -> None:
    await here.approved()
    here.switches["leaf1"].running = FOREIGN
    await here.goes_on()
    waiting = await here.tuned()
    problem = await here.refused(f"{waiting}/approve")
    assert "leaf1" in problem["rule"]
    assert "/v1/switches/leaf1" in problem["remedy"]
    assert "/adopt" in problem["remedy"]
    assert here.switches["leaf1"].running == FOREIGN
    assert here.metric("ecntwin_switch_drifted", switch="leaf1") == 1
    adopted = await here.post("/v1/switches/leaf1/adopt")
    assert (adopted["drifted"], adopted["set_to"]["kmin_bytes"]) == (False, FOREIGN.kmin_bytes)
    assert here.metric("ecntwin_switch_drifted", switch="leaf1") == 0
    assert (await here.post(f"{waiting}/approve"))["status"] == "approved"
    assert (await here.client.post("/v1/switches/none/adopt")).status_code == 404


async def test_listeners_hear_of_each_step(here: Here) -> None:
    with here.service.events.listen() as queue:
        decided = await here.approved()
        heard = []
        while not queue.empty():
            event = queue.get_nowait()
            assert event is not None
            if event.kind == "rollout":
                assert event.data["id"] == decided["rollout"]
                heard.append((event.data["what"], event.data["phase"], event.data["progress"]))
    assert heard == [
        ("Proposed", "proposed", None),
        ("Approved", "approved", None),
        ("Staged", "canary", "staged"),
        ("Applying", "canary", "applying"),
        ("Applied", "canary", "applied"),
        ("Verified", "canary", "verified"),
        ("Confirmed", "canary", "set"),
        ("Checked", "done", None),
    ]


TOKENS = [
    {"name": scope, "sha256": sha256(scope.encode()).hexdigest(), "scopes": [scope]}
    for scope in ("read", "operate")
]


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/v1/rollouts", "read"),
        ("GET", "/v1/rollouts/x", "read"),
        ("POST", "/v1/rollouts/x/rollback", "operate"),
        ("GET", "/v1/freeze", "read"),
        ("PUT", "/v1/freeze", "operate"),
        ("POST", "/v1/switches/x/adopt", "operate"),
    ],
)
async def test_who_may_look_may_not_act(method: str, path: str, scope: str) -> None:
    async with started(security={"tokens": TOKENS}) as here:
        client = here.client
        body = {"frozen": True} if method == "PUT" else None
        assert (await client.request(method, path, json=body)).status_code == 401
        for name in ("read", "operate"):
            answer = await client.request(
                method, path, json=body, headers={"Authorization": f"Bearer {name}"}
            )
            assert (answer.status_code == 403) == (name != scope), answer.text
        if method == "PUT":
            frozen = await client.get(path, headers={"Authorization": "Bearer read"})
            assert (frozen.json()["frozen"], frozen.json()["by"]) == (True, "operate")


@pytest.mark.usefixtures("answered_soon")
async def test_the_next_service_goes_on_where_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = {"url": f"sqlite:///{tmp_path}/journal.db"}
    fleet = Fleet()
    fleet.of("leaf1").gate.clear()
    async with started(fleet, storage=storage, server={"shutdown_grace_s": 0}) as first:
        await first.feed()
        decided = await first.approved()
        await until(lambda: "apply" in fleet.switches["leaf1"].calls)
        await first.freeze(True)
        steps = first.service.fleet
        opening = threading.Timer(0.3, fleet.switches["leaf1"].gate.set)  # the journal is not let go before
        end_steps = steps.end_steps

        def ending() -> None:
            opening.start()
            end_steps()

        monkeypatch.setattr(steps, "end_steps", ending)
    opening.join()
    async with started(fleet, storage=storage) as second:
        assert (await second.get("/v1/freeze"))["frozen"]
        rollout = await second.get(f"/v1/rollouts/{decided['rollout']}")
        assert "Resumed" in [event["what"] for event in rollout["events"]]
        await second.freeze(False)
        ended = await second.ended(decided["rollout"])
        assert ended["phase"] == "done"
        wanted = decided["staged"]["kmin_bytes"]
        assert fleet.switches["leaf1"].running.kmin_bytes == wanted
        shown = await second.get("/v1/switches/leaf1")
        assert (shown["set_to"]["kmin_bytes"], shown["drifted"]) == (wanted, False)


@pytest.mark.usefixtures("answered_soon")
async def test_a_switch_that_never_comes_back_is_given_up(here: Here) -> None:
    decided = await here.approved()
    at, leaf1 = f"/v1/rollouts/{decided['rollout']}", here.switches["leaf1"]
    await here.ended(decided["rollout"])
    leaf1.meets["undo"] = [UnreachableError("leaf1", "no answer", "it answers", "look")] * 1_000
    await here.post(f"{at}/rollback", status=202)
    rollout = here.service.rollouts.get(decided["rollout"])
    await until(lambda: rollout.state.members["leaf1"].failing_since_s is not None)
    body = {"member": "leaf1", "reason": "it is replaced"}
    early = await here.post(f"{at}/give-up", body, status=409)
    assert early["rule"] == "what is given up is an undo that has failed for 60 s (rollout.patience_s)"
    for wrong in ({}, {"member": "leaf1"}, body | {"reason": ""}):
        await here.post(f"{at}/give-up", wrong, status=422)
    assert (await here.post(f"{at}/give-up", body | {"member": "leaf7"}, status=404))["where"].endswith(
        "'leaf7'"
    )
    here.hand.now_s += 61
    found = await here.post(f"{at}/give-up", body)
    assert (found["phase"], found["summary"]["given_up"]) == ("rolled_back", ["leaf1"])
    (switch,) = found["switches"]
    told = "local has given it up (it is replaced): it was last read to run Kmin"
    assert (switch["progress"], switch["detail"][: len(told)]) == ("given_up", told)
    assert found["events"][-1]["what"] == "GivenUp"
    entries = (await here.get("/v1/audit"))["entries"]
    entry = next(one for one in entries if one["what"] == "give up" and one["outcome"] == "done")
    assert (entry["subject"], entry["before"]) == (f"leaf1 of {found['id']}", {"progress": "set"})
    assert entry["after"] == {"progress": "given_up", "reason": "it is replaced", "left": switch["detail"]}
    # The next round begins from what it is read to run, and may set it.
    shown = await here.get("/v1/switches/leaf1")
    assert (shown["set_to"], shown["drifted"]) == (None, False)
    assert shown["running"] == switch["after"]
    await here.goes_on()
    assert (await here.ended((await here.approved())["rollout"]))["phase"] == "done"


async def looked(rollout: Rollout) -> None:
    """Until telemetry was looked at from now on: a look under way may have begun before."""
    for _ in range(2):
        before = rollout.state
        await until(lambda before=before: rollout.state.phase.ended or rollout.state is not before)


@pytest.mark.usefixtures("answered_soon")
@pytest.mark.parametrize("come", [True, False])
async def test_a_soak_that_a_restart_interrupts_waits_for_the_first_report(
    tmp_path: Path, come: bool
) -> None:
    storage, fleet = {"url": f"sqlite:///{tmp_path}/journal.db"}, Fleet()
    rollout = {"soak_s": 20, "silence_s": 15, "measure_every_s": 0.001, "queue_limit": 1e6}
    async with started(fleet, rollout=rollout, storage=storage) as first:
        await first.feed()
        await first.approved()
        begun = first.service.rollouts.newest(1)[0]
        await until(lambda: begun.state.phase is Phase.SOAK)
    async with started(fleet, rollout=rollout, storage=storage) as second:
        (again,) = second.service.rollouts.newest(1)
        await looked(again)
        second.hand.now_s += 14
        await looked(again)
        assert again.state.phase is Phase.SOAK, again.state.why
        if come:
            await second.feed()
        second.hand.now_s += 7
        ended = await second.ended(again.id)
        assert ended["phase"] == ("done" if come else "rolled_back")
        assert ended["why"] == (None if come else "no INT report for 21 s; the limit is 15 s")


async def test_policy_approves_what_nothing_holds_back() -> None:
    async with started(rollout={"auto": True}) as here:
        await here.feed()
        found = await here.post("/v1/tune")
        rollouts = (await here.get("/v1/rollouts"))["rollouts"]
        assert [one["recommendation"] for one in rollouts] == [found["id"]]
        assert rollouts[0]["approved_by"] == "policy (rollout.auto)"
        assert (await here.ended(rollouts[0]["id"]))["phase"] == "done"


async def test_policy_does_not_repeat_what_was_taken_back_until_a_while_has_passed() -> None:
    async with started(rollout={"auto": True, "auto_hold_s": 100}) as here:
        await here.feed()
        for number, hold_s in enumerate((100, 200, 400), 1):
            found = await here.post("/v1/tune")
            assert found["status"] == "approved"
            await here.ended(found["rollout"])
            await here.rolled_back(found["rollout"])
            for passes_s in (0, hold_s - 1):
                here.hand.now_s += passes_s
                await here.goes_on()
                waiting = await here.post("/v1/tune")
                assert (waiting["status"], waiting["holds"]) == ("pending", [])
                assert (await here.get("/v1/rollouts"))["total"] == number
            here.hand.now_s += 2
            await here.goes_on()
        # A person may at any time, and what stands ends the count.
        found = await here.post("/v1/tune")
        assert (await here.ended(found["rollout"]))["phase"] == "done"


async def test_a_policy_that_cannot_begin_fails_no_round() -> None:
    async with started(rollout={"auto": True}) as here:
        await here.feed()
        here.service.rollouts._journal.close()
        found = await here.post("/v1/tune")
        assert (found["status"], found["rollout"]) == ("pending", None)
        standing = (await here.client.get("/v1/readiness")).json()
        assert (standing["ready"], standing["advice"]) == (True, found["id"]), standing


async def test_what_is_being_approved_is_not_rejected_nor_approved_again(here: Here) -> None:
    at = await here.tuned()
    journal = here.service.rollouts._journal
    append, writing, written = journal.append, asyncio.Event(), asyncio.Event()

    async def slow(subject: str, at_s: float, document: bytes) -> None:
        writing.set()
        await written.wait()
        await append(subject, at_s, document)

    journal.append = slow  # type: ignore[method-assign]
    approving = asyncio.create_task(here.post(f"{at}/approve"))
    await writing.wait()
    for decision in ("reject", "approve"):
        assert "it is being decided" in (await here.refused(f"{at}/{decision}"))["rule"]
    written.set()
    assert (await approving)["status"] == "approved"


async def test_what_waited_while_a_rollout_ended_cools_down_too() -> None:
    async with started(tuning={"cool_down_s": 60}) as here:
        await here.feed()
        decided = await here.approved()
        here.hand.now_s += 61
        await here.post_reports(traffic())
        await here.rolled_back(decided["rollout"])
        await here.goes_on()
        found = await here.post("/v1/tune")
        waiting = f"/v1/recommendations/{found['id']}"
        assert found["holds"] == [found["blocked"][0]["reason"]]
        assert found["blocked"][0]["until"] == "2026-01-01T00:18:41.000Z"
        assert found["holds"][0].removesuffix(".") in (await here.refused(f"{waiting}/approve"))["rule"]
        for _ in range(2):
            here.hand.now_s += 31
            await here.post_reports(traffic())
        assert (await here.get(waiting))["blocked"] == []
        assert (await here.post(f"{waiting}/approve"))["status"] == "approved"

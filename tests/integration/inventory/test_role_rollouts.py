"""A recommendation approved with watermarks by port role: set on a switch, read by port, undone."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cli.answers import RecommendationAnswer
from tests.counterparts.switches.eos_switch import PROFILE, EosSwitch, line_of, mark_of
from tests.counterparts.switches.http_switch import named_credentials
from tests.integration.service import SMALL, Running, Wanted, manual, report, running
from tests.unit.nics.sshd import Sshd, find
from tests.unit.nics.sysfs import DEFAULTS, Sysfs
from tests.unit.twin.analytic_engine import AnalyticEngine
from tests.unit.twin.search.test_co_tuning import HERE as ENGINES
from tests.unit.twin.search.test_co_tuning import SendersMatter
from twin.prediction import Prediction
from twin.scenario import Scenario
from twin.watermark import Watermark

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

FIRST = Watermark(400_000, 1_600_000, 0.2)
FOREIGN = Watermark(700_000, 900_000, 0.9)
SLOW, FAST = "leaf-host-25G", "leaf-host-100G"
PORTS = {f"Ethernet{number}/1": rate for number, rate in ((1, 100), (2, 100), (3, 25), (4, 25))}
TOPOLOGY: dict[str, Any] = {
    "hosts": [{"name": f"h{n}", "ip": f"10.0.0.{n}"} for n in range(4)],
    "switches": [{"name": "leaf1"}],
    "links": [
        {"a": f"h{n}", "b": "leaf1", "b_port": port, "rate_gbps": rate, "delay_us": 1}
        for n, (port, rate) in enumerate(PORTS.items())
    ],
}
N_REPORTS = 1_200
WITH_ROLES = {"parts": ["watermark", "roles"]}
BOTH = {"parts": ["watermark", "nic", "roles"]}
SLOW_CUTS = {**DEFAULTS, "rate_reduce_monitor_period": 50, "min_time_between_cnps": 50}


class SlowPortsWantLess(AnalyticEngine):
    """As ``AnalyticEngine``, and the slower, the further ports of 25 Gbit/s are from 25 KB."""

    def predict(self, scenario: Scenario, watermarks: Any, *, seed: int) -> list[Prediction]:
        return [
            SendersMatter.slower(
                self.one(scenario, one.usual, seed),
                1.0 + abs(math.log(dict(one.exceptions).get(SLOW, one.usual).kmin_bytes / 25_000)),
            )
            for one in watermarks
        ]


@dataclass
class Here(Running):
    switch: EosSwitch

    async def tuned(self) -> dict[str, Any]:
        found = await self.post("/v1/tune")
        assert found["status"] == "pending", found["why"]
        return found

    async def approved(self, body: object = WITH_ROLES) -> dict[str, Any]:
        decided = await self.post(f"/v1/recommendations/{(await self.tuned())['id']}/approve", body)
        return await self.get(f"/v1/rollouts/{decided['rollout']}")

    def runs(self) -> dict[str, Watermark]:
        found = {port: mark_of(self.switch.line(3, self.switch.effective(port))) for port in PORTS}
        return {port: mark for port, mark in found.items() if mark is not None}

    async def leaf(self) -> dict[str, Any]:
        return await self.get("/v1/switches/leaf1")


def reports(first: int = 0) -> Iterator[dict[str, Any]]:
    """Three hosts to each of two others, one of 100 and one of 25 Gbit/s."""
    for number in range(first, first + N_REPORTS):
        dst = (0, 3)[number % 2]
        src = [one for one in range(4) if one != dst][number // 2 % 3]
        one = report(number, src=src, dst=dst)
        for hop in one["hops"]:
            hop["ingress_port"], hop["egress_port"] = (list(PORTS)[at] for at in (src, dst))
        yield one


@pytest.fixture
def switch() -> Iterator[EosSwitch]:
    server = EosSwitch(FIRST)
    for port in PORTS:
        server.running[f"interface {port}"] = {f"service-profile {PROFILE}": {}}
    yield server
    server.close()
    assert server.unexpected == []


Starting = Callable[..., Any]


@pytest.fixture
def starting(switch: EosSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Starting:
    secrets = {name: {"env": one.env} for name, one in named_credentials(monkeypatch).items()}
    inventory = tmp_path / "inventory.yaml"

    @asynccontextmanager
    async def start(
        *, push: bool = True, hosts: Mapping[str, Any] | None = None, **device: Any
    ) -> AsyncIterator[Here]:
        """With ``hosts`` NICs are tuned too."""
        leaf = {"platform": "eos", "address": switch.url, "ports": ["Ethernet?/1"], "timeout_s": 60} | secrets
        document = {"switches": {"leaf1": leaf | device}, "hosts": dict(hosts or {})}
        inventory.write_text(yaml.safe_dump(document), "utf-8")
        settings = manual(
            push={"inventory": str(inventory), "enabled": push, "nics": push, "read_every_s": 3_600},
            telemetry={"nics": {"every_s": 3_600}},
            storage={"url": f"sqlite:///{tmp_path / 'here.db'}"},
            tuning={"enabled": False, "residual_limit": 1e9, "cool_down_s": 0},
            rollout={"soak_s": 0, "batch_soak_s": 0},
            alarms={"every_s": 3_600},
        )
        engine, what = f"{__name__}:SlowPortsWantLess", ("watermark", "roles")
        if hosts:
            engine, what = f"{ENGINES}:BothMatter", ("watermark", "roles", "nic")
        search = replace(SMALL, engine=engine, what=what, margin=0.0)
        async with running(Wanted(settings=settings, search=search)) as run:
            await run.client.put("/v1/topology", json=TOPOLOGY)
            await run.post_reports(list(reports()))
            yield Here(**vars(run), switch=switch)

    return start


async def test_a_switch_is_set_by_role_and_undone(starting: Starting, switch: EosSwitch) -> None:
    before = deepcopy(switch.running)
    async with starting() as here:
        found = await here.tuned()
        joint = found["co_tuning"]
        assert joint["recommended"], joint["sentence"]
        (slow,) = joint["by_role"]
        assert (slow["role"], found["roles_refused"]) == (SLOW, None)
        told = {"watermark": joint["watermark"], "by_role": {SLOW: {k: slow[k] for k in joint["watermark"]}}}
        decided = await here.post(
            f"/v1/recommendations/{found['id']}/approve", {**WITH_ROLES, "together": told}
        )
        assert decided["sets"] == ["watermark", "roles"]
        rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
        assert (rollout["phase"], rollout["why"]) == ("done", None)
        (leaf,) = rollout["switches"]
        assert [(one["role"], one["ports"]) for one in leaf["by_role"]] == [
            (FAST, ["Ethernet1/1", "Ethernet2/1"]),
            (SLOW, ["Ethernet3/1", "Ethernet4/1"]),
        ]
        assert f"# {SLOW}\n" in leaf["diff"]
        runs = here.runs()
        assert runs["Ethernet1/1"] == runs["Ethernet2/1"]
        assert runs["Ethernet1/1"].kmin_bytes == joint["watermark"]["kmin_bytes"]
        assert runs["Ethernet3/1"] == runs["Ethernet4/1"]
        assert runs["Ethernet3/1"].kmin_bytes == slow["kmin_bytes"]
        assert switch.line(3) == line_of(FIRST)  # the shared profile
        assert (await here.rolled_back(decided["rollout"]))["phase"] == "rolled_back"
        assert switch.running == before


async def test_what_runs_by_role_is_read_by_port_and_is_the_next_rounds_incumbent(starting: Starting) -> None:
    async with starting() as here:
        await here.approved()
        leaf, runs = await here.leaf(), here.runs()
        assert (leaf["set_to"], leaf["drifted"], leaf["differs"]) == (None, False, True)
        assert {one["port"]: one["kmin_bytes"] for one in leaf["queues"]} == {
            port: mark.kmin_bytes for port, mark in runs.items()
        }
        assert {one["role"]: one["kmin_bytes"] for one in leaf["set_by_role"]} == {
            FAST: runs["Ethernet1/1"].kmin_bytes,
            SLOW: runs["Ethernet3/1"].kmin_bytes,
        }
        await here.post_reports(list(reports(N_REPORTS)))
        again = await here.post("/v1/tune")
        beside = {one["role"]: one["kmin_bytes"] for one in again["incumbent_by_role"]}
        assert len(beside) == 1
        assert beside.items() <= {one["role"]: one["kmin_bytes"] for one in leaf["set_by_role"]}.items()


async def test_a_port_that_somebody_else_has_set_is_drift_until_it_is_adopted(
    starting: Starting, switch: EosSwitch
) -> None:
    async with starting() as here:
        await here.approved()
        switch.set_by_hand(3, line_of(FOREIGN), switch.effective("Ethernet3/1"))
        assert (await here.leaf())["drifted"]
        await here.post("/v1/switches/leaf1/adopt")
        leaf = await here.leaf()
        assert (leaf["drifted"], leaf["set_by_role"]) == (False, [])


async def test_another_process_reads_by_port_and_takes_the_change_back(
    starting: Starting, switch: EosSwitch
) -> None:
    before = deepcopy(switch.running)
    async with starting() as here:
        rollout = await here.approved()
        leaf = await here.leaf()
    async with starting() as here:
        again = await here.leaf()
        assert (again["set_by_role"], again["queues"]) == (leaf["set_by_role"], leaf["queues"])
        assert not again["drifted"]
        assert (await here.rolled_back(rollout["id"]))["phase"] == "rolled_back"
        assert switch.running == before
        assert (await here.leaf())["set_by_role"] == []


@pytest.mark.parametrize("left", ["Ethernet[12]/1", "Ethernet9/1"], ids=["one role's", "all"])
async def test_ports_that_have_left_the_inventory_are_put_back(
    starting: Starting, switch: EosSwitch, left: str
) -> None:
    before = deepcopy(switch.running)
    async with starting() as here:
        rollout = await here.approved()
    async with starting(ports=[left]) as here:
        assert (await here.rolled_back(rollout["id"]))["phase"] == "rolled_back"
        assert switch.running == before


async def test_one_watermark_for_all_ports_can_be_set_again(starting: Starting, switch: EosSwitch) -> None:
    async with starting() as here:
        await here.approved()
        by_role, store, was = here.runs(), here.service.store, await here.leaf()
        await here.post_reports(list(reports(N_REPORTS)))
        found = await here.tuned()
        store.update(replace(store.get(found["id"]), watermark=FOREIGN, staged=FOREIGN))
        decided = await here.post(f"/v1/recommendations/{found['id']}/approve")
        rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
        assert (rollout["phase"], rollout["why"]) == ("done", None)
        assert set(here.runs().values()) == {FOREIGN}
        leaf = await here.leaf()
        assert (leaf["drifted"], leaf["set_by_role"], leaf["differs"]) == (False, [], False)
        await here.rolled_back(rollout["id"])
        assert here.runs() == by_role
    async with starting() as here:
        leaf = await here.leaf()
        assert (leaf["drifted"], leaf["set_by_role"], leaf["queues"]) == (
            False,
            was["set_by_role"],
            was["queues"],
        )
        switch.set_by_hand(3, line_of(FOREIGN), switch.effective("Ethernet3/1"))
        assert (await here.leaf())["drifted"]


async def test_a_part_that_is_refused_takes_the_others_back(starting: Starting, switch: EosSwitch) -> None:
    before = deepcopy(switch.running)
    async with starting() as here:
        switch.refuses = f"qos profile ecntwin-{SLOW}"
        rollout = await here.approved()
        assert rollout["phase"] == "rolled_back"
        assert "apply failed" in rollout["why"]
        assert switch.running == before


async def test_without_push_it_is_staged_and_recorded_and_nothing_is_set(
    starting: Starting, switch: EosSwitch
) -> None:
    before = deepcopy(switch.running)
    async with starting(push=False) as here:
        rollout = await here.approved()
        assert (rollout["phase"], rollout["summary"]["written"]) == ("done", 0)
        assert f"qos profile ecntwin-{SLOW}" in rollout["switches"][0]["diff"]
        assert [one["diff"] for one in (await here.leaf())["records"]] == [rollout["switches"][0]["diff"]]
        assert switch.running == before


async def test_values_that_a_later_round_changed_are_not_set(starting: Starting) -> None:
    async with starting() as here:
        found = await here.tuned()
        other = {"kmin_bytes": 1_000, "kmax_bytes": 2_000, "pmax": 0.5}
        told = {"watermark": found["co_tuning"]["watermark"], "by_role": {SLOW: other}}
        path = f"/v1/recommendations/{found['id']}/approve"
        refused = await here.post(path, {**WITH_ROLES, "together": told}, 409)
        assert "a later round behind it found" in refused["detail"]
        refused = await here.post(path, {"parts": ["watermark", "roles", "nic"]}, 409)
        assert "its joint change leaves NICs as they are" in refused["detail"]


async def test_a_platform_with_one_watermark_for_all_ports_refuses_before_anything_is_set(
    starting: Starting, switch: EosSwitch
) -> None:
    before = deepcopy(switch.running)
    async with starting(platform="nvue", ports=[]) as here:
        found = await here.tuned()
        said = "all ports bound to a congestion-control profile run its watermark"
        assert said in found["roles_refused"]
        refused = await here.post(f"/v1/recommendations/{found['id']}/approve", WITH_ROLES, 409)
        assert said in refused["detail"]
    switch.unexpected.clear()  # what was asked of a switch of that platform
    assert switch.running == before


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[dict[str, Any], list[Sysfs]]]:
    """Two hosts of the inventory that run the driver's defaults, over one sshd, and their files."""
    server = Sshd(find(), ("127.0.0.1", "127.0.0.2"))
    monkeypatch.setenv("TEST_HOST_USER", server.user)
    hosts, files = {}, []
    for name, address in zip(("gpu1", "gpu2"), server.addresses, strict=True):
        files.append(Sysfs(server.folder / name))
        files[-1].add("ens1", values=SLOW_CUTS)
        hosts[name] = {
            "platform": "connectx",
            "address": address,
            "port": server.port,
            "username": {"env": "TEST_HOST_USER"},
            "key_file": str(server.key_file),
            "known_hosts": str(server.known_hosts),
            "timeout_s": 60,
            "sysfs": str(files[-1].folder),
        }
    server.give_to_account(server.folder)
    yield hosts, files
    server.close()


async def test_ports_by_role_and_nics_are_set_as_one_and_undone(
    starting: Starting, switch: EosSwitch, gpus: tuple[dict[str, Any], list[Sysfs]]
) -> None:
    before, (hosts, files) = deepcopy(switch.running), gpus
    async with starting(hosts=hosts) as here:
        for name in hosts:
            await here.service.nics.read(name)
        found = await here.tuned()
        joint, path = found["co_tuning"], f"/v1/recommendations/{found['id']}/approve"
        (slow,) = joint["by_role"]
        cut = joint["connectx"]["rate_reduce_monitor_period"]
        assert (slow["role"], found["nics_refused"], found["roles_refused"]) == (SLOW, None, None)
        told = msgspec.convert(found, RecommendationAnswer)
        assert told.settable is not None
        assert told.settable.beside == ["nic", "roles"]
        assert msgspec.structs.replace(told, roles_refused="They are guessed").settable is None
        for one, says in (("nic", "thresholds by port role too"), ("roles", "values of NICs too")):
            refused = await here.post(path, {"parts": ["watermark", one]}, 409)
            assert f"its joint change has {says}, which were predicted with it" in refused["detail"]
        mark = {key: slow[key] for key in joint["watermark"]}
        shown = {"watermark": joint["watermark"], "connectx": joint["connectx"], "by_role": {SLOW: mark}}
        other = {**shown, "connectx": {"rpg_ai_rate": 7}}
        refused = await here.post(path, {**BOTH, "together": other}, 409)
        assert "a later round behind it found" in refused["detail"]
        decided = await here.post(path, {**BOTH, "together": shown})
        assert decided["sets"] == ["watermark", "nic", "roles"]
        rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
        assert (rollout["phase"], rollout["why"]) == ("done", None)
        assert rollout["stages"] == [["leaf1"], ["gpu1", "gpu2"]]  # switches gain more alone than NICs do
        assert joint["watermark_first"] > joint["others_first"]
        runs = here.runs()
        assert runs["Ethernet1/1"].kmin_bytes == joint["watermark"]["kmin_bytes"]
        assert runs["Ethernet3/1"].kmin_bytes == slow["kmin_bytes"]
        assert [one.value("ens1", "rate_reduce_monitor_period") for one in files] == [cut, cut]
        audit = (await here.get("/v1/audit"))["entries"][0]
        assert (audit["after"]["nics"], list(audit["after"]["by_role"])) == (joint["connectx"], [SLOW])
        assert (await here.rolled_back(decided["rollout"]))["phase"] == "rolled_back"
        assert switch.running == before
        assert [one.value("ens1", "rate_reduce_monitor_period") for one in files] == [50, 50]


async def test_roles_of_a_topology_that_was_discovered_are_not_set(starting: Starting) -> None:
    async with starting() as here:
        found = await here.tuned()
        service = here.service
        service.window.declared = None
        told = service.validity.document(service.store.get(found["id"]))
        assert "guessed until a topology is declared" in (told.roles_refused or "")

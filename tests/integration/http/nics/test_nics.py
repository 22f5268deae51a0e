"""A service that reads what NICs run over a real sshd, and gives it to the twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.service import Running, Wanted, manual, running, traffic
from tests.unit.nics.sshd import Sshd, find
from tests.unit.nics.sysfs import DEFAULTS, Sysfs
from twin.senders.dcqcn import PAPER, VENDOR, DcqcnParams

pytestmark = pytest.mark.anyio
HOSTS = ("gpu1", "gpu2", "gpu3")
# The paper's clocks as files hold them.
AS_PUBLISHED = {"rpg_time_reset": 55, "dce_tcp_rtt": 55, "rate_reduce_monitor_period": 50, "rpg_threshold": 5}
SETTLED = {"hold_s": 0, "clear_s": 0}


@pytest.fixture
def sshd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    server = Sshd(find(), ("127.0.0.1", "127.0.0.2", "127.0.0.3"))
    monkeypatch.setenv("TEST_HOST_USER", server.user)
    yield server
    server.close()


class Fabric:
    """Three hosts with a NIC each, which one sshd shows as files, and settings with their inventory."""

    def __init__(self, sshd: Sshd, folder: Path) -> None:
        self.sshd = sshd
        self.sysfs = {}
        for name in HOSTS:
            self.sysfs[name] = Sysfs(sshd.folder / name)
            self.sysfs[name].add("ens1")
            sshd.give_to_account(sshd.folder / name)
        self.hosts: dict[str, dict[str, Any]] = {
            name: {"class": "h100", "address": address, "sysfs": str(sshd.folder / name)}
            for name, address in zip(HOSTS, sshd.addresses, strict=True)
        }
        self.path = folder / "inventory.yaml"

    def wanted(self, **sections: Any) -> Wanted:
        classes = {
            "h100": {
                "platform": "connectx",
                "port": self.sshd.port,
                "username": {"env": "TEST_HOST_USER"},
                "key_file": str(self.sshd.key_file),
                "known_hosts": str(self.sshd.known_hosts),
                "timeout_s": 60,
            }
        }
        document = {"switches": {"leaf1": {"platform": "dry-run"}}, "classes": classes, "hosts": self.hosts}
        self.path.write_text(yaml.safe_dump(document), "utf-8")
        return Wanted(manual(push={"inventory": str(self.path)}, **sections))


@pytest.fixture
def fabric(sshd: Sshd, tmp_path: Path) -> Fabric:
    return Fabric(sshd, tmp_path)


async def recommendation(run: Running) -> dict[str, Any]:
    await run.post_reports(traffic())
    return await run.post("/v1/tune")


def senders(run: Running) -> DcqcnParams:
    """What the last round took senders to run."""
    return run.service.tuning.moments._kept[-1].scenario.dcqcn


async def nics(run: Running) -> dict[str, Any]:
    """As read now."""
    for name in run.service.nics.hosts:
        await run.service.nics.read(name)
    return await run.get("/v1/nics")


async def test_what_the_nics_run_goes_to_the_twin(fabric: Fabric) -> None:
    async with running(fabric.wanted()) as run:
        found = await nics(run)
        assert found["senders"]["source"] == "nics"
        assert found["senders"]["dcqcn"]["rai_gbps"] == 0.005
        assert found["senders"]["differ"] is found["senders"]["contradict"] is None
        assert [host["name"] for host in found["hosts"]] == list(HOSTS)
        first = found["hosts"][0]
        assert (first["nic_class"], first["reachable"], first["detail"]) == ("h100", True, None)
        assert first["nics"][0]["values"] == DEFAULTS
        assert first["nics"][0]["counters"]["np_cnp_sent"] == 120
        made = await recommendation(run)
        assert not any("NIC" in note for note in made["notes"])
        assert senders(run) == VENDOR


async def test_hosts_are_listed_page_by_page(fabric: Fabric) -> None:
    async with running(fabric.wanted(telemetry={"nics": {"every_s": 3_600}})) as run:
        every = await nics(run)
        page = await run.get("/v1/nics?limit=2")
        assert page == {**every, "hosts": every["hosts"][:2]}
        assert await run.get("/v1/nics?after=gpu2") == {**every, "hosts": every["hosts"][2:]}
        names = await run.get("/v1/nics?limit=1&after=gpu1&fields=hosts.name,senders.source")
        assert names == {"senders": {"source": "nics"}, "hosts": [{"name": "gpu2"}]}
        problem = (await run.client.get("/v1/nics?after=gpu9")).json()
        documented = (await run.get("/openapi.json"))["paths"]["/v1/nics"]["get"]["responses"]
        assert str(problem["status"]) in documented
        assert (problem["status"], problem["rule"]) == (404, "not in push.inventory")


async def test_without_hosts_the_preset_is_used(tmp_path: Path) -> None:
    async with running() as run:
        found = await nics(run)
        assert found == {**found, "hosts": []}
        assert found["senders"]["source"] == "settings"
        await recommendation(run)
        assert senders(run) == PAPER


async def test_a_nic_that_differs_is_an_alarm_and_a_note(fabric: Fabric) -> None:
    fabric.sysfs["gpu3"].write("ens1", "rpg_ai_rate", 50)
    async with running(fabric.wanted(alarms=SETTLED)) as run:
        found = await nics(run)
        assert found["senders"]["differing"] == 1
        made = await recommendation(run)
        says = "1 of 3 NICs run other DCQCN parameters than most: gpu3/ens1 (rpg_ai_rate 50 against 5 Mbit/s)"
        assert f"{says}; the twin takes all to run what most do." in made["notes"]
        await run.service.alarms.check()
        (alarm,) = (await run.client.get("/v1/alarms")).json()["alarms"]
        assert (alarm["kind"], alarm["sentence"]) == ("senders", says)
        fabric.sysfs["gpu3"].write("ens1", "rpg_ai_rate", 5)
        await nics(run)
        await run.service.alarms.check()
        assert not (await run.client.get("/v1/alarms")).json()["alarms"]


async def test_settings_that_say_something_else_are_contradicted(fabric: Fabric) -> None:
    async with running(fabric.wanted(dcqcn={"preset": "paper"}, alarms=SETTLED)) as run:
        found = await nics(run)
        assert found["senders"]["source"] == "nics"
        assert "rpg_ai_rate 5 against 40 Mbit/s" in found["senders"]["contradict"]
        assert run.metric("ecntwin_sender_contradicts") == 1
        made = await recommendation(run)
        assert any(
            note.startswith("NICs run other DCQCN parameters than the settings") for note in made["notes"]
        )
        assert senders(run) == VENDOR


async def test_with_most_hosts_away_the_settings_hold_and_each_is_an_alarm(fabric: Fabric) -> None:
    fabric.hosts["gpu2"]["key_file"] = "/nowhere/key"
    fabric.hosts["gpu3"]["port"] = 1
    async with running(fabric.wanted(alarms=SETTLED)) as run:
        for name in ("gpu1", "gpu3"):
            await run.service.nics.read(name)
        found = (await run.client.get("/v1/nics")).json()
        assert found["senders"]["source"] == "settings"
        assert [host["reachable"] for host in found["hosts"]] == [True, False, False]
        assert "it is a file; correct the path" in found["hosts"][1]["detail"]
        made = await recommendation(run)
        assert any("known of only 1 of 3 hosts" in note for note in made["notes"])
        await run.service.alarms.check()
        (alarm,) = (await run.client.get("/v1/alarms")).json()["alarms"]
        assert (alarm["kind"], alarm["switch"], alarm["subject_count"]) == ("nic_source", None, 2)


async def test_what_if_predicts_for_what_the_nics_run(fabric: Fabric) -> None:
    async with running(fabric.wanted()) as run:
        await run.post_reports(traffic())
        asked = {"watermarks": [{"kmin_bytes": 20_000, "kmax_bytes": 80_000, "pmax": 0.1}]}
        await nics(run)
        before = (await run.client.post("/v1/whatif", json=asked)).json()
        for one in fabric.sysfs.values():
            for name, value in AS_PUBLISHED.items():
                one.write("ens1", name, value)
        await nics(run)
        after = (await run.client.post("/v1/whatif", json=asked)).json()
        assert before["results"] != after["results"]

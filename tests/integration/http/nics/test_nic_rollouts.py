"""A recommendation approved with its NIC values: hosts over a real sshd and a switch are set, and undone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.tuning import validity
from service.tuning.entry import Entry
from switches.registry import AdapterRegistry
from tests.integration.service import SMALL, Running, Wanted, manual, running
from tests.unit.nics.sshd import Sshd, find
from tests.unit.nics.sysfs import DEFAULTS, Sysfs
from tests.unit.service.rollouts.world import OLD, Switch
from tests.unit.twin.search.test_co_tuning import HERE as ENGINES
from twin.watermark import Watermark

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4")
SLOW_CUTS = {**DEFAULTS, "rate_reduce_monitor_period": 50, "min_time_between_cnps": 50}
WITH_NICS = {"parts": ["watermark", "nic"]}


@pytest.fixture(scope="module")
def sshd() -> Iterator[Sshd]:
    server = Sshd(find(), tuple(f"127.0.0.{number}" for number in range(1, len(HOSTS) + 1)))
    yield server
    server.close()


@dataclass
class Cluster:
    """Four hosts of two classes with a NIC each, and a switch in memory. ``away`` hosts have no server."""

    sshd: Sshd
    folder: Path
    sysfs: dict[str, Sysfs]
    leaf: Switch = field(default_factory=lambda: Switch("leaf1"))
    away: tuple[str, ...] = ()
    engine: str = "SendersMatter"

    def wanted(
        self,
        *,
        push: Mapping[str, Any] | None = None,
        rollout: Mapping[str, Any] | None = None,
        tuning: Mapping[str, Any] | None = None,
        what: tuple[str, ...] = ("watermark", "nic"),
        margin: float = 0.0,
    ) -> Wanted:
        common = {
            "platform": "connectx",
            "username": {"env": "TEST_HOST_USER"},
            "key_file": str(self.sshd.key_file),
            "known_hosts": str(self.sshd.known_hosts),
            "timeout_s": 60,
        }
        hosts = {
            name: {
                "class": "h100" if number < 2 else "b200",
                "address": address,
                "port": 1 if name in self.away else self.sshd.port,
                "sysfs": str(self.sysfs[name].folder),
            }
            for number, (name, address) in enumerate(zip(self.sysfs, self.sshd.addresses, strict=True))
        }
        inventory = self.folder / "inventory.yaml"
        document = {
            "switches": {"leaf1": {"platform": "memory"}},
            "classes": {"h100": common, "b200": common},
            "hosts": hosts,
        }
        inventory.write_text(yaml.safe_dump(document), "utf-8")
        registry = AdapterRegistry()
        registry.register("memory", lambda device, *, clock_ns: self.leaf)
        settings = manual(
            push={"inventory": str(inventory), "enabled": True, "nics": True, "read_every_s": 3_600}
            | dict(push or {}),
            storage={"url": f"sqlite:///{self.folder / 'here.db'}"},
            tuning={"enabled": False, "residual_limit": 1e9, "cool_down_s": 0} | dict(tuning or {}),
            rollout={"soak_s": 0, "batch_soak_s": 0, "nic_canary": 2, "nic_batch_size": 1}
            | dict(rollout or {}),
            telemetry={"nics": {"every_s": 3_600}},
            alarms={"every_s": 3_600},
        )
        search = replace(SMALL, engine=f"{ENGINES}:{self.engine}", what=what, margin=margin)  # type: ignore[arg-type]
        return Wanted(settings=settings, search=search, adapters=registry)

    def runs(self, name: str = "rate_reduce_monitor_period") -> list[int]:
        return [one.value("ens1", name) for one in self.sysfs.values()]


@pytest.fixture
def cluster(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("TEST_HOST_USER", sshd.user)
    sysfs = {}
    for name in HOSTS:
        sysfs[name] = Sysfs(sshd.folder / tmp_path.name / name)
        sysfs[name].add("ens1", values=SLOW_CUTS)
    sshd.folder.joinpath(tmp_path.name).chmod(0o755)
    sshd.give_to_account(sshd.folder / tmp_path.name)
    return Cluster(sshd, tmp_path, sysfs)


class Here(Running):
    async def read(self) -> None:
        for name in self.service.nics.hosts:
            await self.service.nics.read(name)

    async def tuned(self) -> dict[str, Any]:
        """A recommendation that waits."""
        await self.read()
        found = await self.post("/v1/tune")
        assert found["status"] == "pending", found["why"]
        return found

    async def approved(self, body: object = WITH_NICS) -> dict[str, Any]:
        decided = await self.post(f"/v1/recommendations/{(await self.tuned())['id']}/approve", body)
        return await self.get(f"/v1/rollouts/{decided['rollout']}")

    def changed(self, of: str, **values: Any) -> Entry:
        """Gives a recommendation another joint change."""
        store = self.service.store
        entry = store.get(of)
        assert entry.together is not None
        return store.update(replace(entry, together=replace(entry.together, **values)))


@asynccontextmanager
async def started(wanted: Wanted) -> AsyncIterator[Here]:
    async with running(wanted) as run:
        await run.feed()
        yield Here(**vars(run))


async def test_nics_and_the_watermark_that_goes_with_them_are_set_and_undone(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        found = await here.tuned()
        joint = found["co_tuning"]
        cut = joint["connectx"]["rate_reduce_monitor_period"]
        assert joint["recommended"]
        assert (found["nics_refused"], found["sets"]) == (None, ["watermark"])
        told = {"watermark": joint["watermark"], "connectx": joint["connectx"]}
        decided = await here.post(
            f"/v1/recommendations/{found['id']}/approve", {**WITH_NICS, "together": told}
        )
        assert decided["sets"] == ["watermark", "nic"]
        assert decided["staged"] == joint["watermark"]
        rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
        assert (rollout["phase"], rollout["why"]) == ("done", None)
        # For this engine NICs alone gain less than the watermark alone: that goes first. Then a host of each
        # class, and the others one by one.
        assert joint["others_first"] < joint["watermark_first"] < joint["gain"]
        assert rollout["stages"] == [["leaf1"], ["gpu3", "gpu1"], ["gpu2"], ["gpu4"]]
        assert rollout["summary"]["hosts"] == rollout["summary"]["hosts_written"] == 4
        assert rollout["summary"]["hosts_progress"] == {"set": 4}
        part = await here.get(f"/v1/rollouts/{rollout['id']}?fields=hosts.host,hosts.progress")
        assert part == {
            "hosts": [{"host": one, "progress": "set"} for one in ("gpu3", "gpu1", "gpu2", "gpu4")]
        }
        gpu3 = rollout["hosts"][0]
        assert (gpu3["host"], gpu3["progress"], gpu3["writes"]) == ("gpu3", "set", True)
        assert f"gpu3/ens1 rate_reduce_monitor_period: 50 → {cut} µs" in gpu3["diff"]
        assert cluster.runs() == cluster.runs("min_time_between_cnps") == [cut] * 4
        assert cluster.leaf.running.kmin_bytes == joint["watermark"]["kmin_bytes"]
        # What was set is known at once: the next round is of the new senders.
        assert here.service.nics.senders.params.cnp_interval_s == pytest.approx(cut * 1e-6)
        await here.rolled_back(decided["rollout"])
        assert cluster.runs() == cluster.runs("min_time_between_cnps") == [50] * 4
        assert cluster.leaf.running == OLD
        assert here.metric("ecntwin_switch_rollbacks_total", adapter="connectx") == 4
        steps = here.metric("ecntwin_switch_step_duration_seconds_count", adapter="connectx", step="apply")
        assert steps == 4


async def test_nics_go_first_where_that_is_predicted_better(cluster: Cluster) -> None:
    async with started(cluster.wanted(rollout={"nic_batch_size": 9})) as here:
        found = await here.tuned()
        here.changed(found["id"], nics_first=True)
        decided = await here.post(f"/v1/recommendations/{found['id']}/approve", WITH_NICS)
        rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
        assert rollout["stages"] == [["gpu3", "gpu1"], ["gpu2", "gpu4"], ["leaf1"]]
        assert rollout["phase"] == "done"


async def test_without_push_hosts_are_staged_and_nothing_is_set(cluster: Cluster) -> None:
    cluster.leaf.writes = False
    async with started(cluster.wanted(push={"nics": False})) as here:
        rollout = await here.approved()
        assert (rollout["phase"], rollout["summary"]["hosts_written"]) == ("done", 0)
        assert all("rate_reduce_monitor_period: 50 →" in host["diff"] for host in rollout["hosts"])
        assert cluster.runs() == [50] * 4


async def test_approving_the_watermark_alone_leaves_nics(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        rollout = await here.approved(None)
        assert (rollout["phase"], rollout["stages"], rollout["hosts"]) == ("done", [["leaf1"]], [])
        assert cluster.runs() == [50] * 4


async def test_hosts_that_do_not_answer_undo_nothing_as_nothing_was_set(cluster: Cluster) -> None:
    cluster.away = ("gpu2",)
    async with started(cluster.wanted(rollout={"patience_s": 0})) as here:
        rollout = await here.approved()
        assert rollout["phase"] == "rolled_back"
        assert "stage failed: host 'gpu2' (connectx at 127.0.0.2)" in rollout["why"]
        assert cluster.runs() == [50] * 4
        assert cluster.leaf.running == OLD
        assert here.metric("ecntwin_switch_failures_total", adapter="connectx", reason="unreachable")


async def test_up_to_a_share_of_hosts_may_be_left_out(cluster: Cluster) -> None:
    cluster.away = ("gpu2", "gpu4")
    async with started(cluster.wanted(rollout={"patience_s": 0, "nic_missing_share": 0.5})) as here:
        rollout = await here.approved()
        assert (rollout["phase"], rollout["why"]) == ("done", None)
        assert rollout["summary"]["left_out"] == ["gpu2", "gpu4"]
        assert rollout["summary"]["hosts_progress"] == {"set": 2, "left_out": 2}
        out = next(host for host in rollout["hosts"] if host["host"] == "gpu2")
        assert "127.0.0.2" in out["detail"]
        assert [value == 50 for value in cluster.runs()] == [False, True, False, True]


async def test_beyond_that_share_nothing_is_set(cluster: Cluster) -> None:
    cluster.away = ("gpu2", "gpu4")
    async with started(cluster.wanted(rollout={"patience_s": 0, "nic_missing_share": 0.4})) as here:
        rollout = await here.approved()
        assert rollout["phase"] == "rolled_back"
        assert cluster.runs() == [50] * 4


async def test_a_file_that_takes_no_value_undoes_all_hosts(cluster: Cluster) -> None:
    gpu4 = cluster.sysfs["gpu4"].file("ens1", "rate_reduce_monitor_period")
    gpu4.chmod(0o444)
    async with started(cluster.wanted()) as here:
        rollout = await here.approved()
        if cluster.sshd.user == "root":
            pytest.skip("root writes any file")
        assert rollout["phase"] == "rolled_back"
        assert "apply failed: host 'gpu4'" in rollout["why"]
        assert "all was undone" in rollout["why"]
        assert cluster.runs() == cluster.runs("min_time_between_cnps") == [50] * 4
        assert cluster.leaf.running == OLD


async def test_a_driver_without_the_file_is_told_before_anything_is_set(cluster: Cluster) -> None:
    cluster.sysfs["gpu4"].file("ens1", "rate_reduce_monitor_period").unlink()
    async with started(cluster.wanted()) as here:
        rollout = await here.approved()
        assert rollout["phase"] == "rolled_back"
        assert "no file of rate_reduce_monitor_period" in rollout["why"]
        assert "install a newer driver" in rollout["why"]
        assert cluster.runs("min_time_between_cnps") == [50] * 4


async def test_what_somebody_else_set_since_is_left_alone(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        rollout = await here.approved()
        cluster.sysfs["gpu2"].write("ens1", "rate_reduce_monitor_period", 77)
        after = await here.rolled_back(rollout["id"])
        assert (after["phase"], after["summary"]["left_alone"]) == ("rolled_back", ["gpu2"])
        assert cluster.runs() == [50, 77, 50, 50]


async def test_one_pending_expires_once_nics_run_something_else(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A review between two of the readings would have seen one class only, and would say so.
    monkeypatch.setattr(validity, "REVIEW_EVERY_S", 86_400.0)
    async with started(cluster.wanted()) as here:
        found = await here.tuned()
        for one in cluster.sysfs.values():
            one.write("ens1", "rpg_ai_rate", 40)
        await here.read()
        problem = await here.post(f"/v1/recommendations/{found['id']}/approve", status=409)
        assert (
            "NICs now run other values than it was made for (rpg_ai_rate 5 against 40 Mbit/s)"
            in (problem["rule"])
        )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"recommended": False}, "its joint change is not sure enough to recommend"),
        (
            {"by_role": {"leaf-host-100G": Watermark(20_000, 80_000, 0.1)}},
            "its joint change has thresholds by port role too, which were predicted with it",
        ),
        ({"connectx": {}}, "its joint change leaves NICs as they are"),
    ],
)
async def test_a_change_that_cannot_be_set_is_refused(
    cluster: Cluster, change: dict[str, Any], says: str
) -> None:
    async with started(cluster.wanted()) as here:
        path = f"/v1/recommendations/{(found := await here.tuned())['id']}"
        here.changed(found["id"], **change)
        problem = await here.post(f"{path}/approve", WITH_NICS, status=409)
        assert problem["rule"] == says
        # Whether both can be set is another question: this switch gives all ports one watermark.
        shown = "one watermark for all ports" if "by_role" in change else says
        assert shown in (await here.get(path))["nics_refused"]
        assert cluster.runs() == [50] * 4


async def test_other_values_than_those_shown_are_refused(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        found = await here.tuned()
        joint = found["co_tuning"]
        told = {"watermark": joint["watermark"], "connectx": {"rpg_ai_rate": 7}}
        problem = await here.post(
            f"/v1/recommendations/{found['id']}/approve", {**WITH_NICS, "together": told}, status=409
        )
        assert "with rpg_ai_rate 7 Mbit/s" in problem["received"]
        assert problem["rule"].startswith("a later round behind it found Kmin")


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"what": ("watermark",)}, "its round did not look for a change of NICs"),
        ({"push": {"nics": False}}, "switches would be written and hosts not"),
        ({"tuning": {"max_step": 1.01}}, "leaf1 would get a step towards"),
    ],
)
async def test_what_would_set_another_change_than_the_predicted_is_refused(
    cluster: Cluster, sections: dict[str, Any], says: str
) -> None:
    async with started(cluster.wanted(**sections)) as here:
        problem = await here.post(
            f"/v1/recommendations/{(await here.tuned())['id']}/approve", WITH_NICS, status=409
        )
        assert problem["rule"].startswith(says)


async def test_nics_alone_are_no_part_to_approve(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        path = f"/v1/recommendations/{(await here.tuned())['id']}/approve"
        problem = await here.post(path, {"parts": ["nic"]}, status=422)
        assert "the watermark goes with its NIC values; give both parts" in str(problem)


async def test_a_round_that_keeps_the_watermark_may_still_wait_for_nics(cluster: Cluster) -> None:
    async with started(cluster.wanted(rollout={"auto": True}, margin=0.05)) as here:
        cluster.leaf.running = Watermark(3_000, 94_000, 0.09)  # as good as any
        found = await here.tuned()  # policy has not approved it
        assert not found["changes"]
        path = f"/v1/recommendations/{found['id']}/approve"
        problem = await here.post(path, status=409)
        assert problem["rule"] == "it leaves the watermark as it is, unless NICs or roles are set with it"
        decided = await here.post(path, WITH_NICS)
        assert (await here.get(f"/v1/rollouts/{decided['rollout']}"))["phase"] == "done"
        assert 50 not in cluster.runs()

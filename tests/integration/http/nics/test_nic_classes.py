"""Hosts of two classes over a real sshd: each is read, set and undone by values of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.http.nics.test_nic_rollouts import SLOW_CUTS, WITH_NICS, Cluster, sshd, started
from tests.unit.nics.sshd import Sshd
from tests.unit.nics.sysfs import DEFAULTS, Sysfs

__all__ = ["sshd"]
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("answered_once_ended")]

BEFORE = {"h0": SLOW_CUTS, "h1": SLOW_CUTS, "h2": DEFAULTS, "h3": DEFAULTS}


@pytest.fixture
def cluster(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The hosts of the declared topology: h0 and h1 of class h100, h2 and h3 of b200."""
    monkeypatch.setenv("TEST_HOST_USER", sshd.user)
    sysfs = {name: Sysfs(sshd.folder / tmp_path.name / name) for name in BEFORE}
    for name, one in sysfs.items():
        one.add("ens1", values=BEFORE[name])
    sshd.folder.joinpath(tmp_path.name).chmod(0o755)
    sshd.give_to_account(sshd.folder / tmp_path.name)
    return Cluster(sshd, tmp_path, sysfs, engine="ClassesMatter")


async def test_two_classes_are_read_set_differently_and_undone(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        found = await here.tuned()
        shown = await here.get("/v1/nics")
        assert [host["dcqcn_class"] for host in shown["hosts"]] == ["h100", "h100", "b200", "b200"]
        assert shown["senders"]["dcqcn"]["cnp_interval_us"] == 50
        assert {name: one["cnp_interval_us"] for name, one in shown["senders"]["by_class"].items()} == {
            "b200": 4
        }
        assert shown["senders"]["differ"] is None
        joint = found["co_tuning"]
        assert joint["recommended"]
        cut = joint["connectx"]["rate_reduce_monitor_period"]
        own = joint["connectx_by_class"]["b200"]["rate_reduce_monitor_period"]
        assert cut < 20 < own
        path = f"/v1/recommendations/{found['id']}/approve"
        told = {"watermark": joint["watermark"], "connectx": joint["connectx"]}
        problem = await here.post(path, {**WITH_NICS, "together": told}, status=409)
        assert "on b200 rate_reduce_monitor_period" in problem["rule"]
        told["connectx_by_class"] = joint["connectx_by_class"]
        decided = await here.post(path, {**WITH_NICS, "together": told})
        rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
        assert (rollout["phase"], rollout["why"]) == ("done", None)
        assert cluster.runs() == cluster.runs("min_time_between_cnps") == [cut, cut, own, own]
        runs = here.service.nics.senders
        assert runs.params.cnp_interval_s == pytest.approx(cut * 1e-6)
        assert runs.of_class("b200").cnp_interval_s == pytest.approx(own * 1e-6)
        again = await here.get(f"/v1/recommendations/{found['id']}")
        assert again["co_tuning"] == joint
        await here.rolled_back(decided["rollout"])
        assert cluster.runs() == [50, 50, 4, 4]
        assert cluster.runs("min_time_between_cnps") == [50, 50, 4, 4]


async def test_a_class_that_stays_is_no_part_of_the_rollout(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        found = await here.tuned()
        values = {"rpg_ai_rate": 7}
        here.changed(found["id"], connectx={}, connectx_by_class={"b200": values})
        decided = await here.post(f"/v1/recommendations/{found['id']}/approve", WITH_NICS)
        rollout = await here.get(f"/v1/rollouts/{decided['rollout']}")
        assert sorted(host["host"] for host in rollout["hosts"]) == ["h2", "h3"]
        assert cluster.runs("rpg_ai_rate") == [5, 5, 7, 7]


async def test_values_of_a_class_without_hosts_are_refused(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        found = await here.tuned()
        here.changed(found["id"], connectx_by_class={"25G": {"rpg_ai_rate": 7}})
        problem = await here.post(f"/v1/recommendations/{found['id']}/approve", WITH_NICS, status=409)
        assert problem["rule"] == "no host is of class 25G now, of which its round set values"
        assert cluster.runs("rpg_ai_rate") == [5, 5, 5, 5]


async def test_one_pending_expires_once_a_class_runs_something_else(cluster: Cluster) -> None:
    async with started(cluster.wanted()) as here:
        found = await here.tuned()
        for name in ("h2", "h3"):
            cluster.sysfs[name].write("ens1", "rpg_ai_rate", 40)
        await here.read()
        problem = await here.post(f"/v1/recommendations/{found['id']}/approve", status=409)
        assert "NICs of b200 now run other values than it was made for (rpg_ai_rate 5" in problem["rule"]


async def test_a_nic_unlike_its_class_is_told_of(cluster: Cluster) -> None:
    cluster.sysfs["h3"].write("ens1", "rpg_ai_rate", 40)
    cluster.sysfs["h0"].write("ens1", "rpg_ai_rate", 5)
    async with started(cluster.wanted()) as here:
        await here.read()
        shown = await here.get("/v1/nics")
        assert shown["senders"]["differing"] == 1
        assert shown["senders"]["differ"].startswith(
            "1 of 4 NICs run other DCQCN parameters than most of their"
        )

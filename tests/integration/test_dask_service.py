"""The service's rounds on a real cluster: a worker killed in the middle, a scheduler that is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.counterparts.dask_cluster import DaskCluster
from tests.integration.service import SMALL, Running, Wanted, manual, running, traffic
from tests.unit.twin.analytic_engine import HERE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SEARCH = replace(SMALL, engine=f"{HERE}:AnalyticEngine", batch=8)


@pytest.fixture
async def clustered(tmp_path: Path) -> AsyncIterator[tuple[DaskCluster, Running]]:
    with DaskCluster(tmp_path / "dask") as cluster:
        section = {"backend": "dask", "dask_scheduler": cluster.address, "dask_timeout_s": 20.0}
        async with running(Wanted(manual(search=section), search=SEARCH, workers=None)) as started:
            await started.post_reports(traffic())
            yield cluster, started


async def test_a_cluster_that_loses_a_worker_and_then_its_scheduler(
    clustered: tuple[DaskCluster, Running],
) -> None:
    cluster, service = clustered
    async with running(Wanted(search=SEARCH)) as local:
        await local.post_reports(traffic())
        expected = (await local.client.post("/v1/tune")).json()["recommendation"]

    answer = await service.tuned_while(lambda: cluster.kill(cluster.processes[0]))
    assert answer.status_code == 200, answer.text
    assert answer.json()["recommendation"] == expected

    cluster.kill_scheduler()
    refused = await service.client.post("/v1/tune")
    assert refused.status_code == 503
    assert refused.json()["where"] == f"dask scheduler {cluster.address}"
    assert "the next round tries again" in refused.json()["remedy"]
    assert service.metric("ecntwin_rounds_total", outcome="failed") == 1
    assert (await service.client.get("/healthz")).status_code == 200
    assert (await service.post_reports(traffic(10, first=900)))["accepted"] == 10

    cluster.restart_scheduler()
    cluster.add_worker()
    cluster.wait_for_workers(1)
    again = await service.client.post("/v1/tune")
    assert again.status_code == 200, again.text


async def test_what_a_cluster_leaves_behind_runs_here_where_the_settings_say_so(tmp_path: Path) -> None:
    async with running(Wanted(search=SEARCH)) as local:
        await local.post_reports(traffic())
        expected = (await local.client.post("/v1/tune")).json()["recommendation"]

    with DaskCluster(tmp_path / "dask") as cluster:
        section = {
            "backend": "dask",
            "dask_scheduler": cluster.address,
            "dask_timeout_s": 20.0,
            "dask_fallback": True,
            "workers": 2,
        }
        async with running(Wanted(manual(search=section), search=SEARCH, workers=None)) as service:
            await service.post_reports(traffic())
            answer = await service.tuned_while(cluster.kill_scheduler)
    assert answer.status_code == 200, answer.text
    assert answer.json()["recommendation"] == expected


async def test_a_service_starts_without_its_scheduler(tmp_path: Path) -> None:
    section = {"backend": "dask", "dask_scheduler": "tcp://127.0.0.1:9", "dask_timeout_s": 0.3}
    async with running(Wanted(manual(search=section), search=SEARCH, workers=None)) as started:
        await started.post_reports(traffic())
        refused = await started.client.post("/v1/tune")
        assert refused.status_code == 503
        assert "a scheduler that answers within 0.3 s" in refused.json()["rule"]

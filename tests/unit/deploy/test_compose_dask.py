"""The cluster beside the compose file is as locked down, and the service finds it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from settings.twin import SearchSection
from tests.unit.deploy.monitoring import ROOT

OVERLAY: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.dask.yaml").read_text("utf-8"))
BASE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = OVERLAY["services"]
ADDED = sorted(set(SERVICES) - set(BASE["services"]))


@pytest.mark.parametrize("name", ADDED)
def test_what_it_adds_is_the_services_image_locked_down(name: str) -> None:
    service, ecntwin = SERVICES[name], BASE["services"]["ecntwin"]
    for key in ("image", "user", "read_only", "cap_drop", "security_opt"):
        assert service[key] == ecntwin[key]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["mem_limit"]
    assert service["networks"] == ["dask"]
    assert "ports" not in service, "whoever reaches it runs code there"
    assert OVERLAY["networks"]["dask"]["internal"] is True


def test_the_service_is_told_where_it_is() -> None:
    environment = SERVICES["ecntwin"]["environment"]
    section = SearchSection(
        backend=environment["ECNTWIN_SEARCH__BACKEND"],
        dask_scheduler=environment["ECNTWIN_SEARCH__DASK_SCHEDULER"],
    )
    scheduler, worker = SERVICES["dask-scheduler"]["command"], SERVICES["dask-worker"]["command"]
    assert section.dask_scheduler == f"tcp://dask-scheduler:{scheduler[scheduler.index('--port') + 1]}"
    assert section.dask_scheduler in worker
    assert "dask" in SERVICES["ecntwin"]["networks"]
    assert "default" in SERVICES["ecntwin"]["networks"], "Prometheus reaches it there"


def test_workers_are_no_more_than_processors() -> None:
    worker = SERVICES["dask-worker"]
    assert int(worker["command"][worker["command"].index("--nworkers") + 1]) == worker["cpus"]


def test_the_image_gets_the_extra() -> None:
    extras = SERVICES["ecntwin"]["build"]["args"]["EXTRAS"]
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert extras == "[dask]"
    assert "ARG EXTRAS" in dockerfile
    assert '".${EXTRAS}"' in dockerfile

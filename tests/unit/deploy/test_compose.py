"""What compose starts is locked down, guarded, and finds what it is given."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.unit.deploy.monitoring import PROMETHEUS, ROOT

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MADE = {
    "secrets/ecntwin.env",
    "secrets/grafana-password",
    "secrets/postgres-password",
    "secrets/prometheus-token",
}


def test_it_starts_what_it_should() -> None:
    assert set(SERVICES) == {"ecntwin", "postgres", "prometheus", "grafana"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_locked_down(name: str) -> None:
    service = SERVICES[name]
    assert int(service["user"].split(":")[0]) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["mem_limit"]
    assert "privileged" not in service
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), "only this machine, until somebody says otherwise"


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_has_a_version(name: str) -> None:
    _, _, version = SERVICES[name]["image"].rpartition(":")
    assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?", version)


def test_the_image_is_that_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert SERVICES["ecntwin"]["image"] == f"ecntwin:{project['version']}"
    assert (DEPLOY / SERVICES["ecntwin"]["build"]["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"


def test_the_service_may_write_where_it_is_told_to() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert f"--uid {SERVICES['ecntwin']['user'].split(':')[0]} " in dockerfile
    assert re.search(r"install -d -m 700 -o ecntwin -g ecntwin (\S+)$", dockerfile, re.MULTILINE)
    settings = yaml.safe_load((DEPLOY / "ecntwin.yaml").read_text("utf-8"))
    assert settings["storage"]["url"].startswith("sqlite:////var/lib/ecntwin/")
    assert "XDG_STATE_HOME=/var/lib\n" in dockerfile
    assert "\nVOLUME /var/lib/ecntwin\n" in dockerfile


def test_the_service_remembers_in_its_postgresql() -> None:
    user = SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    assert (
        SERVICES["ecntwin"]["environment"]["ECNTWIN_STORAGE__URL"] == f"postgresql://{user}@postgres/{user}"
    )
    assert SERVICES["ecntwin"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert "ports" not in SERVICES["postgres"]


def test_workers_are_no_more_than_processors() -> None:
    settings = yaml.safe_load((DEPLOY / "ecntwin.yaml").read_text("utf-8"))
    assert settings["search"]["workers"] == SERVICES["ecntwin"]["cpus"]


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_exists(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        source, target, *mode = volume.split(":")
        assert target.startswith("/")
        if source.startswith("."):
            assert (DEPLOY / source).exists(), volume
            assert mode == ["ro"]
        else:
            assert source in COMPOSE["volumes"]


def test_secrets_are_made_by_the_script_and_kept_out_of_git() -> None:
    script = (DEPLOY / "new-secrets").read_text("utf-8")
    named = {one["file"] for one in COMPOSE["secrets"].values()} | set(SERVICES["ecntwin"]["env_file"])
    assert named == MADE
    assert "token prometheus " in script
    assert ">grafana-password" in script
    assert ">postgres-password" in script
    assert "PGPASSWORD" in script
    assert ">ecntwin.env" in script
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_no_password_is_written_down() -> None:
    environment = SERVICES["grafana"]["environment"]
    secret = environment["GF_SECURITY_ADMIN_PASSWORD__FILE"].removeprefix("/run/secrets/")
    assert secret in SERVICES["grafana"]["secrets"]
    assert "GF_SECURITY_ADMIN_PASSWORD" not in environment
    assert environment["GF_AUTH_ANONYMOUS_ENABLED"] == "false"


def test_prometheus_scrapes_the_service_with_its_secret() -> None:
    document = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    (job,) = [one for one in document["scrape_configs"] if one["job_name"] == "ecntwin"]
    (target,) = job["static_configs"][0]["targets"]
    port = SERVICES["ecntwin"]["ports"][0].rpartition(":")[2]
    assert target == f"ecntwin:{port}"
    secret = job["authorization"]["credentials_file"].removeprefix("/run/secrets/")
    assert secret in SERVICES["prometheus"]["secrets"]


def test_grafana_finds_its_dashboards_and_prometheus() -> None:
    provisioning = DEPLOY / "grafana/provisioning"
    (provider,) = yaml.safe_load((provisioning / "dashboards/ecntwin.yaml").read_text("utf-8"))["providers"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in SERVICES["grafana"]["volumes"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (DEPLOY / "grafana/dashboards" / home.rpartition("/")[2]).exists()
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text("utf-8"))[
        "datasources"
    ]
    assert source["url"] == f"http://prometheus:{SERVICES['prometheus']['ports'][0].rpartition(':')[2]}"

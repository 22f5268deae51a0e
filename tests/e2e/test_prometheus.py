"""A real Prometheus, configured as ``deploy/`` says, scrapes a real service: rules and dashboard work."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, serving
from tests.unit.deploy.monitoring import PROMETHEUS, declared, expressions, names_in, recorded, rules, targets

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SECRETS = {"prometheus": "scrape", "operator": "act"}
SETTINGS = {
    "ECNTWIN_SEARCH__CANDIDATES": "16",
    "ECNTWIN_SEARCH__NARROWED": "4",
    "ECNTWIN_SEARCH__SECOND_OPINION": "off",
    "ECNTWIN_TUNING__ENABLED": "false",
    "ECNTWIN_SECURITY__TOKENS": json.dumps(
        [
            {"name": name, "sha256": sha256(text.encode()).hexdigest(), "scopes": scopes}
            for (name, text), scopes in zip(
                SECRETS.items(), (["read"], ["telemetry", "read", "operate", "admin"]), strict=True
            )
        ]
    ),
}
SHOWN = (
    "Service",
    "Newest report",
    "Mean bottleneck queue, predicted and measured",
    "Kmin",
    "Flows by class",
    "Twin off by",
    "Memory",
)


class Watched(NamedTuple):
    """A service after a round, and the Prometheus that scrapes it."""

    service: httpx.Client
    prometheus: httpx.Client

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that an expression has now."""
        answer = self.prometheus.get("/api/v1/query", params={"query": expression})
        assert answer.status_code == 200, f"{expression}: {answer.text}"
        samples: list[dict[str, Any]] = answer.json()["data"]["result"]
        return samples


def until(true: Callable[[], bool]) -> None:
    """Waits for what another process does in its own time."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def configured(folder: Path, service: str, port: int) -> Path:
    """The configuration of ``deploy/``, with this service for its target, quicker."""
    document = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    shutil.copytree(PROMETHEUS / "rules", folder / "rules")
    (folder / "token").write_text(SECRETS["prometheus"], "utf-8")
    document["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    at = {"ecntwin": [service.removeprefix("http://")], "prometheus": [f"127.0.0.1:{port}"]}
    for job in document["scrape_configs"]:
        job["static_configs"] = [{"targets": at.get(job["job_name"], [])}]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = str(folder / "token")
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


@pytest.fixture(scope="module")
def watched(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian package prometheus)")
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    with serving(**SETTINGS) as served:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={configured(folder, served.url, port)}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with (
                httpx.Client(
                    base_url=served.url,
                    timeout=PATIENCE_S,
                    headers={"Authorization": f"Bearer {SECRETS['operator']}"},
                ) as service,
                httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as prometheus,
            ):
                posted = service.post(
                    "/v1/telemetry/int",
                    content=(example / "reports.ndjson.gz").read_bytes(),
                    headers={"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"},
                )
                assert posted.status_code == 202, posted.text
                assert service.post("/v1/tune").status_code == 200
                until(lambda: process.poll() is None and _ready(prometheus))
                yield Watched(service, prometheus)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _ready(prometheus: httpx.Client) -> bool:
    try:
        return prometheus.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def test_the_service_is_up_and_scraped_with_its_token(watched: Watched) -> None:
    def stands() -> list[tuple[str, str]]:
        found = watched.prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]
        return [(one["health"], one["lastError"]) for one in found if one["labels"]["job"] == "ecntwin"]

    # A scrape may take too long on a busy machine, and the next one is good.
    until(lambda: [one["value"][1] for one in watched.query('up{job="ecntwin"}')] == ["1"])
    until(lambda: stands() == [("up", "")])


def test_every_rule_is_loaded_and_evaluated(watched: Watched) -> None:
    def answered() -> list[dict[str, Any]]:
        groups = watched.prometheus.get("/api/v1/rules").json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    until(lambda: all(rule["health"] == "ok" for rule in answered()))
    assert {rule["name"]: rule["health"] for rule in answered()} == {
        rule.get("alert") or rule["record"]: "ok" for rule in rules()
    }


def test_what_fires_is_what_the_service_says_is_wrong(watched: Watched) -> None:
    until(lambda: bool(watched.query("ecntwin:twin_residual:factor")))

    def firing() -> set[tuple[str, str | None]]:
        found = watched.query('ALERTS{alertname=~"Ecntwin.*", alertstate="firing"}')
        return {(one["metric"]["alertname"], one["metric"].get("kind")) for one in found}

    def wrong() -> set[tuple[str, str | None]]:
        said = watched.service.get("/v1/alarms").json()["alarms"]
        return {("EcntwinAlarmCritical", one["kind"]) for one in said if one["level"] == "critical"}

    until(lambda: firing() == wrong())


def test_the_service_exposes_every_metric_that_is_asked_for(watched: Watched) -> None:
    text = watched.service.get("/metrics", headers={"Accept": "text/plain"}).text
    exposed = {family.name for family in text_string_to_metric_families(text)}
    own = {
        name
        for expression in expressions()
        for name in names_in(expression)
        if not only_of_ingest(name) and name not in recorded() and name != "up"
    }
    assert own
    for name in own:
        assert name in declared()
        assert family_of(name) & exposed, name


def only_of_ingest(name: str) -> bool:
    """Whether only an ingest process has it."""
    return name.startswith("ecntwin_ingest_") and name not in (
        "ecntwin_ingest_refused_total",
        "ecntwin_ingest_pending_bytes",
    )


def family_of(name: str) -> set[str]:
    """Names that the family of a sample may have."""
    return {name} | {name.removesuffix(end) for end in ("_total", "_bucket", "_sum", "_count", "_info")}


def test_every_panel_of_the_dashboard_is_answered(watched: Watched) -> None:
    def empty() -> set[str]:
        shown: dict[str, int] = {}
        for panel, expression, _ in targets():
            asked = expression.replace("$instance", ".*").replace("$switch", ".*")
            found = watched.query(asked.replace("$__rate_interval", "1m"))
            shown[panel] = shown.get(panel, 0) + len(found)
        return {panel for panel in SHOWN if not shown[panel]}

    until(lambda: empty() == set())

"""A Prometheus, configured as ``deploy/`` says, scrapes a real service, and the metrics of 500 switches."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from service.metrics import Metrics
from telemetry.counters.window import PortRates, Rates
from telemetry.topology import leaf_spine
from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, serving
from tests.unit.deploy.monitoring import (
    DASHBOARDS,
    PROMETHEUS,
    dashboard,
    declared,
    expressions,
    filled_in,
    forwarding,
    names_in,
    recorded,
    rules,
    targets,
    values_asked,
)
from twin.watermark import Watermark

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
    "The fabric is",
    "Small messages, p99",
    "Recommended watermark",
    "Mean bottleneck queue",
    "Queue p99 by role",
    "Deepest queues",
    "Flows by class",
    "Twin off by",
    "Requests",
    "Time until answers begin",
    "Memory",
)
N_SWITCHES = 500
MOST_SERIES = 24
"""What a panel may show and still be read."""


class Watched(NamedTuple):
    """A service after a round, and the Prometheus that scrapes it."""

    service: httpx.Client
    prometheus: httpx.Client

    def query(self, expression: str) -> list[dict[str, Any]]:
        return queried(self.prometheus, expression)


def queried(prometheus: httpx.Client, expression: str) -> list[dict[str, Any]]:
    """The samples that an expression has now."""
    answer = prometheus.get("/api/v1/query", params={"query": expression})
    assert answer.status_code == 200, f"{expression}: {answer.text}"
    samples: list[dict[str, Any]] = answer.json()["data"]["result"]
    return samples


def until(true: Callable[[], bool]) -> None:
    """Waits for what another process does in its own time."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def configured(folder: Path, service: str, port: int, every_s: int) -> Path:
    """The configuration of ``deploy/``, with this service for its target, quicker."""
    document = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))
    shutil.copytree(PROMETHEUS / "rules", folder / "rules")
    (folder / "token").write_text(SECRETS["prometheus"], "utf-8")
    document["global"] = {"scrape_interval": f"{every_s}s", "evaluation_interval": "1s"}
    at = {"ecntwin": [service.removeprefix("http://")], "prometheus": [f"127.0.0.1:{port}"]}
    for job in document["scrape_configs"]:
        job["static_configs"] = [{"targets": at.get(job["job_name"], [])}]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = str(folder / "token")
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


@contextmanager
def scraping(folder: Path, url: str, every_s: int = 1) -> Iterator[httpx.Client]:
    """A Prometheus that scrapes what is at ``url`` as it would the service; an answer may take so long."""
    program, port = shutil.which("prometheus"), free_port()
    if program is None:
        pytest.skip("prometheus is not installed (Debian package prometheus)")
    process = subprocess.Popen(
        [
            program,
            f"--config.file={configured(folder, url, port, every_s)}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as prometheus:
            until(lambda: process.poll() is None and _ready(prometheus))
            yield prometheus
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def watched(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with (
        serving(**SETTINGS) as served,
        httpx.Client(
            base_url=served.url,
            timeout=PATIENCE_S,
            headers={"Authorization": f"Bearer {SECRETS['operator']}"},
        ) as service,
        scraping(tmp_path_factory.mktemp("prometheus"), served.url) as prometheus,
    ):
        posted = service.post(
            "/v1/telemetry/int",
            content=(example / "reports.ndjson.gz").read_bytes(),
            headers={"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"},
        )
        assert posted.status_code == 202, posted.text
        assert service.post("/v1/tune").status_code == 200
        yield Watched(service, prometheus)


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


def panels(prometheus: httpx.Client) -> dict[str, int]:
    """How many series each panel shows now."""
    shown: dict[str, int] = {}
    for panel, expression, _ in targets():
        found = queried(prometheus, filled_in(expression))
        shown[panel] = shown.get(panel, 0) + len(found)
    return shown


def test_every_panel_of_the_dashboards_is_answered(watched: Watched) -> None:
    def empty() -> set[str]:
        shown = panels(watched.prometheus)
        return {panel for panel in SHOWN if not shown[panel]}

    until(lambda: empty() == set())


class Everything:
    """Exports all that a service and an ingest process can, with each value that a dashboard matches."""

    def __init__(self) -> None:
        process = CollectorRegistry()
        ProcessCollector(registry=process)
        of_service = Metrics(CollectorRegistry(), version="0").registry
        self._registries = (of_service, forwarding(CollectorRegistry()), process)
        self._begun_s = 0.0

    def collect(self) -> Iterator[Metric]:
        families = {family.name: family for one in reversed(self._registries) for family in one.collect()}
        begun = GaugeMetricFamily("process_start_time_seconds", "Begin.", value=self._begun_s)
        return iter((families | {begun.name: begun}).values())

    def goes_on(self) -> None:
        """All count one more or are known (a gauge may begin as NaN), and the process has begun anew."""
        self._begun_s += 1.0
        values = values_asked()
        for collector in [one for registry in self._registries for one in registry._collector_to_names]:
            kind, labels = getattr(collector, "_type", None), getattr(collector, "_labelnames", ())
            step = {"counter": "inc", "gauge": "set", "histogram": "observe"}.get(kind or "")
            if step is None:
                continue
            for given in product(*(sorted(values.get(label, {"one"})) for label in labels)):
                getattr(collector.labels(*given) if labels else collector, step)(self._begun_s)


def test_every_query_of_the_dashboards_is_answered_where_all_is_told(tmp_path: Path) -> None:
    told, port = Everything(), free_port()
    told.goes_on()
    registry = CollectorRegistry()
    registry.register(told)
    server, thread = start_http_server(port, "127.0.0.1", registry=registry)
    try:
        with scraping(tmp_path, f"http://127.0.0.1:{port}") as prometheus:

            def silent() -> list[str]:
                told.goes_on()
                notes = [one["expr"] for path in DASHBOARDS for one in dashboard(path)["annotations"]["list"]]
                asked = [*(expression for _, expression, _ in targets()), *notes]
                return [one for one in asked if not queried(prometheus, filled_in(one))]

            until(lambda: silent() == [])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def crowded() -> Metrics:
    """What a service of 500 switches exports, each of which runs a watermark of its own."""
    metrics = Metrics(CollectorRegistry(), version="0")
    topology = leaf_spine(
        n_leaves=N_SWITCHES - 16, n_spines=16, hosts_per_leaf=1, rate_gbps=100.0, delay_us=1.0
    )
    switches = sorted(topology.switches)
    assert len(switches) == N_SWITCHES
    metrics.network.knows_switches(switches)
    metrics.network.saw_ports(PortRates(one, "1", 1.0, Rates(0.1, *[5.0] * 6), {}) for one in switches)
    metrics.binary.register_switches(switches)
    for n, one in enumerate(switches):
        metrics.saw_watermarks("current", {one: Watermark(1_000 * (n + 1), 4_000 * (n + 1), (n + 1) / 1_000)})
        metrics.network.switch_queue_p99.labels(one).set(n)
        metrics.counter_poll_age.labels(one).set(n)
        metrics.binary.datagrams.labels(one).inc()
        metrics.binary.lost.labels(one).set(n)
        metrics.binary.drops.labels(one, "3").inc()
        metrics.reachable.labels(one).set(n % 2)
    return metrics


def test_the_dashboards_can_be_read_at_500_switches(tmp_path: Path) -> None:
    port = free_port()
    server, thread = start_http_server(port, "127.0.0.1", registry=crowded().registry)
    try:
        with scraping(tmp_path, f"http://127.0.0.1:{port}", every_s=10) as prometheus:
            until(lambda: len(queried(prometheus, "ecntwin_switch_queue_p99_bytes")) == N_SWITCHES)
            full = ("Deepest queues", "Most paused", "Switches by Kmin", "Senders with most lost datagrams")
            # A rate needs two scrapes.
            until(lambda: all(panels(prometheus)[panel] == 10 for panel in full))
            assert {panel: n for panel, n in panels(prometheus).items() if n > MOST_SERIES} == {}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

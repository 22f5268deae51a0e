"""Writes docs/reference/metrics.md from the metrics; a test fails if it is out of date."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from service.metrics import ForwardMetrics, Metrics

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus" / "rules"

HEAD = """# Metrics

`GET /metrics`, as Prometheus text or OpenMetrics, whichever the scraper accepts. Base units. An unknown
figure is missing or NaN, never 0. No label names a flow, a port or a queue of a port: a switch has some
twenty series, however many ports it has, and one for each queue number that it reported drops of, 256 at
most (`ecntwin_int_drop_reports_total`). Senders name switches: of those that neither settings, inventory nor
the declared topology has, series of pauses, queues, PFC frames, marks, CNPs and drops tell 256 at a time,
each until it is silent, and series of watermarks, reachability and drift 256, each until a topology without
it is declared; figures by role of a switch are of all. With 500 switches an answer is 0.38 MB, 27 KB
compressed. The [runbook](../operate/runbook.md) explains the alerts, [deployment](../start/deploy.md) how to
scrape the service.

```sh run service
curl http://127.0.0.1:8080/metrics
```

This page is written by `scripts/metrics-page.py`, from the metrics and the rules in
[deploy/prometheus](../../deploy/prometheus).
"""

SERVICE = """
## The service

`ecntwin serve` has these.
"""
INGEST = """
## Ingest processes

`ecntwin ingest` has these of its own, and of those above the ones of UDP, binary INT reports and bodies
([ingest](../telemetry/ingest.md)).
"""
PROCESS = """
## The process

On Linux both have Prometheus' usual metrics of a process.
"""
_SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
}


@dataclass(frozen=True)
class Metric:
    """One metric: its series without labels, its behaviour, its help."""

    series: tuple[str, ...]
    kind: str
    labels: tuple[str, ...]
    help: str


def declared(registry: CollectorRegistry) -> list[Metric]:
    """The metrics of a registry in the order in which they were declared, but those of the process."""
    found = []
    for collector in registry._collector_to_names:
        kind = getattr(collector, "_type", None)
        if kind in _SUFFIXES:
            name = collector._name  # type: ignore[attr-defined]
            labels = tuple(getattr(collector, "_labelnames", ()))
            series = tuple(f"{name}{suffix}" for suffix in _SUFFIXES[kind])
            found.append(Metric(series, kind, labels, str(getattr(collector, "_documentation", ""))))
    return found


def of_the_process() -> list[Metric]:
    """What the collector of the process gives; empty where the machine has no /proc."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return [
        Metric(
            tuple(dict.fromkeys(one.name for one in family.samples)), family.type, (), family.documentation
        )
        for family in registry.collect()
    ]


def rules() -> list[tuple[str, str]]:
    """(alert, expression) of every rule; what a rule records stands in the expressions that use it."""
    groups: list[Mapping[str, Any]] = [
        group
        for path in sorted(RULES.glob("*.yml"))
        for group in yaml.safe_load(path.read_text("utf-8"))["groups"]
    ]
    every = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"]: rule["expr"] for rule in every if "record" in rule}
    found = []
    for rule in every:
        if "alert" in rule:
            expression = str(rule["expr"])
            for name, meaning in recorded.items():
                if name in expression:
                    expression += f" {meaning}"
            found.append((str(rule["alert"]), expression))
    return found


def alerts_on(metric: Metric, known: Sequence[tuple[str, str]]) -> list[str]:
    """The alerts that look at a metric."""
    return [
        alert
        for alert, expression in known
        if any(re.search(rf"(?<![\w:]){name}(?![\w:])", expression) for name in metric.series)
    ]


def table(metrics: Sequence[Metric]) -> str:
    """A row a metric."""
    known = rules()
    rows = [
        "\n| metric | type | labels | meaning | alerts |\n|---|---|---|---|---|\n",
    ]
    for metric in metrics:
        name = metric.series[0].removesuffix("_bucket")
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        alerts = ", ".join(
            f"[{one}](../operate/runbook.md#{one.lower()})" for one in alerts_on(metric, known)
        )
        rows.append(f"| `{name}` | {metric.kind} | {labels} | {metric.help.replace('|', '/')} | {alerts} |\n")
    return "".join(rows)


def page() -> str:
    """The whole page."""
    registry = CollectorRegistry()
    service = declared(Metrics(registry, version="0").registry)
    other = CollectorRegistry()
    ForwardMetrics(other, version="0")
    known = {metric.series for metric in service}
    ingest = [metric for metric in declared(other) if metric.series not in known]
    parts = [HEAD, SERVICE, table(service), INGEST, table(ingest), PROCESS, table(of_the_process())]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

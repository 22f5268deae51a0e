"""The rules and the dashboards of ``deploy/`` as tests read them, and the metrics that processes declare."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry, ProcessCollector

from service.metrics import ForwardMetrics, Metrics

ROOT = Path(__file__).resolve().parents[3]
PROMETHEUS = ROOT / "deploy/prometheus"
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
OF_TARGETS = frozenset({"job", "instance"})
_SUFFIXES = {
    "counter": ("_total", "_created"),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count", "_created"),
    "info": ("_info",),
}
_WORDS = {"by", "on", "or", "and", "unless", "without", "ignoring", "bool"}


def rules() -> list[dict[str, Any]]:
    """Every rule of every file."""
    read = [yaml.safe_load(path.read_text("utf-8")) for path in RULES]
    return [rule for document in read for group in document["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """The rules that alert."""
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    """What the other rules record."""
    return {rule["record"] for rule in rules() if "record" in rule}


def dashboard(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return read


def targets() -> Iterator[tuple[str, str, str]]:
    """The panel, expression and legend of every query of the dashboards."""
    for board in map(dashboard, DASHBOARDS):
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield panel["title"], target["expr"], target["legendFormat"]


def expressions() -> list[str]:
    """Every expression of rules and dashboards."""
    boards = [dashboard(path) for path in DASHBOARDS]
    asked = [expression for _, expression, _ in targets()]
    noted = [note["expr"] for board in boards for note in board["annotations"]["list"]]
    listed = [
        re.sub(r"label_values\((.*), \w+\)", r"\1", one["definition"])
        for board in boards
        for one in board["templating"]["list"]
        if "definition" in one
    ]
    return [*(rule["expr"] for rule in rules()), *asked, *noted, *listed]


def names_in(expression: str) -> set[str]:
    """The series that an expression names."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\"[^\"]*\"|\b(?:by|on|without|ignoring) \([^)]*\)", " ", expression)
    found = re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])", bare)
    return set(found) - _WORDS


def labels_asked(expression: str) -> Iterator[tuple[str, str]]:
    """(series, label) for each label that a selector matches."""
    for series, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers):
            yield series, label


def values_asked() -> dict[str, set[str]]:
    """For each label that rules and dashboards match by what it says, those values."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for expression in expressions():
        for label, values in re.findall(r'(\w+)=~?"([\w|]+)"', expression):
            found[label] |= set(values.split("|"))
    return found


def filled_in(expression: str) -> str:
    """An expression of a dashboard as Grafana asks it, of everything."""
    return re.sub(r"\$(?:instance|switch)\b", ".*", expression).replace("$__rate_interval", "1m")


def labels_made(expression: str) -> set[str]:
    """Labels that an expression writes values into."""
    return set(re.findall(r'count_values\("(\w+)"', expression))


def labels_kept(expression: str) -> set[str]:
    """Labels that an expression groups by."""
    groups = re.findall(r"\b(?:by|on|without|ignoring) \(([^)]*)\)", expression)
    return {label.strip() for group in groups for label in group.split(",")}


def declared() -> Mapping[str, frozenset[str]]:
    """Every series of the service and of an ingest process, with its labels."""
    registry, other = CollectorRegistry(), CollectorRegistry()
    ProcessCollector(registry=registry)
    found: dict[str, frozenset[str]] = {}
    for made in (Metrics(registry, version="0").registry, forwarding(other)):
        for family in made.collect():
            if family.name.startswith("process_"):
                found |= {sample.name: frozenset() for sample in family.samples}
        for collector in made._collector_to_names:
            labels = frozenset(getattr(collector, "_labelnames", ()))
            for suffix in _SUFFIXES.get(getattr(collector, "_type", ""), ()):
                found[f"{collector._name}{suffix}"] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def forwarding(registry: CollectorRegistry) -> CollectorRegistry:
    """With every metric of an ingest process."""
    ForwardMetrics(registry, version="0")
    return registry

"""Rules and dashboards ask for metrics and labels that exist; alerts fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from service.metrics import Metrics
from settings.alarms import ConditionSettings
from settings.twin import TuningSettings
from tests.unit.deploy.monitoring import (
    DASHBOARDS,
    OF_TARGETS,
    PROMETHEUS,
    ROOT,
    RULES,
    alerts,
    dashboard,
    declared,
    expressions,
    labels_asked,
    labels_kept,
    labels_made,
    names_in,
    recorded,
    rules,
    targets,
)

ALERT_TESTS = sorted((Path(__file__).parent / "alerts").glob("*.yml"))


def promtool(*arguments: str | Path) -> str:
    """What it says; it must have no complaint."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_takes_the_rules() -> None:
    said = promtool("check", "rules", *RULES)
    assert sum(map(int, re.findall(r"SUCCESS: (\d+) rules found", said))) == len(rules())


def test_promtool_takes_the_configuration(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a token", "utf-8")
    shutil.copytree(PROMETHEUS / "rules", tmp_path / "rules")
    text = (PROMETHEUS / "prometheus.yml").read_text("utf-8")
    assert "/run/secrets/prometheus-token" in text
    placed = tmp_path / "prometheus.yml"
    placed.write_text(text.replace("/run/secrets/prometheus-token", str(token)), "utf-8")
    assert f"{len(RULES)} rule files found" in promtool("check", "config", placed)


@pytest.mark.parametrize("path", ALERT_TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", path)


def test_every_alert_is_tested_and_with_series_that_there_are() -> None:
    known, tested, fired = declared(), set(), set()
    for path in ALERT_TESTS:
        for test in yaml.safe_load(path.read_text("utf-8"))["tests"]:
            for one in test["alert_rule_test"]:
                tested.add(one["alertname"])
                fired |= {one["alertname"]} if one["exp_alerts"] else set()
            for given in test["input_series"]:
                name, _, matchers = given["series"].partition("{")
                labels = set(re.findall(r"(\w+)=", matchers)) - OF_TARGETS
                if name != "up":
                    assert labels == known[name], given["series"]
    assert tested == fired == {alert["alert"] for alert in alerts()}


def test_rules_and_dashboards_ask_for_series_that_there_are() -> None:
    known = {*declared(), *recorded(), "up"}
    asked = {name for expression in expressions() for name in names_in(expression)}
    assert asked - known == set()
    assert len(asked & set(declared())) > 50
    assert recorded() <= asked


def test_they_ask_for_labels_that_there_are() -> None:
    known = declared()
    for expression in expressions():
        names = names_in(expression)
        for series, label in labels_asked(expression):
            if series in known:
                assert label in known[series] | OF_TARGETS, expression
        if names <= set(known):
            every = {label for name in names for label in known[name]} | OF_TARGETS
            assert labels_kept(expression) <= every, expression


def test_legends_name_labels_that_there_are() -> None:
    known = declared() | {"up": frozenset()}
    kept = {
        rule["record"]: frozenset(labels_kept(rule["expr"])) - {"le"} for rule in rules() if "record" in rule
    }
    for panel, expression, legend in targets():
        every = {label for name in names_in(expression) for label in {**known, **kept}[name]} | OF_TARGETS
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= every | labels_made(expression), panel
        grouped = labels_kept(expression)
        if grouped:
            assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= grouped, panel


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_it_is_and_where_to_read_on(alert: dict[str, object]) -> None:
    assert alert["labels"] == {"severity": "critical"} or alert["labels"] == {"severity": "warning"}
    said = alert["annotations"]
    assert isinstance(said, dict)
    assert set(said) == {"summary", "description", "runbook_url"}
    assert said["description"].endswith(".")
    assert said["runbook_url"] == f"docs/operate/runbook.md#{str(alert['alert']).lower()}"


def test_rounds_as_long_as_their_budget_are_not_slow() -> None:
    """Twice the budget, with NICs and port roles; a quantile lies anywhere in its bucket."""
    (rule,) = [alert for alert in alerts() if alert["alert"] == "EcntwinRoundsSlow"]
    limit_s = float(rule["expr"].rpartition(" > ")[2])
    bounds = Metrics(CollectorRegistry(), version="0").round_seconds._upper_bounds
    assert min(bound for bound in bounds if bound >= 2 * TuningSettings().budget_s) < limit_s < bounds[-2]


def test_the_command_of_the_page_leads_every_alert_to_the_runbook(tmp_path: Path) -> None:
    page = (ROOT / "docs/start/deploy.md").read_text("utf-8")
    command = re.search(r"`(sed -i '[^`]*) deploy/prometheus/rules/alerts.yml`", page)
    assert command is not None
    copy = shutil.copy(PROMETHEUS / "rules/alerts.yml", tmp_path)
    subprocess.run(["bash", "-c", f'{command[1]} "$0"', copy], check=True)
    led = re.findall(r"runbook_url: (\S+)", Path(copy).read_text("utf-8"))
    assert len(led) == len(alerts())
    assert all(url.startswith("https://YOURS/docs/operate/runbook.md#") for url in led)


def test_the_runbook_has_an_entry_for_each_alert_and_no_other() -> None:
    page = (ROOT / "docs/operate/runbook.md").read_text("utf-8")
    entries = dict(re.findall(r"^## (Ecntwin\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(entries) == {alert["alert"] for alert in alerts()}
    for name, entry in entries.items():
        assert re.findall(r"^- \*\*(\w+)", entry, re.MULTILINE) == ["Means", "Look", "Do"], name


def test_the_runbook_names_dashboards_and_panels_that_there_are() -> None:
    page = (ROOT / "docs/operate/runbook.md").read_text("utf-8")
    boards = [dashboard(path) for path in DASHBOARDS]
    known = {panel["title"] for board in boards for panel in board["panels"]}
    named = set(re.findall(r"(?<![*\w])\*([^*\n]+)\*(?!\*)", page))
    assert len(named & known) > 5
    assert named - known - {board["title"] for board in boards} == {"Now"}  # a view of the page


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_a_place_and_a_name_of_their_own(path: Path) -> None:
    panels = dashboard(path)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    titles = [panel["title"] for panel in panels]
    assert len(set(titles)) == len(titles)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


SHOWN = {
    "fabric": (
        "ecntwin_condition_level",
        "ecntwin_alarms",
        "ecntwin_recommendation_gain_ratio",
        "ecntwin_recommendation_gain_error_ratio",
        "ecntwin_recommendation_age_seconds",
        "ecntwin_gain_predicted_ratio",
        "ecntwin_gain_measured_ratio",
        "ecntwin_queue_p99_bytes",
        "ecntwin_pause_ratio",
        "ecntwin_watermark_kmin_bytes",
        "ecntwin_watermark_kmax_bytes",
        "ecntwin_watermark_pmax_ratio",
    ),
    "service": (
        "ecntwin:reports_accepted:rate5m",
        "ecntwin_reports_rejected_total",
        "ecntwin_rounds_total",
        "ecntwin_switch_failures_total",
        "ecntwin_storage_failing",
        "ecntwin_http_request_duration_seconds_bucket",
    ),
}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_shows_what_it_should(path: Path) -> None:
    panels = dashboard(path)["panels"]
    asked = {name for panel in panels for one in panel.get("targets", ()) for name in names_in(one["expr"])}
    assert set(SHOWN[path.stem]) <= asked


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_marks_rollouts_and_leads_to_the_page_and_the_other(path: Path) -> None:
    board = dashboard(path)
    others = {dashboard(one)["uid"] for one in DASHBOARDS} - {board["uid"]}
    assert [one["url"] for one in board["links"]] == ["${page}", *(f"/d/{uid}" for uid in others)]
    assert "page" in {one["name"] for one in board["templating"]["list"]}
    notes = {one["name"]: one["expr"] for one in board["annotations"]["list"]}
    assert "ecntwin_rollouts_begun_total" in notes["Rollouts begun"]
    assert 'outcome="done"' in notes["Rollouts done"]
    assert 'outcome="rolled_back"' in notes["Rollouts rolled back"]


def test_figures_of_the_condition_are_coloured_by_the_default_thresholds() -> None:
    defaults = ConditionSettings()
    coloured = {}
    for panel in dashboard(ROOT / "deploy/grafana/dashboards/fabric.json")["panels"]:
        found = re.findall(
            r"^max\(ecntwin_condition_(\w+)_ratio", panel.get("targets", [{"expr": ""}])[0]["expr"]
        )
        if found and panel["type"] == "stat":
            steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
            coloured[found[0]] = [step["value"] for step in steps[1:]]
    assert coloured == {
        name: [
            limit
            for level in ("watch", "bad")
            if (limit := getattr(defaults, f"{figure}_{level}")) is not None
        ]
        for name, figure in {
            "packet_p99_slowdown": "packet_p99_slowdown",
            "elephant_slowdown": "elephant_slowdown",
            "paused": "paused_share",
            "lost": "loss_share",
            "marked": "marked_share",
        }.items()
    }


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_reads_the_source_that_is_provisioned(path: Path) -> None:
    provisioned = ROOT / "deploy/grafana/provisioning/datasources/prometheus.yaml"
    (source,) = yaml.safe_load(provisioned.read_text("utf-8"))["datasources"]
    board = dashboard(path)
    chosen = {one["name"]: one for one in board["templating"]["list"]}["datasource"]
    assert chosen["current"]["value"] == source["uid"]
    assert chosen["query"] == source["type"] == "prometheus"
    used = {panel["datasource"]["uid"] for panel in board["panels"] if "datasource" in panel}
    assert used == {"${datasource}"}
    scraped = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text("utf-8"))["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scraped

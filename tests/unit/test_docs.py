"""The pages that describe the service say what the service says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from api.app import create_app
from settings.model import Settings

ROOT = Path(__file__).resolve().parents[2]


def test_the_settings_page_is_what_the_settings_say() -> None:
    written = runpy.run_path(str(ROOT / "scripts/settings-page.py"))["page"]()
    assert (ROOT / "docs/reference/settings.md").read_text("utf-8") == written, "run scripts/settings-page.py"


@pytest.mark.parametrize("name", ["metrics", "http"])
def test_a_reference_is_what_the_code_says(name: str) -> None:
    written = runpy.run_path(str(ROOT / f"scripts/{name}-page.py"))["page"]()
    at = {"metrics": "docs/reference/metrics.md", "http": "docs/reference/http-reference.md"}[name]
    assert (ROOT / at).read_text("utf-8") == written, f"run scripts/{name}-page.py"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        (0, "0"),
        (0.5, "0.5"),
        ("a", "a"),
        ([], "`[]`"),
        (["watermark"], '`["watermark"]`'),
    ],
)
def test_a_default_is_shown_as_json_has_it(value: object, said: str) -> None:
    assert runpy.run_path(str(ROOT / "scripts/http-page.py"))["shown"](value) == said


def test_every_alert_looks_at_a_metric_of_the_reference() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text("utf-8")
    alerts = re.findall(r"- alert: (\w+)", (ROOT / "deploy/prometheus/rules/alerts.yml").read_text("utf-8"))
    assert {one for one in alerts if f"[{one}]" not in page} <= {"EcntwinDown", "EcntwinIngestDown"}


def test_every_route_of_the_reference_has_the_scope_that_the_map_has() -> None:
    page = (ROOT / "docs/reference/http-reference.md").read_text("utf-8")
    said = set(re.findall(r"^### (\w+) (\S+)\n\nScope: (?:`(\w+)`|none)", page, re.MULTILINE))
    asked = create_app(Settings()).openapi()["paths"]
    assert {(method, path) for method, path, _ in said} == {
        (method.upper(), path) for path, methods in asked.items() for method in methods
    }
    assert {path for _, path, scope in said if not scope} == {"/healthz", "/readyz"}


def documented_routes() -> set[tuple[str, str]]:
    """(method, path) of every call in http.md; a bare `/current` continues the path before it."""
    found: set[tuple[str, str]] = set()
    for row in re.findall(
        r"^\| (`.*?`(?:, `.*?`)*) \|", (ROOT / "docs/reference/http.md").read_text("utf-8"), re.MULTILINE
    ):
        method, base = "", ""
        for cell in re.findall(r"`([^`]*)`", row):
            word, _, path = cell.rpartition(" ")
            path = path.partition("?")[0]
            if word:
                method, base = word, path
            elif base.startswith("/v1") or path in ("/approve", "/reject"):
                path = base.removesuffix("/approve") + path
            if path.startswith("/"):  # other tables are of fields
                found.add((method, path))
    return found


def test_the_map_of_the_service_lists_every_route_and_no_other() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    outside_the_reference = {("GET", "/"), ("GET", "/docs")}
    named = {(method, re.sub(r"\{\w+\}", "{}", path)) for method, path in documented_routes()}
    assert named - outside_the_reference == {
        (method, re.sub(r"\{\w+\}", "{}", path)) for method, path in served
    }

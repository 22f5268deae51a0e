"""The pages and the example of the switches say what their adapters say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.switches.adapter_check import check_inventory, make_adapters
from settings.inventory import load_inventory
from switches.device import Device
from switches.registry import AdapterRegistry

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "deploy" / "inventory.example.yaml"
PLATFORMS = AdapterRegistry().kinds


def devices() -> Mapping[str, Device]:
    return load_inventory(EXAMPLE)


def rows() -> dict[str, list[str]]:
    """The cells of the table of platforms, by platform; the heading under ``platform``."""
    page = (ROOT / "docs/operate/switches.md").read_text("utf-8")
    table = page.partition("\n## Platforms\n")[2].partition("\n## ")[0]
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^\| (.*) \|$", table, re.MULTILINE):
        name, *cells = (cell.strip() for cell in line.split(" | "))
        found[re.sub(r"\[`([^`]+)`\].*", r"\1", name).strip("`")] = cells
    return found


def test_the_example_holds_each_platform_and_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SWITCH_USER",
        "SWITCH_PASSWORD",
        *re.findall(r"\{env: (\w+)\}", EXAMPLE.read_text("utf-8")),
    ):
        monkeypatch.setenv(name, "x")
    assert {device.platform for device in devices().values()} == set(PLATFORMS)
    problems = check_inventory(devices(), AdapterRegistry(), clock_ns=lambda: 7)
    assert [str(problem) for problem in problems] == []


def test_the_table_has_a_row_for_each_platform_and_no_other() -> None:
    assert set(rows()) - {"platform"} == set(PLATFORMS)


@pytest.mark.parametrize("platform", [one for one in PLATFORMS if one not in ("dry-run", "lab")])
def test_each_platform_has_a_page_of_its_own(platform: str) -> None:
    page = (ROOT / f"docs/switches/{platform}.md").read_text("utf-8")
    assert f"platform: {platform}" in page
    assert f"(../switches/{platform}.md)" in (ROOT / "docs/operate/switches.md").read_text("utf-8")


def test_the_table_says_what_the_adapters_say() -> None:
    heading = rows()["platform"]
    atomic, dead_man = heading.index("all values at once"), heading.index("undoes itself unless confirmed")
    by_role = heading.index("a watermark for ports of one role")
    made = make_adapters(devices(), AdapterRegistry(), clock_ns=lambda: 7)
    for name, device in devices().items():
        can, row = made.adapters[name].capabilities(), rows()[device.platform]
        assert row[atomic].startswith("yes" if can.atomic else "no"), name
        assert row[dead_man].startswith("yes" if can.dead_man else "no"), name
        assert row[by_role].startswith("no" if can.one_for_all else "yes"), name

"""The inventories on the pages of the HTTP platforms are inventories, and their adapters take them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from settings.inventory import load_inventory
from switches.registry import AdapterRegistry

PAGES = Path(__file__).resolve().parents[3] / "docs" / "switches"


@pytest.mark.parametrize("platform", ["webhook", "nvue", "eos", "nxos"])
def test_a_pages_inventory_makes_its_adapter(platform: str, tmp_path: Path) -> None:
    page = (PAGES / f"{platform}.md").read_text("utf-8")
    found = re.findall(r"```yaml inventory\n(.*?)```", page, re.DOTALL)
    assert found
    for text in found:
        (tmp_path / "inventory.yaml").write_text(text, "utf-8")
        for device in load_inventory(tmp_path / "inventory.yaml").values():
            adapter = AdapterRegistry().make(device, clock_ns=lambda: 7)
            assert adapter.capabilities().kind == platform
            adapter.close()

"""What axe finds in every view: no violation, and no contrast that it could not decide."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.page.browsing import PATIENCE_MS, Scheme, go, new_page
from tests.e2e.page.conftest import Tuned

pytestmark = pytest.mark.e2e

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
# What stands in each view once it has what it shows.
SHOWN = {
    "Now": ("#condition-figures .trend", "#advised", "#fabric .face", "#queues tbody tr"),
    "Why": ("#scatter svg .symbol", "#curve canvas"),
    "Act": ("#compare tbody tr", "#freeze"),
    "What if": ("#tried",),
    "History": ("#history tbody tr", "#residual-chart canvas", "#past-depth canvas"),
}


def found(page: Page) -> list[str]:
    """Violations, and contrasts that could not be decided, each with its first elements."""
    page.evaluate(AXE)
    told: dict[str, list[dict[str, Any]]] = page.evaluate("axe.run(document)")
    undecided = [one for one in told["incomplete"] if one["id"] == "color-contrast"]
    return [
        f"{one['id']}: {[node['html'] for node in one['nodes'][:3]]}"
        for one in told["violations"] + undecided
    ]


# Every width and both schemes; make test-all tries the other pairs too.
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "dark"),
        (1024, "light"),
        (1440, "dark"),
        pytest.param(390, "light", marks=pytest.mark.slow),
        pytest.param(1024, "dark", marks=pytest.mark.slow),
        pytest.param(1440, "light", marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing_and_decides_all(
    browser: Browser, tuned: Tuned, width: int, scheme: Scheme
) -> None:
    page = new_page(browser, width, 900, scheme)
    page.goto(tuned.url)
    for view, shown in SHOWN.items():
        go(page, view)
        for one in shown:
            expect(page.locator(one).first).to_be_attached(timeout=PATIENCE_MS)
        assert found(page) == [], f"{view} at {width} pixels, {scheme}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()

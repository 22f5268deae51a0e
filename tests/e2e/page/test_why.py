"""Why on the page in a real browser: candidates by mouse, keyboard and table, the score, queues over time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.page.browsing import PATIENCE_MS, SETTINGS, complaints_of, new_page, post_reports
from tests.e2e.process import PATIENCE_S, Served, serving

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(**SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def found(served: Served, example: Path) -> dict[str, Any]:
    """The recommendation of one round on the example."""
    post_reports(served, example)
    answer = httpx.post(f"{served.url}/v1/tune", timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


@pytest.fixture
def why(page: Page, served: Served, found: dict[str, Any]) -> Page:
    page.goto(f"{served.url}/#/why/{found['id']}")
    expect(page.locator("#scatter svg .symbol")).not_to_have_count(0, timeout=PATIENCE_MS)
    return page


def test_candidates_are_read_by_mouse_keyboard_and_as_a_table(
    why: Page, found: dict[str, Any], tmp_path: Path
) -> None:
    scatter = why.locator("#scatter")
    labels = scatter.locator(".labels text")
    expect(labels).to_have_text(["recommended", "runs now"] if found["changes"] else ["runs now, and stays"])
    tip = scatter.locator(".tip")
    scatter.locator("svg .symbol.star").first.hover(force=True)
    expect(tip).to_contain_text("Recommended: Kmin" if found["changes"] else "Runs now, and stays: Kmin")
    expect(tip).to_contain_text("throughput ")

    scatter.get_by_role("application").focus()
    why.keyboard.press("Home")
    first = tip.inner_text()
    why.keyboard.press("ArrowRight")
    expect(tip).not_to_have_text(first)
    expect(tip).to_contain_text("score")
    why.keyboard.press("Escape")
    expect(tip).to_contain_text("Point at a candidate")

    panel = why.locator("#candidates")
    panel.get_by_text("As a table").click()
    expect(panel.locator("tbody tr")).to_have_count(found["candidate_count"])
    why.screenshot(path=tmp_path / "why.png", full_page=True)


def test_the_axes_are_a_choice(why: Page) -> None:
    panel = why.locator("#candidates")
    before = panel.locator(".scale text").all_inner_texts()
    panel.get_by_label("Logarithmic").uncheck()
    expect(panel.locator(".scale text").last).to_contain_text("B")
    assert panel.locator(".scale text").all_inner_texts() != before
    panel.get_by_role("combobox", name="Up").select_option("score")
    expect(panel.locator(".axes")).to_contain_text("↑ score")
    panel.get_by_role("combobox", name="Across").select_option("p99")
    expect(panel.locator(".axes")).to_contain_text("99th percentile queue →")
    expect(panel.locator("svg .symbol.star").first).to_be_attached()


def test_the_terms_add_up_to_the_score(why: Page, found: dict[str, Any]) -> None:
    rows = why.locator("#terms tbody tr")
    expect(rows.first).to_contain_text("Throughput")

    def figure(row: int, column: int) -> float:
        text = rows.nth(row).locator("td").nth(column).inner_text()
        return float(text.replace("−", "-"))

    last = rows.count() - 1
    weighed = [figure(row, 0) * figure(row, 2) for row in range(last)]
    assert sum(weighed) == pytest.approx(figure(last, 2), abs=0.003)
    assert figure(last, 2) == pytest.approx(found["recommendation"]["score"], abs=0.001)
    if found["changes"]:
        expect(why.locator("#won")).to_contain_text("more than what runs")


def test_queues_marks_and_origin_are_there(why: Page, found: dict[str, Any]) -> None:
    queues = found["trajectories"]["queues"]
    depths = why.locator("#depths")
    expect(depths.locator("canvas")).to_be_visible()
    expect(depths.get_by_role("option")).to_have_count(len(queues))
    told = depths.get_by_role("application").get_attribute("aria-label")
    last = queues[-1]
    depths.get_by_role("combobox").select_option(label=f"{last['switch']} {last['port']}")
    expect(depths.get_by_role("application")).not_to_have_attribute("aria-label", told or "")
    depths.get_by_text("As a table").click()
    expect(depths.locator("tbody tr")).to_have_count(len(last["recommended_bytes"]))

    why.locator("#marking").get_by_role("application").focus()
    why.keyboard.press("End")
    expect(why.locator("#marking .tip")).to_contain_text("100 %")
    origin = why.locator("#provenance")
    expect(origin).to_contain_text(found["id"])
    expect(origin).to_contain_text(found["version"])
    expect(why.locator("#outcome")).to_contain_text("telemetry had measured")


@pytest.mark.parametrize("width", [320, 400, 1500])
def test_it_fits_any_width(why: Page, width: int, tmp_path: Path) -> None:
    why.set_viewport_size({"width": width, "height": 900})
    expect(why.locator("#scatter .plot svg")).to_be_visible()
    why.wait_for_function(f"document.querySelector('#scatter .plot svg').clientWidth <= {width}")
    assert why.evaluate("document.documentElement.scrollWidth") <= width
    why.screenshot(path=tmp_path / f"why-{width}.png", full_page=True)


def test_an_id_of_no_round_leads_to_those_that_are_there(browser: Browser, served: Served) -> None:
    page = new_page(browser)
    complaints = complaints_of(page)
    page.goto(f"{served.url}/#/why/of-no-round")
    expect(page.get_by_role("heading", name="No such recommendation")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="See those that are there").click()
    expect(page.get_by_role("heading", name="History", level=1)).to_be_attached()
    page.close()
    assert all("404" in told and "of-no-round" in told for told in complaints)  # the browser logs every 404

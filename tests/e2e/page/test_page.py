"""The page in a real browser: readable when empty, complete after a round, usable narrow and by keyboard, and
without anything that the browser's log calls an error."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.page.browsing import (
    PATIENCE_MS,
    SETTINGS,
    Scheme,
    complaints_of,
    decide,
    go,
    look_again,
    new_page,
    post_reports,
)
from tests.e2e.process import PATIENCE_S, Served, serving

pytestmark = pytest.mark.e2e


def test_the_whole_way_on_the_page(page: Page, example: Path, tmp_path: Path) -> None:
    with serving(**SETTINGS) as served:
        page.goto(served.url)
        whole_way(page, served, example, tmp_path)
        page.goto("about:blank")  # before its service ends, which it would complain of


def whole_way(page: Page, served: Served, example: Path, tmp_path: Path) -> None:
    expect(page.get_by_text("Nothing measured yet")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#curl")).to_contain_text(f"{served.url}/v1/telemetry/int")
    expect(page.get_by_role("button", name="Tune now")).to_be_disabled()

    post_reports(served, example)
    expect(page.get_by_role("heading", name="Flows by class")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#empty")).to_be_hidden()
    expect(page.locator("#flows")).to_contain_text("413 flows")

    page.get_by_role("button", name="Tune now").click()
    expect(page.get_by_role("heading", name="What would be changed?")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#watermark dt")).to_have_text(["Kmin", "Kmax", "Pmax"])
    expect(page.locator("#why")).not_to_be_empty()
    expect(page.locator("#queues tbody tr")).to_have_count(16)
    page.screenshot(path=tmp_path / "now.png", full_page=True)
    assert (tmp_path / "now.png").stat().st_size > 10_000

    page.locator("#recommendation").get_by_role("link", name="Why").click()
    expect(page).to_have_title("Why · ecntwin")
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator("#compare tbody tr")).not_to_have_count(0)
    expect(page.locator("#curve")).to_contain_text("recommended")
    page.get_by_role("application", name="candidates by small-message delay").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#scatter .tip")).to_contain_text("bulk speed")
    candidates = page.locator("#candidates")
    candidates.get_by_text("As a table").click()
    expect(candidates.locator("tbody tr").nth(10)).to_be_attached()

    go(page, "Act")
    if page.get_by_role("button", name="Approve").is_visible():
        decide(page, "Approve")
        expect(page.locator("#decision")).to_have_text("approved", timeout=PATIENCE_MS)
        expect(page.locator("#pushed")).to_contain_text("Dry run")
    unread = page.locator("#switches tbody tr").first
    expect(unread).to_contain_text(re.compile(r"not asked.*\(assumed, from the settings\)", re.DOTALL))
    go(page, "History")
    expect(page.locator("#history tbody tr")).to_have_count(1)


@pytest.mark.parametrize("width", [320, 390, 768])
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_no_width_makes_the_page_scroll_sideways(
    browser: Browser, measured: Served, width: int, scheme: Scheme
) -> None:
    page = new_page(browser, width, 800, scheme)
    complaints = complaints_of(page)
    page.goto(measured.url)
    expect(page.get_by_role("heading", name="Flows by class")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#fabric svg .face")).not_to_have_count(0)
    for view in ("Now", "Why", "Act", "History"):
        go(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
    assert complaints == []


def test_the_map_is_read_by_keyboard_and_as_a_table(browser: Browser, measured: Served) -> None:
    page = new_page(browser)
    complaints = complaints_of(page)
    page.goto(measured.url)
    fabric = page.locator("#fabric")
    expect(fabric).to_contain_text("hosts, discovered", timeout=PATIENCE_MS)
    state = httpx.get(f"{measured.url}/v1/state?queues=2", timeout=PATIENCE_S).json()
    names = [f"{one['switch']} {one['port']}" for one in state["queues"]]

    fabric.get_by_role("application").focus()
    tip = fabric.locator(".tip")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text(re.compile("mean .*Kmax"))  # what switches run comes by a call of its own
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    expect(tip).not_to_have_text(first)
    page.keyboard.press("ArrowLeft")
    expect(tip).to_have_text(first)
    page.keyboard.press("Escape")
    expect(fabric.locator(".chosen")).to_have_count(0)

    fabric.get_by_text("As a table").click()
    rows = page.locator("#fabric-table tbody th")
    assert {name.split()[0] for name in names} <= set(rows.all_inner_texts())
    page.close()
    assert complaints == []


def test_old_figures_are_told_as_old(browser: Browser, measured: Served) -> None:
    page = new_page(browser)
    page.goto(measured.url)
    expect(page.get_by_role("heading", name="Flows by class")).to_be_visible(timeout=PATIENCE_MS)
    page.route("**/v1/state?*", lambda route: route.fulfill(body="<html>"))
    old = page.get_by_role("alert")
    expect(old).to_contain_text(re.compile("Not up to date since .*: The answer cannot be read"))
    page.unroute_all()
    look_again(page)
    expect(old).to_have_count(0)
    page.close()

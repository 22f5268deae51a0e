"""An operator's first hour in a real browser, over a lab: a recommendation appears, is understood, doubted,
approved, watched to its end and taken back. Pictures of each view, wide and light, narrow and dark, stay in
tests/out/screenshots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.e2e.page.browsing import PATIENCE_MS, Scheme, decide, expect_phase, go
from tests.e2e.page.over_lab import SOAKING, WINDOW_S, OverLab, over_lab
from tests.e2e.process import REPOSITORY
from tests.e2e.test_lab import DEFAULT

pytestmark = pytest.mark.e2e

SCREENSHOTS = REPOSITORY / "tests/out/screenshots"
TRAFFIC = "hadoop:0.4,incast:7:each_bytes=64KB:period=250us"
FABRIC = ("--leaves", "2", "--spines", "2", "--hosts", "4", "--traffic", TRAFFIC)
WIDE: ViewportSize = {"width": 1440, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
VIEWS = ("Now", "Why", "Act", "What if", "History")


@pytest.fixture(scope="module")
def at_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OverLab]:
    """A lab with traffic, and a service that remembers."""
    remembering = {
        "ECNTWIN_STORAGE__URL": f"sqlite:///{tmp_path_factory.mktemp('journey')}/ecntwin.db",
        "ECNTWIN_STORAGE__HISTORY_STEP_S": "1",
        "ECNTWIN_SEARCH__SCORE": "gain",
        "ECNTWIN_SEARCH__WEIGHTS": "latency",  # of which a window of milliseconds is sure
    }
    with over_lab(FABRIC, **SOAKING | remembering) as here:
        here.advance(WINDOW_S / 2)
        yield here


@pytest.fixture
def here(at_work: OverLab, page: Page) -> OverLab:
    page.set_viewport_size(WIDE)
    page.goto(at_work.url)
    return at_work


def picture(page: Page, name: str) -> None:
    """The whole view as it is now, wide in light and narrow in dark colours."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    looks: tuple[tuple[str, ViewportSize, Scheme], ...] = (
        ("wide", WIDE, "light"),
        ("narrow", NARROW, "dark"),
    )
    for kind, width, scheme in looks:
        page.set_viewport_size(width)
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=SCREENSHOTS / f"{name}-{kind}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width["width"], name
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")


def test_an_operator_sees_understands_tries_approves_and_takes_back(here: OverLab, page: Page) -> None:
    expect(page.locator("#no-recommendation")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Tune now").click()
    expect(page.locator("#recommendation")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#decision")).to_have_text("waiting for you")
    expect(page.locator("#why")).to_contain_text("Kmin")
    expect(page.locator("#verdict")).not_to_be_empty()
    expect(page.locator("#condition-figures > li")).to_have_count(5)
    expect(page.locator("#advised")).to_contain_text("A change: ")
    expect(page.locator("#support")).to_contain_text("1 round gives this answer")
    expect(page.locator("#helped")).to_contain_text("Nothing was changed yet")
    expect(page.locator("#fabric")).to_contain_text("4 switches")
    picture(page, "now")

    page.locator("#recommendation").get_by_role("link", name="Why").click()
    expect(page.get_by_role("heading", name="Every candidate")).to_be_visible(timeout=PATIENCE_MS)
    for panel in ("compared", "candidates", "marking", "depths", "provenance"):
        expect(page.locator(f"#{panel}")).to_be_visible()
    page.locator("#candidates").get_by_text("As a table").click()
    expect(page.locator("#candidates table")).to_contain_text("recommended")
    picture(page, "why")

    go(page, "What if")
    expect(page.locator("#asking")).to_contain_text("answered in", timeout=PATIENCE_MS)
    before = page.locator("#tried").inner_text(timeout=PATIENCE_MS)
    slider = page.get_by_role("slider", name=re.compile("^Kmax"))
    slider.focus()
    for _ in range(6):
        page.keyboard.press("PageUp")
    expect(page.locator("#tried")).not_to_have_text(before, timeout=PATIENCE_MS)
    expect(page.locator("#asking")).to_contain_text("answered in", timeout=PATIENCE_MS)
    expect(page.locator("#beside")).to_contain_text(re.compile(r"queue|faster|slower|same"))
    picture(page, "what-if")
    assert here.runs() == DEFAULT  # nothing is set from here

    go(page, "Act")
    picture(page, "act-waiting")
    decide(page, "Approve")
    expect_phase(page, "soak")
    picture(page, "act-soak")
    here.advance(1.5 * WINDOW_S)
    expect_phase(page, "done")
    names = [text.split()[0] for text in page.locator("#rollout-switches tbody th").all_inner_texts()]
    assert {"leaf1", "leaf2"} <= set(names)
    assert all(here.runs(name) != DEFAULT for name in names)
    picture(page, "act-done")

    page.locator("#roll-back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect_phase(page, "rolled back")
    assert all(here.runs(name) == DEFAULT for name in names)

    go(page, "History")
    expect(page.locator("#history tbody")).to_contain_text("rolled back")
    expect(page.locator("#rollouts-table tbody")).to_contain_text("rolled back")
    expect(page.locator("#gains")).to_contain_text("1 rollout for the latency policy")
    expect(page.locator("#ledger tbody")).to_contain_text("rolled back")
    expect(page.locator("#shadow-said")).to_contain_text("1 round on 1 day, 1 of which advised a change")
    expect(page.locator("#residual-chart").get_by_role("application")).to_have_attribute(
        "aria-label", re.compile("Marked: rollout at .*, rolled back at ")
    )
    expect(page.locator("#residuals")).to_contain_text("%")
    picture(page, "history")
    go(page, "Now")
    expect(page.locator("#fabric")).to_be_visible()
    expect(page.locator("#judged")).to_have_text("It was rolled back")
    picture(page, "now-rolled-back")


def test_a_reader_gets_everywhere_by_keyboard(here: OverLab, page: Page) -> None:
    expect(page.locator("#fabric")).to_be_visible(timeout=PATIENCE_MS)
    for name in VIEWS:
        link = page.get_by_role("navigation", name="Views").get_by_role("link", name=name)
        link.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=name, level=1)).to_be_attached()
        expect(link).to_have_attribute("aria-current", "page")
        assert page.title()
        assert page.locator("main").count() == 1


FOCUS_WITH_THE_HEADING = """
name => new Promise(said => {
  new MutationObserver((_, watch) => {
    if (document.querySelector("h1")?.textContent !== name) return;
    watch.disconnect();
    said(document.activeElement?.id);
  }).observe(document.body, { childList: true, characterData: true, subtree: true });
  for (const link of document.querySelectorAll("nav a")) if (link.textContent === name) link.click();
})
"""


def test_a_view_takes_the_focus_with_its_heading(here: OverLab, page: Page) -> None:
    expect(page.locator("#fabric")).to_be_visible(timeout=PATIENCE_MS)
    for name in VIEWS[1:]:
        assert page.evaluate(FOCUS_WITH_THE_HEADING, name) == "main"

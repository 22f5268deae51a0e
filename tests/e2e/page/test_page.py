"""The page in a real browser: readable when empty, complete after a round, usable narrow and by keyboard, and
without anything that the browser's log calls an error."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Literal

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.e2e.process import PATIENCE_S, Served, serving

pytestmark = pytest.mark.e2e

SETTINGS = {
    "ECNTWIN_SEARCH__CANDIDATES": "32",
    "ECNTWIN_SEARCH__NARROWED": "8",
    "ECNTWIN_TUNING__ENABLED": "false",
}
Scheme = Literal["light", "dark"]
ARGUMENTS = [
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = PATIENCE_S * 1_000
expect.set_options(timeout=PATIENCE_MS)  # Playwright's own five seconds are short on a busy machine


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(**SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def measured(example: Path) -> Iterator[Served]:
    """A service that has seen the example, and sees no more."""
    with serving(**SETTINGS) as started:
        post_reports(started, example)
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium on this machine (Debian package chromium)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=PATIENCE_MS)
        yield started
        started.close()


def new_page(browser: Browser, width: int = 1280, height: int = 900, scheme: Scheme = "light") -> Page:
    """One that is as patient as the tests are."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.set_default_timeout(PATIENCE_MS)
    return page


def complaints_of(page: Page) -> list[str]:
    """What the browser complains of from now on: errors of scripts, and whatever its log calls an error."""
    complaints: list[str] = []

    def complain(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"{message.text} {message.location}")

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", complain)
    return complaints


def go(page: Page, view: str) -> None:
    """Goes to a view as a reader does."""
    page.get_by_role("navigation", name="Views").get_by_role("link", name=view).click()
    expect(page.get_by_role("heading", name=view, level=1)).to_be_attached()


def decide(page: Page, button: str) -> None:
    """Approves or rejects on Act, and says yes when asked."""
    page.get_by_role("button", name=button).click(timeout=PATIENCE_MS)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name=button).click()


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    opened = new_page(browser)
    complaints = complaints_of(opened)
    opened.goto(served.url)
    yield opened
    opened.close()
    assert complaints == []


def post_reports(served: Served, example: Path) -> None:
    answer = httpx.post(
        f"{served.url}/v1/telemetry/int",
        content=(example / "reports.ndjson.gz").read_bytes(),
        headers={"Content-Encoding": "gzip"},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 202


def test_the_whole_way_on_the_page(page: Page, served: Served, example: Path, tmp_path: Path) -> None:
    expect(page.get_by_text("Nothing measured yet")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#curl")).to_contain_text(f"{served.url}/v1/telemetry/int")
    expect(page.get_by_role("button", name="Tune now")).to_be_disabled()
    page.screenshot(path=tmp_path / "empty.png", full_page=True)

    post_reports(served, example)
    expect(page.get_by_role("heading", name="Flows by class")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#empty")).to_be_hidden()
    expect(page.locator("#flows")).to_contain_text("413 flows")

    page.get_by_role("button", name="Tune now").click()
    expect(page.get_by_role("heading", name="Recommendation", exact=True)).to_be_visible(timeout=PATIENCE_MS)
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
    page.get_by_role("application", name="candidates by mean queue").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#scatter .tip")).to_contain_text("score")
    candidates = page.locator("#candidates")
    candidates.get_by_text("As a table").click()
    expect(candidates.locator("tbody tr").nth(10)).to_be_attached()
    page.screenshot(path=tmp_path / "why.png", full_page=True)

    go(page, "Act")
    if page.get_by_role("button", name="Approve").is_visible():
        decide(page, "Approve")
        expect(page.locator("#decision")).to_have_text("approved", timeout=PATIENCE_MS)
        expect(page.locator("#pushed")).to_contain_text("Dry run")
    go(page, "History")
    expect(page.locator("#history tbody tr")).to_have_count(1)
    page.screenshot(path=tmp_path / "history.png", full_page=True)


@pytest.mark.parametrize("width", [320, 390, 768])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_width_makes_the_page_scroll_sideways(
    browser: Browser, measured: Served, width: int, scheme: Scheme, tmp_path: Path
) -> None:
    page = new_page(browser, width, 800, scheme)
    complaints = complaints_of(page)
    page.goto(measured.url)
    expect(page.get_by_role("heading", name="Flows by class")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#fabric svg .face")).not_to_have_count(0)
    for view in ("Now", "Why", "Act", "History"):
        go(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.screenshot(path=tmp_path / f"{view}-{width}.png", full_page=True)
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


def test_a_guarded_service_asks_for_a_token(browser: Browser) -> None:
    digest = sha256(b"open sesame").hexdigest()
    tokens = json.dumps([{"name": "eyes", "sha256": digest, "scopes": ["read"]}])
    with serving(ECNTWIN_SECURITY__TOKENS=tokens, **SETTINGS) as guarded:
        page = new_page(browser)
        complaints = complaints_of(page)
        page.goto(guarded.url)
        expect(page.get_by_label("Token")).to_be_focused(timeout=PATIENCE_MS)
        page.get_by_label("Token").fill("open barley")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("alert")).to_contain_text("does not take that token", timeout=PATIENCE_MS)
        page.get_by_label("Token").fill("open sesame")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_text("Nothing measured yet")).to_be_visible(timeout=PATIENCE_MS)
        expect(page.locator("#sign-in")).to_be_hidden()
        page.close()
        assert [one for one in complaints if "401" not in one] == []  # those before the token was right

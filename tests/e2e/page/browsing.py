"""How the tests of the page browse: pages that wait as long as the tests do, and what an operator clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import httpx
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, expect

from tests.e2e.process import PATIENCE_S, Served

REVIEWED = {
    "ECNTWIN_SEARCH__CANDIDATES": "24",
    "ECNTWIN_SEARCH__NARROWED": "4",
    "ECNTWIN_TUNING__ENABLED": "false",
}
SETTINGS = REVIEWED | {"ECNTWIN_SEARCH__SECOND_OPINION": "false"}  # half of a round's time
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


def look_again(page: Page) -> None:
    """As who comes back to the tab does: all is asked for anew, now and not within ten seconds."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def decide(page: Page, button: str) -> None:
    """Approves or rejects on Act, and says yes when asked."""
    page.get_by_role("button", name=button).click(timeout=PATIENCE_MS)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    dialog.get_by_role("button", name=button).click()


def expect_phase(page: Page, phase: str) -> None:
    """Of the rollout that Act shows."""
    expect(page.locator("#rollout-phase")).to_have_text(phase, timeout=PATIENCE_MS)


def show_all(panel: Locator) -> None:
    """Asks for more rows of its table until all are there."""
    rows, more = panel.locator("tbody tr"), panel.get_by_role("button", name="more")
    expect(rows).not_to_have_count(0)
    while more.count():
        before = rows.count()
        more.click()
        expect(rows).not_to_have_count(before)


def post_reports(served: Served, example: Path) -> None:
    answer = httpx.post(
        f"{served.url}/v1/telemetry/int",
        content=(example / "reports.ndjson.gz").read_bytes(),
        headers={"Content-Encoding": "gzip"},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 202

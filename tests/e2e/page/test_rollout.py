"""Rollouts on the page in a real browser, on a lab: approved, watched, taken back, frozen, adopted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.counterparts.ports import free_port
from tests.e2e.page.browsing import PATIENCE_MS, complaints_of, decide, go, new_page
from tests.e2e.process import PATIENCE_S, lab_at, serving
from tests.e2e.test_lab import DEFAULT, FABRIC
from tests.e2e.test_lab import SETTINGS as LAB_SETTINGS

pytestmark = pytest.mark.e2e

# A soak ends when the whole window lies after the change, so it lasts until the lab is told to go on.
SETTINGS = LAB_SETTINGS | {
    # Always a change: of so short a window no gain is sure.
    "ECNTWIN_SEARCH__SCORE": "normalised",
    "ECNTWIN_ROLLOUT__SOAK_S": "0.1",
    "ECNTWIN_ROLLOUT__BATCH_SOAK_S": "0",
    "ECNTWIN_ROLLOUT__MEASURE_EVERY_S": "0.1",
    "ECNTWIN_ROLLOUT__SILENCE_S": str(10 * PATIENCE_S),
    "ECNTWIN_ROLLOUT__PATIENCE_S": str(PATIENCE_S),
    "ECNTWIN_ROLLOUT__PAUSE_SHARE_LIMIT": "1",
    "ECNTWIN_ROLLOUT__PFC_FRAMES_LIMIT": "1e12",
    "ECNTWIN_ROLLOUT__DROPS_LIMIT": "1e12",
    "ECNTWIN_ROLLOUT__QUEUE_LIMIT": "1e6",
    "ECNTWIN_ROLLOUT__THROUGHPUT_LIMIT": "0",
}
LEAF1 = "/switches/leaf1"
ELSEWHERE = {"kmin_bytes": 100_000, "kmax_bytes": 700_000, "pmax": 0.1}


@dataclass
class Seen:
    """The page, the lab behind it, and what the browser complained of."""

    page: Page
    lab: httpx.Client
    complaints: list[str]

    def advance(self, until_s: float) -> None:
        assert self.lab.post("/advance", json={"until_s": until_s}).status_code == 200

    def runs(self, switch: str = "leaf1") -> object:
        return self.lab.get(f"/switches/{switch}").json()["watermark"]


@pytest.fixture
def seen(browser: Browser) -> Iterator[Seen]:
    """A lab that has told the service of its traffic, and the page of that service."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        serving(**SETTINGS, ECNTWIN_PUSH__LAB_URL=url) as served,
        lab_at(port, *FABRIC, "--step", "--post-to", served.url),
        httpx.Client(base_url=url, timeout=PATIENCE_S) as lab,
    ):
        page = new_page(browser)
        here = Seen(page, lab, complaints_of(page))
        here.advance(0.006)
        page.goto(served.url)
        yield here
        page.close()
        assert here.complaints == []


def approve(seen: Seen) -> None:
    page = seen.page
    page.get_by_role("button", name="Tune now").click(timeout=PATIENCE_MS)
    go(page, "Act")
    decide(page, "Approve")
    expect(page.get_by_role("heading", name="Rollout", exact=True)).to_be_visible(timeout=PATIENCE_MS)


def expect_phase(seen: Seen, phase: str) -> None:
    expect(seen.page.locator("#rollout-phase")).to_have_text(phase, timeout=PATIENCE_MS)


def test_a_rollout_is_watched_to_its_end_and_taken_back(seen: Seen, tmp_path: Path) -> None:
    page = seen.page
    approve(seen)
    expect_phase(seen, "soak")
    expect(page.locator("#rollout-steps [aria-current=step]")).to_contain_text("soak: under way")
    expect(page.locator("#rollout-said")).to_contain_text("leaf1 runs it")
    expect(page.locator("#rollout-seen tbody tr")).to_have_count(5)
    expect(page.locator("#rollout-left")).not_to_be_empty()
    table = page.locator("#rollout-switches")
    expect(table.get_by_role("row", name="leaf1")).to_contain_text("set")
    expect(table.get_by_role("row", name="leaf2")).to_contain_text("staged")
    assert seen.runs("leaf2") == DEFAULT
    names = [text.split()[0] for text in table.locator("tbody th").all_inner_texts()]
    page.screenshot(path=tmp_path / "soak.png", full_page=True)

    seen.advance(0.014)
    expect_phase(seen, "done")
    expect(page.locator("#rollout-said")).to_have_text(f"{len(names)} switches run it, as read back.")
    expect(page.locator("#rollout-switches td.progress")).to_have_text(["set"] * len(names))
    expect(page.locator("#switches").get_by_role("row", name="leaf1")).to_contain_text("written")
    assert all(seen.runs(name) != DEFAULT for name in names)
    page.get_by_text("All that happened").click()
    expect(page.locator("#rollout-happened li").last).to_contain_text(
        f"proposed: {len(names)} switches in 2 stages"
    )

    back = page.locator("#roll-back")
    back.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Roll back?")
    expect(dialog.get_by_role("listitem")).to_have_text(names)
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect_phase(seen, "done")
    back.click()
    dialog.get_by_role("button", name="Roll back").click()
    expect_phase(seen, "rolled back")
    expect(page.locator("#rollout-why")).to_contain_text("local asked for it")
    expect(page.locator("#rollout-steps li").last).to_contain_text("rolled back")
    expect(page.locator("#rollout-switches td.marks").first).to_contain_text("400 KB / 1.60 MB / 20 %")
    expect(page.locator("#decision")).to_have_text("rolled back")
    expect(back).to_be_disabled()
    assert all(seen.runs(name) == DEFAULT for name in names)
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.screenshot(path=tmp_path / "rolled-back.png", full_page=True)
    go(page, "History")
    expect(page.locator("#history tbody")).to_contain_text("rolled back, approved by local")


def test_freezing_stops_an_approval_and_says_so(seen: Seen) -> None:
    page = seen.page
    expect(page.locator("#frozen")).to_have_text("Not frozen", timeout=PATIENCE_MS)
    go(page, "Act")
    page.get_by_role("button", name="Freeze switches").click()
    page.get_by_role("dialog", name="Freeze switches?").get_by_role("button", name="Freeze").click()
    expect(page.locator("#frozen")).to_contain_text("Frozen by local", timeout=PATIENCE_MS)

    page.get_by_role("button", name="Tune now").click(timeout=PATIENCE_MS)
    expect(page.locator(".blocked")).to_have_text("Switches are frozen by local.", timeout=PATIENCE_MS)
    expect(page.locator("#decision")).to_have_text("cannot be approved now")
    expect(page.get_by_role("button", name="Approve")).to_be_disabled()
    expect(page.get_by_role("button", name="Reject")).to_be_enabled()
    assert seen.runs() == DEFAULT

    page.get_by_role("button", name="Thaw switches").click()
    page.get_by_role("dialog", name="Thaw switches?").get_by_role("button", name="Thaw").click()
    expect(page.locator("#frozen")).to_have_text("Not frozen", timeout=PATIENCE_MS)
    expect(page.locator(".blocked")).to_have_count(0)
    decide(page, "Approve")
    expect_phase(seen, "soak")


def test_a_switch_set_by_somebody_else_shows_as_drifted_until_adopted(seen: Seen) -> None:
    approve(seen)
    expect_phase(seen, "soak")
    seen.advance(0.014)
    expect_phase(seen, "done")
    assert seen.lab.put(f"{LEAF1}/watermark", json=ELSEWHERE).status_code == 200
    card = seen.page.locator("#switches")
    expect(card).to_contain_text("1 drifted", timeout=PATIENCE_MS)
    seen.page.get_by_role("button", name="Adopt what leaf1 runs").click()
    expect(card.get_by_role("row", name="leaf1")).not_to_contain_text("drifted", timeout=PATIENCE_MS)
    expect(card.get_by_role("row", name="leaf1")).to_contain_text("100 KB / 700 KB / 10 %")
    assert seen.runs() == ELSEWHERE

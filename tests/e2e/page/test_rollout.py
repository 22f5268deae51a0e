"""Rollouts on the page in a real browser, on a lab: approved, watched, taken back, frozen, adopted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.page.browsing import PATIENCE_MS, complaints_of, decide, expect_phase, go, look_again, new_page
from tests.e2e.page.over_lab import ELSEWHERE, SOAKING, WINDOW_S, OverLab, over_lab
from tests.e2e.test_lab import DEFAULT, eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def started() -> Iterator[OverLab]:
    with over_lab(**SOAKING) as here:
        yield here


@pytest.fixture
def here(started: OverLab, page: Page) -> OverLab:
    """A lab on which nothing was rolled out, and the page of its service."""
    started.begin_anew()
    page.goto(started.url)
    return started


def approve(page: Page) -> None:
    page.get_by_role("button", name="Tune now").click(timeout=PATIENCE_MS)
    go(page, "Act")
    decide(page, "Approve")
    expect(page.get_by_role("heading", name="Rollout", exact=True)).to_be_visible(timeout=PATIENCE_MS)


def test_a_rollout_is_watched_to_its_end_and_taken_back(here: OverLab, page: Page) -> None:
    approve(page)
    expect_phase(page, "soak")
    expect(page.locator("#rollout-steps [aria-current=step]")).to_contain_text("soak: under way")
    expect(page.locator("#rollout-said")).to_contain_text("leaf1 runs it")
    expect(page.locator("#rollout-seen tbody tr")).to_have_count(5)
    expect(page.locator("#rollout-left")).not_to_be_empty()
    table = page.locator("#rollout-switches")
    expect(table.get_by_role("row", name="leaf1")).to_contain_text("set")
    expect(table.get_by_role("row", name="leaf2")).to_contain_text("staged")
    assert here.runs("leaf2") == DEFAULT
    names = [text.split()[0] for text in table.locator("tbody th").all_inner_texts()]

    here.advance(2 * WINDOW_S)
    expect_phase(page, "done")
    expect(page.locator("#rollout-said")).to_have_text(f"{len(names)} switches run it, as read back.")
    expect(page.locator("#rollout-switches td.progress")).to_have_text(["set"] * len(names))
    expect(page.locator("#switches").get_by_role("row", name="leaf1")).to_contain_text("written")
    assert all(here.runs(name) != DEFAULT for name in names)
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
    expect_phase(page, "done")
    back.click()
    dialog.get_by_role("button", name="Roll back").click()
    expect_phase(page, "rolled back")
    expect(page.locator("#rollout-why")).to_contain_text("local asked for it")
    expect(page.locator("#rollout-steps li").last).to_contain_text("rolled back")
    expect(page.locator("#rollout-switches td.marks").first).to_contain_text("400 KB / 1.60 MB / 20 %")
    expect(page.locator("#decision")).to_have_text("rolled back")
    expect(back).to_be_disabled()
    assert all(here.runs(name) == DEFAULT for name in names)
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    go(page, "History")
    expect(page.locator("#history tbody")).to_contain_text("rolled back, approved by local")


def test_freezing_stops_an_approval_and_says_so(here: OverLab, page: Page) -> None:
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
    assert here.runs() == DEFAULT

    page.get_by_role("button", name="Thaw switches").click()
    page.get_by_role("dialog", name="Thaw switches?").get_by_role("button", name="Thaw").click()
    expect(page.locator("#frozen")).to_have_text("Not frozen", timeout=PATIENCE_MS)
    expect(page.locator(".blocked")).to_have_count(0)
    decide(page, "Approve")
    expect_phase(page, "soak")


def test_a_switch_set_by_somebody_else_shows_as_drifted_until_adopted(here: OverLab, page: Page) -> None:
    approve(page)
    expect_phase(page, "soak")
    here.advance(2 * WINDOW_S)
    expect_phase(page, "done")
    here.set_by_hand(ELSEWHERE)
    eventually(lambda: here.service.get("/v1/switches/leaf1").json()["drifted"])
    look_again(page)
    card = page.locator("#switches")
    expect(card).to_contain_text("1 drifted", timeout=PATIENCE_MS)
    page.get_by_role("button", name="Adopt what leaf1 runs").click()
    eventually(lambda: not here.service.get("/v1/switches/leaf1").json()["drifted"])
    look_again(page)
    expect(card.get_by_role("row", name="leaf1")).not_to_contain_text("drifted", timeout=PATIENCE_MS)
    expect(card.get_by_role("row", name="leaf1")).to_contain_text("100 KB / 700 KB / 10 %")
    assert here.runs() == ELSEWHERE


def test_another_hash_is_shown_and_taken_back(here: OverLab, page: Page, browser: Browser) -> None:
    here.service.post("/v1/switches/leaf1/hash", json={"value": "7"}).raise_for_status()
    go(page, "Act")
    expect(page.locator("#rollout-hashes tbody tr")).to_contain_text("its own → 7")
    expect(page.locator("#rollout-switches")).to_have_count(0)
    here.advance(2 * WINDOW_S)
    expect_phase(page, "done")
    page.locator("#roll-back").click()
    dialog = page.get_by_role("dialog", name="Roll back?")
    expect(dialog.get_by_role("listitem")).to_have_text(["leaf1"])
    dialog.get_by_role("button", name="Roll back").click()
    expect_phase(page, "rolled back")
    go(page, "History")
    expect(page.locator("#rollouts-table tbody tr").first).to_contain_text("hash 7")
    other = new_page(browser)
    complaints = complaints_of(other)
    with other.expect_console_message(lambda message: "404" in message.text, timeout=PATIENCE_MS):
        other.goto(f"{here.url}/#/why/%E0")  # what no browser would write, of a recommendation not found
    expect(other.get_by_role("heading", name="Why", level=1)).to_be_attached()
    other.close()
    assert all("404" in one for one in complaints), complaints

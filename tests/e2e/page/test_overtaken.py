"""Advice that something overtook while the page was open on it, on a lab: what is offered then, and why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.page.browsing import decide, go, look_again
from tests.e2e.page.over_lab import ELSEWHERE, WINDOW_S, OverLab, over_lab
from tests.e2e.page.test_validity import BUTTONS
from tests.e2e.test_lab import DEFAULT, eventually
from tests.e2e.test_lab import SETTINGS as LAB_SETTINGS

pytestmark = pytest.mark.e2e

ROUNDS = 10


@pytest.fixture(scope="module")
def fabric() -> Iterator[OverLab]:
    with over_lab(**LAB_SETTINGS) as here:
        assert len(here.switches()) == 3
        yield here


@pytest.fixture
def act(page: Page, fabric: OverLab) -> Page:
    """The page, open on a recommendation that could be approved; switches run what they began with."""
    fabric.set_by_hand(DEFAULT)
    fabric.service.post("/v1/switches/leaf1/adopt").raise_for_status()
    fabric.advance(WINDOW_S)  # a round needs traffic of after the last change
    found = fabric.tuned()
    assert (found["status"], found["blocked"]) == ("pending", [])
    page.goto(fabric.url)
    go(page, "Act")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    return page


def ask_to_approve(page: Page) -> Locator:
    """The question that is asked, in which yes can be said."""
    page.get_by_role("button", name="Approve").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Approve")).to_be_enabled()
    return dialog


def expect_over(dialog: Locator, why: str) -> None:
    expect(dialog.get_by_role("status")).to_contain_text(why)
    expect(dialog.get_by_role("button", name="Approve")).to_be_disabled()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()


def test_a_switch_set_by_hand_ends_the_advice(act: Page, fabric: OverLab) -> None:
    dialog = ask_to_approve(act)
    fabric.set_by_hand(ELSEWHERE)
    expect_over(dialog, "leaf1 now runs Kmin 100 KB, Kmax 700 KB, Pmax 10 %")
    expect(act.locator("#decision")).to_have_text("expired")
    expect(act.locator("#expired")).to_contain_text("leaf1 now runs Kmin 100 KB, Kmax 700 KB, Pmax 10 %")
    for button in BUTTONS[:2]:
        expect(act.get_by_role("button", name=button)).to_be_disabled()


def test_a_newer_answer_takes_the_place_of_the_one_that_is_asked_about(act: Page, fabric: OverLab) -> None:
    first = fabric.service.get("/v1/recommendations/current").json()
    dialog = ask_to_approve(act)
    for _ in range(ROUNDS):
        fabric.advance(WINDOW_S)
        newer = fabric.tuned()
        if newer["id"] != first["id"]:
            break
    assert newer["id"] != first["id"]
    expect_over(dialog, "There is a newer recommendation")
    assert newer["status"] == "pending"
    why = act.get_by_role("link", name="Why this is recommended")
    expect(why).to_have_attribute("href", f"#/why/{newer['id']}")
    assert fabric.service.get(f"/v1/recommendations/{first['id']}").json()["status"] == "superseded"


def test_what_was_rolled_back_is_not_offered_again(act: Page, fabric: OverLab) -> None:
    decide(act, "Approve")
    expect(act.locator("#rollout-phase")).to_have_text("done")
    rollout = fabric.service.get("/v1/rollouts").json()["rollouts"][0]["id"]
    fabric.service.post(f"/v1/rollouts/{rollout}/rollback").raise_for_status()
    expect(act.locator("#rollout-phase")).to_have_text("rolled back")
    expect(act.locator("#decision")).to_have_text("rolled back")
    expect(act.get_by_role("button", name="Tune now")).to_be_enabled()
    for button in BUTTONS[:2]:
        expect(act.get_by_role("button", name=button)).to_have_count(0)


def test_switches_that_do_not_answer_are_waited_for(act: Page, fabric: OverLab) -> None:
    dialog = ask_to_approve(act)
    fabric.stop_lab()
    expect_over(dialog, "cannot be read")
    expect(act.locator(".blocked")).to_contain_text("leaf1, leaf2, spine1 cannot be read")
    expect(act.locator("#decision")).to_have_text("cannot be approved now")
    eventually(lambda: not any(one["reachable"] for one in fabric.service.get("/v1/switches").json()))
    look_again(act)
    expect(act.locator("#switches-note")).to_contain_text("3 not reachable")
    approve, reject = (act.get_by_role("button", name=button) for button in BUTTONS[:2])
    expect(approve).to_be_disabled()
    expect(reject).to_be_enabled()

    fabric.start_lab()
    eventually(lambda: fabric.service.get("/v1/recommendations/current").json()["blocked"] == [])
    look_again(act)
    expect(act.locator(".blocked")).to_have_count(0)
    expect(approve).to_be_enabled()

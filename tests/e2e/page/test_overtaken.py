"""Advice that something overtook while the page was open on it, on a lab: what is offered then, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.counterparts.ports import free_port
from tests.e2e.page.browsing import complaints_of, decide, go, new_page
from tests.e2e.page.test_rollout import ELSEWHERE
from tests.e2e.page.test_validity import BUTTONS
from tests.e2e.process import PATIENCE_S, lab_at, serving
from tests.e2e.test_lab import DEFAULT, FABRIC
from tests.e2e.test_lab import SETTINGS as LAB_SETTINGS

pytestmark = pytest.mark.e2e

ROUNDS = 10


@dataclass
class Fabric:
    """A service that has heard of a lab's traffic, which comes and goes."""

    service: httpx.Client
    lab: httpx.Client
    port: int
    _lab: ExitStack = field(default_factory=ExitStack)
    _at_s: float = 0.006

    def start(self) -> None:
        self._lab.enter_context(lab_at(self.port, *FABRIC, "--step", "--post-to", str(self.service.base_url)))

    def stop(self) -> None:
        self._lab.close()

    def advance(self, by_s: float = 0.0) -> None:
        self._at_s += by_s
        self.lab.post("/advance", json={"until_s": self._at_s}).raise_for_status()

    def advice(self) -> dict[str, Any]:
        """A recommendation that waits, for switches that all run what they began with."""
        self.set_by_hand(DEFAULT)
        self.service.post("/v1/switches/leaf1/adopt").raise_for_status()
        found: dict[str, Any] = self.service.post("/v1/tune").raise_for_status().json()
        assert (found["status"], found["blocked"]) == ("pending", [])
        return found

    def set_by_hand(self, watermark: dict[str, Any]) -> None:
        self.lab.put("/switches/leaf1/watermark", json=watermark).raise_for_status()


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    always_a_change = {"ECNTWIN_PUSH__LAB_URL": url, "ECNTWIN_SEARCH__SCORE": "normalised"}
    with (
        serving(**LAB_SETTINGS, **always_a_change) as served,
        httpx.Client(base_url=served.url, timeout=PATIENCE_S) as service,
        httpx.Client(base_url=url, timeout=PATIENCE_S) as lab,
    ):
        here = Fabric(service, lab, port)
        here.start()
        here.advance()
        assert len(service.get("/v1/switches").raise_for_status().json()) == 3
        yield here
        here.stop()


@pytest.fixture
def act(browser: Browser, fabric: Fabric) -> Iterator[Page]:
    """The page, open on a recommendation that could be approved."""
    fabric.advice()
    page = new_page(browser)
    complaints = complaints_of(page)
    page.goto(str(fabric.service.base_url))
    go(page, "Act")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    yield page
    page.close()
    assert complaints == []


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


def test_a_switch_set_by_hand_ends_the_advice(act: Page, fabric: Fabric) -> None:
    dialog = ask_to_approve(act)
    fabric.set_by_hand(ELSEWHERE)
    expect_over(dialog, "leaf1 now runs Kmin 100 KB, Kmax 700 KB, Pmax 10 %")
    expect(act.locator("#decision")).to_have_text("expired")
    expect(act.locator("#expired")).to_contain_text("leaf1 now runs Kmin 100 KB, Kmax 700 KB, Pmax 10 %")
    for button in BUTTONS[:2]:
        expect(act.get_by_role("button", name=button)).to_be_disabled()


def test_a_newer_answer_takes_the_place_of_the_one_that_is_asked_about(act: Page, fabric: Fabric) -> None:
    first = fabric.service.get("/v1/recommendations/current").json()
    dialog = ask_to_approve(act)
    for _ in range(ROUNDS):
        fabric.advance(0.004)
        newer = fabric.service.post("/v1/tune").json()
        if newer["id"] != first["id"]:
            break
    assert newer["id"] != first["id"]
    expect_over(dialog, "There is a newer recommendation")
    assert newer["status"] == "pending"
    why = act.get_by_role("link", name="Why this is recommended")
    expect(why).to_have_attribute("href", f"#/why/{newer['id']}")
    assert fabric.service.get(f"/v1/recommendations/{first['id']}").json()["status"] == "superseded"


def test_what_was_rolled_back_is_not_offered_again(act: Page, fabric: Fabric) -> None:
    decide(act, "Approve")
    expect(act.locator("#rollout-phase")).to_have_text("done")
    rollout = fabric.service.get("/v1/rollouts").json()["rollouts"][0]["id"]
    fabric.service.post(f"/v1/rollouts/{rollout}/rollback").raise_for_status()
    expect(act.locator("#rollout-phase")).to_have_text("rolled back")
    expect(act.locator("#decision")).to_have_text("rolled back")
    expect(act.get_by_role("button", name="Tune now")).to_be_enabled()
    for button in BUTTONS[:2]:
        expect(act.get_by_role("button", name=button)).to_have_count(0)


def test_switches_that_do_not_answer_are_waited_for(act: Page, fabric: Fabric) -> None:
    dialog = ask_to_approve(act)
    fabric.stop()
    expect_over(dialog, "cannot be read")
    expect(act.locator(".blocked")).to_contain_text("leaf1, leaf2, spine1 cannot be read")
    expect(act.locator("#decision")).to_have_text("cannot be approved now")
    expect(act.locator("#switches-note")).to_contain_text("3 not reachable")
    approve, reject = (act.get_by_role("button", name=button) for button in BUTTONS[:2])
    expect(approve).to_be_disabled()
    expect(reject).to_be_enabled()

    fabric.start()
    expect(act.locator(".blocked")).to_have_count(0)
    expect(approve).to_be_enabled()

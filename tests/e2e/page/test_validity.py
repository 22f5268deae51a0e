"""What the page offers once advice, service or caller are not what they were: nothing, and it says why."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.counterparts.ports import free_port
from tests.e2e.page.browsing import SETTINGS, complaints_of, go, new_page, post_reports
from tests.e2e.page.over_lab import over_lab
from tests.e2e.process import PATIENCE_S, serving
from tests.e2e.test_lab import SETTINGS as LAB_SETTINGS

pytestmark = pytest.mark.e2e

ALWAYS_A_CHANGE = SETTINGS | {"ECNTWIN_SEARCH__SCORE": "normalised", "ECNTWIN_TUNING__MARGIN": "0"}
BUTTONS = ("Approve", "Reject", "Freeze switches", "Tune now")


def expect_buttons(page: Page, **enabled: bool) -> None:
    for name in BUTTONS:
        button = page.get_by_role("button", name=name)
        if enabled.get(name.split()[0].lower(), False):
            expect(button).to_be_enabled()
        else:
            expect(button).to_be_disabled()


def test_nothing_is_offered_that_would_be_refused(browser: Browser, example: Path, tmp_path: Path) -> None:
    port = str(free_port())
    settings = ALWAYS_A_CHANGE | {"ECNTWIN_STORAGE__URL": f"sqlite:///{tmp_path}/kept.db"}
    page = new_page(browser)
    with serving("--port", port, **settings) as served, httpx.Client(base_url=served.url) as other:
        post_reports(served, example)
        assert other.post("/v1/tune", timeout=PATIENCE_S).json()["status"] == "pending"
        page.goto(served.url)
        go(page, "Act")
        expect_buttons(page, approve=True, reject=True, freeze=True, tune=True)

        # Somebody else freezes: this page hears of it by itself.
        other.put("/v1/freeze", json={"frozen": True}, timeout=PATIENCE_S).raise_for_status()
        expect(page.locator(".blocked")).to_have_text("Switches are frozen by local.")
        expect(page.get_by_role("button", name="Approve")).to_be_disabled()
        other.put("/v1/freeze", json={"frozen": False}, timeout=PATIENCE_S).raise_for_status()
        expect(page.locator(".blocked")).to_have_count(0)
        expect(page.locator("#frozen")).to_have_text("Not frozen")  # read by a request of its own

        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#ask-facts")).to_contain_text("Predicted score gained")
        yes = page.get_by_role("dialog").get_by_role("button", name="Approve")
        expect(yes).to_be_enabled()
    expect(yes).to_be_disabled()  # the service has gone while the question is open
    page.keyboard.press("Escape")
    expect(page.locator("#away")).to_be_visible()
    expect(page.locator("#as-of")).to_contain_text("as of ")
    expect(page.locator("main.old")).to_have_count(1)
    expect_buttons(page)

    # It comes back without telemetry, and so late that what waited is over.
    with serving("--port", port, **settings, ECNTWIN_TUNING__STALE_AFTER_S="0.001"):
        expect(page.locator("#expired")).to_contain_text("No INT report came for ")
        expect(page.locator("#decision")).to_have_text("expired")
        expect(page.locator("#as-of")).to_have_count(0)
        expect_buttons(page, freeze=True)
    page.close()


def test_no_round_is_offered_on_telemetry_that_is_too_old(page: Page, example: Path) -> None:
    with serving(**SETTINGS, ECNTWIN_TUNING__STALE_AFTER_S="0.001") as served:
        post_reports(served, example)
        page.goto(served.url)
        expect(page.get_by_role("heading", name="Flows by class")).to_be_visible()  # of what was measured
        tune = page.get_by_role("button", name="Tune now")
        expect(tune).to_be_disabled()
        expect(tune).to_have_attribute("title", re.compile("The newest INT report came .* s ago"))
        page.goto("about:blank")


def test_a_hold_counts_down(browser: Browser) -> None:
    with over_lab(**LAB_SETTINGS | {"ECNTWIN_TUNING__COOL_DOWN_S": "86400"}) as here:
        page = new_page(browser)
        page.goto(here.url)
        first = here.tuned()["id"]
        here.service.post(f"/v1/recommendations/{first}/approve").raise_for_status()
        go(page, "Act")
        expect(page.locator("#rollout-phase")).to_have_text("done")
        here.begin_anew()
        waits = here.tuned()
        assert waits["changes"]
        assert [one["until"] is not None for one in waits["blocked"]] == [True]
        left = page.locator(".blocked [role=timer]")
        before = left.inner_text()
        expect(left).not_to_have_text(before)
        assert left.inner_text() < before <= "24:00:00 left."
        expect_buttons(page, reject=True, freeze=True, tune=True)
        page.close()


def test_a_guarded_service_asks_for_a_token_and_says_what_it_may_not(browser: Browser, example: Path) -> None:
    digests = {name: sha256(name.encode()).hexdigest() for name in ("eyes", "hands")}
    tokens = [
        {"name": "eyes", "sha256": digests["eyes"], "scopes": ["read"]},
        {"name": "hands", "sha256": digests["hands"], "scopes": ["read", "operate", "telemetry"]},
    ]
    with serving(ECNTWIN_SECURITY__TOKENS=json.dumps(tokens), **ALWAYS_A_CHANGE) as served:
        with httpx.Client(
            base_url=served.url, timeout=PATIENCE_S, headers={"Authorization": "Bearer hands"}
        ) as hands:
            hands.post(
                "/v1/telemetry/int",
                content=(example / "reports.ndjson.gz").read_bytes(),
                headers={"Content-Encoding": "gzip"},
            ).raise_for_status()
            assert hands.post("/v1/tune").json()["status"] == "pending"
        page = new_page(browser)
        complaints = complaints_of(page)
        page.goto(served.url)
        expect(page.get_by_label("Token")).to_be_focused()
        page.get_by_label("Token").fill("two ears")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("alert")).to_contain_text("no space")
        page.get_by_label("Token").fill("ears")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("alert")).to_contain_text("does not take that token")
        page.get_by_label("Token").fill("eyes")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("heading", name="Flows by class")).to_be_visible()
        expect(page.locator("#sign-in")).to_be_hidden()
        go(page, "Act")
        expect(page.locator("#actions")).to_contain_text("it lacks the scope operate")
        expect_buttons(page)
        page.get_by_role("button", name="Use another token").click()
        expect(page.get_by_label("Token")).to_be_focused()
        page.close()
        assert [one for one in complaints if "401" not in one] == []  # those before the token was right

"""What if on the page in a real browser: sliders, and the twin's answer beside what runs."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.e2e.page.browsing import PATIENCE_MS, go
from tests.e2e.process import Served

pytestmark = pytest.mark.e2e


class Asked:
    """Calls of what-if, and the most of them that were under way at once."""

    def __init__(self, page: Page) -> None:
        self.bodies: list[Any] = []
        self.most = self._now = 0
        page.on("request", self._began)
        page.on("requestfinished", self._ended)
        page.on("requestfailed", self._ended)

    def _began(self, request: Request) -> None:
        if "/v1/whatif" in request.url:
            self.bodies.append(request.post_data_json)
            self._now += 1
            self.most = max(self.most, self._now)

    def _ended(self, request: Request) -> None:
        self._now -= "/v1/whatif" in request.url


def expect_answered(page: Page) -> None:
    expect(page.locator("#asking")).to_contain_text("answered in", timeout=PATIENCE_MS)


def test_where_nothing_is_measured_nothing_is_asked(page: Page, empty: Served) -> None:
    asked = Asked(page)
    page.goto(empty.url)
    go(page, "What if")
    expect(page.get_by_role("heading", name="Nothing measured yet")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("slider")).to_have_count(0)
    assert asked.bodies == []


def test_a_slider_is_moved_and_the_twin_answers(page: Page, measured: Served) -> None:
    asked = Asked(page)
    page.goto(measured.url)
    go(page, "What if")
    kmin = page.get_by_role("slider", name="Kmin")
    expect(kmin).to_be_visible(timeout=PATIENCE_MS)
    expect_answered(page)
    expect(page.locator("#beside")).to_contain_text("This is what runs")
    expect(kmin).to_have_attribute("aria-valuetext", "400\u00a0KB")

    before = len(asked.bodies)
    kmin.focus()
    page.keyboard.press("ArrowLeft")
    # All within the pause that makes a rest, however slow the machine is.
    kmin.evaluate(
        """slider => {
            for (let step = 0; step < 59; step += 1) {
                slider.stepDown();
                slider.dispatchEvent(new Event("input", { bubbles: true }));
            }
        }"""
    )
    expect(page.locator("#beside")).to_contain_text("Beside what runs: the mean queue", timeout=PATIENCE_MS)
    expect(page.locator("#tried tbody tr").first).to_contain_text("Gain over what runs")
    expect(page.locator("#tried")).not_to_contain_text("min–max")  # over two it says nothing
    expect(page.locator("#tried tbody td.better")).not_to_have_count(0)
    expect_answered(page)
    assert len(asked.bodies) - before < 10  # one call a rest, not one a step
    assert asked.most == 1

    page.get_by_role("button", name="What runs").click()
    expect(page.locator("#beside")).to_contain_text("This is what runs")
    expect(kmin).to_have_attribute("aria-valuetext", "400\u00a0KB")


def test_kmin_stays_below_kmax_and_what_cannot_be_is_not_asked(page: Page, measured: Served) -> None:
    asked = Asked(page)
    page.goto(f"{measured.url}/#/whatif")
    number = page.get_by_label("Kmin in KB")
    expect(number).to_be_visible(timeout=PATIENCE_MS)
    expect_answered(page)
    number.fill("3000")
    expect(page.get_by_role("slider", name="Kmax")).to_have_attribute("aria-valuetext", "3.00\u00a0MB")
    expect_answered(page)
    assert asked.bodies[-1]["watermarks"] == [{"kmin_bytes": 3_000_000, "kmax_bytes": 3_000_001, "pmax": 0.2}]

    before = len(asked.bodies)
    for wrong in ("", "-5"):
        number.fill(wrong)
        expect(number).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Pmax in %").fill("150")
    expect(page.get_by_label("Pmax in %")).to_have_attribute("aria-invalid", "true")
    page.get_by_role("slider", name="Pmax").focus()
    expect(number).to_have_value("3000")
    assert len(asked.bodies) == before


def test_queues_over_time_are_predicted_on_request(page: Page, measured: Served) -> None:
    page.goto(f"{measured.url}/#/whatif")
    expect(page.get_by_role("slider", name="Kmin")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#trajectories")).to_have_count(0)
    page.get_by_label("Predict the deepest queues").check()
    expect(page.locator("#trajectories canvas")).to_be_visible(timeout=PATIENCE_MS)
    held: list[Route] = []
    page.route("**/v1/whatif", lambda route: held.append(route))
    page.get_by_label("Kmax in KB").fill("600")
    expect(page.locator("#depths")).to_contain_text("Working them out")
    for one in held:
        one.continue_()
    page.unroute("**/v1/whatif")  # only now: it lets go of what is still held, and that cannot continue twice
    expect(page.locator("#trajectories canvas")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator("#depths")).to_contain_text("tried")
    for width in (320, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width

"""History on the page in a real browser: rounds, gains, residuals, ports over time, a database that is
away."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.e2e.page.browsing import PATIENCE_MS, SETTINGS, complaints_of, go, new_page, post_reports
from tests.e2e.process import PATIENCE_S, Served, serving

pytestmark = pytest.mark.e2e

QUICK = SETTINGS | {
    # Nothing waits for a longer step to end.
    "ECNTWIN_STORAGE__HISTORY_STEP_S": "1",
    "ECNTWIN_STORAGE__HISTORY_COARSER": "{}",
    "ECNTWIN_SEARCH__WEIGHTS": "latency",  # of which a window of milliseconds is sure
}
ROUNDS = 3


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(**QUICK) as started:
        yield started


@pytest.fixture(scope="module")
def ids(served: Served, example: Path) -> list[str]:
    """Those of rounds, the newest first; each was turned down, or the next would only agree with it."""
    post_reports(served, example)
    found = []
    for _ in range(ROUNDS):
        answer = httpx.post(f"{served.url}/v1/tune", timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
        rejected = httpx.post(f"{served.url}/v1/recommendations/{found[-1]['id']}/reject", timeout=PATIENCE_S)
        assert rejected.status_code == 200, rejected.text
    return [one["id"] for one in reversed(found)]


def test_where_nothing_was_it_says_so(page: Page, empty: Served) -> None:
    page.goto(empty.url)
    go(page, "History")
    expect(page.locator("#history")).to_contain_text("No round has been run yet", timeout=PATIENCE_MS)
    expect(page.locator("#gains")).to_contain_text("No rollout of this time has a measured gain")
    expect(page.locator("#rollouts")).to_contain_text("Nothing has been rolled out yet")
    expect(page.locator("#residuals")).to_contain_text("No round in this time")
    expect(page.locator("#past-alarms")).to_contain_text("No alarm was raised")
    expect(page.locator("#past-queues")).to_contain_text("No queue was measured in this time")
    expect(page.locator("#shadow")).to_contain_text("No round of the last 30 days has worked out a gain")


def test_older_rounds_come_on_request(page: Page, served: Served, ids: list[str]) -> None:
    # The page begins with twelve and asks for fifty more: it gets one, and one more.
    page.route("**/v1/recommendations?*limit=*", _fewer)
    page.goto(f"{served.url}/#/history")
    rows = page.locator("#history tbody tr")
    expect(rows).to_have_count(1, timeout=PATIENCE_MS)
    distinct = list(dict.fromkeys(ids))
    for already in range(1, len(distinct)):
        expect(page.locator("#history .note")).to_have_text(f"{already} of {len(distinct)}")
        page.get_by_role("button", name="Show older ones").click()
        expect(rows).to_have_count(already + 1)
    expect(page.get_by_role("button", name="Show older ones")).to_have_count(0)
    links = [link.get_attribute("href") for link in rows.get_by_role("link").all()]
    assert links == [f"#/why/{one}" for one in distinct]
    assert "UTC" in (rows.first.locator("time").first.get_attribute("title") or "")


def test_no_cell_of_a_card_is_indented(page: Page, served: Served, ids: list[str]) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"{served.url}/#/history")
    decision = page.locator("#history td[data-name=Decision]").first
    expect(decision).to_have_css("display", "block")
    expect(decision).to_have_css("padding-left", "0px")
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(decision).not_to_have_css("padding-left", "0px")


def _fewer(route: Route) -> None:
    before, wanted = route.request.url.split("limit=")
    route.continue_(url=f"{before}limit={1 + (int(wanted) - 12) // 50}")


def test_residuals_and_ports_are_drawn(page: Page, served: Served, ids: list[str]) -> None:
    page.goto(f"{served.url}/#/history")
    residuals = page.locator("#residuals")
    expect(residuals.locator("canvas")).to_be_visible(timeout=PATIENCE_MS)
    expect(residuals).to_contain_text(f"In {ROUNDS} rounds")
    expect(residuals.locator(".legend")).to_contain_text("limit +50 %")
    residuals.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(residuals.locator(".tip")).to_contain_text("measured")
    residuals.get_by_text("As a table").click()
    expect(residuals.locator("tbody tr")).to_have_count(ROUNDS)

    queues = page.locator("#past-queues")
    expect(queues.locator("#past-depth canvas")).to_be_visible(timeout=PATIENCE_MS)
    port = queues.get_by_role("combobox", name="Port, the deepest first")
    other = port.get_by_role("option").nth(1).inner_text()
    port.select_option(other)
    expect(queues.locator("#past-throughput").get_by_role("application")).to_have_attribute(
        "aria-label", f"Throughput of {other} over time. Arrow keys move along it."
    )
    for width in (320, 400, 1500):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def gain_told(
    id_: str, hours: float, policy: str, predicted: float, measured: float | None
) -> dict[str, Any]:
    at = datetime.now(UTC) - timedelta(hours=hours)
    return {
        "at": at.isoformat().replace("+00:00", "Z"),
        "recommendation": id_,
        "policy": policy,
        "predicted": predicted,
        "predicted_error": 0.012,
        "measured": measured,
        "measured_error": None if measured is None else 0.016,
        "why": None if measured is None or measured > 0 else "It was rolled back.",
    }


def test_gains_predicted_and_measured_are_drawn(page: Page, served: Served, ids: list[str]) -> None:
    gains = [
        gain_told(ids[0], 1, "balanced", 0.02, None),
        gain_told(ids[1], 2, "balanced", 0.08, 0.05),
        gain_told(ids[2], 3, "balanced", 0.06, -0.03),
        gain_told("of-another-day", 30, "latency", 0.4, 0.3),
    ]
    page.route("**/v1/history/gains?*", lambda route: route.fulfill(json={"gains": gains}))
    page.goto(f"{served.url}/#/history")
    panel = page.locator("#gains")
    expect(panel.locator("#gain-both canvas")).to_be_visible(timeout=PATIENCE_MS)
    expect(panel.locator("#gain-apart canvas")).to_be_visible()
    expect(panel).to_contain_text("3 rollouts for the balanced policy; 2 were measured")
    expect(panel).to_contain_text("1 made things worse")
    rows = panel.locator("#ledger tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("8.0 ± 1.2 %")
    expect(rows.nth(1)).to_contain_text("yes")
    expect(rows.nth(2)).to_contain_text("It was rolled back.")
    expect(rows.nth(2)).to_contain_text("rolled back")
    expect(rows.nth(1)).to_contain_text("−3.0 ± 2.0 %")  # apart, with the error of both
    assert rows.first.get_by_role("link").get_attribute("href") == f"#/why/{ids[0]}"
    chart = panel.locator("#gain-both")
    chart.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(chart.locator(".tip")).to_contain_text("predicted 6.0 ± 1.2 %, measured −3.0 ± 1.6 %")
    panel.get_by_role("combobox", name="Policy").select_option("latency")
    expect(rows).to_have_count(1)  # never in one chart with another policy's


def test_a_service_that_tells_no_gains_is_no_error(browser: Browser, served: Served, ids: list[str]) -> None:
    page = new_page(browser)
    page.route("**/v1/history/gains?*", lambda route: route.fulfill(status=404, json={"status": 404}))
    page.goto(f"{served.url}/#/history")
    expect(page.locator("#gains")).to_contain_text("No rollout of this time", timeout=PATIENCE_MS)
    expect(page.locator("#gains .notice")).to_have_count(0)
    expect(page.locator("#history tbody tr")).to_have_count(len(set(ids)))
    expect(page.locator("#history thead")).to_contain_text("Gain")
    page.close()


def test_a_database_that_is_away_is_said_plainly(browser: Browser, served: Served, ids: list[str]) -> None:
    page = new_page(browser)
    complaints = complaints_of(page)
    problem = {"title": "Service Unavailable", "status": 503, "detail": "the database does not answer"}
    page.route("**/v1/history/**", lambda route: route.fulfill(status=503, json=problem))
    page.goto(f"{served.url}/#/history")
    for part in ("#gains", "#residuals", "#past-alarms", "#past-queues"):
        expect(page.locator(part)).to_contain_text("The past cannot be read just now", timeout=PATIENCE_MS)
        expect(page.locator(part)).to_contain_text("the database does not answer")
    expect(page.locator("#history tbody tr")).to_have_count(len(set(ids)))  # memory still knows them
    expect(page.locator("#live")).not_to_have_text("not reachable")
    page.close()
    assert all("503" in told and "/v1/history/" in told for told in complaints)

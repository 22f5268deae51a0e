"""Alarms on the page in a real browser: raised while one looks, in words, narrow and wide, light and dark."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.page.browsing import (
    PATIENCE_MS,
    SETTINGS,
    Scheme,
    complaints_of,
    look_again,
    new_page,
    post_reports,
)
from tests.e2e.process import PATIENCE_S, serving

pytestmark = pytest.mark.e2e

S = 1_000_000_000
MOST_PORTS = 17
ALARMING = SETTINGS | {
    "ECNTWIN_ALARMS__EVERY_S": "0.1",
    "ECNTWIN_ALARMS__HOLD_S": "0",
    "ECNTWIN_ALARMS__CLEAR_S": "0",
    # Reports come once: on a slow machine that would be an alarm of its own.
    "ECNTWIN_ALARMS__TELEMETRY_SILENT_WARNING": "1e6",
    "ECNTWIN_ALARMS__TELEMETRY_SILENT_CRITICAL": "1e6",
    "ECNTWIN_ALARMS__SWITCH_SILENT_WARNING": "1e6",
}


@dataclass
class Seen:
    """The page of a service, its counters, and the switches of which no test before has told it."""

    page: Page
    service: httpx.Client
    leaves: Sequence[str]
    at_ns: int = field(default_factory=time.time_ns)
    paused_ns: int = 0

    @property
    def leaf(self) -> str:
        return self.leaves[0]

    def port_was_paused(self, share: float, ports: int = 1, switches: int = 1) -> None:
        """Ten more seconds by the switches' clock, in which their ports were paused for such a share."""
        self.at_ns += 10 * S
        self.paused_ns += round(share * 10 * S)
        samples = [
            {
                "switch": switch, "port": f"Ethernet{port}", "queue": 3, "ts_ns": self.at_ns,
                "pfc_pause_ns": self.paused_ns, "dropped_packets": 0,
            }
            for switch in self.leaves[:switches]
            for port in range(ports)
        ]  # fmt: skip
        answer = self.service.post("/v1/telemetry/counters", json=samples)
        assert answer.json()["accepted"] == len(samples)


@dataclass(frozen=True)
class Screen:
    """What the page is read on, and a service that has raised no alarm before it was."""

    width: int
    scheme: Scheme
    service: httpx.Client
    leaves: Iterator[str]


@pytest.fixture(scope="module", params=[(1280, "light"), (390, "dark")], ids=["wide", "narrow"])
def screen(example: Path, request: pytest.FixtureRequest) -> Iterator[Screen]:
    with serving(**ALARMING) as served, httpx.Client(base_url=served.url, timeout=PATIENCE_S) as service:
        post_reports(served, example)
        yield Screen(*request.param, service, (f"leaf{number}" for number in count(1)))


@pytest.fixture
def seen(browser: Browser, screen: Screen) -> Iterator[Seen]:
    page = new_page(browser, screen.width, scheme=screen.scheme)
    complaints = complaints_of(page)
    here = Seen(page, screen.service, list(islice(screen.leaves, 3)))
    page.goto(str(screen.service.base_url))
    yield here
    here.port_was_paused(0, MOST_PORTS, len(here.leaves))
    expect(page.locator("#alarms-note")).to_have_text("none now")
    page.close()
    assert complaints == []


def test_an_alarm_comes_and_goes_while_one_looks(seen: Seen) -> None:
    page = seen.page
    card, note = page.locator("#alarms"), page.locator("#alarms-note")
    # The page listens before anything is wrong.
    expect(page.locator("#live")).not_to_have_text("connecting", timeout=PATIENCE_MS)
    expect(card).to_be_hidden()

    seen.port_was_paused(0)
    seen.port_was_paused(0.5)
    expect(note).to_have_text("1 critical", timeout=PATIENCE_MS)
    assert note.get_attribute("role") == "status"
    (row,) = card.locator("#alarms-now").get_by_role("listitem").all()
    expect(row.locator(".tone")).to_have_text("critical")
    expect(row).to_contain_text(f"{seen.leaf} Ethernet0")
    expect(row).to_contain_text(f"PFC kept {seen.leaf} Ethernet0 from sending for 50.0% of the last 10 s")
    expect(row).to_contain_text("critical from 25 %")
    expect(row).to_contain_text("Find who sends the pauses")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    look_again(page)
    ports = page.locator("#ports tbody")
    expect(ports.get_by_role("row", name=f"{seen.leaf} Ethernet0")).to_contain_text(
        "50 %", timeout=PATIENCE_MS
    )
    expect(page.locator("#facts")).to_contain_text("at once to")
    expect(page.locator("#flows")).to_contain_text("to each elephant by number")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    seen.port_was_paused(0)
    expect(note).to_have_text("none now", timeout=PATIENCE_MS)
    expect(card.locator("#alarms-now")).to_have_count(0)
    page.get_by_text("Ended alarms").click()
    expect(page.locator("#alarms-ended").get_by_role("listitem")).to_contain_text(f"{seen.leaf} Ethernet0")
    expect(page.locator("#alarms-ended")).not_to_contain_text("Find who")


def test_ports_of_one_cause_are_one_row_that_is_acknowledged_and_silenced(seen: Seen) -> None:
    page = seen.page
    seen.port_was_paused(0, ports=MOST_PORTS)
    seen.port_was_paused(0.5, ports=MOST_PORTS)
    rows = page.locator("#alarms-now > li")
    expect(page.locator("#alarms-note")).to_have_text("1 critical")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("pfc storm · 17 in all")
    expect(rows).to_contain_text("Ethernet0, Ethernet1, Ethernet2, Ethernet3")
    asking = page.locator("nav .bubble")
    expect(asking).to_have_text("1 alarm asks for attention, 1 critical")

    rows.get_by_text("Acknowledge or silence").click()
    rows.get_by_label("Note").fill("ticket 4711")
    rows.get_by_role("button", name="Acknowledge").click()
    expect(rows).to_contain_text("Acknowledged by local at")
    expect(rows).to_contain_text("ticket 4711")
    expect(rows).to_have_class("known")
    expect(asking).to_have_count(0)
    expect(page.locator("#alarms-note")).to_have_text("1 critical, 1 acknowledged")
    rows.get_by_label("For").select_option("4 hours")
    rows.get_by_role("button", name=f"Silence pfc storm on {seen.leaf}").click()
    expect(rows).to_contain_text("Silenced until")
    expect(page.locator("#alarms-note")).to_have_text("1 critical, 1 acknowledged, 1 silenced")
    page.get_by_text("1 silence", exact=True).click()
    expect(page.locator("#silences")).to_contain_text(f"pfc storm on {seen.leaf}")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    page.locator("#silences").get_by_role("button", name="End silence").click()
    expect(page.locator("#silences")).to_have_count(0)
    expect(page.locator("#alarms-note")).to_have_text("1 critical, 1 acknowledged")
    expect(asking).to_have_count(0)
    rows.get_by_role("button", name="Withdraw").click()
    expect(asking).to_have_count(1)
    expect(page.locator("#alarms-note")).to_have_text("1 critical")
    expect(rows).not_to_have_class("known")


def test_what_began_at_once_is_one_row_with_its_switches_in_it(seen: Seen) -> None:
    page, (first, second, third) = seen.page, seen.leaves
    seen.port_was_paused(0, switches=3)
    seen.port_was_paused(0.5, switches=3)
    rows = page.locator("#alarms-now > li")
    expect(page.locator("#alarms-note")).to_have_text("3 critical, 1 cause to look for")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("3 switches")
    expect(rows).to_contain_text("pfc storm · 3 alarms")
    expect(rows).to_contain_text(f"{first}, {second} and {third}, at once: pfc storm;")
    asking = page.locator("nav .bubble")
    expect(asking).to_have_text("1 cause asks for attention, 3 alarms, 3 critical")

    rows.get_by_text("Each alarm of 3 switches").click()
    each = rows.get_by_role("list", name="Alarms of 3 switches").get_by_role("listitem")
    expect(each).to_have_count(3)
    each.nth(1).get_by_text("Acknowledge or silence").click()
    each.nth(1).get_by_role("button", name=f"Silence pfc storm on {second}").click()
    expect(each.nth(1)).to_contain_text("Silenced until")
    expect(rows.first).to_contain_text("1 acknowledged or silenced")
    expect(asking).to_have_text("1 cause asks for attention, 2 alarms, 2 critical")

    rows.get_by_text("Acknowledge all").click()
    rows.get_by_role("textbox", name="Note").first.fill("spine is moved")
    rows.get_by_role("button", name="Acknowledge 2", exact=True).click()
    expect(page.locator("#alarms-note")).to_have_text("3 critical, 2 acknowledged, 1 silenced")
    expect(each.first).to_contain_text("spine is moved")
    expect(rows.first).to_have_class("known")
    expect(asking).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

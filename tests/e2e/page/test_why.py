"""Why on the page in a real browser: candidates by mouse, keyboard and table, the gain, queues over time, and
rounds of before there were gains."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.page.browsing import PATIENCE_MS, complaints_of, new_page, show_all
from tests.e2e.page.conftest import Tuned

pytestmark = pytest.mark.e2e


@pytest.fixture
def found(tuned: Tuned) -> dict[str, Any]:
    """The recommendation of one round on the example."""
    return tuned.found


@pytest.fixture
def why(page: Page, tuned: Tuned) -> Page:
    page.goto(f"{tuned.url}/#/why/{tuned.found['id']}")
    expect(page.locator("#scatter svg .symbol")).not_to_have_count(0, timeout=PATIENCE_MS)
    return page


def test_candidates_are_read_by_mouse_keyboard_and_as_a_table(why: Page, found: dict[str, Any]) -> None:
    scatter = why.locator("#scatter")
    labels = scatter.locator(".labels text")
    expect(labels).to_have_text(["recommended", "runs now"] if found["changes"] else ["runs now, and stays"])
    tip = scatter.locator(".tip")
    scatter.locator("svg .symbol.star").first.hover(force=True)
    expect(tip).to_contain_text("Recommended: Kmin" if found["changes"] else "Runs now, and stays: Kmin")
    expect(tip).to_contain_text(
        re.compile("gain .*\u00a0%: bulk speed .* of now, small-message delay .* of now")
    )

    scatter.get_by_role("application").focus()
    why.keyboard.press("Home")
    first = tip.inner_text()
    why.keyboard.press("ArrowRight")
    expect(tip).not_to_have_text(first)
    expect(tip).to_contain_text("bulk speed")
    why.keyboard.press("Escape")
    expect(tip).to_contain_text("Point at a candidate")

    panel = why.locator("#candidates")
    panel.get_by_text("As a table").click()
    show_all(panel)
    expect(panel.locator("tbody tr")).to_have_count(found["candidate_count"])


def test_the_axes_are_a_choice(why: Page) -> None:
    panel = why.locator("#candidates")
    expect(panel.locator(".axes")).to_contain_text("small-message delay, share of now →")
    expect(panel.locator(".levels text").first).to_have_text("0 %")
    expect(panel.locator(".levels .strong")).to_have_count(1)
    across = panel.get_by_role("combobox", name="Across")
    across.select_option("mean")
    expect(panel.locator(".levels")).to_have_count(0)
    before = panel.locator(".scale text").all_text_contents()
    panel.get_by_label("Logarithmic").uncheck()
    expect(panel.locator(".scale text").last).to_contain_text("B")
    assert panel.locator(".scale text").all_text_contents() != before
    panel.get_by_role("combobox", name="Up").select_option("score")
    expect(panel.locator(".axes")).to_contain_text("↑ gain")
    across.select_option("p99")
    expect(panel.locator(".axes")).to_contain_text("99th percentile queue →")
    expect(panel.locator("svg .symbol.star").first).to_be_attached()


def test_the_parts_add_up_to_the_gain(why: Page, found: dict[str, Any]) -> None:
    gained = found["improvement"]["score_gain"]
    texts = [row.locator("td").last.inner_text() for row in why.locator("#terms tbody tr").all()]
    *parts, total = [float(text.replace("−", "-").split()[0]) for text in texts]
    assert len(parts) == 3
    assert sum(parts) == pytest.approx(total, abs=1.6)  # each is rounded to a percent
    assert total == pytest.approx(100 * gained, abs=0.51)
    expect(why.locator("#terms")).to_contain_text("±")
    expect(why.locator("#gain-bar").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("bulk speed .*small-message delay .*margin 3\u00a0%")
    )
    if found["changes"]:
        expect(why.locator("#won")).to_contain_text("over what runs: ")
    expect(why.locator("#found")).to_contain_text("Found by ")
    alike = found["improvement"]["alike"]
    expect(why.locator("#found")).to_contain_text(f"{alike} other" if alike else "two errors")
    expect(why.locator("#compare tbody tr").first).to_contain_text("Gain over what runs")


def test_the_score_min_max_is_kept_beside_it(why: Page, found: dict[str, Any]) -> None:
    why.get_by_text("By the score min–max over the candidates").click()
    assert_adds_up(why, "#normalised", found["recommendation"]["score_normalised"])


def assert_adds_up(why: Page, table: str, score: float) -> None:
    rows = why.locator(f"{table} tbody tr")
    expect(rows.first).to_contain_text("Throughput")

    def figure(row: int, column: int) -> float:
        return float(rows.nth(row).locator("td").nth(column).inner_text().replace("−", "-"))

    last = rows.count() - 1
    assert sum(figure(row, 0) * figure(row, 2) for row in range(last)) == pytest.approx(
        figure(last, 2), abs=0.003
    )
    assert figure(last, 2) == pytest.approx(score, abs=0.001)


def test_a_round_of_before_there_were_gains_keeps_its_score(why: Page, found: dict[str, Any]) -> None:
    """None of its figures is drawn as a gain."""
    older = deepcopy(found)
    for one in (older["incumbent"], older["recommendation"], *older["candidates"]):
        one["score"] = one.pop("score_normalised")
        for name in ("score_error", "gain", "probe_slowdown", "probe_by_path", "paused_share", "loss_share"):
            del one[name]
    for name in ("score_is", "policy"):
        del older[name]
    older["improvement"] = {
        "best": found["improvement"]["best"],
        "score_gain": 0.213,
        "margin": 0.05,
        "relative": {},
    }
    why.route(f"**/v1/recommendations/{found['id']}", lambda route: route.fulfill(json=older))
    why.reload()
    expect(why.locator("#score .note")).to_have_text("score min–max of its round", timeout=PATIENCE_MS)
    assert_adds_up(why, "#terms", older["recommendation"]["score"])
    expect(why.locator("#gain-bar")).to_have_count(0)
    expect(why.locator("#compare")).not_to_contain_text("Gain")
    expect(why.locator("#candidates .levels")).to_have_count(0)
    expect(why.locator("#candidates .axes")).to_contain_text("mean bottleneck queue →")


def test_the_probe_is_told_by_length_of_path(why: Page, found: dict[str, Any]) -> None:
    """Whatever the engines tell: here it is put into the document."""
    told = deepcopy(found)
    for one, p99 in ((told["incumbent"], 10.0), (told["recommendation"], 5.0)):
        probe = {"n": 100, "p50": 1.5, "p99": p99}
        one |= {"probe_slowdown": probe, "probe_by_path": {"1 hop": probe, "3 hops": probe}}
        one |= {"pfc_pause_s": 0.5, "paused_share": 0.012}
    why.route(f"**/v1/recommendations/{found['id']}", lambda route: route.fulfill(json=told))
    why.reload()
    rows = why.locator("#compare tbody tr")
    expect(rows.filter(has_text="Small message, 99 % slowdown")).to_contain_text("−50 %", timeout=PATIENCE_MS)
    expect(rows.filter(has_text="Paused by PFC")).to_contain_text("500 ms (1.2 %)")
    why.get_by_text("A small message by length of its path").click()
    expect(why.locator(".by-path tbody tr")).to_have_count(2)
    expect(why.locator(".by-path tbody tr").last).to_contain_text("3 hops")


def test_what_nics_would_add_is_shown_part_by_part(why: Page, found: dict[str, Any]) -> None:
    expect(why.locator("#together")).to_have_count(0)
    told = deepcopy(found)
    told["co_tuning"] = {
        "recommended": True,
        "sentence": "Set together with the watermark, cut interval 50 → 12 µs: 90 ± 18 % better than now.",
        "watermark": {"kmin_bytes": 8_000, "kmax_bytes": 32_000, "pmax": 0.5},
        "changes": [
            {"name": "cut interval", "kind": "nic", "unit": "µs", "before": 50, "after": 12, "share": 0.6},
            {
                "name": "byte counter",
                "kind": "nic",
                "unit": "B",
                "before": 32767,
                "after": None,
                "share": 0.2,
            },
            {
                "name": "watermark",
                "kind": "watermark",
                "unit": "",
                "before": None,
                "after": None,
                "share": 0.1,
            },
        ],
        "gain": 0.9,
        "gain_error": 0.18,
        "alone": 0.25,
        "more": 0.65,
        "more_error": 0.1,
        "second_more": 0.6,
        "connectx": {"rate_reduce_monitor_period": 12, "min_time_between_cnps": 12, "rpg_byte_reset": 0},
        "sensitivities": [
            {"name": "cut interval", "unit": "µs", "before": 50, "best": 12, "gain": 0.5, "worst": -0.4}
        ],
        "runs": 250,
        "traffic_s": 0.02,
    }
    why.route(f"**/v1/recommendations/{found['id']}", lambda route: route.fulfill(json=told))
    why.reload()
    panel = why.locator("#together")
    expect(panel).to_contain_text("90 ± 18 % better than now", timeout=PATIENCE_MS)
    rows = panel.locator("table").first.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("50 µs")
    expect(rows.nth(0)).to_contain_text("60 %")
    expect(rows.nth(1)).to_contain_text("off")
    expect(rows.nth(2)).to_contain_text("8 KB")
    ran = "rate_reduce_monitor_period 12 µs, min_time_between_cnps 12 µs"
    expect(panel).to_contain_text(f"On ConnectX: {ran}")
    panel.get_by_text("What each value alone would gain").click()
    expect(panel.locator("table").last).to_contain_text("−40 %")


def test_paths_of_elephants_that_collide_are_advice(why: Page, found: dict[str, Any]) -> None:
    expect(why.locator("#paths")).to_have_count(0)
    told = deepcopy(found)
    goodput = {"before_gbps": 23.7, "after_gbps": 46.2, "window_s": 0.04}
    move = {"src": "10.0.0.1", "dst": "10.0.0.9", "sport": 1024, "dport": 4791, "protocol": 17}
    move |= {"src_host": "h0", "dst_host": "h8", "before": "Ethernet8", "after": "Ethernet10"}
    told["paths"] = {
        "sentence": "Elephants collide in one place while equal-cost ports have room.",
        "notes": [],
        "collisions": [
            {
                "switch": "leaf1",
                "sentence": "leaf1: 8 elephants share Ethernet8 and Ethernet9.",
                "ratio": 2.0,
                "ports": [
                    {"port": f"Ethernet{port}", "rate_gbps": 100, "load_gbps": load, "elephants": elephants}
                    for port, load, elephants in ((8, 97.5, 4), (9, 97.5, 4), (10, 0, 0), (11, 0, 0))
                ],
                "moved": {
                    "advised": True,
                    "moves": [move],
                    "times": 1.95,
                    "times_error": 0.26,
                    "first": {"engine": "replay"} | goodput,
                    "second": {"engine": "packet"} | goodput,
                    "gain": 0.4,
                    "gain_error": 0.08,
                    "second_gain": 0.39,
                },
                "hashed": None,
            }
        ],
        "runs": 28,
        "traffic_s": 0.04,
    }
    why.route(f"**/v1/recommendations/{found['id']}", lambda route: route.fulfill(json=told))
    why.reload()
    panel = why.locator("#paths")
    expect(panel).to_contain_text("8 elephants share Ethernet8", timeout=PATIENCE_MS)
    expect(panel.locator(".note")).to_have_text("moves advised")
    ports, moves, goodputs = (panel.locator("table").nth(place).locator("tbody tr") for place in range(3))
    expect(ports).to_have_count(4)
    expect(moves).to_contain_text("h0 → h8, UDP 1024 → 4791")
    expect(goodputs.nth(1)).to_contain_text("packet")
    expect(panel).to_contain_text("ecntwin sets no paths")
    told["paths"] |= {"sentence": "No elephants collide.", "collisions": []}
    why.reload()
    expect(panel).to_contain_text("No elephants collide.", timeout=PATIENCE_MS)


def test_queues_marks_and_origin_are_there(why: Page, found: dict[str, Any]) -> None:
    queues = found["trajectories"]["queues"]
    depths = why.locator("#depths")
    expect(depths.locator("canvas")).to_be_visible()
    expect(depths.get_by_role("option")).to_have_count(len(queues))
    told = depths.get_by_role("application").get_attribute("aria-label")
    last = queues[-1]
    depths.get_by_role("combobox").select_option(label=f"{last['switch']} {last['port']}")
    expect(depths.get_by_role("application")).not_to_have_attribute("aria-label", told or "")
    depths.get_by_text("As a table").click()
    show_all(depths)
    expect(depths.locator("tbody tr")).to_have_count(len(last["recommended_bytes"]))

    why.locator("#marking").get_by_role("application").focus()
    why.keyboard.press("End")
    expect(why.locator("#marking .tip")).to_contain_text("100 %")
    origin = why.locator("#provenance")
    expect(origin).to_contain_text(found["id"])
    expect(origin).to_contain_text(found["version"])
    expect(why.locator("#outcome")).to_contain_text("telemetry had measured")


@pytest.mark.parametrize("width", [320, 400, 1500])
def test_it_fits_any_width(why: Page, width: int) -> None:
    why.set_viewport_size({"width": width, "height": 900})
    expect(why.locator("#scatter .plot svg")).to_be_visible()
    why.wait_for_function(f"document.querySelector('#scatter .plot svg').clientWidth <= {width}")
    assert why.evaluate("document.documentElement.scrollWidth") <= width


def test_an_id_of_no_round_leads_to_those_that_are_there(browser: Browser, tuned: Tuned) -> None:
    page = new_page(browser)
    complaints = complaints_of(page)
    page.goto(f"{tuned.url}/#/why/of-no-round")
    expect(page.get_by_role("heading", name="No such recommendation")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("link", name="See those that are there").click()
    expect(page.get_by_role("heading", name="History", level=1)).to_be_attached()
    page.close()
    assert all("404" in told and "of-no-round" in told for told in complaints)  # the browser logs every 404

"""Large fabrics on the page: 1,536 ports all drawn with few elements, 500 switches from pods to ports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from telemetry.encode.arrow import MEDIA_TYPE, encode
from tests.counterparts.pods import Pods
from tests.counterparts.switches.many_switches import ROLLOUT, answer
from tests.e2e.page.browsing import PATIENCE_MS, SETTINGS, Scheme, complaints_of, new_page
from tests.e2e.process import PATIENCE_S, Served, serving

pytestmark = pytest.mark.e2e

LEAVES, SPINES, HOSTS = 32, 16, 16
PORTS = LEAVES * (HOSTS + SPINES) + SPINES * LEAVES
DEEPEST_BYTES = 5_000_000
FEW_ELEMENTS = 400
MOST_A_POLL = 100_000


def topology() -> dict[str, Any]:
    """Leaves with hosts below and every spine above."""
    links = [
        {
            "a": f"host{leaf * HOSTS + host}",
            "b": f"leaf{leaf}",
            "b_port": f"Ethernet{host}",
            "rate_gbps": 100,
            "delay_us": 1,
        }
        for leaf in range(LEAVES)
        for host in range(HOSTS)
    ]
    links += [
        {
            "a": f"leaf{leaf}",
            "a_port": f"Ethernet{HOSTS + spine}",
            "b": f"spine{spine}",
            "b_port": f"Ethernet{leaf}",
            "rate_gbps": 400,
            "delay_us": 1,
        }
        for leaf in range(LEAVES)
        for spine in range(SPINES)
    ]
    return {
        "hosts": [
            {"name": f"host{host}", "ip": f"10.0.{host // 250}.{host % 250 + 1}"}
            for host in range(LEAVES * HOSTS)
        ],
        "switches": [{"name": f"leaf{leaf}"} for leaf in range(LEAVES)]
        + [{"name": f"spine{spine}"} for spine in range(SPINES)],
        "links": links,
    }


def reports() -> bytes:
    """One packet over every port, the queue of leaf7's first one the deepest."""
    hosts = LEAVES * HOSTS
    ports = [(f"leaf{leaf}", port) for leaf in range(LEAVES) for port in range(HOSTS + SPINES)]
    ports += [(f"spine{spine}", port) for spine in range(SPINES) for port in range(LEAVES)]
    lines = []
    for number, (switch, port) in enumerate(ports):
        src, dst = number % hosts, (number + 1) % hosts
        at_ns = 1_800_000_000_000_000_000 + number * 1_000
        depth = DEEPEST_BYTES if (switch, port) == ("leaf7", 0) else (number * 7919) % 900_000
        hop = {
            "switch": switch,
            "egress_port": f"Ethernet{port}",
            "queue": 3,
            "queue_bytes": depth,
            "egress_ts_ns": at_ns,
        }
        flow = {
            "src": f"10.0.{src // 250}.{src % 250 + 1}",
            "dst": f"10.0.{dst // 250}.{dst % 250 + 1}",
            "sport": 10_000 + number,
            "dport": 4791,
            "protocol": 17,
        }
        report = {
            "ts_ns": at_ns, "flow": flow, "packet_bytes": 4096, "sampling_rate": 0.01, "hops": [hop],
        }  # fmt: skip
        lines.append(json.dumps(report))
    return "\n".join(lines).encode()


@pytest.fixture(scope="module")
def large() -> Iterator[Served]:
    with serving(**SETTINGS) as served, httpx.Client(base_url=served.url, timeout=PATIENCE_S) as service:
        assert service.put("/v1/topology", json=topology()).status_code == 200
        answer = service.post(
            "/v1/telemetry/int", content=reports(), headers={"Content-Type": "application/x-ndjson"}
        )
        assert (answer.json()["accepted"], answer.json()["rejected"]) == (PORTS, 0)
        yield served


@pytest.mark.parametrize(("width", "scheme"), [(1600, "light"), (400, "dark")])
def test_a_fabric_of_1536_ports_is_drawn_with_few_elements(
    browser: Browser, large: Served, width: int, scheme: Scheme
) -> None:
    page = new_page(browser, width, scheme=scheme)
    complaints = complaints_of(page)
    page.goto(large.url)
    fabric = page.locator("#fabric")
    expect(fabric).to_contain_text("48 switches", timeout=PATIENCE_MS)
    expect(fabric.locator(".face")).to_have_count(LEAVES + SPINES)
    gauges = fabric.locator(".map .gauge").get_attribute("d")
    assert gauges is not None
    assert gauges.count("M") == PORTS
    assert fabric.locator(".map svg *").count() < FEW_ELEMENTS
    assert page.evaluate("document.documentElement.scrollWidth") <= width

    fabric.get_by_role("application").focus()
    page.keyboard.press("ArrowRight")
    expect(fabric.locator(".tip")).to_contain_text("leaf7 Ethernet0")
    expect(fabric.locator(".tip")).to_contain_text("5 MB")
    expect(fabric.locator(".chosen")).to_have_count(1)
    expect(page.locator("#deepest")).to_contain_text("48 of 1")
    page.close()
    assert complaints == []


def test_500_switches_are_found_sorted_and_in_natural_order(browser: Browser, large: Served) -> None:
    switches = [
        {
            "name": f"leaf{number}",
            "adapter": "dry-run",
            "writes": False,
            "capabilities": {"reads": True},
            "reachable": number != 77,
            "detail": "no answer" if number == 77 else None,
            "running": {"kmin_bytes": 1_000 * number, "kmax_bytes": 4_000_000, "pmax": 0.2},
            "differs": False,
            "set_to": None,
            "drifted": False,
        }
        for number in range(500, 0, -1)
    ]
    page = new_page(browser, 1024)
    complaints = complaints_of(page)
    page.route("**/v1/switches?*", lambda route: route.fulfill(json=switches))
    page.goto(f"{large.url}/#/act")
    panel = page.locator("#switches")
    names = panel.locator("tbody th")
    expect(panel).to_contain_text("500 in all, 1 not reachable", timeout=PATIENCE_MS)
    expect(panel).to_contain_text("497 run 497 other settings")
    expect(panel).to_contain_text("16 of 500 shown")
    assert [text.split()[0] for text in names.all_inner_texts()[:4]] == ["leaf77", "leaf1", "leaf2", "leaf3"]
    panel.get_by_role("button", name="Show 100 more").click()
    expect(names).to_have_count(116)

    panel.get_by_role("button", name="Runs").click()
    expect(panel.get_by_role("columnheader", name="Runs")).to_have_attribute("aria-sort", "ascending")
    expect(names.first).to_have_text("leaf1")
    panel.get_by_role("button", name="Runs").click()
    expect(names.first).to_have_text("leaf500")

    panel.get_by_role("searchbox", name="Find in").fill("leaf49")
    expect(panel.get_by_role("status")).to_have_text("11 of 500")
    expect(names).to_have_count(11)
    page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def pods() -> Iterator[Served]:
    """A service that has seen 500 switches."""
    fabric = Pods()
    with serving(**SETTINGS) as served, httpx.Client(base_url=served.url, timeout=PATIENCE_S) as service:
        assert service.put("/v1/topology", json=fabric.topology()).status_code == 200
        answer = service.post(
            "/v1/telemetry/int",
            content=encode(fabric.across(20_000, flows=20_000)),
            headers={"Content-Type": MEDIA_TYPE},
        )
        assert answer.json()["accepted"] == 20_000
        yield served


def asked_by(page: Page, served: Served) -> dict[str, int]:
    """What the page asks for from now on, and how many bytes the largest answer to each had."""
    asked: dict[str, int] = {}

    def note(request: Request) -> None:
        path, response = request.url.removeprefix(served.url), request.response()
        if not path.startswith("/v1/") or response is None or response.status != 200:
            return
        if not path.startswith("/v1/events"):
            asked[path] = max(asked.get(path, 0), len(response.body()))

    page.on("requestfinished", note)
    return asked


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_500_switches_lead_from_pods_to_ports(
    browser: Browser, pods: Served, width: int, scheme: Scheme
) -> None:
    page = new_page(browser, width, scheme=scheme)
    complaints = complaints_of(page)
    asked = asked_by(page, pods)
    page.goto(pods.url)
    fabric = page.locator("#fabric")
    expect(fabric).to_contain_text("500 switches, 31 920 ports, 14 000 hosts", timeout=PATIENCE_MS)
    expect(fabric.locator(".pods .pod")).to_have_count(11)
    expect(page.locator("#facts")).to_contain_text("14 000 hosts")
    assert page.locator("#fabric *").count() < FEW_ELEMENTS
    assert not any("topology" in path or "state/queues" in path for path in asked)
    assert all(size <= MOST_A_POLL for size in asked.values()), asked

    fabric.get_by_role("button", name="pod3 42 switches").click()
    where = fabric.get_by_role("navigation", name="Where in the fabric")
    expect(where.locator("[aria-current]")).to_have_text("pod3")
    expect(where).to_be_focused()
    expect(fabric.locator(".switches .pod")).to_have_count(42)
    fabric.get_by_role("button", name="pod3-rack4 ·").click()
    expect(fabric.locator(".face")).to_have_count(1)
    expect(fabric.get_by_role("table", name="Ports of pod3-rack4")).to_contain_text("pod3-agg0")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    where.get_by_role("button", name="All pods").click()

    fabric.get_by_text("All switches as a table").click()
    fabric.get_by_role("searchbox", name="Find in").fill("pod7 leaf")
    expect(fabric.locator(".find").get_by_role("status")).to_have_text("28 of 500")
    fabric.get_by_role("button", name="Load").click()
    fabric.locator("#fabric-table tbody button").first.click()
    expect(where.locator("[aria-current]")).to_contain_text("pod7-rack")
    page.close()
    assert complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_rollout_to_500_switches_whose_queues_differ_is_followed_in_small_answers(
    browser: Browser, pods: Served, width: int, scheme: Scheme
) -> None:
    page = new_page(browser, width, scheme=scheme)
    complaints, asked = complaints_of(page), asked_by(page, pods)

    def told(route: Route) -> None:
        body = answer(route.request.url.removeprefix(pods.url))
        route.fulfill(body=body, content_type="application/json")

    page.route(re.compile(r"/v1/(switches|rollouts)\b"), told)
    page.goto(f"{pods.url}/#/act")
    panel, table = page.locator("#switches"), page.locator("#rollout-switches")
    expect(panel).to_contain_text("500 in all, 500 drifted", timeout=PATIENCE_MS)
    expect(page.locator("#switches-run")).to_have_text("Kmin / Kmax / Pmax: 500 differ by queue.")
    expect(panel.locator("tbody tr")).to_have_count(16)
    expect(table.locator("tbody tr")).to_have_count(16)
    expect(table.locator("tbody tr").first).to_contain_text("applied")
    expect(table.locator("td.marks").first).to_have_text("differs by queue200 KB / 800 KB / 10 %")

    changes = page.locator("#rollout-diffs")
    changes.get_by_text("The change of each switch").click()
    changes.get_by_role("searchbox", name="Find in").fill("pod3-rack7")
    changes.get_by_role("row", name="pod3-rack7").get_by_text("Show").click()
    expect(changes.locator("pre")).to_contain_text("+Ethernet0 Kmin 200000 B")
    expect(changes.locator(".diff")).to_contain_text("Queues of pod3-rack7 ran different watermarks")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
    told_of = {path.partition("?")[0] for path in asked}
    assert {"/v1/switches", "/v1/rollouts", f"/v1/rollouts/{ROLLOUT}"} <= told_of
    assert sum("switches.diff" in path for path in asked) == 1
    assert all(size <= MOST_A_POLL for size in asked.values()), asked
    assert complaints == []

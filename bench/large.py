"""What a page asks of a service with 500 switches and 32 000 queues: sizes and times of answers, and memory.

What it asks for as a rollout goes on is answered by the service's routes alone, of switches whose queues
differ. The first paint is measured where Chromium and playwright are installed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from importlib.util import find_spec

import httpx

from bench.figure import Figure
from bench.telemetry.ingest import served
from telemetry.encode.arrow import MEDIA_TYPE, encode
from tests.counterparts.pods import Pods
from tests.counterparts.switches.many_switches import ROLLOUT, answer

GOAL_POLL_KILOBYTES = 100.0
GOAL_PAINT_S = 1.5
REPEATS = 5
BODIES, REPORTS, FLOWS = 3, 20_000, 50_000
_RUNS = "/v1/switches?fields=name,reachable,detail,running,differs,drifted"
_SET = "/v1/switches?fields=name,adapter,writes,set_to"
POLLED = ("/v1/state?queues=48", "/v1/fabric", "/v1/fabric/pod3-rack4", _RUNS, _SET)
ROLLING_OUT = (
    _RUNS,
    _SET,
    f"/v1/rollouts/{ROLLOUT}?fields="
    "switches.switch,switches.stage,switches.writes,switches.progress,switches.target,switches.detail",
    f"/v1/rollouts/{ROLLOUT}?fields=switches.switch,switches.before,switches.after",
    f"/v1/rollouts/{ROLLOUT}?switch=pod3-rack4&fields=switches.diff,switches.notes",
)
OTHERS = ("/v1/topology?discovered=false", "/v1/switches", "/metrics")


def measure() -> Iterable[Figure]:
    """Sixty thousand reports of five hops, and three readings of all counters."""
    settings = {"ECNTWIN_TUNING__ENABLED": "false", "ECNTWIN_STORAGE__URL": "memory"}
    with served(**settings) as url, httpx.Client(base_url=url, timeout=300) as service:
        idle = _resident_megabytes(service)
        _feed(service, Pods())
        for path in (*POLLED, *OTHERS):
            yield from _answer(service, path, polled=path in POLLED)
        for path in ROLLING_OUT:
            yield Figure(
                f"{path}, queues differ", len(answer(path).encode()) / 1e3, "kB", GOAL_POLL_KILOBYTES
            )
        yield Figure("memory of the service", _resident_megabytes(service), "MB", note=f"idle {idle:.0f} MB")
        chromium = shutil.which("chromium")
        if chromium is not None and find_spec("playwright"):
            took = _paints_s(url, chromium)
            yield Figure(
                "page from its address to the fabric drawn",
                min(took),
                "s",
                GOAL_PAINT_S,
                "lower",
                f"best of {REPEATS}, worst {max(took):.1f} s",
            )


def _feed(service: httpx.Client, fabric: Pods) -> None:
    service.put("/v1/topology", json=fabric.topology()).raise_for_status()
    for number in range(BODIES):
        batch = fabric.across(REPORTS, flows=FLOWS, since_ns=number * 20_000_000, seed=number)
        answer = service.post(
            "/v1/telemetry/int", content=encode(batch), headers={"Content-Type": MEDIA_TYPE}
        ).json()
        assert answer["accepted"] == REPORTS, answer
    for number in (1, 2, 3):
        answer = service.post("/v1/telemetry/counters", content=fabric.counters(number)).json()
        assert answer["rejected"] == 0, answer


def _answer(service: httpx.Client, path: str, *, polled: bool) -> Iterable[Figure]:
    took = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        raw = service.get(path, headers={"Accept-Encoding": "identity"}).raise_for_status().content
        took.append(time.perf_counter() - began)
    with service.stream("GET", path, headers={"Accept-Encoding": "gzip"}) as answer:
        packed = sum(map(len, answer.iter_raw()))
    yield Figure(
        path,
        len(raw) / 1e3,
        "kB",
        GOAL_POLL_KILOBYTES if polled else None,
        "lower",
        f"{packed / 1e3:.1f} kB compressed; best of {REPEATS} {min(took) * 1e3:.0f} ms",
    )


def _resident_megabytes(service: httpx.Client) -> float:
    for line in service.get("/metrics").text.splitlines():
        if line.startswith("process_resident_memory_bytes"):
            return float(line.split()[1]) / 1e6
    return float("nan")


def _paints_s(url: str, chromium: str) -> list[float]:
    from playwright.sync_api import sync_playwright

    took = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(REPEATS):
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            began = time.perf_counter()
            page.goto(url)
            page.locator("#fabric .pods").wait_for()
            took.append(time.perf_counter() - began)
            page.close()
        browser.close()
    return took

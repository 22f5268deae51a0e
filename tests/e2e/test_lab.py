"""A lab and a service as processes: reports in, a watermark set; the lab dies, and another comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, REPOSITORY, Served, lab_at, serving

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {
    "ECNTWIN_SEARCH__CANDIDATES": "24",
    "ECNTWIN_SEARCH__NARROWED": "8",
    "ECNTWIN_SEARCH__SECOND_OPINION": "false",
    "ECNTWIN_SEARCH__SCORE": "normalised",  # always a change: of so short a window no gain is sure
    "ECNTWIN_TELEMETRY__PERIOD_S": "0.001",
    "ECNTWIN_TELEMETRY__N_PERIODS": "4",
    "ECNTWIN_TUNING__ENABLED": "false",
    "ECNTWIN_TUNING__MARGIN": "0",
    "ECNTWIN_TUNING__RESIDUAL_LIMIT": "1e9",
    "ECNTWIN_TUNING__COOL_DOWN_S": "0",
    "ECNTWIN_PUSH__ADAPTER": "lab",
    "ECNTWIN_PUSH__READ_EVERY_S": "0.2",
    "ECNTWIN_ROLLOUT__SOAK_S": "0",
    "ECNTWIN_ROLLOUT__BATCH_SOAK_S": "0",
    "ECNTWIN_ROLLOUT__PATIENCE_S": "10",
}
FABRIC = ("--leaves", "2", "--spines", "1", "--hosts", "4", "--traffic", "websearch:0.7")
DEFAULT = {"kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}


@dataclass
class Loop:
    """Both processes' HTTP interfaces."""

    service: httpx.Client
    lab: httpx.Client
    process: Served
    port: int

    def switch(self, name: str = "leaf1") -> dict[str, Any]:
        document: dict[str, Any] = self.service.get(f"/v1/switches/{name}").json()
        return document

    def metric(self, name: str, **labels: str) -> float | None:
        """Of leaf1."""
        text = self.service.get("/metrics").text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        wanted = labels | {"switch": "leaf1"}
        return next((one.value for one in families[name].samples if one.labels == wanted), None)

    def advance(self, until_s: float) -> dict[str, Any]:
        answer = self.lab.post("/advance", json={"until_s": until_s})
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def tuned(self) -> dict[str, Any]:
        answer = self.service.post("/v1/tune")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def rolled_out(self, found: dict[str, Any]) -> dict[str, Any]:
        """Approves it; the rollout, once that has ended."""
        decided = self.service.post(f"/v1/recommendations/{found['id']}/approve")
        assert decided.status_code == 200, decided.text
        at = f"/v1/rollouts/{decided.json()['rollout']}"
        eventually(lambda: bool(self.service.get(at).json()["ended"]))
        rollout: dict[str, Any] = self.service.get(at).json()
        return rollout


@pytest.fixture
def loop() -> Iterator[Loop]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        serving(**SETTINGS, ECNTWIN_PUSH__LAB_URL=url) as served,
        lab_at(port, *FABRIC, "--step", "--post-to", served.url) as process,
        httpx.Client(base_url=served.url, timeout=PATIENCE_S) as service,
        httpx.Client(base_url=url, timeout=PATIENCE_S) as lab,
    ):
        yield Loop(service, lab, process, port)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_approved_is_what_the_lab_runs_until_it_dies_and_another_comes(loop: Loop) -> None:
    figures = loop.advance(0.02)
    assert figures["completions"] > 0
    assert figures["queue_p99_bytes"] > figures["queue_mean_bytes"] > 0
    status = loop.lab.get("/status").json()
    assert status["reports"]["accepted"] == status["reports"]["made"] > 0
    assert status["reports"]["rejected"] == 0
    assert loop.service.get("/v1/state").json()["reports"] > 0

    first = loop.tuned()
    assert {key: first["incumbent"][key] for key in DEFAULT} == DEFAULT
    assert first["changes"], first["why"]
    rollout = loop.rolled_out(first)
    assert (rollout["phase"], rollout["why"]) == ("done", None)
    assert rollout["stages"][0] == ["leaf1"]
    decided = loop.service.get(f"/v1/recommendations/{first['id']}").json()
    wanted = decided["staged"]
    assert {one["switch"] for one in decided["pushed"]} >= {"leaf1", "leaf2"}
    assert all(one["read_back"] == wanted for one in decided["pushed"])
    assert loop.lab.get("/switches/leaf1").json()["watermark"] == wanted
    assert loop.switch()["running"] == loop.switch()["set_to"] == wanted
    assert loop.metric("ecntwin_watermark_kmin_bytes", role="current") == wanted["kmin_bytes"]

    loop.advance(0.026)
    second = loop.tuned()
    assert {key: second["incumbent"][key] for key in wanted} == wanted

    loop.process.kill()
    eventually(lambda: loop.metric("ecntwin_switch_reachable") == 0)
    gone = loop.switch()
    assert (gone["reachable"], gone["running"]) == (False, wanted)
    assert "check that it is up" in gone["detail"]
    assert loop.service.get("/healthz").status_code == 200
    assert loop.service.get("/v1/state").json()["reports"] > 0
    assert loop.service.get("/v1/recommendations").json()["total"] >= 1
    third = loop.tuned()
    assert {key: third["incumbent"][key] for key in wanted} == wanted
    if third["changes"]:
        refused = loop.service.post(f"/v1/recommendations/{third['id']}/approve")
        assert refused.status_code == 409
        assert "check that it is up" in refused.json()["rule"]

    with lab_at(loop.port, *FABRIC, "--step", "--post-to", str(loop.service.base_url)):
        # Nobody asks for the switch: the service finds it again by itself.
        eventually(lambda: loop.metric("ecntwin_switch_reachable") == 1)
        back = loop.switch()
        assert (back["reachable"], back["detail"], back["drifted"]) == (True, None, True)
        assert back["running"] == DEFAULT
        assert back["set_to"] == wanted
        assert loop.lab.get("/switches/leaf1").json()["watermark"] == DEFAULT


def test_a_lab_by_itself_keeps_a_service_fed_and_waits_for_one_that_is_away() -> None:
    port, at = free_port(), free_port()
    arguments = (*FABRIC, "--duration", "10s", "--post-to", f"http://127.0.0.1:{at}")
    with lab_at(port, *arguments) as process, httpx.Client(base_url=process.url, timeout=PATIENCE_S) as lab:

        def status() -> dict[str, Any]:
            document: dict[str, Any] = lab.get("/status").json()
            return document

        eventually(lambda: status()["reports"]["retries"] > 2)
        waiting = status()
        assert "does not answer" in waiting["reports"]["waits_for"]
        assert waiting["reports"]["posted"] == 0
        put = lab.put("/switches/leaf1/watermark", json={"kmin_bytes": 1, "kmax_bytes": 2, "pmax": 1.0})
        assert put.status_code == 200  # it waits, and can be set
        with serving("--port", str(at), **SETTINGS, ECNTWIN_PUSH__LAB_URL=process.url):
            eventually(lambda: status()["reports"]["accepted"] > 10_000)
            ahead = status()
            assert ahead["now_s"] > waiting["now_s"]
            assert ahead["reports"]["rejected"] == 0
        assert process.process.poll() is None
        assert process.stop() == 0


def run_lab(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ECNTWIN_")}
    return subprocess.run(
        [sys.executable, "-m", "cli", "lab", "--listen", f"127.0.0.1:{free_port()}", *FABRIC, *arguments],
        cwd=REPOSITORY,
        env=environment | settings,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_token_is_needed_where_the_service_asks_for_one() -> None:
    digest = sha256(b"open sesame").hexdigest()
    tokens = json.dumps([{"name": "lab", "sha256": digest, "scopes": ["telemetry"]}])
    with serving(ECNTWIN_SECURITY__TOKENS=tokens) as served:
        arguments = ("--duration", "2ms", "--json", "--gzip", "--post-to", served.url)
        refused = run_lab(*arguments)
        assert refused.returncode == 2
        assert "received 401 to POST /v1/telemetry/" in refused.stderr
        assert "Traceback" not in refused.stderr
        taken = run_lab(*arguments, ECNTWIN_TOKEN="open sesame")
        assert taken.returncode == 0, taken.stderr
        reports = json.loads(taken.stdout)["reports"]
        assert reports["accepted"] == reports["made"] > 0

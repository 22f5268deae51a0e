"""A real process, real reports, real workers: from a recording to a recommendation over HTTP."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from store.database import Database
from store.journal import Journal
from tests.e2e.process import PATIENCE_S, REPOSITORY, Served, serving

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SMALL = {
    "ECNTWIN_SEARCH__CANDIDATES": "24",
    "ECNTWIN_SEARCH__NARROWED": "8",
    "ECNTWIN_TUNING__ENABLED": "false",
}
INCUMBENT = {"kmin_bytes": 400_000, "kmax_bytes": 1_600_000, "pmax": 0.2}


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(**SMALL) as started:
        yield started


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as made:
        yield made


@pytest.fixture(scope="module")
def answer(client: httpx.Client, example: Path) -> dict[str, Any]:
    """The recommendation of a round on the recording, posted as the README says."""
    assert client.get("/readyz").status_code == 200
    assert not client.get("/v1/readiness").json()["ready"]
    topology = client.put(
        "/v1/topology",
        content=(example / "topology.json").read_bytes(),
        headers={"Content-Type": "application/json"},
    )
    assert topology.status_code == 200
    posted = client.post(
        "/v1/telemetry/int",
        content=(example / "reports.ndjson.gz").read_bytes(),
        headers={"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"},
    )
    assert posted.status_code == 202
    assert posted.json() == {
        "accepted": 31_983,
        "duplicates": 0,
        "rejected": 0,
        "errors": [],
        "error_count": 0,
        "unread": [],
    }
    tuned = client.post("/v1/tune")
    assert tuned.status_code == 200, tuned.text
    document: dict[str, Any] = tuned.json()
    return document


def test_the_round_says_what_it_weighed(answer: dict[str, Any]) -> None:
    assert {key: answer["incumbent"][key] for key in INCUMBENT} == INCUMBENT
    assert answer["dominant_class"] == "elephant"
    assert answer["candidate_count"] == len(answer["candidates"]) == 32
    assert answer["why"]
    assert answer["flows"] == {"mouse": 471, "potential_elephant": 0, "elephant": 413}
    ran = [one for one in answer["candidates"] if one["status"] == "ok"]
    assert len(ran) == 32
    assert max(one["score"] for one in ran) >= answer["incumbent"]["score"]


def test_everything_can_be_asked(client: httpx.Client, answer: dict[str, Any]) -> None:
    assert client.get("/v1/recommendations/current").json() == answer
    assert client.get(f"/v1/recommendations/{answer['id']}").json() == answer
    assert client.get("/v1/recommendations?candidates=false").json()["total"] >= 1
    assert client.get("/v1/state").json()["reports"] == 31_983
    assert client.get("/v1/flows?class=elephant&limit=5").json()["total"] == 413
    assert client.get("/v1/topology").json()["declared"]["switches"] == [{"name": "tor1"}]
    assert [one["name"] for one in client.get("/v1/switches").json()] == ["tor1"]
    assert client.get("/healthz").json()["status"] == "ok"
    readiness = client.get("/v1/readiness").json()
    assert (readiness["ready"], readiness["reasons"], readiness["storage"]["state"]) == (True, [], "memory")
    assert "swagger" in client.get("/docs").text.lower()
    assert client.get("/openapi.json").json()["info"]["title"] == "ecntwin"


def test_watermarks_can_be_asked_about(client: httpx.Client, answer: dict[str, Any]) -> None:
    found = client.post("/v1/whatif", json={"watermarks": [INCUMBENT, answer["recommendation"]], "seed": 1})
    assert found.status_code == 200, found.text
    assert [one["kmin_bytes"] for one in found.json()["results"]] == [
        INCUMBENT["kmin_bytes"],
        answer["recommendation"]["kmin_bytes"],
    ]


def test_the_decision_is_recorded(client: httpx.Client, answer: dict[str, Any]) -> None:
    if not answer["changes"]:
        pytest.skip("the round found nothing better than what runs")
    decided = client.post(f"/v1/recommendations/{answer['id']}/approve")
    assert decided.status_code == 200, decided.text
    assert decided.json()["status"] == "approved"
    until(lambda: client.get(f"/v1/rollouts/{decided.json()['rollout']}").json()["ended"])
    switch = client.get("/v1/switches/tor1").json()
    assert switch["records"][0]["action"] == "set"
    assert "-kmin_bytes: 400000" in switch["records"][0]["diff"]
    assert switch["running"] == INCUMBENT


def test_metrics_are_sound(client: httpx.Client, answer: dict[str, Any]) -> None:
    text = client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (accepted,) = families["ecntwin_reports_accepted"].samples[:1]
    assert accepted.value == 31_983
    flows = {sample.labels["class"]: sample.value for sample in families["ecntwin_flows"].samples}
    assert flows == answer["flows"]
    kmin = {
        sample.labels["role"]: sample.value for sample in families["ecntwin_watermark_kmin_bytes"].samples
    }
    assert kmin == {"current": 400_000, "recommended": answer["recommendation"]["kmin_bytes"]}
    stages = {sample.labels["stage"] for sample in families["ecntwin_round_stage_duration_seconds"].samples}
    assert {"scenario", "propose", "narrowed", "leaders"} <= stages
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian package prometheus): checked by the parser only")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_events_are_streamed(client: httpx.Client, answer: dict[str, Any]) -> None:
    heard: list[str] = []
    listening = threading.Event()

    def listen() -> None:
        with client.stream("GET", "/v1/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                listening.set()
                heard.append(line)
                if line == "event: reports":
                    return

    listener = threading.Thread(target=listen)
    listener.start()
    assert listening.wait(PATIENCE_S)
    # No report: it is told of like any, and changes nothing of what other tests look at.
    assert client.post("/v1/telemetry/int", json=[{}]).json()["rejected"] == 1
    listener.join(PATIENCE_S)
    assert "event: reports" in heard


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="worker processes are found through /proc")
def test_a_killed_worker_does_not_stop_the_service(
    served: Served, client: httpx.Client, answer: dict[str, Any]
) -> None:
    outcome: list[httpx.Response] = []
    tuning = threading.Thread(target=lambda: outcome.append(client.post("/v1/tune")))
    with client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        next(lines)
        tuning.start()
        while not ('"stage":"window' in (line := next(lines)) and '"done":0' in line):
            pass
        until(lambda: bool(served.workers()))
        victims = served.workers()
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
    tuning.join(PATIENCE_S)
    assert outcome[0].status_code in (200, 503), outcome[0].text
    if outcome[0].status_code == 200:
        assert outcome[0].json()["recommendation"] == answer["recommendation"]
    assert client.get("/healthz").status_code == 200


def test_it_stops_when_told_and_leaves_nobody_behind(example: Path) -> None:
    with serving(**SMALL) as own, httpx.Client(base_url=own.url, timeout=PATIENCE_S) as client:

        def tune() -> None:
            with suppress(httpx.TransportError):  # a service waits for an answer to be sent, but not long
                client.post("/v1/tune")

        assert any("no token is configured" in line for line in own.log)
        client.post("/v1/telemetry/int", content=(example / "reports.ndjson.gz").read_bytes())
        with client.stream("GET", "/v1/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            tuning = threading.Thread(target=tune)
            tuning.start()
            while '"stage":"window' not in next(lines):
                pass
            workers = own.workers()
            assert own.stop() == 0, "".join(own.log)
        tuning.join(PATIENCE_S)
        assert not any("Traceback" in line for line in own.log), "".join(own.log)
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_with_tokens_it_asks_for_one(tmp_path: Path) -> None:
    config = tmp_path / "ecntwin.yaml"
    config.write_text(
        f"security: {{tokens: [{{name: eyes, sha256: {sha256(b'open').hexdigest()}, scopes: [read]}}]}}",
        "utf-8",
    )
    with (
        serving("--config", str(config), ECNTWIN_STORAGE__URL="memory") as guarded,
        httpx.Client(base_url=guarded.url, timeout=PATIENCE_S) as client,
    ):
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers={"Authorization": "Bearer open"}).status_code == 200
        assert client.post("/v1/tune", headers={"Authorization": "Bearer open"}).status_code == 403


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--host", "0.0.0.0"), "loopback only"),
        (("--config", "none.yaml"), "none.yaml"),
        (("--port", "99999"), "99999"),
    ],
)
def test_it_does_not_start_on_a_mistake(arguments: tuple[str, ...], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "serve", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@pytest.mark.parametrize("command", [["serve", "--port"], ["lab", "--listen"]], ids=lambda given: given[0])
def test_it_does_not_start_on_an_address_that_another_has(command: list[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        name, option = command
        at = str(port) if name == "serve" else f"127.0.0.1:{port}"
        done = subprocess.run(
            [sys.executable, "-m", "cli", name, option, at],
            cwd=REPOSITORY,
            env=os.environ | {"ECNTWIN_STORAGE__URL": f"sqlite:///{tmp_path}/none.db"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert done.stderr == (
        f"ecntwin: address to listen on: received 127.0.0.1 port {port} (address already in use); "
        "the address is this machine's and the port free; choose another\n"
    )


def test_the_recording_ends_in_a_recommendation() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "demo", "--recording", "--candidates", "16"],
        cwd=REPOSITORY,
        env=os.environ | {"COLUMNS": "110"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stderr.splitlines():  # how far it is, and nothing else
        assert re.fullmatch(r"ecntwin: [a-z0-9. ]+: \d+ of \d+", line)
    for part in (
        "31983 INT reports",
        "Flows in the window",
        "Predicted by the twin",
        "Why",
        "seed 1",
        "Next:",
    ):
        assert part in done.stdout


def test_a_journal_that_cannot_be_taken_up_is_said_in_a_sentence(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    database = Database(url)
    asyncio.run(Journal(database).append("r", 1.0, b"not JSON"))
    database.close()
    ended = subprocess.run(
        [sys.executable, "-m", "cli", "serve", "--port", "0"],
        env=os.environ | {"ECNTWIN_STORAGE__URL": url},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 2
    assert "entry 1 of the journal" in ended.stderr
    assert "Traceback" not in ended.stderr

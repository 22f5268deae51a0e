"""INT reports one service process takes over HTTP on loopback, alone and while a tuning round runs.

Bodies repeat the recording with later times, so that none is a duplicate. The sender is this process: of two
cores the service has one.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx

from bench.figure import Figure
from telemetry.decode.json import decode
from telemetry.encode.arrow import MEDIA_TYPE, encode
from telemetry.report import ReportBatch

GOAL_JSON_PER_S = 150_000
GOAL_GZIP_PER_S = 50_000
GOAL_ARROW_PER_S = 1_000_000
GOAL_SHARE_DURING_ROUNDS = 0.8
JSON_BODIES_A_COPY = 3
CONNECTIONS = 2
REPEATS = 3
SLICE_S = 2.0
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "websearch-16"

Bodies = Iterator[bytes]


@contextlib.contextmanager
def served(**settings: str) -> Iterator[str]:
    """The URL of a service process of its own, stopped at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"ECNTWIN_LOG__LEVEL": "error"} | settings
    command = [sys.executable, "-m", "cli", "serve", "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=EXAMPLE.parents[1])
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_it_answers(url, process)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/healthz").status_code == 200:
                return
        time.sleep(0.05)
    raise RuntimeError("the service did not start")


def recording() -> bytes:
    return gzip.decompress((EXAMPLE / "reports.ndjson.gz").read_bytes())


def json_bodies() -> Bodies:
    """NDJSON, each copy a tenth of a second after the one before."""
    lines = recording().splitlines()
    size = -(-len(lines) // JSON_BODIES_A_COPY)
    parts = [b"\n".join(lines[first : first + size]) for first in range(0, len(lines), size)]
    began = int(lines[0][len(b'{"ts_ns":') :].split(b",")[0]) // 10**8
    for copy in itertools.count():
        for part in parts:
            yield part.replace(b":%d" % began, b":%d" % (began + copy))


def arrow_bodies() -> Bodies:
    """Arrow streams, each copy right after the one before."""
    batch: ReportBatch = decode(recording()).batch
    step_ns = int(batch.ts_ns.max() - batch.ts_ns.min()) + 1_000
    for copy in itertools.count():
        yield encode(replace(batch, ts_ns=batch.ts_ns + copy * step_ns))


def post(url: str, bodies: Bodies, headers: dict[str, str]) -> float:
    """Posts over a few connections at once until there are no more bodies; reports accepted a second."""
    lock = threading.Lock()
    accepted = 0

    def sender() -> None:
        nonlocal accepted
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
        while True:
            with lock:
                body = next(bodies, None)
            if body is None:
                connection.close()
                return
            connection.request("POST", "/v1/telemetry/int", body, headers)
            answer = connection.getresponse()
            document = json.load(answer)
            with lock:
                accepted += document["accepted"]

    began_s = time.perf_counter()
    senders = [threading.Thread(target=sender) for _ in range(CONNECTIONS)]
    for thread in senders:
        thread.start()
    for thread in senders:
        thread.join()
    return accepted / (time.perf_counter() - began_s)


def rates(bodies: Bodies, a_repeat: int, headers: dict[str, str]) -> list[float]:
    """The rate of each repeat on one idle service, after a warm-up; bodies are made beforehand."""
    with served(ECNTWIN_TUNING__ENABLED="false") as url:
        post(url, itertools.islice(bodies, a_repeat // 2), headers)
        return [post(url, iter(list(itertools.islice(bodies, a_repeat))), headers) for _ in range(REPEATS)]


def share_during_rounds(bodies: Bodies, headers: dict[str, str]) -> tuple[float, float]:
    """The rate without and with rounds that keep the worker processes busy, on one service."""
    ended = threading.Event()

    def best() -> float:
        return max(post(url, _lasting(bodies, SLICE_S), headers) for _ in range(REPEATS))

    def rounds() -> None:
        while not ended.is_set():
            _tune(url)

    with served(ECNTWIN_TUNING__ENABLED="false") as url:
        post(url, _lasting(bodies, SLICE_S), headers)
        _tune(url)  # the workers compile and load their kernels
        idle = best()
        tuning = threading.Thread(target=rounds)
        tuning.start()
        try:
            _wait_for_a_round(url)
            return idle, best()
        finally:
            ended.set()
            tuning.join()


def _lasting(bodies: Bodies, seconds: float) -> Bodies:
    until_s = time.perf_counter() + seconds
    return itertools.takewhile(lambda _: time.perf_counter() < until_s, bodies)


def _tune(url: str) -> None:
    httpx.post(f"{url}/v1/tune", timeout=600).raise_for_status()


def _wait_for_a_round(url: str) -> None:
    while "ecntwin_round_running 1.0" not in httpx.get(f"{url}/metrics").text:
        time.sleep(0.01)


def measure() -> Iterable[Figure]:
    for name, bodies, a_repeat, headers, goal in (
        ("NDJSON ingest over HTTP", json_bodies(), 12, {}, GOAL_JSON_PER_S),
        (
            "NDJSON ingest over HTTP, gzip",
            (gzip.compress(body, 1) for body in json_bodies()),
            6,
            {"Content-Encoding": "gzip"},
            GOAL_GZIP_PER_S,
        ),
        ("Arrow ingest over HTTP", arrow_bodies(), 30, {"Content-Type": MEDIA_TYPE}, GOAL_ARROW_PER_S),
    ):
        found = rates(bodies, a_repeat, headers)
        yield Figure(
            name,
            max(found),
            "reports/s",
            goal=goal,
            better="higher",
            note=f"{CONNECTIONS} connections, best of {REPEATS}, median {statistics.median(found):,.0f}",
        )
    idle, during = share_during_rounds(json_bodies(), {})
    yield Figure(
        "NDJSON ingest while rounds run, of what it is without",
        during / idle,
        "ratio",
        goal=GOAL_SHARE_DURING_ROUNDS,
        better="higher",
        note=f"{during:,.0f} of {idle:,.0f} reports/s, best of {REPEATS} times {SLICE_S:g} s",
    )

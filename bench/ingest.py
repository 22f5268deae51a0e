"""INT reports one service process takes over HTTP on loopback, alone and while a tuning round runs."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from bench.figure import Figure

GOAL_REPORTS_PER_S = 50_000
BATCH = 2_000
REPEATS = 6
CONNECTIONS = 2
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "websearch-16"


@contextlib.contextmanager
def served(**settings: str) -> Iterator[str]:
    """The URL of a service process of its own, stopped at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"ECNTWIN_LOG__LEVEL": "error"} | settings
    command = [sys.executable, "-m", "api", "serve", "--port", str(port)]
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


def batches(copies: int) -> list[bytes]:
    """Bodies of ``BATCH`` reports: the recording over and over, later each time, so none is a duplicate."""
    with gzip.open(EXAMPLE / "reports.ndjson.gz") as file:
        reports: list[dict[str, Any]] = [json.loads(line) for line in file]
    step_ns = reports[-1]["ts_ns"] - reports[0]["ts_ns"] + 1_000
    made = []
    for copy in range(copies):
        for report in reports:
            report["ts_ns"] += step_ns if copy else 0
        chunks = (reports[first : first + BATCH] for first in range(0, len(reports), BATCH))
        made += [b"\n".join(msgspec.json.encode(one) for one in chunk) for chunk in chunks]
    return made


async def _post(url: str, bodies: Sequence[bytes], headers: dict[str, str]) -> int:
    """Posts over a few connections at once; how many reports were accepted."""
    left = list(reversed(bodies))
    accepted = 0

    async def sender(client: httpx.AsyncClient) -> None:
        nonlocal accepted
        while left:
            answer = await client.post("/v1/telemetry/int", content=left.pop(), headers=headers)
            accepted += answer.raise_for_status().json()["accepted"]

    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        await asyncio.gather(*(sender(client) for _ in range(CONNECTIONS)))
    return accepted


def rate(url: str, bodies: Sequence[bytes], headers: dict[str, str]) -> float:
    """Reports accepted a second."""
    began_s = time.perf_counter()
    accepted = asyncio.run(_post(url, bodies, headers))
    return accepted / (time.perf_counter() - began_s)


def rates(bodies: Sequence[bytes], headers: dict[str, str]) -> list[float]:
    """The rate of each repeat on one idle service, after a warm-up."""
    each = len(bodies) // (REPEATS + 1)
    with served(ECNTWIN_TUNING__ENABLED="false") as url:
        rate(url, bodies[:each], headers)
        firsts = range(each, each * (REPEATS + 1), each)
        return [rate(url, bodies[first : first + each], headers) for first in firsts]


def rate_during_a_round(bodies: Sequence[bytes], headers: dict[str, str]) -> float:
    """The rate while a round keeps the worker processes busy, counted until the round ends."""

    async def both(url: str, rest: Sequence[bytes]) -> float:
        async with httpx.AsyncClient(base_url=url, timeout=600) as client:
            tuning = asyncio.ensure_future(client.post("/v1/tune"))
            began_s, accepted, number = time.perf_counter(), 0, 0
            while not tuning.done() and number < len(rest):
                accepted += await _post(url, rest[number : number + 4], headers)
                number += 4
            elapsed_s = time.perf_counter() - began_s
            (await tuning).raise_for_status()
            return accepted / elapsed_s

    with served(ECNTWIN_TUNING__ENABLED="false") as url:
        first = len(bodies) // (REPEATS + 1)
        rate(url, bodies[:first], headers)
        asyncio.run(both(url, bodies[:0]))  # the workers compile and load their kernels
        return asyncio.run(both(url, bodies[first:]))


def measure() -> Iterable[Figure]:
    """The figures of the table."""
    plain = batches(REPEATS + 1)
    packed = [gzip.compress(body, 1) for body in plain]
    note = f"batches of {BATCH}, {CONNECTIONS} connections, best of {REPEATS}, median "
    for name, bodies, headers in (
        ("JSON ingest over HTTP", plain, {}),
        ("JSON ingest over HTTP, gzip", packed, {"Content-Encoding": "gzip"}),
    ):
        found = rates(bodies, headers)
        yield Figure(
            name,
            max(found),
            "reports/s",
            goal=GOAL_REPORTS_PER_S,
            better="higher",
            note=f"{note}{statistics.median(found):,.0f}",
        )
    during = rate_during_a_round(plain, {})
    yield Figure(
        "JSON ingest over HTTP while a round runs",
        during,
        "reports/s",
        better="higher",
        note="the round has every core busy",
    )

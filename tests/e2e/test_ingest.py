"""Two real ingest processes feed one real service: its state is that of reports posted to it directly."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys

import httpx
import pytest

from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, REPOSITORY, ingesting, serving

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

REPORTS = REPOSITORY / "examples" / "websearch-16" / "reports.ndjson.gz"
BODIES = 12
TOKEN = "only for this test"
ADMITS = [
    {
        "name": "collector",
        "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(),
        "scopes": ["telemetry", "read"],
    }
]
SETTINGS = {"ECNTWIN_TUNING__ENABLED": "false", "ECNTWIN_SECURITY__TOKENS": json.dumps(ADMITS)}
PASSES_ON = {"ECNTWIN_SERVER__SHUTDOWN_GRACE_S": str(round(PATIENCE_S))}  # before it ends, however slowly
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def bodies() -> list[bytes]:
    lines = gzip.decompress(REPORTS.read_bytes()).splitlines()
    size = -(-len(lines) // BODIES)
    return [b"\n".join(lines[first : first + size]) for first in range(0, len(lines), size)]


def post(url: str, body: bytes) -> int:
    answer = httpx.post(f"{url}/v1/telemetry/int", content=body, headers=HEADERS, timeout=PATIENCE_S)
    assert answer.status_code == 202, answer.text
    accepted: int = answer.json()["accepted"]
    return accepted


def seen(url: str) -> dict[str, object]:
    flows = httpx.get(f"{url}/v1/flows", headers=HEADERS, timeout=PATIENCE_S).json()
    state = httpx.get(f"{url}/v1/state", headers=HEADERS, timeout=PATIENCE_S).json()
    return {
        "flows": flows,
        "state": {key: state[key] for key in ("flows_by_class", "queues") if key in state},
    }


def metric(url: str, name: str) -> float:
    text = httpx.get(f"{url}/metrics", headers=HEADERS, timeout=PATIENCE_S).text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def test_two_ingest_processes_give_the_state_of_posting_directly() -> None:
    given = bodies()
    with serving(**SETTINGS) as service:
        with (
            ingesting(service.url, **SETTINGS | PASSES_ON, ECNTWIN_TOKEN=TOKEN) as one,
            ingesting(service.url, **SETTINGS | PASSES_ON, ECNTWIN_TOKEN=TOKEN) as other,
        ):
            accepted = sum(post((one, other)[place % 2].url, body) for place, body in enumerate(given))
            assert httpx.get(f"{one.url}/readyz", timeout=PATIENCE_S).json()["ready"]
            assert metric(one.url, "ecntwin_ingest_reports_decoded_total") < accepted
            assert one.stop() == other.stop() == 0  # what waits is passed on first
        assert metric(service.url, "ecntwin_reports_accepted_total") == accepted
        through_others = seen(service.url)
    with serving(**SETTINGS) as service:
        assert sum(post(service.url, body) for body in given) == accepted
        assert seen(service.url) == through_others


def test_several_share_a_port_and_one_alone_does_not() -> None:
    port = str(free_port())
    nowhere = f"http://127.0.0.1:{free_port()}"
    with (
        ingesting(nowhere, "--port", port, "--share-port") as one,
        ingesting(nowhere, "--port", port, "--share-port") as other,
    ):
        assert one.url == other.url
        assert httpx.get(f"{one.url}/healthz", timeout=PATIENCE_S).status_code == 200
        assert one.stop() == 0
        assert httpx.get(f"{other.url}/healthz", timeout=PATIENCE_S).status_code == 200
        alone = [sys.executable, "-m", "cli", "ingest", "--to", nowhere, "--port", port]
        ended = subprocess.run(alone, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S)
        assert ended.returncode == 2
        assert f"port {port} (address already in use)" in " ".join(ended.stderr.split())

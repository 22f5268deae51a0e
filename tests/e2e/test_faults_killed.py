"""A service killed in the middle of all it does: what it had written is there again, and no process stays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.page_session import feed
from tests.e2e.process import PATIENCE_S, Served, serving
from tests.e2e.test_lab import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = {
    "ECNTWIN_TUNING__ENABLED": "false",
    "ECNTWIN_TUNING__MARGIN": "0",
    "ECNTWIN_SEARCH__SCORE": "normalised",  # which finds a change on any traffic
    "ECNTWIN_SEARCH__CANDIDATES": "400",
    "ECNTWIN_SEARCH__NARROWED": "100",
    "ECNTWIN_SEARCH__SECOND_OPINION": "false",
}


@contextmanager
def doing(what: Callable[[], Any]) -> Iterator[None]:
    """Does it again and again in a thread of its own, for as long as the service answers."""

    def until_it_is_gone() -> None:
        with suppress(httpx.TransportError):
            while not over.is_set():
                what()

    over = threading.Event()
    thread = threading.Thread(target=until_it_is_gone)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(PATIENCE_S)


def in_mid_round(client: httpx.Client) -> None:
    """Comes back once candidates are being predicted."""
    with client.stream("GET", "/v1/events") as events:
        for line in events.iter_lines():
            if line.startswith("data:") and json.loads(line[5:]).get("done"):
                return


def killed(served: Served) -> set[int]:
    """Ends the service alone, at once; its worker processes."""
    workers = served.workers()
    assert workers
    served.kill(alone=True)
    return workers


def test_a_killed_service_remembers_all_that_it_had_answered(tmp_path: Path) -> None:
    settings = SETTINGS | {"ECNTWIN_STORAGE__URL": f"sqlite:///{tmp_path / 'ecntwin.db'}"}
    with serving(**settings) as served, httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
        feed(client)
        found = client.post("/v1/tune").json()
        approved = client.post(f"/v1/recommendations/{found['id']}/approve").json()
        assert approved["status"] == "approved"
        eventually(lambda: bool(client.get(f"/v1/rollouts/{approved['rollout']}").json()["ended"]))
        assert client.put("/v1/freeze", json={"frozen": True}).status_code == 200
        with (
            doing(lambda: feed(client)),
            doing(lambda: client.post("/v1/tune")),
        ):
            in_mid_round(client)
            workers = killed(served)
    eventually(lambda: not any(map(psutil.pid_exists, workers)))

    with serving(**settings) as again, httpx.Client(base_url=again.url, timeout=PATIENCE_S) as client:
        listed = client.get("/v1/recommendations?candidates=false&limit=100").json()["recommendations"]
        (kept,) = [one for one in listed if one["id"] == found["id"]]
        assert (kept["status"], kept["recommendation"]) == ("approved", found["recommendation"])
        assert client.get(f"/v1/rollouts/{approved['rollout']}").json()["ended"]
        assert client.get("/v1/freeze").json()["frozen"] is True
        declared = client.get("/v1/topology").json()["declared"]
        assert len(declared["hosts"]) == 16
        # The window was in memory: docs/operate/losses.md.
        assert client.get("/v1/state").status_code == 409
        feed(client)
        assert client.post("/v1/tune").status_code == 200
        assert not [line for line in again.log if " ERROR " in line]

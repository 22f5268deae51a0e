"""A service over a lab for the tests of the page: traffic passes only when a test says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, lab_at, serving
from tests.e2e.test_lab import DEFAULT, FABRIC, eventually
from tests.e2e.test_lab import SETTINGS as LAB_SETTINGS

# A soak ends when the whole window lies after the change, so it lasts until the lab is told to go on.
SOAKING = LAB_SETTINGS | {
    "ECNTWIN_ROLLOUT__SOAK_S": "0.1",
    "ECNTWIN_ROLLOUT__BATCH_SOAK_S": "0",
    "ECNTWIN_ROLLOUT__MEASURE_EVERY_S": "0.1",
    "ECNTWIN_ROLLOUT__SILENCE_S": str(10 * PATIENCE_S),
    "ECNTWIN_ROLLOUT__PATIENCE_S": str(PATIENCE_S),
    "ECNTWIN_ROLLOUT__PAUSE_SHARE_LIMIT": "1",
    "ECNTWIN_ROLLOUT__PFC_FRAMES_LIMIT": "1e12",
    "ECNTWIN_ROLLOUT__DROPS_LIMIT": "1e12",
    "ECNTWIN_ROLLOUT__QUEUE_LIMIT": "1e6",
    "ECNTWIN_ROLLOUT__THROUGHPUT_LIMIT": "0",
}
WINDOW_S = 0.004  # of LAB_SETTINGS
ELSEWHERE = {"kmin_bytes": 100_000, "kmax_bytes": 700_000, "pmax": 0.1}


@dataclass
class OverLab:
    """Both processes' HTTP interfaces, and how far the lab's traffic has come."""

    service: httpx.Client
    lab: httpx.Client
    port: int
    fabric: Sequence[str] = FABRIC
    _running: ExitStack = field(default_factory=ExitStack)
    _at_s: float = 0.0

    @property
    def url(self) -> str:
        return str(self.service.base_url)

    def start_lab(self) -> None:
        arguments = (*self.fabric, "--step", "--post-to", self.url)
        self._running.enter_context(lab_at(self.port, *arguments))

    def stop_lab(self) -> None:
        self._running.close()

    def advance(self, by_s: float) -> None:
        self._at_s += by_s
        self.lab.post("/advance", json={"until_s": self._at_s}).raise_for_status()

    def runs(self, switch: str = "leaf1") -> object:
        return self.lab.get(f"/switches/{switch}").json()["watermark"]

    def set_by_hand(self, watermark: dict[str, Any], switch: str = "leaf1") -> None:
        self.lab.put(f"/switches/{switch}/watermark", json=watermark).raise_for_status()

    def switches(self) -> list[str]:
        return [one["name"] for one in self.service.get("/v1/switches").raise_for_status().json()]

    def tuned(self) -> dict[str, Any]:
        found: dict[str, Any] = self.service.post("/v1/tune").raise_for_status().json()
        return found

    def begin_anew(self) -> None:
        """No rollout is under way, and every switch runs what it began with."""
        self.advance(2 * WINDOW_S)
        eventually(lambda: all(one["ended"] for one in self.service.get("/v1/rollouts").json()["rollouts"]))
        self.advance(WINDOW_S)  # a round needs traffic of after the last change
        for switch in self.switches():
            self.set_by_hand(DEFAULT, switch)
            self.service.post(f"/v1/switches/{switch}/adopt").raise_for_status()


@contextmanager
def over_lab(fabric: Sequence[str] = FABRIC, **settings: str) -> Iterator[OverLab]:
    """A service that has heard of the first traffic of a lab. Stops both."""
    port = free_port()
    lab_url = f"http://127.0.0.1:{port}"
    with (
        serving(**settings, ECNTWIN_PUSH__LAB_URL=lab_url) as served,
        httpx.Client(base_url=served.url, timeout=PATIENCE_S) as service,
        httpx.Client(base_url=lab_url, timeout=PATIENCE_S) as lab,
    ):
        here = OverLab(service, lab, port, fabric)
        here.start_lab()
        try:
            here.advance(1.5 * WINDOW_S)
            yield here
        finally:
            here.stop_lab()

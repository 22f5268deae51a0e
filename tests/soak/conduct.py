"""A service left running under a lab's traffic, with rounds, rollouts and callers of every kind."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests.counterparts.ports import free_port
from tests.e2e.process import PATIENCE_S, Served, lab_at, serving
from tests.soak.figures import Sample, Verdict, judged, sample

EVERY_S = 2.0
WARM_SHARE = 0.3
WARM_ROUNDS = 12  # more than are remembered: from then on the oldest go
WARM_ROLLOUTS = 3
KEPT = 8
LONGEST_WARM_S = 1_800.0
LEAST_SAMPLES = 60  # of fewer, all of a third may lie in one rollout
LONGEST_MORE_S = 1_800.0  # for these, and for a round and a rollout, on a machine that is slow
PACE = 0.001
TOKEN = "soaking"

SETTINGS = {
    "ECNTWIN_SEARCH__CANDIDATES": "24",
    "ECNTWIN_SEARCH__NARROWED": "8",
    "ECNTWIN_SEARCH__SECOND_OPINION_PACKET_HOPS": "50000",
    "ECNTWIN_TELEMETRY__PERIOD_S": "0.001",
    "ECNTWIN_TELEMETRY__N_PERIODS": "4",
    "ECNTWIN_TUNING__PERIOD_S": "4",
    "ECNTWIN_TUNING__KEEP": str(KEPT),
    "ECNTWIN_TUNING__MARGIN": "0",
    "ECNTWIN_TUNING__RESIDUAL_LIMIT": "1e9",
    "ECNTWIN_TUNING__DISAGREEMENT_LIMIT": "1e9",
    "ECNTWIN_TUNING__COOL_DOWN_S": "0",
    "ECNTWIN_PUSH__ADAPTER": "lab",
    "ECNTWIN_PUSH__READ_EVERY_S": "1",
    "ECNTWIN_ROLLOUT__AUTO": "true",
    "ECNTWIN_ROLLOUT__AUTO_HOLD_S": "0",
    "ECNTWIN_ROLLOUT__SOAK_S": "0.5",
    "ECNTWIN_ROLLOUT__BATCH_SOAK_S": "0.5",
    "ECNTWIN_ROLLOUT__MEASURE_EVERY_S": "0.2",
    "ECNTWIN_ROLLOUT__QUEUE_LIMIT": "1e6",
    "ECNTWIN_ROLLOUT__THROUGHPUT_LIMIT": "0",
    "ECNTWIN_ROLLOUT__PAUSE_SHARE_LIMIT": "1",
    "ECNTWIN_ROLLOUT__PFC_FRAMES_LIMIT": "1e9",
    "ECNTWIN_ROLLOUT__DROPS_LIMIT": "1e9",
    "ECNTWIN_ROLLOUT__SILENCE_S": str(PATIENCE_S),
    "ECNTWIN_SECURITY__TOKENS": json.dumps(
        [
            {
                "name": "soak",
                "sha256": sha256(TOKEN.encode()).hexdigest(),
                "scopes": ["telemetry", "read", "operate", "admin"],
            }
        ]
    ),
}
FABRIC = ("--leaves", "2", "--spines", "1", "--hosts", "4", "--traffic", "websearch:0.6")
LOOKS = (
    "/v1/state",
    "/v1/flows",
    "/v1/topology",
    "/v1/recommendations?candidates=false",
    "/v1/switches",
    "/v1/rollouts",
    "/v1/alarms",
    "/v1/telemetry/udp",
    "/v1/freeze",
    "/readyz",
    "/v1/readiness",
    "/",
    "/v1/nothing",
)


@dataclass
class Soak:
    """What came of it. ``samples`` begin after the warm-up."""

    warm_s: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def verdicts(self) -> list[Verdict]:
        """What grew, and what did not."""
        return judged(self.samples)

    @property
    def wrong(self) -> list[str]:
        """Why this is no service to leave running, in sentences; empty where it is."""
        found = [
            f"{one.name}: from {one.begin:,.0f} to {one.end:,.0f} {one.unit}".rstrip()
            for one in self.verdicts
            if not one.good
        ]
        first, last = self.samples[0], self.samples[-1]
        stood_still = {
            "reports": last.reports - first.reports,
            "rounds": last.rounds - first.rounds,
            "rollouts": last.rollouts - first.rollouts,
        }
        found += [f"no {name} since the warm-up" for name, count in stood_still.items() if count <= 0]
        if last.failed_rounds:
            found.append(f"{last.failed_rounds} rounds failed")
        return found + [f"logged: {line.strip()}" for line in self.errors]


def soak(minutes: float, folder: Path, told: Callable[[Soak, Sample], None]) -> Soak:
    """Runs for so long, and longer where the warm-up takes long, or the machine is too slow for enough to
    happen in the time. ``told`` hears of each sample.
    """
    whole_s = 60.0 * minutes
    found = Soak()
    with _loop(folder, whole_s) as (served, lab, client):
        database = folder / "ecntwin.db"
        callers = Callers(served.url, client)
        begun_s = time.monotonic()
        until_s = begun_s + whole_s
        warm = False
        while (now_s := time.monotonic()) < until_s or (
            now_s < until_s + LONGEST_MORE_S and not _is_enough(found.samples)
        ):
            seen_s = time.monotonic()
            callers.call()
            metrics = client.get("/metrics").raise_for_status().text
            taken = sample(
                served.process.pid, sorted(served.workers()), metrics, database, at_s=seen_s - begun_s
            )
            if not warm and (warm := _is_warm(taken, whole_s)):
                found.warm_s = taken.at_s
                until_s = time.monotonic() + whole_s * (1 - WARM_SHARE)
            if warm:
                found.samples.append(taken)
            elif taken.at_s > LONGEST_WARM_S:
                raise RuntimeError(f"it is not warm after {taken.at_s:.0f} s: {taken}\n{''.join(served.log)}")
            else:
                until_s = time.monotonic() + whole_s
            told(found, taken)
            time.sleep(max(0.0, EVERY_S - (time.monotonic() - seen_s)))
        found.errors = [
            line
            for process in (served, lab)
            for line in process.log
            if " ERROR " in line or " CRITICAL " in line or "Traceback" in line
        ]
    return found


def _is_warm(taken: Sample, whole_s: float) -> bool:
    return (
        taken.at_s >= WARM_SHARE * whole_s and taken.rounds >= WARM_ROUNDS and taken.rollouts >= WARM_ROLLOUTS
    )


def _is_enough(samples: Sequence[Sample]) -> bool:
    if len(samples) < LEAST_SAMPLES:
        return False
    first, last = samples[0], samples[-1]
    return last.rounds > first.rounds and last.rollouts > first.rollouts


@contextmanager
def _loop(folder: Path, whole_s: float) -> Iterator[tuple[Served, Served, httpx.Client]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    simulated_s = PACE * (whole_s + LONGEST_WARM_S + LONGEST_MORE_S + PATIENCE_S)
    lab_arguments = (*FABRIC, "--pace", str(PACE), "--duration", f"{simulated_s}s")
    with (
        serving(
            **SETTINGS,
            ECNTWIN_PUSH__LAB_URL=url,
            ECNTWIN_STORAGE__URL=f"sqlite:///{folder / 'ecntwin.db'}",
        ) as served,
        lab_at(port, *lab_arguments, "--post-to", served.url, ECNTWIN_TOKEN=TOKEN) as lab,
        httpx.Client(
            base_url=served.url, timeout=PATIENCE_S, headers={"Authorization": f"Bearer {TOKEN}"}
        ) as client,
    ):
        yield served, lab, client


class Callers:
    """Everyone who calls a service: who looks, who operates, who listens, and who makes mistakes."""

    def __init__(self, url: str, client: httpx.Client) -> None:
        self._client = client
        self._address = (httpx.URL(url).host, httpx.URL(url).port)
        self._calls = 0

    def call(self) -> None:
        """A few calls; none of them is answered with a server's error."""
        self._calls += 1
        for path in LOOKS:
            answer = self._client.get(path)
            assert answer.status_code < 500, f"{path}: {answer.text}"
        self._listen_and_go()
        self._err()
        self._take_back()
        self._approve()
        if self._calls % 10 == 0:
            self._ask_what_if()

    def _listen_and_go(self) -> None:
        with self._client.stream("GET", "/v1/events") as stream:
            next(stream.iter_raw())

    def _err(self) -> None:
        for body in (b"{", b"[]", b"[{}]", b"\x1f\x8b"):
            assert self._client.post("/v1/telemetry/int", content=body).status_code < 500
        stranger = self._client.post("/v1/tune", headers={"Authorization": "Bearer nobody"})
        assert stranger.status_code == 401
        head = (
            f"POST /v1/telemetry/int HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Length: 1000\r\n\r\n[{"
        )
        with socket.create_connection(self._address) as cut, suppress(OSError):
            cut.sendall(head.encode())

    def _take_back(self) -> None:
        """An operator who likes it as it was: what ended well is taken back, so that it can be done again."""
        listed: list[dict[str, Any]] = self._client.get("/v1/rollouts?limit=1").json()["rollouts"]
        for one in listed:
            if one["phase"] == "done":
                answer = self._client.post(f"/v1/rollouts/{one['id']}/rollback")
                assert answer.status_code in (202, 409), answer.text

    def _approve(self) -> None:
        """And who wants what policy leaves to a person: alarms of a busy lab are critical."""
        listed = self._client.get("/v1/recommendations?candidates=false&limit=1").json()["recommendations"]
        for one in listed:
            if one["status"] == "pending" and one["caution"] is not None:
                answer = self._client.post(f"/v1/recommendations/{one['id']}/approve")
                assert answer.status_code in (200, 409), answer.text

    def _ask_what_if(self) -> None:
        asked = {"watermarks": [{"kmin_bytes": 100_000, "kmax_bytes": 400_000, "pmax": 0.2}]}
        answer = self._client.post("/v1/whatif", json=asked)
        assert answer.status_code in (200, 409, 429), answer.text

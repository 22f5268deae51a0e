"""A service on a lab for people to look at: settings, traffic, both processes, and what drives them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.demo.closed_loop import Answer, LabAt, ServiceAt
from lab.demo.processes import LOOPBACK, Child, Children, free_ports
from lab.setup import LeafSpine
from settings.errors import UnavailableError

# Hosts at 25 Gbit/s whose switches run the vendor default for 100 Gbit/s: a queue that deep takes four times
# as long to leave, and small messages, of which Hadoop has many, wait behind it. A clear case, for people to
# see: of a web search mix at that load, with incast, the same packets show a quarter of the gain.
FABRIC = LeafSpine(rate_gbps=25.0, uplink_gbps=100.0)
TRAFFIC = "hadoop:0.6"
PACE = 0.004  # simulated seconds per second: a new window every 25 s, and cores left for rounds
PERIOD_S = 1e-3
PERIODS = 100
DURATION_PERIODS = 14_400  # an hour at that pace


class Driver:
    """Advances the lab at its pace and asks for a round after each window, in threads of its own.

    Rounds begin after an amount of simulated traffic, not of time, so that the first recommendation is the
    same on every machine.
    """

    def __init__(self, service: Child, lab: Child) -> None:
        self._lab = lab
        self._at_lab, self._at_service = LabAt(lab, lab.url()), ServiceAt(service, service.url())
        self.failure: UnavailableError | None = None
        self._stopped = threading.Event()
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="ecntwin-demo-driver")
        self._threads.submit(self._drive)

    def stop(self) -> None:
        """Once the processes have ended, which cuts a call short."""
        self._stopped.set()
        self._threads.shutdown()
        self._at_lab.close()
        self._at_service.close()

    def _drive(self) -> None:
        try:
            self._at_lab.advance(PERIODS * PERIOD_S)  # as fast as it can
            began_s, round_, last = time.monotonic(), self._ask(), PERIODS
            for period in range(PERIODS + 1, DURATION_PERIODS + 1):
                due_s = began_s + (period - PERIODS) * PERIOD_S / PACE
                if self._stopped.wait(max(0.0, due_s - time.monotonic())):
                    return
                self._at_lab.advance(period * PERIOD_S)
                if period - last >= PERIODS and round_.done():
                    round_, last = self._ask(), period
            self._lab.ask_to_end()
        except UnavailableError as error:
            self.failure = error

    def _ask(self) -> Future[Answer]:
        return self._threads.submit(self._at_service.tune)


@dataclass(frozen=True, slots=True)
class Served:
    """The lab and the service, both listening, and what drives them."""

    service: Child
    lab: Child
    driver: Driver
    url: str
    lab_url: str

    def check(self) -> None:
        """Raises ``UnavailableError`` if one has failed."""
        for child in (self.service, self.lab):
            if not child.running:
                child.finish()
        if self.driver.failure is not None and self.lab.running:
            raise self.driver.failure


@contextmanager
def served(port: int, lab_port: int, *, seed: int) -> Iterator[Served]:
    """Runs both on loopback; their database is temporary, and all is gone when the block is left.

    Raises ``InputError`` for a port that is taken, and ``UnavailableError`` where one does not start.
    """
    port, lab_port = free_ports({"--port": port, "--lab-port": lab_port})
    with (
        TemporaryDirectory(prefix="ecntwin-demo-") as name,
        ExitStack() as drivers,
        Children(Path(name)) as children,  # ends first: calls to its processes then fail
    ):
        lab_url = f"http://{LOOPBACK}:{lab_port}"
        settings = service_settings(lab_url, f"sqlite:///{Path(name) / 'ecntwin.db'}", seed=seed)
        service = children.start_service(FABRIC, settings, port)
        lab = children.start("lab", "lab", *lab_arguments(lab_port, f"http://{LOOPBACK}:{port}", seed=seed))
        driver = Driver(service, lab)
        drivers.callback(driver.stop)
        yield Served(service, lab, driver, service.url(), lab.url())


def service_settings(lab_url: str, database: str, *, seed: int) -> dict[str, Any]:
    """Default settings except for a shorter search and what a lab needs: simulated times, no soak."""
    workers = max(2, os.cpu_count() or 1)
    return {
        "telemetry": {"period_s": PERIOD_S, "n_periods": PERIODS},
        "search": {"candidates": 96, "narrowed": 24, "niceness": 0, "seed": seed, "workers": workers},
        "tuning": {"period_s": 3_600},  # rounds are asked for; those that changed traffic begins come as ever
        "push": {"adapter": "lab", "lab_url": lab_url},
        "rollout": {"soak_s": 0, "batch_soak_s": 0},
        "storage": {"url": database},
    }


def lab_arguments(port: int, service_url: str, *, seed: int) -> list[str]:
    """Options of ``ecntwin lab``."""
    return [
        *("--leaves", str(FABRIC.leaves), "--spines", str(FABRIC.spines), "--hosts", str(FABRIC.hosts)),
        *("--rate-gbps", f"{FABRIC.rate_gbps:g}", "--uplink-gbps", f"{FABRIC.uplink_gbps:g}"),
        *("--traffic", TRAFFIC, "--seed", str(seed)),
        *("--step", "--duration", f"{DURATION_PERIODS * PERIOD_S:g}s"),
        *("--listen", f"{LOOPBACK}:{port}", "--post-to", service_url),
        "--json",  # no progress: the last line of its log is why it failed
    ]

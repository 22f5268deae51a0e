"""A service on a lab for people to look at: its settings, its traffic, and both processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.demo.processes import LOOPBACK, Child, Children, free_ports
from lab.setup import LeafSpine

# Hosts at 25 Gbit/s whose switches run the vendor default for 100 Gbit/s: a queue that deep takes four times
# as long to leave, and small messages wait behind it.
FABRIC = LeafSpine(rate_gbps=25.0, uplink_gbps=100.0)
TRAFFIC = "websearch:0.6,incast:12:each_bytes=64KB:period=1ms"
PACE = 0.004  # simulated seconds per second: a new window by each round, and cores left for rounds
DURATION_S = 14.4  # an hour at that pace
PERIOD_S = 1e-3
PERIODS = 100
ROUND_EVERY_S = 25.0


@dataclass(frozen=True, slots=True)
class Served:
    """The lab and the service, both listening."""

    service: Child
    lab: Child
    url: str
    lab_url: str

    def check(self) -> None:
        """Raises ``UnavailableError`` if one has failed."""
        for child in (self.service, self.lab):
            if not child.running:
                child.finish()


@contextmanager
def served(port: int, lab_port: int, *, seed: int) -> Iterator[Served]:
    """Runs both on loopback; their database is temporary, and all is gone when the block is left.

    Raises ``InputError`` for a port that is taken, and ``UnavailableError`` where one does not start.
    """
    port, lab_port = free_ports({"--port": port, "--lab-port": lab_port})
    with TemporaryDirectory(prefix="ecntwin-demo-") as name, Children(Path(name)) as children:
        lab_url = f"http://{LOOPBACK}:{lab_port}"
        settings = service_settings(lab_url, f"sqlite:///{Path(name) / 'ecntwin.db'}", seed=seed)
        service = children.start_service(FABRIC, settings, port)
        lab = children.start("lab", "lab", *lab_arguments(lab_port, f"http://{LOOPBACK}:{port}", seed=seed))
        yield Served(service, lab, service.url(), lab.url())


def service_settings(lab_url: str, database: str, *, seed: int) -> dict[str, Any]:
    """Default settings except for a shorter search and what a lab needs: simulated times, no soak."""
    workers = max(2, os.cpu_count() or 1)
    return {
        "telemetry": {"period_s": PERIOD_S, "n_periods": PERIODS},
        "search": {"candidates": 96, "narrowed": 24, "niceness": 0, "seed": seed, "workers": workers},
        "tuning": {"period_s": ROUND_EVERY_S},
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
        *("--pace", f"{PACE:g}", "--duration", f"{DURATION_S:g}s"),
        *("--listen", f"{LOOPBACK}:{port}", "--post-to", service_url),
        "--json",  # no progress: the last line of its log is why it failed
    ]

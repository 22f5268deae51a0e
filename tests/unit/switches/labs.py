"""The control interface of a lab without a fabric behind it, as a transport: for tests of its clients."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import httpx

from switches.device import Device
from switches.lab import LabAdapter
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)


class Lab(httpx.BaseTransport):
    """Watermarks by switch and port; ``seen`` are all that were ever set.

    ``away``: what a call meets; ``deaf``: it takes sets, and forgets; ``dying``: it sets, and never answers.
    """

    def __init__(self, **switches: tuple[str, ...]) -> None:
        names = switches or {"leaf1": ("Ethernet0", "Ethernet1")}
        self.ports = {name: dict.fromkeys(ports, OLD) for name, ports in names.items()}
        self.away: Exception | None = None
        self.deaf = False
        self.dying = False
        self.seen: list[Watermark] = []
        self.calls: list[str] = []

    def adapter(self, switch: str = "leaf1", ports: tuple[str, ...] = ()) -> LabAdapter:
        device = Device(
            name=switch, platform="lab", address="http://127.0.0.1:9000", timeout_s=60.0, ports=ports
        )
        return LabAdapter(device, clock_ns=lambda: 7, transport=self)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(f"{request.method} {request.url.path}")
        if self.away is not None:
            raise self.away
        name = unquote(request.url.raw_path.decode().split("/")[2])
        if name not in self.ports:
            return httpx.Response(404, json={"detail": f"switch {name!r}: no such switch"})
        running = self.ports[name]
        if request.method == "PUT" and not self.deaf:
            asked: dict[str, Any] = json.loads(request.content)
            ports = asked.pop("ports", running)
            running.update(dict.fromkeys(ports, Watermark(**asked)))
            self.seen.append(Watermark(**asked))
            if self.dying:
                raise httpx.ReadError("gone")
        queues = [
            {
                "port": port,
                "queue": 3,
                "kmin_bytes": mark.kmin_bytes,
                "kmax_bytes": mark.kmax_bytes,
                "pmax": mark.pmax,
            }
            for port, mark in running.items()
        ]
        return httpx.Response(200, json={"name": name, "queues": queues})

"""The lab's control interface, without the fabric behind it: what it runs is a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from switches.base import SwitchAdapter
from switches.device import Device
from switches.lab import LabAdapter
from tests.contract.rig import NEW_PORT, OTHER, REMOVED, Elsewhere, Hardware, Rig, fault
from tests.unit.switches.labs import Lab
from twin.watermark import Watermark

PORTS = ("Ethernet0", "Ethernet4", "Ethernet8")


class LabRig(Rig):
    kind = "lab"

    def __init__(self, folder: Path) -> None:
        self.lab = Lab(leaf1=PORTS)
        self.reset()

    def close(self) -> None:
        """There is no process."""

    def reset(self) -> None:
        self.lab.away, self.lab.deaf, self.lab.dying = None, False, False
        self.lab.ports["leaf1"] = dict.fromkeys(PORTS, self.first)
        self.lab.seen = []

    def adapter(self, **device: Any) -> SwitchAdapter:
        described = Device(name="leaf1", platform="lab", address="http://127.0.0.1:9000", **device)
        return LabAdapter(described, clock_ns=lambda: 7, transport=self.lab)

    def hardware(self) -> Hardware:
        return {(port, 3): mark for port, mark in self.lab.ports["leaf1"].items()}

    def history(self) -> list[tuple[int, int]]:
        return [(mark.kmin_bytes, mark.kmax_bytes) for mark in self.lab.seen]

    def bystanders(self) -> object:
        return tuple(self.lab.ports)

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        self.lab.ports["leaf1"].update(dict.fromkeys(PORTS[:1] if only_first else PORTS, watermark))

    def elsewhere(self) -> Elsewhere:
        ports = self.lab.ports["leaf1"]

        def removed() -> set[str]:
            del ports[PORTS[-1]]
            return {PORTS[-1]}

        return {NEW_PORT: lambda: ports.update(Ethernet12=OTHER), REMOVED: removed}

    @contextmanager
    def starting(self) -> Iterator[None]:
        ports, self.lab.ports["leaf1"] = self.lab.ports["leaf1"], {}
        yield
        self.lab.ports["leaf1"] = ports

    @contextmanager
    def silent(self) -> Iterator[None]:
        self.lab.away = httpx.ReadTimeout("silent")
        try:
            yield
        finally:
            self.lab.away = None

    def losing_replies(self) -> AbstractContextManager[None]:
        return fault(self.lab, "dying")

    def ignoring(self) -> AbstractContextManager[None]:
        return self._deaf()

    def _deaf(self) -> AbstractContextManager[None]:
        return fault(self.lab, "deaf")


RIGS = (LabRig,)

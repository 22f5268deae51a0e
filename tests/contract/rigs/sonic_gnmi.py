"""SONiC through its gNMI server: with profiles of its own, and as images before 2026 allow it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from switches.base import SwitchAdapter
from switches.device import Device, Secret, Tls
from switches.sonic.gnmi_adapter import SonicGnmiAdapter
from tests.contract.rig import PATIENT, Hardware, Rig
from tests.counterparts.switches.gnmi_switch import GnmiSwitch
from tests.counterparts.switches.sonic_gnmi import SonicGnmi
from tests.counterparts.switches.sonic_switch import SonicSwitch, wred_row
from twin.watermark import Watermark

PORTS = ("Ethernet0", "Ethernet4", "Ethernet8")


class SonicGnmiRig(Rig):
    kind = "sonic-gnmi"
    queues: ClassVar[tuple[int, ...]] = (3,)
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, folder: Path) -> None:
        self.switch = SonicSwitch(folder, ports=PORTS, watermark=self.first)
        self.personality = SonicGnmi(self.switch)
        self.server = GnmiSwitch(self.personality, credentials=("admin", "right-password"))
        self._environment = pytest.MonkeyPatch()
        self._environment.setenv("SONIC_GNMI_USER", "admin")
        self._environment.setenv("SONIC_GNMI_RIGHT", "right-password")
        self._environment.setenv("SONIC_GNMI_WRONG", "wrong-password")

    def close(self) -> None:
        self._environment.undo()
        self.server.close()
        self.personality.close()
        self.switch.close()

    def reset(self) -> None:
        self.switch.reset()
        self.server.asked.clear()
        self.personality.moves.clear()

    def adapter(self, **device: Any) -> SwitchAdapter:
        described: dict[str, Any] = {
            "address": "127.0.0.1",
            "port": self.server.port,
            "queues": self.queues,
            "username": Secret(env="SONIC_GNMI_USER"),
            "password": Secret(env="SONIC_GNMI_RIGHT"),
            "tls": Tls(enabled=False),
            "options": self.options,
            **PATIENT,
        } | device
        return SonicGnmiAdapter(Device(name="leaf1", platform="sonic-gnmi", **described), clock_ns=lambda: 7)

    def refused(self) -> SwitchAdapter:
        return self.adapter(password=Secret(env="SONIC_GNMI_WRONG"))

    def hardware(self) -> Hardware:
        return self.switch.hardware(self.queues)

    def history(self) -> list[tuple[int, int]]:
        return self.switch.history()

    def bystanders(self) -> object:
        rows = self.switch.config_db()
        for key in [key for key in rows if key.startswith("WRED_PROFILE|ECNTWIN_")]:
            del rows[key]
        for key, row in rows.items():
            table, _, name = key.partition("|")
            if table == "QUEUE" and int(name.rpartition("|")[2]) in self.queues:
                row.pop("wred_profile", None)
        return rows

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        if only_first:
            self.switch.set_config(
                {
                    "WRED_PROFILE|SOMEBODYS": wred_row(watermark),
                    **{f"QUEUE|{PORTS[0]}|{queue}": {"wred_profile": "SOMEBODYS"} for queue in self.queues},
                }
            )
        else:
            rows = self.switch.config_db()
            bound = {rows[f"QUEUE|{port}|{queue}"]["wred_profile"] for port in PORTS for queue in self.queues}
            self.switch.set_config({f"WRED_PROFILE|{name}": wred_row(watermark) for name in sorted(bound)})
        self.switch.settle()

    def silent(self) -> AbstractContextManager[None]:
        return self.server.silent()

    def losing_replies(self) -> AbstractContextManager[None]:
        return self.server.losing_replies()

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        self.switch.faults.ignoring = True
        try:
            yield
            self.switch.settle()
        finally:
            self.switch.faults.ignoring = False

    @contextmanager
    def _half(self) -> Iterator[None]:
        self.switch.faults.half = True
        try:
            yield
            self.switch.settle()
        finally:
            self.switch.faults.half = False

    def applying_half(self) -> AbstractContextManager[None] | None:
        return self._half()


class OldImageRig(SonicGnmiRig):
    """The shared profile is edited, in three fields: all queues that are bound to it are to be set."""

    kind = "sonic-gnmi-2025"
    queues = (3, 4)
    options: ClassVar[dict[str, Any]] = {"replace_only": True}

    def reset(self) -> None:
        super().reset()
        self.personality.image_2025 = True

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        """All of them: there is one profile, and a patch may edit no other."""
        super().somebody_sets(watermark)

    @contextmanager
    def _half(self) -> Iterator[None]:
        self.personality.stops_after = len(self.personality.moves) + 1
        try:
            yield
        finally:
            self.personality.stops_after = None

    def bystanders(self) -> object:
        rows = self.switch.config_db()
        return {
            key: {name: value for name, value in row.items() if name != "wred_profile"}
            for key, row in rows.items()
            if not key.startswith("WRED_PROFILE|")
        }


RIGS = (SonicGnmiRig, OldImageRig)

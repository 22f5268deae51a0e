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
from tests.contract.rig import PATIENT
from tests.contract.rigs.sonic import PORTS, SharedProfile, SonicHardware
from tests.counterparts.switches.gnmi_switch import GnmiSwitch
from tests.counterparts.switches.sonic_gnmi import SonicGnmi
from tests.counterparts.switches.sonic_switch import SonicSwitch
from twin.watermark import Watermark


class SonicGnmiRig(SonicHardware):
    kind = "sonic-gnmi"

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

    def silent(self) -> AbstractContextManager[None]:
        return self.server.silent()

    def losing_replies(self) -> AbstractContextManager[None]:
        return self.server.losing_replies()


class OldImageRig(SharedProfile, SonicGnmiRig):
    """The shared profile is edited in three fields."""

    kind = "sonic-gnmi-2025"
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


RIGS = (SonicGnmiRig, OldImageRig)

"""Many SONiC switches at once, each a real redis-server of its own with a stand-in for orchagent."""

from __future__ import annotations

from pathlib import Path

from switches.device import Device
from tests.counterparts.background import Background
from tests.counterparts.switches.sonic_switch import AZURE, SonicSwitch
from twin.watermark import Watermark


class SonicFabric:
    """``switches`` by name: leaf1, leaf2 and so on, all running ``watermark``."""

    def __init__(
        self,
        folder: Path,
        n_switches: int,
        *,
        ports: int = 3,
        watermark: Watermark = AZURE,
        lag_s: float = 0.0,
    ) -> None:
        self.background = Background()
        self.lag_s = lag_s
        self.first = watermark
        self.switches: dict[str, SonicSwitch] = {}
        names = [f"Ethernet{4 * number}" for number in range(ports)]
        for number in range(1, n_switches + 1):
            self.switches[f"leaf{number}"] = SonicSwitch(
                folder / str(number), ports=names, watermark=watermark, background=self.background
            )
        self._be_late()

    def reset(self) -> None:
        """Every switch as it began."""
        for switch in self.switches.values():
            switch.reset()
        self._be_late()

    def devices(self) -> dict[str, Device]:
        """The inventory of it."""
        return {
            name: Device(name=name, platform="sonic", address="127.0.0.1", port=switch.port)
            for name, switch in self.switches.items()
        }

    def hardware(self) -> dict[str, set[Watermark | None]]:
        """What the queues of each switch run."""
        return {name: set(switch.hardware().values()) for name, switch in self.switches.items()}

    def close(self) -> None:
        """Ends every process."""
        for switch in self.switches.values():
            switch.close()
        self.background.close()

    def _be_late(self) -> None:
        for switch in self.switches.values():
            switch.faults.lag_s = self.lag_s

"""NVUE's REST API on loopback, over HTTP, with the default profile's traffic classes 3 and 4."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from switches.base import SwitchAdapter
from switches.nvue import NvueAdapter
from tests.contract.rig import Hardware
from tests.contract.rigs.http import HttpRig
from tests.counterparts.switches.nvue_switch import PROFILE, QUEUES, NvueSwitch
from twin.watermark import Watermark


class NvueRig(HttpRig):
    kind = "nvue"
    switch: NvueSwitch

    def __init__(self, folder: Path) -> None:
        self.start()
        self.switch = NvueSwitch(self.first)

    def adapter(self, **device: Any) -> SwitchAdapter:
        described = self.device(device, name="leaf1", address=self.switch.url, queues=QUEUES)
        return self.kept(NvueAdapter(described, clock_ns=lambda: 7))

    def hardware(self) -> Hardware:
        assert self.switch.unexpected == []
        return {(PROFILE, queue): _mark(self.switch.hardware.get(str(queue))) for queue in QUEUES}

    def bystanders(self) -> object:
        rest = deepcopy(self.switch.applied)
        classes = rest["qos"]["congestion-control"][PROFILE]["traffic-class"]
        for queue in QUEUES:
            classes[str(queue)] = classes[str(queue)]["red"]
        return rest

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        for queue in QUEUES[: 1 if only_first else None]:
            self.switch.set_by_hand(
                queue,
                {
                    "min-threshold": watermark.kmin_bytes,
                    "max-threshold": watermark.kmax_bytes,
                    "probability": round(watermark.pmax * 100),
                },
            )

    def somebody_sets_no_watermark(self) -> bool:
        self.switch.set_by_hand(QUEUES[0], {"min-threshold": 900_000, "max-threshold": 700_000})
        return True


def _mark(row: dict[str, Any] | None) -> Watermark | None:
    if row is None or row["ecn"] == "disable":
        return None
    return Watermark(row["min-threshold"], row["max-threshold"], row["probability"] / 100)


RIGS = (NvueRig,)

"""eAPI on loopback, over HTTP: a QoS profile on two ports; sessions as shown today and before 4.32."""

from __future__ import annotations

from contextlib import AbstractContextManager
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

from switches.base import SwitchAdapter
from switches.cli.eos import EosAdapter
from tests.contract.rig import NEW_PORT, OTHER, REMOVED, SHARED, UNREADABLE, Elsewhere, Hardware
from tests.contract.rigs.http import HttpRig
from tests.counterparts.switches.eos_switch import PROFILE, QUEUES, EosSwitch, line_of, mark_of
from twin.watermark import Watermark

_MILLISECONDS = (
    "random-detect ecn minimum-threshold 1 milliseconds maximum-threshold 2 milliseconds"
    " max-mark-probability 10 weight 0"
)


class EosRig(HttpRig):
    kind = "eos"
    switch: EosSwitch
    modern: ClassVar[bool] = True
    last = "Ethernet2/1"

    def __init__(self, folder: Path) -> None:
        self.start()
        self.switch = EosSwitch(self.first, modern=self.modern)

    def adapter(self, **device: Any) -> SwitchAdapter:
        described = self.device(
            device, name="leaf1", address=self.switch.url, queues=QUEUES, ports=("Ethernet?/1",)
        )
        return self.kept(EosAdapter(described, clock_ns=lambda: 7))

    def hardware(self) -> Hardware:
        assert self.switch.unexpected == []
        return {(PROFILE, queue): mark_of(self.switch.line(queue)) for queue in QUEUES}

    def bystanders(self) -> object:
        rest = deepcopy(self.switch.running)
        for queue in QUEUES:
            rest[f"qos profile {PROFILE}"][f"uc-tx-queue {queue}"].pop(self.switch.line(queue))
        return rest

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        for queue in QUEUES[: 1 if only_first else None]:
            self.switch.set_by_hand(queue, line_of(watermark))

    def elsewhere(self) -> Elsewhere:
        def applied(port: str, profile: str, line: str | None = None) -> None:
            running = self.switch.running
            if line is not None:
                running[f"qos profile {profile}"] = {"uc-tx-queue 3": {line: {}}}
            running[f"interface {port}"] = {f"service-profile {profile}": {}}

        def removed() -> set[str]:
            del self.switch.running[f"interface {self.last}"]
            return {self.last}

        return {
            UNREADABLE: lambda: applied("Ethernet4/1", "LAB", _MILLISECONDS),
            NEW_PORT: lambda: applied("Ethernet4/1", "LAB", line_of(OTHER)),
            SHARED: lambda: applied("Ethernet50/1", self._edited()),
            REMOVED: removed,
        }

    def somebody_sets_no_watermark(self) -> bool:
        self.switch.set_by_hand(3, _MILLISECONDS, f"qos profile {self._edited()}")
        return True

    def starting(self) -> AbstractContextManager[None]:
        return self.unconfigured("running")

    def _edited(self) -> str:
        """The profile that a change edits, or has made."""
        return PROFILE

    def expire(self) -> None:
        self.switch.expire()


class OlderEosRig(EosRig):
    kind = "eos-4.31"
    modern = False


class RoleEosRig(EosRig):
    """Two ports of a role, which share their profile with a third; none of its own at first."""

    kind = "eos-role"
    ports: ClassVar[tuple[str, ...]] = ("Ethernet1/1", "Ethernet3/1")
    last = "Ethernet3/1"

    def _edited(self) -> str:
        return self.switch.effective("Ethernet1/1").removeprefix("qos profile ")

    def reset(self) -> None:
        super().reset()
        self.switch.running["interface Ethernet3/1"] = {f"service-profile {PROFILE}": {}}

    def adapter(self, **device: Any) -> SwitchAdapter:
        return super().adapter(**({"role": "leaf-host-12.5G", "ports": self.ports} | device))

    def hardware(self) -> Hardware:
        assert self.switch.unexpected == []
        return {
            (port, queue): mark_of(self.switch.line(queue, self.switch.effective(port)))
            for port in self.ports
            if f"interface {port}" in self.switch.running
            for queue in QUEUES
        }

    def bystanders(self) -> object:
        """Profiles and ports that are not of the role, and all that its ports run but the lines."""
        rest = deepcopy(self.switch.running)
        own = {}
        for port in self.ports:
            place = self.switch.effective(port)
            own[port] = deepcopy(rest[place])
            for queue in QUEUES:
                own[port][f"uc-tx-queue {queue}"].pop(self.switch.line(queue, place), None)
            del rest[f"interface {port}"][place.replace("qos ", "service-")]
        return own, {line: below for line, below in rest.items() if "ecntwin-" not in line}

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        for place in {self.switch.effective(port) for port in self.ports}:
            for queue in QUEUES[: 1 if only_first else None]:
                self.switch.set_by_hand(queue, line_of(watermark), place)


RIGS = (EosRig, OlderEosRig, RoleEosRig)

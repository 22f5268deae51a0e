"""NX-API on loopback, over HTTP: one queuing policy of every port, with the classes of queues 3 and 4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar

from switches.base import SwitchAdapter
from switches.cli.nxos import NxosAdapter
from tests.contract.rig import NEW_PORT, OTHER, SHARED, UNREADABLE, Elsewhere, Hardware
from tests.contract.rigs.http import HttpRig
from tests.counterparts.switches.nxos_switch import BINDING, CLASSES, POLICY, NxosSwitch, line_of, mark_of
from twin.watermark import Watermark

_BURST = "random-detect threshold burst-optimized ecn"


class NxosRig(HttpRig):
    kind = "nxos"
    narrow: ClassVar[dict[str, Any]] = {"ports": ("system qos",)}
    switch: NxosSwitch

    def __init__(self, folder: Path) -> None:
        self.start()
        self.switch = NxosSwitch(self.first)

    def adapter(self, **device: Any) -> SwitchAdapter:
        described = self.device(device, name="leaf1", address=self.switch.url, queues=tuple(CLASSES))
        return self.kept(NxosAdapter(described, clock_ns=lambda: 7))

    def hardware(self) -> Hardware:
        assert self.switch.unexpected == []
        return {(POLICY, queue): mark_of(self.switch.line(queue)) for queue in CLASSES}

    def bystanders(self) -> object:
        rest = deepcopy(self.switch.running)
        for queue, label in CLASSES.items():
            rest[f"policy-map type queuing {POLICY}"][f"class type queuing {label}"].pop(
                self.switch.line(queue)
            )
        return rest, list(self.switch.checkpoints)

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        for queue in list(CLASSES)[: 1 if only_first else None]:
            self.switch.set_by_hand(queue, line_of(watermark))

    def elsewhere(self) -> Elsewhere:
        def applied(policy: str, line: str | None = None) -> None:
            if line is not None:
                classes = {"class type queuing c-out-8q-q3": {line: {}}}
                self.switch.running[f"policy-map type queuing {policy}"] = classes
            self.switch.running["interface Ethernet1/9"] = {BINDING + policy: {}}

        return {
            UNREADABLE: lambda: applied("LAB", _BURST),
            NEW_PORT: lambda: applied("LAB", line_of(OTHER)),
            SHARED: lambda: applied(self._edited()),
        }

    def somebody_sets_no_watermark(self) -> bool:
        self.switch.set_by_hand(3, _BURST, self._edited())
        return True

    def starting(self) -> AbstractContextManager[None]:
        return self.unconfigured("running")

    def _edited(self) -> str:
        """The policy that a change edits, or has made."""
        return POLICY

    def applying_half(self) -> AbstractContextManager[None] | None:
        return self.fault("halving")


class RoleNxosRig(NxosRig):
    """Two ports of a role: one has the system's policy, one names it itself, as a third port does."""

    kind = "nxos-role"
    narrow: ClassVar[dict[str, Any]] = {}
    ports = ("Ethernet1/1", "Ethernet1/3")

    def _edited(self) -> str:
        return self.switch.effective("Ethernet1/1")

    def reset(self) -> None:
        super().reset()
        for port in ("Ethernet1/2", "Ethernet1/3"):
            self.switch.running[f"interface {port}"] = {BINDING + POLICY: {}}

    def adapter(self, **device: Any) -> SwitchAdapter:
        return super().adapter(**({"role": "leaf-host-12.5G", "ports": self.ports} | device))

    def hardware(self) -> Hardware:
        assert self.switch.unexpected == []
        return {
            (port, queue): mark_of(self.switch.line(queue, self.switch.effective(port)))
            for port in self.ports
            for queue in CLASSES
        }

    def bystanders(self) -> object:
        """Policies and ports that are not of the role, and all that its ports run but the lines."""
        rest = deepcopy(self.switch.running)
        own = {}
        for port in self.ports:
            policy = self.switch.effective(port)
            own[port] = deepcopy(rest[f"policy-map type queuing {policy}"])
            for queue, label in CLASSES.items():
                own[port][f"class type queuing {label}"].pop(self.switch.line(queue, policy))
            rest.pop(f"interface {port}", None)
        return (
            own,
            {line: below for line, below in rest.items() if "ecntwin-" not in line},
            list(self.switch.checkpoints),
        )

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        for policy in {self.switch.effective(port) for port in self.ports}:
            for queue in list(CLASSES)[: 1 if only_first else None]:
                self.switch.set_by_hand(queue, line_of(watermark), policy)

    @contextmanager
    def applying_half(self) -> Iterator[None]:
        """The old policy is taken off a port, and the new one refused."""
        self.switch.refuses = f"{BINDING}ecntwin-"
        try:
            yield
        finally:
            self.switch.refuses = None


RIGS = (NxosRig, RoleNxosRig)

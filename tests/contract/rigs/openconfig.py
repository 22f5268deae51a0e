"""OpenConfig QoS behind a real gNMI server, its configuration checked by libyang."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from switches.base import SwitchAdapter
from switches.device import Device, Secret, Tls
from switches.openconfig.gnmi import OpenConfigAdapter
from tests.contract.rig import (
    NEW_PORT,
    OTHER,
    PATIENT,
    REMOVED,
    SHARED,
    UNREADABLE,
    Elsewhere,
    Hardware,
    Rig,
    fault,
)
from tests.counterparts.switches.gnmi_switch import GnmiSwitch
from tests.counterparts.switches.openconfig_documents import PORTS, factory, leaves_of
from tests.counterparts.switches.openconfig_switch import OpenConfigSwitch, Steps, profile, queue
from twin.watermark import Watermark

QUEUE = "3"


class OpenConfigRig(Rig):
    kind = "openconfig"

    def __init__(self, folder: Path) -> None:
        self.switch = OpenConfigSwitch()
        self.server = GnmiSwitch(self.switch, credentials=("ecn", "right-password"))
        self._environment = pytest.MonkeyPatch()
        self._environment.setenv("OPENCONFIG_RIGHT", "right-password")
        self._environment.setenv("OPENCONFIG_WRONG", "wrong-password")
        self._environment.setenv("OPENCONFIG_USER", "ecn")

    def close(self) -> None:
        self.server.close()
        self._environment.undo()

    def reset(self) -> None:
        self.switch.ignoring = False
        self.switch.configure(factory(self.first))
        self.server.asked.clear()

    def adapter(self, **device: Any) -> SwitchAdapter:
        given: dict[str, Any] = {
            "name": "leaf1",
            "platform": "openconfig",
            "address": "127.0.0.1",
            "port": self.server.port,
            "ports": ("Ethernet*",),
            "username": Secret(env="OPENCONFIG_USER"),
            "password": Secret(env="OPENCONFIG_RIGHT"),
            "tls": Tls(enabled=False),
            **PATIENT,
        }
        return OpenConfigAdapter(Device(**given | device), clock_ns=lambda: 7)

    def hardware(self) -> Hardware:
        return {(port, 3): _watermark(self.switch.runs(port, QUEUE)) for port in PORTS}

    def history(self) -> list[tuple[int, int]]:
        return self.switch.history

    def bystanders(self) -> object:
        """All but the bindings that may change and the profiles that nobody else uses."""
        bindings = {_binding(port) for port in PORTS}
        return {
            path: value
            for path, value in self.switch.config.items()
            if path not in bindings and not _is_own(path)
        }

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        leaves = leaves_of(watermark) | {"weight": 0, "drop": False}
        by_hand: dict[Steps, Any] = {
            (*profile("BY-HAND", "wred", "uniform", "config"), (name, ())): value
            for name, value in leaves.items()
        }
        by_hand[profile("BY-HAND", "config", "name")] = "BY-HAND"
        by_hand |= {_binding(port): "BY-HAND" for port in (PORTS[:1] if only_first else PORTS)}
        self.switch.edit(by_hand)

    def elsewhere(self) -> Elsewhere:
        def added(**leaves: Any) -> None:
            self.switch.edit(_profile("LAB", leaves_of(OTHER) | leaves) | _bound_to("Ethernet3/1", "LAB"))

        def shared() -> None:
            self.switch.edit({_binding("Management0"): self.switch.config[_binding(PORTS[0])]})

        def removed() -> set[str]:
            of_port = queue(PORTS[-1], QUEUE)[:3]
            self.switch.edit({path: None for path in self.switch.config if path[:3] == of_port})
            return {PORTS[-1]}

        return {
            UNREADABLE: lambda: added(**{"max-drop-probability-percent": None}),
            NEW_PORT: added,
            SHARED: shared,
            REMOVED: removed,
        }

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Its QoS comes last: neither the model nor what is configured is there."""
        config, models = dict(self.switch.config), self.switch.models
        self.switch.models = {"openconfig-interfaces": "3.8.0"}
        self.switch.edit(dict.fromkeys(config))
        yield
        self.switch.models = models
        self.switch.edit(config)

    def somebody_sets_no_watermark(self) -> bool:
        lab = _profile("LAB", leaves_of(OTHER) | {"max-drop-probability-percent": None})
        self.switch.edit(lab | {_binding(PORTS[0]): "LAB"})
        return True

    def silent(self) -> AbstractContextManager[None]:
        return self.server.silent()

    def losing_replies(self) -> AbstractContextManager[None]:
        return self.server.losing_replies()

    def ignoring(self) -> AbstractContextManager[None]:
        return fault(self.switch, "ignoring")

    def refused(self) -> SwitchAdapter | None:
        return self.adapter(password=Secret(env="OPENCONFIG_WRONG"))


def _profile(name: str, leaves: dict[str, Any]) -> dict[Steps, Any]:
    at = profile(name, "wred", "uniform", "config")
    return {profile(name, "config", "name"): name} | {
        (*at, (leaf, ())): value for leaf, value in leaves.items()
    }


def _bound_to(port: str, name: str) -> dict[Steps, Any]:
    at = queue(port, QUEUE)[:3]
    return {
        (*at, ("config", ()), ("interface-id", ())): port,
        queue(port, QUEUE, "config", "name"): QUEUE,
        _binding(port): name,
    }


def _binding(port: str) -> Steps:
    return queue(port, QUEUE, "config", "queue-management-profile")


def _is_own(path: Steps) -> bool:
    return any(
        name == "queue-management-profile" and keys and keys[0][1].startswith("ecntwin-")
        for name, keys in path
    )


def _watermark(leaves: dict[str, Any] | None) -> Watermark | None:
    if leaves is None or not leaves.get("enable-ecn"):
        return None
    return Watermark(
        int(leaves["min-threshold"]),
        int(leaves["max-threshold"]),
        leaves["max-drop-probability-percent"] / 100,
    )


RIGS = (OpenConfigRig,)

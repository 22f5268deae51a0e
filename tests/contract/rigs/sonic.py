"""SONiC over redis: with profiles of its own, with one edited in place, and without queue counters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from switches.base import SwitchAdapter
from switches.device import Device, Secret
from switches.sonic.redis_adapter import SonicAdapter
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
from tests.counterparts.switches.relay import Relay
from tests.counterparts.switches.sonic_switch import SonicSwitch, wred_row
from twin.watermark import Watermark

PORTS = ("Ethernet0", "Ethernet4", "Ethernet8")
_NO_THRESHOLDS = {"ecn": "ecn_all", "wred_green_enable": "true"}
_NO_CURVE = {"green_min_threshold": "2000", "green_max_threshold": "1000"}


def changes(data: bytes) -> bool:
    return b"EXEC" in data


class SonicHardware(Rig):
    """What every SONiC rig does to its switch and sees of it, whatever its adapter talks to."""

    queues: ClassVar[tuple[int, ...]] = (3,)
    options: ClassVar[dict[str, Any]] = {}
    switch: SonicSwitch

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
        else:  # as ecnconfig does: the profile, whosever it is
            rows = self.switch.config_db()
            bound = {rows[f"QUEUE|{port}|{queue}"]["wred_profile"] for port in PORTS for queue in self.queues}
            self.switch.set_config({f"WRED_PROFILE|{name}": wred_row(watermark) for name in sorted(bound)})
        self.switch.settle()

    def elsewhere(self) -> Elsewhere:
        def added(key: str, profile: str, **rows: dict[str, str]) -> None:
            new_port = {"PORT|Ethernet12": {"lanes": "9", "speed": "100000", "admin_status": "up"}}
            self.switch.set_config({**new_port, **rows, f"QUEUE|{key}": {"wred_profile": profile}})
            self.switch.settle()

        def removed() -> set[str]:
            self.switch.remove_config(f"QUEUE|{PORTS[-1]}|{queue}" for queue in range(7))
            return {PORTS[-1]}

        lab = "WRED_PROFILE|LAB"
        return {
            UNREADABLE: lambda: added("Ethernet12|3", "LAB", **{lab: _NO_THRESHOLDS}),
            NEW_PORT: lambda: added("Ethernet12|3", "LAB", **{lab: wred_row(OTHER)}),
            SHARED: lambda: added("Ethernet0|5", self._edited()),
            REMOVED: removed,
        }

    @contextmanager
    def starting(self) -> Iterator[None]:
        """CONFIG_DB has no row of QUEUE."""
        rows = {key: row for key, row in self.switch.config_db().items() if key.startswith("QUEUE|")}
        self.switch.remove_config(rows)
        yield
        self.switch.set_config(rows)
        self.switch.settle()

    def somebody_sets_no_watermark(self) -> bool:
        self.switch.set_config({f"WRED_PROFILE|{self._edited()}": _NO_CURVE})
        return True

    def _edited(self) -> str:
        """The profile that a change edits, or has made."""
        return self.switch.config_db()[f"QUEUE|{PORTS[0]}|3"]["wred_profile"]

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        with fault(self.switch.faults, "ignoring"):
            yield
            self.switch.settle()

    def applying_half(self) -> AbstractContextManager[None] | None:
        return self._half()

    @contextmanager
    def _half(self) -> Iterator[None]:
        with fault(self.switch.faults, "half"):
            yield
            self.switch.settle()


class SharedProfile(SonicHardware):
    """The profile is edited where it stands: all queues that are bound to it are to be set."""

    queues = (3, 4)

    def bystanders(self) -> object:
        rows = self.switch.config_db()
        return {
            key: {name: value for name, value in row.items() if name != "wred_profile"}
            for key, row in rows.items()
            if not key.startswith("WRED_PROFILE|")
        }


class SonicRig(SonicHardware):
    kind = "sonic"
    queue_map: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        self.switch = SonicSwitch(
            folder, ports=PORTS, watermark=self.first, password="right-password", queue_map=self.queue_map
        )
        self.relay = Relay(self.switch.background, self.switch.port, changes)
        self._environment = pytest.MonkeyPatch()
        self._environment.setenv("SONIC_TEST_PASSWORD", "right-password")
        self._environment.setenv("SONIC_TEST_WRONG", "wrong-password")

    def close(self) -> None:
        self._environment.undo()
        self.relay.close()
        self.switch.close()

    def reset(self) -> None:
        self.switch.reset()

    def adapter(self, **device: Any) -> SwitchAdapter:
        described: dict[str, Any] = {
            "address": "127.0.0.1",
            "port": self.relay.port,
            "queues": self.queues,
            "password": Secret(env="SONIC_TEST_PASSWORD"),
            "options": self.options,
            **PATIENT,
        } | device
        return SonicAdapter(Device(name="leaf1", platform="sonic", **described), clock_ns=lambda: 7)

    def refused(self) -> SwitchAdapter:
        return self.adapter(password=Secret(env="SONIC_TEST_WRONG"))

    def silent(self) -> AbstractContextManager[None]:
        return self.relay.silent()

    def losing_replies(self) -> AbstractContextManager[None]:
        return self.relay.losing_replies()


class SharedRig(SharedProfile, SonicRig):
    kind = "sonic-shared"
    options: ClassVar[dict[str, Any]] = {"own_profile": False}


class UncountedRig(SonicRig):
    """Queue counters are off: only values can be compared, and not which queue is bound to them."""

    kind = "sonic-uncounted"
    queue_map = False

    def applying_half(self) -> None:
        return None


RIGS = (SonicRig, SharedRig, UncountedRig)

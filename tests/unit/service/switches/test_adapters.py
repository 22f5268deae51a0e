"""Which adapter a switch gets: of the inventory, one that only records while pushing is off, or any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.switches.adapters import Adapters
from settings.model import PushSettings
from switches.base import SwitchAdapter
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.errors import InventoryError, UnknownAdapterError
from switches.lab import LabAdapter
from switches.registry import AdapterRegistry
from tests.unit.switches.labs import NEW, OLD, Lab
from twin.watermark import Watermark

URL = "http://127.0.0.1:9000"


def made(push: dict[str, Any], switch: str = "leaf1", running: Watermark = OLD) -> SwitchAdapter:
    lab = Lab()
    registry = AdapterRegistry()
    registry.register("mine", lambda device, *, clock_ns: lab.adapter(device.name))
    devices = {"leaf1": Device(name="leaf1", platform="mine")}
    adapters = Adapters(PushSettings(**push), registry, devices=devices, clock_ns=lambda: 7)
    assert adapters.names == ("leaf1",)
    return adapters.make(switch, running)


def test_a_switch_of_the_inventory_is_only_written_where_that_is_enabled(tmp_path: Path) -> None:
    inventory = {"inventory": tmp_path / "inventory.yaml"}
    off = made(inventory)
    assert isinstance(off, DryRunAdapter)
    assert (off.capabilities().kind, off.capabilities().writes) == ("lab", False)
    assert off.stage(NEW, "r1").diff == made(inventory | {"enabled": True}).stage(NEW, "r1").diff
    on = made(inventory | {"enabled": True})
    assert isinstance(on, LabAdapter)
    assert on.capabilities().writes


def test_a_lab_of_the_inventory_is_written_like_any_lab(tmp_path: Path) -> None:
    devices = {"leaf1": Device(name="leaf1", platform="lab", address=URL)}
    push = PushSettings(inventory=tmp_path / "inventory.yaml")
    registry = AdapterRegistry.with_installed()
    made_of = Adapters(push, registry, devices=devices, clock_ns=lambda: 7).make("leaf1", OLD)
    assert isinstance(made_of, LabAdapter)


def test_any_other_switch_is_what_the_settings_say() -> None:
    other = made({"enabled": True}, "leaf9", NEW)
    assert isinstance(other, DryRunAdapter)
    assert other.read().watermark == NEW
    lab = made({"adapter": "lab", "lab_url": URL}, "leaf9")
    assert isinstance(lab, LabAdapter)
    assert lab.capabilities().writes


def test_an_unknown_kind_is_said_before_anything_is_made() -> None:
    with pytest.raises(UnknownAdapterError, match="carrier-pigeon"):
        made({"adapter": "carrier-pigeon"})
    with pytest.raises(UnknownAdapterError, match=r"'sonic'; .* are of dry-run or lab or mine"):
        made({"adapter": "sonic"})
    assert isinstance(made({"adapter": "mine"}, "leaf9"), LabAdapter)


def test_a_description_that_its_adapter_cannot_use_is_an_inventory_error() -> None:
    adapters = Adapters(
        PushSettings(enabled=True),
        AdapterRegistry(),
        devices={"leaf1": Device(name="leaf1", platform="lab", address="leaf1.example")},
        clock_ns=lambda: 7,
    )
    with pytest.raises(InventoryError, match="leaf1"):
        adapters.make("leaf1", OLD)


def test_an_undo_by_role_has_also_the_ports_that_have_left_the_inventory() -> None:
    lab = Lab(leaf1=("p1", "p2"))
    registry = AdapterRegistry()
    registry.register("mine", lambda device, *, clock_ns: lab.adapter(device.name, device.ports))
    devices = {"leaf1": Device(name="leaf1", platform="mine", ports=("p1",))}
    adapters = Adapters(PushSettings(enabled=True), registry, devices=devices, clock_ns=lambda: 7)
    ports = {"down": ("p1",), "up": ("p2",)}
    found = {undo: adapters.make_by_role("leaf1", OLD, ports, undo=undo).read() for undo in (False, True)}
    assert {undo: [one.port for one in of.queues] for undo, of in found.items()} == {
        False: ["p1"],
        True: ["p1", "p2"],
    }

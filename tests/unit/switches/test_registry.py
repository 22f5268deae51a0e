"""Adapter kinds are found by name, loaded when one is made, and one registry never changes another."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from switches import registry as registries
from switches.base import Capabilities
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.errors import CapabilityError, InventoryError, UnknownAdapterError
from switches.registry import AdapterRegistry


def test_the_dry_run_kind_is_built_in() -> None:
    adapter = AdapterRegistry().make(Device(name="leaf1", platform="dry-run"), clock_ns=lambda: 1)
    assert adapter.switch == "leaf1"
    assert adapter.read().watermark is None


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UnknownAdapterError, match="dry-run"):
        AdapterRegistry().factory("telnet")
    with pytest.raises(UnknownAdapterError, match="lab"):
        AdapterRegistry().make(Device(name="leaf1", platform="telnet"), clock_ns=lambda: 1)


def test_registries_do_not_share_kinds() -> None:
    one = AdapterRegistry()
    one.register("mine", DryRunAdapter)
    assert "mine" in one.kinds
    assert "mine" not in AdapterRegistry().kinds


def test_installed_kinds_include_the_built_in_ones() -> None:
    assert set(AdapterRegistry.with_installed().kinds) >= set(AdapterRegistry().kinds)


def test_an_installed_package_s_kind_is_made_from_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("theirs", "switches.dryrun:DryRunAdapter", registries.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registries, "entry_points", lambda group: EntryPoints([entry]))
    made = AdapterRegistry.with_installed().make(Device(name="leaf1", platform="theirs"), clock_ns=lambda: 1)
    assert isinstance(made, DryRunAdapter)


def test_a_lab_needs_its_address() -> None:
    registry = AdapterRegistry()
    with pytest.raises(InventoryError, match=r"push\.lab_url"):
        registry.make(Device(name="leaf1", platform="lab"), clock_ns=lambda: 1)
    lab = Device(name="leaf1", platform="lab", address="http://127.0.0.1:9000")
    made = registry.make(lab, clock_ns=lambda: 1)
    assert made.capabilities().kind == "lab"
    assert made.capabilities().writes


class Theirs(DryRunAdapter):
    def capabilities(self) -> Capabilities:
        return Capabilities(kind="theirs", writes=False)


@pytest.mark.parametrize(
    ("platform", "options", "says"),
    [
        ("nvue", {}, "all ports bound to a congestion-control profile run its watermark"),
        ("sonic", {"own_profile": False}, "with own_profile: false every port bound to a profile"),
        ("theirs", {}, "its adapter sets one watermark for all ports of a switch"),
    ],
)
def test_a_role_is_refused_where_all_ports_run_one_watermark(
    platform: str, options: dict[str, bool], says: str, credentials: dict[str, Any]
) -> None:
    registry = AdapterRegistry()
    registry.register("theirs", Theirs)
    switch = Device(name="leaf1", platform=platform, address="leaf1.example", options=options, **credentials)
    with pytest.raises(CapabilityError, match=rf"leaf1' leaf-up-400G .*ports of one role; {says}"):
        registry.make(switch.at_role("leaf-up-400G", ["swp1"]), clock_ns=lambda: 1)


def test_a_registry_loads_no_platform_s_client_until_one_is_made() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from switches.registry import AdapterRegistry; AdapterRegistry().kinds; "
            "print([name for name in ('redis', 'grpc', 'paramiko', 'httpx') if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "[]"

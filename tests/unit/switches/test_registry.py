"""Adapter kinds are found by name, and one registry never changes another."""

from __future__ import annotations

import pytest

from switches.dryrun import DryRunAdapter
from switches.errors import UnknownAdapterError
from switches.registry import AdapterRegistry


def test_the_dry_run_kind_is_built_in() -> None:
    adapter = AdapterRegistry().factory("dry-run")("leaf1", None, clock_ns=lambda: 1)
    assert adapter.switch == "leaf1"
    assert adapter.read().watermark is None


def test_an_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(UnknownAdapterError, match="dry-run"):
        AdapterRegistry().factory("telnet")


def test_registries_do_not_share_kinds() -> None:
    one = AdapterRegistry()
    one.register("mine", DryRunAdapter)
    assert "mine" in one.kinds
    assert "mine" not in AdapterRegistry().kinds


def test_installed_kinds_include_the_built_in_ones() -> None:
    assert "dry-run" in AdapterRegistry.with_installed().kinds


def test_a_lab_needs_its_url() -> None:
    assert "lab" in AdapterRegistry().kinds
    with pytest.raises(UnknownAdapterError, match=r"push\.lab_url"):
        AdapterRegistry().factory("lab")
    made = AdapterRegistry(lab_url="http://127.0.0.1:9000").factory("lab")("leaf1", None, clock_ns=lambda: 1)
    assert made.capabilities().kind == "lab"
    assert made.capabilities().writes

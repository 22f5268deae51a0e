"""Keys of QUEUE in all their forms, and the rows that cannot be set without setting others' queues."""

from __future__ import annotations

from typing import Any

import pytest

from switches.device import Device
from switches.errors import CapabilityError, InventoryError
from switches.sonic.databases import Config, bindings_of, check_alone, profile_named, queues_in, written_as


def leaf(**fields: Any) -> Device:
    return Device(name="leaf1", platform="sonic", address="10.0.0.1", **fields)


def queues(device: Device, *keys: str) -> list[tuple[str, int]]:
    return [queue for binding in bindings_of(device, {key: {} for key in keys}) for queue in binding.queues]


@pytest.mark.parametrize(
    ("key", "means"),
    [
        ("QUEUE|Ethernet0|3", [("Ethernet0", 3)]),
        ("QUEUE|Ethernet0|3-4", [("Ethernet0", 3), ("Ethernet0", 4)]),
        ("QUEUE|Ethernet0,Ethernet4|3", [("Ethernet0", 3), ("Ethernet4", 3)]),
        ("QUEUE|host-1|asic0|Ethernet0|3", [("host-1|asic0|Ethernet0", 3)]),
    ],
)
def test_a_key_means_these_queues(key: str, means: list[tuple[str, int]]) -> None:
    assert queues(leaf(queues=(3, 4)), key) == means


def test_only_the_queues_and_ports_of_the_inventory_are_taken() -> None:
    keys = ("QUEUE|Ethernet0|3", "QUEUE|Ethernet0|4", "QUEUE|Ethernet4|3", "QUEUE|CPU|3", "QUEUE|Ethernet0|x")
    assert queues(leaf(ports=("Ethernet0",)), *keys) == [("Ethernet0", 3)]
    assert ("CPU", 3) not in queues(leaf(), *keys)
    assert queues(leaf(queues=(3, 4), ports=("Ethernet[04]",)), *keys[:3]) == [
        ("Ethernet0", 3),
        ("Ethernet0", 4),
        ("Ethernet4", 3),
    ]


def test_a_chassis_port_may_be_named_with_and_without_its_host() -> None:
    key = "QUEUE|host-1|asic0|Ethernet0|3"
    for pattern in ("Ethernet0", "host-1|asic0|*"):
        assert queues(leaf(ports=(pattern,)), key, "QUEUE|host-2|asic0|Ethernet8|3") == [
            ("host-1|asic0|Ethernet0", 3)
        ]


def test_no_such_queue_is_said_with_what_was_looked_for() -> None:
    with pytest.raises(InventoryError, match=r"no row of QUEUE for queue 6 of Ethernet\*"):
        bindings_of(leaf(queues=(6,), ports=("Ethernet*",)), {"QUEUE|Ethernet0|3": {}})


@pytest.mark.parametrize("numbers", ["0-100000000", "0-256", "99999999999999999999", "9" * 5000, "3-", "-3"])
def test_numbers_that_no_port_has_are_no_queues(numbers: str) -> None:
    """Written out, the first would fill the memory of the service."""
    assert queues_in(f"QUEUE|Ethernet0|{numbers}") == ()
    assert queues(leaf(), f"QUEUE|Ethernet0|{numbers}", "QUEUE|Ethernet4|3") == [("Ethernet4", 3)]


def test_two_rows_for_one_queue_are_refused() -> None:
    with pytest.raises(CapabilityError, match=r"QUEUE\|Ethernet0\|3 and QUEUE\|Ethernet0\|3-4"):
        bindings_of(leaf(), {"QUEUE|Ethernet0|3": {}, "QUEUE|Ethernet0|3-4": {}})


@pytest.mark.parametrize(
    ("key", "other"),
    [("QUEUE|Ethernet0|3-4", "Ethernet0 queue 4"), ("QUEUE|Ethernet0,Eth9|3", "Eth9 queue 3")],
)
def test_a_row_that_is_for_other_queues_too_is_read_and_not_set(key: str, other: str) -> None:
    device = leaf(ports=("Ethernet*",))
    found = bindings_of(device, {key: {}})
    with pytest.raises(CapabilityError, match=other):
        check_alone(device, found)


@pytest.mark.parametrize("form", ["{}", "[WRED_PROFILE|{}]"])
def test_a_reference_is_read_and_written_in_its_own_form(form: str) -> None:
    bound = form.format("AZURE_LOSSLESS")
    assert profile_named(bound) == "AZURE_LOSSLESS"
    assert written_as(bound, "OTHER") == form.format("OTHER")
    config = Config({"QUEUE|a|3": {"wred_profile": bound}, "QUEUE|a|4": {}}, {}, ())
    assert config.referring("AZURE_LOSSLESS") == ["QUEUE|a|3"]


@pytest.mark.parametrize("bound", [None, "", "[WRED_PROFILE|]"])
def test_no_reference_is_none(bound: str | None) -> None:
    assert profile_named(bound) is None

"""A switch as the inventory describes it: its ports, its options, its secrets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from switches.device import Device, Secret, options_of
from switches.errors import CredentialsError, InventoryError


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    profile_name: str = "ECNTWIN"
    timer_s: int = 60


def device(**fields: Any) -> Device:
    return Device(**({"name": "leaf1", "platform": "lab"} | fields))


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        ((), {"Ethernet1", "Ethernet12", "Ethernet1/1", "Management1"}),
        (("Ethernet*",), {"Ethernet1", "Ethernet12", "Ethernet1/1"}),
        (("Ethernet?",), {"Ethernet1"}),
        (("Ethernet1", "Management*"), {"Ethernet1", "Management1"}),
        (("ethernet1",), set()),
    ],
)
def test_ports_are_chosen_by_patterns(patterns: tuple[str, ...], wanted: set[str]) -> None:
    ports = ("Ethernet1", "Ethernet12", "Ethernet1/1", "Management1")
    assert {port for port in ports if device(ports=patterns).wants(port)} == wanted


def test_messages_name_the_switch_its_platform_and_where_it_is() -> None:
    assert device().where == "switch 'leaf1' (lab)"
    assert device(address="10.0.0.1").where == "switch 'leaf1' (lab at 10.0.0.1)"
    assert device(role="leaf-up-400G").where == "switch 'leaf1' leaf-up-400G (lab)"


def test_a_role_has_those_of_its_ports_that_the_inventory_asks_for() -> None:
    up = device(ports=("Ethernet*",)).at_role("leaf-up-400G", ["Ethernet9", "Ethernet8", "swp1"])
    assert (up.role, up.ports) == ("leaf-up-400G", ("Ethernet8", "Ethernet9"))
    with pytest.raises(InventoryError, match=r"ports: received Ethernet\*; a port of role leaf-up-400G"):
        device(ports=("Ethernet*",)).at_role("leaf-up-400G", ["swp1"])


def test_options_have_defaults_and_names_as_people_write_them() -> None:
    assert options_of(device(), Options) == Options()
    assert options_of(device(options={"profile-name": "A", "timer-s": 5}), Options) == Options("A", 5)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"timer-s": "soon"}, "timer-s"), ({"colour": "red"}, "colour"), ({"timer_s": 5}, "timer_s")],
)
def test_options_that_mean_nothing_are_named_with_those_that_do(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InventoryError) as caught:
        options_of(device(options=options), Options)
    assert says in caught.value.received
    assert caught.value.where == "switch 'leaf1' (lab) options"
    assert caught.value.rule == "options of lab are profile-name, timer-s"


def test_a_credential_that_is_not_named_is_none_and_one_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LEAF1_PASSWORD", raising=False)
    one = device(password=Secret(env="LEAF1_PASSWORD"))
    assert one.credential("username") is None
    with pytest.raises(CredentialsError, match=r"switch 'leaf1' .* password"):
        one.credential("password")
    assert list(one.secrets()) == []

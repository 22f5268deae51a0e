"""What an inventory says of INT reports: ids, names, units, and every mistake named by switch and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from settings.errors import SettingsError
from settings.inventory import load_inventory, load_reporting, untuned_in
from telemetry.decode.p4.devices import Devices, UnitProfile

WHOLE = """
defaults:
  platform: dry-run
  int: {time: us, interface_pattern: "Ethernet{}"}
profiles:
  tofino: {int: {occupancy: cells, cell_bytes: 80, timing: enqueue}}
switches:
  leaf1:
    profile: tofino
    int:
      node_id: 0x0a000001
      source: [192.0.2.1, "2001:DB8::1"]
      interfaces: {9: Ethernet8, "0x11": null, 64: CPU}
  leaf2: {profile: tofino, int: {node_id: "2", time: ns, sampling_rate: 0.01, utilisation_scale: 100}}
  leaf3: {int: {node_id: "0xFFFFFFFE", source: 192.0.2.3, interface_pattern: null}}
  leaf4: {int: {node_id: 4, occupancy: packets, packet_bytes: 1024}}
  leaf5: {int: {node_id: 0, occupancy: bytes, time: 2^-32s}}
  quiet:
"""


def loaded(tmp_path: Path, text: str, default: UnitProfile | None = None) -> Devices:
    path = tmp_path / "switches.yaml"
    path.write_text(text, "utf-8")
    load_inventory(path)
    return load_reporting(path, default)


def test_ids_names_and_units_are_merged_like_the_rest(tmp_path: Path) -> None:
    found = loaded(tmp_path, WHOLE)
    assert found.switches == {0x0A000001: "leaf1", 2: "leaf2", 0xFFFFFFFE: "leaf3", 4: "leaf4", 0: "leaf5"}
    assert found.sources == {"192.0.2.1": 0x0A000001, "2001:db8::1": 0x0A000001, "192.0.2.3": 0xFFFFFFFE}
    assert [found.port(0x0A000001, number) for number in (9, 17, 64)] == ["Ethernet8", "Ethernet17", "CPU"]
    assert found.port(0xFFFFFFFE, 9) == "9"
    assert found.port(99, 9) == "9"
    assert found.profile(0x0A000001) == UnitProfile("cells", 80, "us", timing="enqueue")
    assert found.profile(2) == UnitProfile(
        "cells", 80, "ns", utilisation_scale=100, timing="enqueue", sampling_rate=0.01
    )
    assert found.profile(4) == UnitProfile("packets", 1024, "us")
    assert found.profile(0) == UnitProfile("bytes", 1, "2^-32 s")


def test_an_ipv4_address_in_ipv6_is_that_address(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        """
switches:
  leaf1: {platform: dry-run, int: {node_id: 1, source: ["::ffff:192.0.2.1", "2001:DB8::1"]}}
""",
    )
    assert found.sources == {"192.0.2.1": 1, "2001:db8::1": 1}


def test_the_default_units_are_those_of_strangers_alone(tmp_path: Path) -> None:
    found = loaded(tmp_path, WHOLE, UnitProfile())
    assert found.profile(77) == UnitProfile()
    assert found.profile(0xFFFFFFFE) is None
    assert untuned_in(found) == ("leaf3",)


@pytest.mark.parametrize(
    ("switch", "where", "says"),
    [
        ("{int: {node_id: 4294967295}}", "leaf9.int.node_id", "4294967294"),
        ("{int: {node_id: -1}}", "leaf9.int.node_id", "0"),
        ("{int: {node_id: 1.5}}", "leaf9.int.node_id", "integer"),
        ("{int: {node_id: true}}", "leaf9.int.node_id", "whole number"),
        ('{int: {node_id: "0xZZ"}}', "leaf9.int.node_id", "hex"),
        ('{int: {node_id: "leaf"}}', "leaf9.int.node_id", "whole number"),
        ("{int: {node_id: 2}}", "leaf9.int.node_id", "leaf2's"),
        ("{int: {node_id: 9, source: 192.0.2.3}}", "leaf9.int.source", "leaf3's"),
        ("{int: {node_id: 9, source: switch.example}}", "leaf9.int.source", "address"),
        ("{int: {node_id: 9, source: [192.0.2.9, 5]}}", "leaf9.int.source", "as text"),
        ("{int: {node_id: 9, source: [192.0.2.9, null]}}", "leaf9.int.source", "as text"),
        ("{int: {node_id: 9, source: []}}", "leaf9.int.source", "as text"),
        ("{int: {source: 192.0.2.9}}", "leaf9.int.node_id", "add it"),
        ("{int: {interfaces: {1: Ethernet1}}}", "leaf9.int.node_id", "add it"),
        ("{int: {node_id: 9, interfaces: {one: Ethernet1}}}", "leaf9.int.interfaces", "whole number"),
        ('{int: {node_id: 9, interfaces: {1: ""}}}', "leaf9.int.interfaces", "at least 1"),
        ("{int: {node_id: 9, interface_pattern: Ethernet}}", "interface_pattern", "{} once"),
        ("{int: {node_id: 9, occupancy: cells}}", "leaf9.int", "needs cell_bytes"),
        ("{int: {node_id: 9, occupancy: packets}}", "leaf9.int", "needs packet_bytes"),
        ("{int: {node_id: 9, occupancy: bytes, cell_bytes: 80}}", "leaf9.int", "has no cell_bytes"),
        ("{int: {node_id: 9, cell_bytes: 80}}", "leaf9.int", "has no cell_bytes"),
        ("{int: {node_id: 9, occupancy: segments}}", "leaf9.int.occupancy", "bytes"),
        ("{int: {node_id: 9, time: ms}}", "leaf9.int.time", "ns"),
        ("{int: {node_id: 9, timing: arrival}}", "leaf9.int.timing", "enqueue"),
        ("{int: {node_id: 9, sampling_rate: 0}}", "leaf9.int.sampling_rate", "0"),
        ("{int: {nodeid: 9}}", "leaf9.int.nodeid", "did you mean node_id?"),
        ("{itn: {node_id: 9}}", "leaf9.itn", "did you mean int?"),
    ],
)
def test_a_mistake_is_told_by_switch_and_key(tmp_path: Path, switch: str, where: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(tmp_path, f"{WHOLE}  leaf9: {switch}\n")
    assert where in caught.value.where
    assert says in str(caught.value)

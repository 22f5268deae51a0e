"""Each platform's rows and answers as neighbours: what is malformed is told, and costs only itself."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.neighbours.eos import eos_neighbours
from telemetry.neighbours.model import Neighbour, Port
from telemetry.neighbours.nxos import nxos_neighbours
from telemetry.neighbours.openconfig import OpenConfigNeighbours
from telemetry.neighbours.sonic import sonic_neighbours

NAMELESS = "Ethernet4: a neighbour without system name and chassis id; one of them names it; it was left out"
MAC = "94:ef:97:94:65:42"


def sonic_row(**fields: str) -> dict[str, str]:
    return {
        "lldp_rem_chassis_id": MAC,
        "lldp_rem_chassis_id_subtype": "4",
        "lldp_rem_sys_name": "spine1",
        "lldp_rem_port_id": "etp3",
        "lldp_rem_port_id_subtype": "7",
        "lldp_rem_port_desc": "Ethernet8",
        "lldp_rem_index": "1",
        "lldp_rem_time_mark": "44873750",
    } | fields


def test_sonic_s_rows() -> None:
    found = sonic_neighbours(
        {"Ethernet0": sonic_row(), "eth0": sonic_row()},
        {"lldp_loc_sys_name": "leaf1", "lldp_loc_chassis_id": "00:01:02:03:04:05"},
        {"Ethernet0": {"speed": "400000", "alias": "etp1"}, "Ethernet8": {"speed": "fast"}},
    )
    assert found.neighbours == (Neighbour("Ethernet0", "spine1", MAC, "etp3", "Ethernet8"),)
    assert found.ports == {"Ethernet0": Port(400.0, ("etp1",)), "Ethernet8": Port()}
    assert (found.names, found.chassis) == (("leaf1",), "00:01:02:03:04:05")
    assert found.problems == ("PORT Ethernet8 speed: received 'fast'; it is in Mbit/s; it was left out",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("nothing", "LLDP_ENTRY_TABLE Ethernet4: received 'nothing'; a row has fields; it was left out"),
        (
            sonic_row(lldp_rem_sys_name="", lldp_rem_chassis_id=""),
            NAMELESS,
        ),
        (
            sonic_row(lldp_rem_sys_name="a\nb", lldp_rem_chassis_id="\ud800"),
            NAMELESS,
        ),
    ],
)
def test_a_malformed_row_costs_only_itself(row: Any, said: str) -> None:
    found = sonic_neighbours({"Ethernet0": sonic_row(), "Ethernet4": row}, None, {})
    assert [one.port for one in found.neighbours] == ["Ethernet0"]
    assert found.problems == (said,)


def test_eos_s_answers() -> None:
    info = {
        "chassisIdType": "macAddress",
        "chassisId": "001c.73a0.fc18",
        "systemName": "DC1-SPINE1.dc.example",
        "neighborInterfaceInfo": {
            "interfaceIdType": "interfaceName",
            "interfaceId": '"Ethernet1"',
            "interfaceId_v2": "Ethernet1",
            "interfaceDescription": "P2P_LINK_TO_DC1-LEAF1A_Ethernet1",
        },
    }
    old = {"systemName": "h1", "chassisId": MAC, "neighborInterfaceInfo": {"interfaceId": '"ens1"'}}
    found = eos_neighbours(
        {
            "lldpNeighbors": {
                "Ethernet1": {"lldpNeighborInfo": [info, None]},
                "Ethernet2": {"lldpNeighborInfo": [old]},
                "Ethernet3": {"lldpNeighborInfo": []},
                "Management0": {"lldpNeighborInfo": [old]},
            }
        },
        {"interfaceStatuses": {"Ethernet1": {"bandwidth": 100_000_000_000}, "Ethernet2": {"bandwidth": 0}}},
        {"hostname": "leaf1", "fqdn": "leaf1.dc.example"},
    )
    described = "P2P_LINK_TO_DC1-LEAF1A_Ethernet1"
    assert found.neighbours == (
        Neighbour("Ethernet1", "DC1-SPINE1.dc.example", "00:1c:73:a0:fc:18", "Ethernet1", described),
        Neighbour("Ethernet2", "h1", MAC, "ens1"),
    )
    assert found.ports == {"Ethernet1": Port(100.0), "Ethernet2": Port()}
    assert found.names == ("leaf1.dc.example", "leaf1")
    assert found.problems == ("Ethernet1: received None; a neighbour has fields; it was left out",)


def nxos_row(**fields: Any) -> dict[str, Any]:
    return {
        "chassis_type": "4",
        "chassis_id": "00de.fb11.2233",
        "port_type": "5",
        "port_id": "Ethernet1/3",
        "l_port_id": "Eth1/1",
        "port_desc": "null",
        "sys_name": "spine1",
        "ttl": "98",
    } | fields


def test_nxos_s_answers() -> None:
    speeds = {"Ethernet1/1": "100G", "Ethernet1/2": "a-1000", "Ethernet1/3": "auto", "mgmt0": "a-1000"}
    found = nxos_neighbours(
        {"TABLE_nbor_detail": {"ROW_nbor_detail": [nxos_row(), "row", nxos_row(l_port_id="mgmt0")]}},
        {"TABLE_interface": {"ROW_interface": [{"interface": k, "speed": v} for k, v in speeds.items()]}},
        {"hostname": "leaf1.dc.example"},
    )
    assert found.neighbours == (Neighbour("Ethernet1/1", "spine1", "00:de:fb:11:22:33", "Ethernet1/3"),)
    assert found.ports == {"Ethernet1/1": Port(100.0), "Ethernet1/2": Port(1.0), "Ethernet1/3": Port()}
    assert found.names == ("leaf1.dc.example",)
    assert found.problems == ("ROW_nbor_detail: received 'row'; a row has fields; it was left out",)


def test_one_row_of_nxos_is_no_list_and_a_chassis_may_be_a_name() -> None:
    row = nxos_row(sys_name="null", chassis_id="spine1")
    found = nxos_neighbours({"TABLE_nbor_detail": {"ROW_nbor_detail": row}}, "", "")
    assert found.neighbours == (Neighbour("Ethernet1/1", "spine1", "spine1", "Ethernet1/3"),)


STATE = {"system-name": "spine1", "chassis-id": MAC, "port-id": "Ethernet3", "port-description": "up"}


def test_openconfig_s_leaves_and_trees_are_the_same() -> None:
    tree, leaves = OpenConfigNeighbours(), OpenConfigNeighbours()
    tree.add(
        [("lldp", {})],
        {
            "openconfig-lldp:state": {"system-name": "leaf1", "chassis-id": "00:01:02:03:04:05"},
            "openconfig-lldp:interfaces": {
                "interface": [
                    {
                        "name": "Ethernet1",
                        "neighbors": {"neighbor": [{"id": "1", "state": {"id": "1"} | STATE}]},
                    },
                    {"name": "Management0", "neighbors": {"neighbor": [{"id": "1", "state": STATE}]}},
                    {"neighbors": {"neighbor": [{"id": "1", "state": STATE}]}},
                ]
            },
        },
    )
    speed = "openconfig-if-ethernet:SPEED_100GB"
    port = {"name": "Ethernet1", "openconfig-if-ethernet:ethernet": {"state": {"port-speed": speed}}}
    tree.add([("interfaces", {}), ("interface", {})], [port])
    for name, value in (("system-name", "leaf1"), ("chassis-id", "00:01:02:03:04:05")):
        leaves.add([("lldp", {}), ("state", {}), (name, {})], value)
    interface = ("interface", {"name": "Ethernet1"})
    for name, value in STATE.items():
        steps = [("neighbors", {}), ("neighbor", {"id": "1"}), ("state", {}), (name, {})]
        leaves.add([("lldp", {}), ("interfaces", {}), interface, *steps], value)
    for name, value in (("port-speed", "SPEED_400GB"), ("negotiated-port-speed", "SPEED_100GB")):
        leaves.add([("interfaces", {}), interface, ("ethernet", {}), ("state", {}), (name, {})], value)
    found = leaves.found()
    assert found.neighbours == (Neighbour("Ethernet1", "spine1", MAC, "Ethernet3", "up"),)
    assert found.ports == {"Ethernet1": Port(100.0)}
    assert (found.names, found.chassis, found.problems) == (("leaf1",), "00:01:02:03:04:05", ())
    other = tree.found()
    assert (other.neighbours, other.ports, other.names) == (found.neighbours, found.ports, found.names)
    assert other.problems == (
        "neighbours without the key of their interface or their own: 1; entries of a list have keys; "
        "they were left out",
    )


@pytest.mark.parametrize(
    ("speed", "gbps"),
    [("SPEED_2500MB", 2.5), ("oc-eth:SPEED_800GB", 800.0), ("SPEED_UNKNOWN", None), (7, None)],
)
def test_openconfig_s_speeds(speed: object, gbps: float | None) -> None:
    found = OpenConfigNeighbours()
    path = [("interfaces", {}), ("interface", {"name": "Ethernet1"}), ("ethernet", {}), ("state", {})]
    found.add(path, {"port-speed": speed})
    assert found.found().ports == {"Ethernet1": Port(gbps)}

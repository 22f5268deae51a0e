"""What one switch's LLDP agent knows, in the form of each platform, written apart from what reads it.

Forms: sonic-dbsyncd's rows, openconfig-lldp.yang and openconfig-if-ethernet.yang, and the JSON of EOS and
NX-OS as public tests of their clients have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from tests.counterparts.polled.openconfig_counters import OpenConfigCounting
from tests.counterparts.redis_server import RedisServer
from tests.counterparts.switches.gnmi_switch import Steps
from tests.counterparts.switches.netconf_server import Datastore, Element, NetconfServer
from tests.counterparts.switches.ssh_server import Account

_YANG = "http://openconfig.net/yang/"


@dataclass(frozen=True)
class Row:
    """A neighbour at ``port``, which runs at ``gbps``."""

    port: str
    system: str
    far_port: str
    description: str = ""
    chassis: str = "00:00:00:00:00:99"
    gbps: int = 100


@dataclass(frozen=True)
class Agent:
    """The switch's own name and chassis, and its neighbours."""

    system: str
    rows: tuple[Row, ...]
    chassis: str = "00:00:00:00:00:01"


def lay_sonic(server: RedisServer, agent: Agent, *, aliases: dict[str, str] | None = None) -> None:
    """Writes the tables into databases 0 and 4."""
    with server.client(0) as application, server.client(4) as config:
        application.flushdb()
        config.flushdb()
        application.hset(
            "LLDP_LOC_CHASSIS",
            mapping={"lldp_loc_sys_name": agent.system, "lldp_loc_chassis_id": agent.chassis},
        )
        for number, row in enumerate(agent.rows):
            config.hset(
                f"PORT|{row.port}",
                mapping={
                    "speed": str(row.gbps * 1000),
                    "alias": (aliases or {}).get(row.port, f"etp{number}"),
                    "lanes": str(number),
                },
            )
            application.hset(
                f"LLDP_ENTRY_TABLE:{row.port}",
                mapping={
                    "lldp_rem_sys_name": row.system,
                    "lldp_rem_port_id": row.far_port,
                    "lldp_rem_port_id_subtype": "7",
                    "lldp_rem_port_desc": row.description,
                    "lldp_rem_chassis_id": row.chassis,
                    "lldp_rem_chassis_id_subtype": "4",
                    "lldp_rem_index": str(number),
                    "lldp_rem_sys_cap_enabled": "28 00",
                },
            )


class OpenConfigLldp(OpenConfigCounting):
    """Behind the gNMI server of the tests."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(ports=())
        self.models = {"openconfig-lldp": "0.2.1", "openconfig-if-ethernet": "2.14.0"}
        own = (("lldp", ()), ("state", ()))
        self._put(own, {"system-name": agent.system, "chassis-id": agent.chassis})
        for row in agent.rows:
            interface = ("interface", (("name", row.port),))
            self._put(
                (("interfaces", ()), interface, ("ethernet", ()), ("state", ())),
                {"port-speed": f"openconfig-if-ethernet:SPEED_{row.gbps}GB"},
            )
            neighbour = (("neighbors", ()), ("neighbor", (("id", "7"),)), ("state", ()))
            self._put((("lldp", ()), ("interfaces", ()), interface, *neighbour), _state(row))

    def _put(self, place: Steps, leaves: dict[str, str]) -> None:
        self.leaves |= {(*place, (name, ())): value for name, value in leaves.items()}


def netconf_switch(agent: Agent, account: Account) -> NetconfServer:
    data = Element("data")
    lldp = ElementTree.SubElement(data, f"{{{_YANG}lldp}}lldp")
    _lay(lldp, "state", {"system-name": agent.system, "chassis-id": agent.chassis})
    lldp_ports = _lay(lldp, "interfaces", {})
    ports = _lay(ElementTree.SubElement(data, f"{{{_YANG}interfaces}}interfaces"), None, {})
    for row in agent.rows:
        interface = _lay(lldp_ports, "interface", {"name": row.port})
        neighbour = _lay(_lay(interface, "neighbors", {}), "neighbor", {"id": "7"})
        _lay(neighbour, "state", _state(row))
        port = _lay(ports, "interface", {"name": row.port})
        ethernet = ElementTree.SubElement(port, f"{{{_YANG}interfaces/ethernet}}ethernet")
        _lay(ethernet, "state", {"port-speed": f"oc-eth:SPEED_{row.gbps}GB"})
    return NetconfServer(Datastore(data, {}, lambda running: None), account)


def eos_shows(agent: Agent) -> dict[str, dict[str, Any]]:
    neighbours: dict[str, Any] = {}
    for row in agent.rows:
        end = {
            "interfaceIdType": "interfaceName",
            "interfaceId": f'"{row.far_port}"',
            "interfaceId_v2": row.far_port,
            "interfaceDescription": row.description,
        }
        chassis = row.chassis.replace(":", "")
        info = {
            "chassisIdType": "macAddress",
            "chassisId": f"{chassis[:4]}.{chassis[4:8]}.{chassis[8:]}",
            "systemName": row.system,
            "neighborInterfaceInfo": end,
        }
        neighbours[row.port] = {"lldpNeighborInfo": [info]}
    statuses = {row.port: {"bandwidth": row.gbps * 10**9, "linkStatus": "connected"} for row in agent.rows}
    return {
        "show lldp neighbors detail": {"lldpNeighbors": neighbours},
        "show interfaces status": {"interfaceStatuses": statuses},
        "show hostname": {"hostname": agent.system.partition(".")[0], "fqdn": agent.system},
    }


def nxos_shows(agent: Agent) -> dict[str, Any]:
    rows = [
        {
            "chassis_type": "4",
            "chassis_id": row.chassis,
            "port_type": "5",
            "port_id": row.far_port,
            "l_port_id": row.port.replace("Ethernet", "Eth"),
            "port_desc": row.description or "null",
            "sys_name": row.system,
        }
        for row in agent.rows
    ]
    status = [{"interface": row.port, "state": "connected", "speed": f"{row.gbps}G"} for row in agent.rows]
    return {
        "show lldp neighbors detail": {
            "TABLE_nbor_detail": {"ROW_nbor_detail": rows[0] if len(rows) == 1 else rows},
            "neigh_count": len(rows),
        },
        "show interface status": {"TABLE_interface": {"ROW_interface": status}},
        "show hostname": {"hostname": agent.system},
    }


def _state(row: Row) -> dict[str, str]:
    return {
        "id": "7",
        "system-name": row.system,
        "chassis-id": row.chassis,
        "chassis-id-type": "MAC_ADDRESS",
        "port-id": row.far_port,
        "port-id-type": "INTERFACE_NAME",
        "port-description": row.description,
    }


def _lay(parent: Element, name: str | None, leaves: dict[str, str]) -> Element:
    """A container of the parent's namespace with these leaves; ``name`` None: the parent itself."""
    namespace = f"{parent.tag.partition('}')[0]}}}"
    inside = parent if name is None else ElementTree.SubElement(parent, namespace + name)
    for leaf, text in leaves.items():
        ElementTree.SubElement(inside, namespace + leaf).text = text
    return inside

"""OpenConfig's LLDP model of a switch, over gNMI or NETCONF."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from xml.etree.ElementTree import Element

from switches.device import Device, options_of
from switches.openconfig.gnmi import PORT, OpenConfigOptions
from switches.openconfig.netconf import OpenConfigNetconfOptions
from switches.transport.gnmi import GnmiSession
from switches.transport.gnmi_messages import GnmiPath
from switches.transport.netconf import NetconfSession
from telemetry.neighbours.model import SwitchNeighbours
from telemetry.neighbours.openconfig import OpenConfigNeighbours

_LLDP, _INTERFACES, _ETHERNET = (
    f"http://openconfig.net/yang/{name}" for name in ("lldp", "interfaces", "interfaces/ethernet")
)
_FILTER = (
    f'<lldp xmlns="{_LLDP}"><state/>'
    "<interfaces><interface><name/><neighbors/></interface></interfaces></lldp>"
    f'<interfaces xmlns="{_INTERFACES}"><interface><name/>'
    f'<ethernet xmlns="{_ETHERNET}"><state/></ethernet></interface></interfaces>'
)
_LISTS = frozenset({"interface", "neighbor"})


def over_gnmi(device: Device) -> SwitchNeighbours:
    options = options_of(device, OpenConfigOptions)
    paths = [
        GnmiPath.of("lldp", "state", origin=options.origin),
        GnmiPath.of("lldp", "interfaces", origin=options.origin),
        GnmiPath.of("interfaces", ("interface", {"name": "*"}), "ethernet", "state", origin=options.origin),
    ]
    found = OpenConfigNeighbours()
    with closing(GnmiSession(device, options, default_port=PORT)) as session:
        for path in paths:  # one each: where one is not there, NOT_FOUND is the answer to all
            for value in session.get([path], data="STATE"):
                found.add([(elem.name, elem.keys) for elem in value.path.elems], value.value)
    return found.found()


def over_netconf(device: Device) -> SwitchNeighbours:
    options = options_of(device, OpenConfigNetconfOptions)
    found = OpenConfigNeighbours()
    with NetconfSession(device, options) as session:
        for part in session.get(_FILTER):
            found.add([(_local(part), {})], _value(part))
    return found.found()


def _value(element: Element) -> Any:
    """A leaf's text; a container's members by name, of lists in a list."""
    if not len(element):
        return (element.text or "").strip()
    members: dict[str, Any] = {}
    for child in element:
        name = _local(child)
        if name in _LISTS:
            members.setdefault(name, []).append(_value(child))
        else:
            members[name] = _value(child)
    return members


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]

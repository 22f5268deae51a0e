"""A switch with OpenConfig's QoS model behind NETCONF; libyang holds its configuration to the model."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import oopt_gnpy_libyang as libyang

from switches.openconfig.netconf import NAMESPACE
from tests.counterparts.switches.netconf_server import Datastore, Element, NetconfServer, RpcError
from tests.counterparts.switches.ssh_server import Account

MODELS = Path(__file__).parents[2] / "data" / "yang"
MODULE = "openconfig-qos"
KEYS = {"interface": ("interface-id",), "queue": ("name",), "queue-management-profile": ("name",)}


class OpenConfigNetconf(NetconfServer):
    """Its first configuration is OpenConfig's JSON, as ``openconfig_documents`` has it."""

    def __init__(self, document: dict[str, Any], account: Account, **server: Any) -> None:
        self._context = libyang.Context(str(MODELS), libyang.ContextOptions.NoYangLibrary)
        self._context.load_module(MODULE)
        super().__init__(
            Datastore(running_of(document), KEYS, self._check), account, state=with_state, **server
        )

    def _check(self, configuration: Element) -> None:
        self._context.clean_all_errors()
        try:
            self._context.parse_data(
                "".join(ElementTree.tostring(part, "unicode") for part in configuration),
                libyang.DataFormat.XML,
                libyang.ParseOptions.Strict | libyang.ParseOptions.NoState,
                libyang.ValidationOptions.Present | libyang.ValidationOptions.NoState,
            )
        except libyang.Error as error:
            said = "; ".join(one.message for one in self._context.errors()) or str(error)
            raise RpcError("operation-failed", said.replace("<", "").replace("&", "")) from None


def running_of(document: dict[str, Any]) -> Element:
    """A configuration in JSON as a datastore in XML."""
    running = Element("data")
    _lay(running, document)
    return running


def with_state(running: Element, hardware: Element) -> Element:
    """What is configured, and beside each ``config`` the ``state`` that hardware has."""
    shown = deepcopy(running)
    _show(shown, hardware)
    return shown


def _lay(parent: Element, members: dict[str, Any]) -> None:
    for name, value in members.items():
        for one in value if isinstance(value, list) else [value]:
            child = ElementTree.SubElement(parent, f"{{{NAMESPACE}}}{name}")
            if isinstance(one, dict):
                _lay(child, one)
            else:
                child.text = str(one).lower() if isinstance(one, bool) else str(one)


def _show(shown: Element, hardware: Element) -> None:
    for child in list(shown):
        there = _same(hardware, child)
        if there is None:
            continue
        if child.tag == f"{{{NAMESPACE}}}config":
            state = deepcopy(there)
            state.tag = f"{{{NAMESPACE}}}state"
            shown.append(state)
        else:
            _show(child, there)


def _same(parent: Element, wanted: Element) -> Element | None:
    keys = [f"{{{NAMESPACE}}}{key}" for key in KEYS.get(wanted.tag.rpartition("}")[2], ())]
    for child in parent:
        if child.tag == wanted.tag and all(child.findtext(key) == wanted.findtext(key) for key in keys):
            return child
    return None

"""OpenConfig QoS behind a real NETCONF server, its configuration checked by libyang."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from switches.base import SwitchAdapter
from switches.device import Device, Secret
from switches.openconfig.netconf import NAMESPACE, NetconfAdapter
from tests.contract.rig import (
    NEW_PORT,
    OTHER,
    PATIENT,
    REMOVED,
    SHARED,
    UNREADABLE,
    Elsewhere,
    Hardware,
    Rig,
    fault,
)
from tests.counterparts.switches.netconf_server import Element, NetconfServer
from tests.counterparts.switches.openconfig_documents import PORTS, factory, leaves_of, profile_document
from tests.counterparts.switches.openconfig_netconf import OpenConfigNetconf, running_of
from tests.counterparts.switches.ssh_server import LOOPBACK, Account
from twin.watermark import Watermark

_NO_PROBABILITY = {"min-threshold": "1000", "max-threshold": "2000", "enable-ecn": True}
_NAMES = {"": NAMESPACE}
_PROFILES = "qos/queue-management-profiles"
_PROFILE = f"{_PROFILES}/queue-management-profile[name='{{}}']"
_QUEUE = "qos/interfaces/interface[interface-id='{}']/output/queues/queue[name='3']/config"
_BINDING = "queue-management-profile"


class NetconfServerRig(Rig):
    """What every rig does that speaks NETCONF over SSH to a datastore in memory."""

    server: NetconfServer

    def __init__(self, folder: Path, server: NetconfServer, **environment: str) -> None:
        self.server = server
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(server.ssh.known_hosts(), "utf-8")
        server.store.listeners.append(self._record)
        self.seen: list[tuple[int, int]] = []
        self._environment = pytest.MonkeyPatch()
        for name, value in environment.items():
            self._environment.setenv(name, value)

    def close(self) -> None:
        self.server.close()
        self._environment.undo()

    def begin(self, running: Element) -> None:
        """It runs that, as after a start, and no fault is on."""
        self.server.ssh.silent = False
        self.server.store.faults.losing = self.server.store.faults.ignoring = False
        self.server.store.reset(running)
        self.seen = []

    @abstractmethod
    def running(self, configuration: Element) -> Hardware:
        """The watermarks of a configuration."""

    def hardware(self) -> Hardware:
        return self.running(self.server.store.hardware)

    def history(self) -> list[tuple[int, int]]:
        return self.seen

    @contextmanager
    def starting(self) -> Iterator[None]:
        """No interface is configured."""
        configured = deepcopy(self.server.store.running)
        changed = deepcopy(configured)
        for interfaces in [one for one in changed.iter() if one.tag.rpartition("}")[2] == "interfaces"]:
            interfaces.clear()
        self.server.store.set_running(changed)
        yield
        self.server.store.set_running(configured)

    def silent(self) -> AbstractContextManager[None]:
        return fault(self.server.ssh, "silent")

    def losing_replies(self) -> AbstractContextManager[None]:
        return fault(self.server.store.faults, "losing")

    def ignoring(self) -> AbstractContextManager[None]:
        return fault(self.server.store.faults, "ignoring")

    def expire(self) -> None:
        self.server.expire()

    def _record(self, hardware: Element) -> None:
        self.seen += [(mark.kmin_bytes, mark.kmax_bytes) for mark in self.running(hardware).values() if mark]


class NetconfRig(NetconfServerRig):
    kind = "netconf"

    def __init__(self, folder: Path) -> None:
        server = OpenConfigNetconf(factory(self.first), Account("ecn", "right-password"))
        passwords = {"NETCONF_RIGHT": "right-password", "NETCONF_WRONG": "wrong-password"}
        super().__init__(folder, server, NETCONF_USER="ecn", **passwords)

    def reset(self) -> None:
        self.begin(running_of(factory(self.first)))

    def adapter(self, **device: Any) -> SwitchAdapter:
        given: dict[str, Any] = {
            "name": "leaf1",
            "platform": "netconf",
            "address": LOOPBACK,
            "port": self.server.ssh.port,
            "ports": ("Ethernet*",),
            "username": Secret(env="NETCONF_USER"),
            "password": Secret(env="NETCONF_RIGHT"),
            "options": {"known_hosts": str(self.known_hosts)},
            **PATIENT,
        }
        return NetconfAdapter(Device(**given | device), clock_ns=lambda: 7)

    def refused(self) -> SwitchAdapter:
        return self.adapter(password=Secret(env="NETCONF_WRONG"))

    def running(self, configuration: Element) -> Hardware:
        return _running(configuration)

    def bystanders(self) -> object:
        """All but the bindings that may change and the profiles that nobody else uses."""
        others = deepcopy(self.server.store.running)
        profiles = _at(others, _PROFILES)
        for entry in list(profiles):
            if entry.findtext("name", "", _NAMES).startswith("ecntwin-"):
                profiles.remove(entry)
        profiles[:] = sorted(profiles, key=lambda entry: entry.findtext("name", "", _NAMES))
        for port in PORTS:
            config = _at(others, _QUEUE.format(port))
            for bound in config.findall(_BINDING, _NAMES):
                config.remove(bound)
        return ElementTree.canonicalize(ElementTree.tostring(others), strip_text=True)

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        leaves = leaves_of(watermark) | {"weight": 0, "drop": False}
        self._set_by_hand(leaves, PORTS[:1] if only_first else PORTS)

    def elsewhere(self) -> Elsewhere:
        def added(**leaves: Any) -> None:
            self._set_by_hand(leaves or leaves_of(OTHER), ["Ethernet3/1"])

        def shared() -> None:
            changed = deepcopy(self.server.store.running)
            binding = f"{_QUEUE}/{_BINDING}"
            own = _at(changed, binding.format(PORTS[0])).text
            _at(changed, binding.format("Management0")).text = own
            self.server.store.set_running(changed)

        def removed() -> set[str]:
            changed = deepcopy(self.server.store.running)
            interfaces = _at(changed, "qos/interfaces")
            interfaces.remove(_at(changed, f"qos/interfaces/interface[interface-id='{PORTS[-1]}']"))
            self.server.store.set_running(changed)
            return {PORTS[-1]}

        return {
            UNREADABLE: lambda: added(**_NO_PROBABILITY),
            NEW_PORT: added,
            SHARED: shared,
            REMOVED: removed,
        }

    def somebody_sets_no_watermark(self) -> bool:
        self._set_by_hand(_NO_PROBABILITY, PORTS[:1])
        return True

    def _set_by_hand(self, leaves: dict[str, Any], ports: Sequence[str]) -> None:
        """Queue 3 of these ports runs a profile of these leaves; a port that is not there is made."""
        changed = deepcopy(self.server.store.running)
        by_hand = profile_document("BY-HAND", leaves)
        document = {"qos": {"queue-management-profiles": {_BINDING: [by_hand]}}}
        for port in ports:
            if port not in PORTS:
                new = deepcopy(_at(changed, f"qos/interfaces/interface[interface-id='{PORTS[0]}']"))
                for name in ("interface-id", "config/interface-id"):
                    _at(new, name).text = port
                _at(changed, "qos/interfaces").append(new)
            _at(changed, f"{_QUEUE.format(port)}/{_BINDING}").text = "BY-HAND"
        profiles = _at(changed, _PROFILES)
        for old in profiles.findall(f"{_BINDING}[name='BY-HAND']", _NAMES):
            profiles.remove(old)
        profiles.extend(_at(running_of(document), _PROFILES))
        self.server.store.set_running(changed)


def _running(configuration: Element) -> Hardware:
    found: Hardware = {}
    there = {one.text for one in configuration.iterfind("qos/interfaces/interface/interface-id", _NAMES)}
    for port in PORTS:
        if port not in there:
            continue
        bound = _at(configuration, f"{_QUEUE.format(port)}/{_BINDING}").text
        leaves = _at(configuration, f"{_PROFILE.format(bound)}/wred/uniform/config")
        kmin, kmax, percent = (
            int(leaves.findtext(name, "0", _NAMES))
            for name in ("min-threshold", "max-threshold", "max-drop-probability-percent")
        )
        marks = leaves.findtext("enable-ecn", "", _NAMES) == "true" and percent
        found[port, 3] = Watermark(kmin, kmax, percent / 100) if marks else None
    return found


def _at(configuration: Element, path: str) -> Element:
    found = configuration.find(path, _NAMES)
    assert found is not None, path
    return found


RIGS = (NetconfRig,)

"""A Junos switch's NETCONF on loopback; a scheduler of another queue shares a drop profile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from switches.base import SwitchAdapter
from switches.device import Device, Secret, UnitProfile
from switches.junos.adapter import JunosAdapter
from tests.contract.rig import NEW_PORT, PATIENT, REMOVED, SHARED, UNREADABLE, Elsewhere, Hardware
from tests.contract.rigs.netconf import NetconfServerRig
from tests.counterparts.switches.junos_switch import JunosSwitch
from tests.counterparts.switches.netconf_server import Element
from tests.counterparts.switches.ssh_server import LOOPBACK, Account
from twin.watermark import Watermark

BUFFER_BYTES = 10_000_000
PERCENT = BUFFER_BYTES // 100
PORTS = {"et-0/0/0": "s-first", "et-0/0/1": "s-rest", "et-0/0/2": "s-rest"}
CONFIGURATION = """
<configuration>
  <system><host-name>leaf1</host-name></system>
  <class-of-service>
    <forwarding-classes>
      <class><name>NO-LOSS</name><queue-num>3</queue-num><no-loss/></class>
      <class><name>BEST-EFFORT</name><queue-num>0</queue-num></class>
    </forwarding-classes>
    <drop-profiles><name>dp-first</name><interpolate>
      <fill-level>4</fill-level><fill-level>16</fill-level>
      <drop-probability>0</drop-probability><drop-probability>20</drop-probability></interpolate></drop-profiles>
    <drop-profiles><name>dp-shared</name><interpolate>
      <fill-level>4</fill-level><fill-level>16</fill-level>
      <drop-probability>0</drop-probability><drop-probability>20</drop-probability></interpolate></drop-profiles>
    <interfaces>
      <interface><name>et-0/0/0</name><scheduler-map>sm-first</scheduler-map></interface>
      <interface><name>et-0/0/1</name><scheduler-map>sm-rest</scheduler-map></interface>
      <interface><name>et-0/0/2</name><scheduler-map>sm-rest</scheduler-map></interface>
    </interfaces>
    <scheduler-maps><name>sm-first</name>
      <forwarding-class><name>NO-LOSS</name><scheduler>s-first</scheduler></forwarding-class>
      <forwarding-class><name>BEST-EFFORT</name><scheduler>s-be</scheduler></forwarding-class></scheduler-maps>
    <scheduler-maps><name>sm-rest</name>
      <forwarding-class><name>NO-LOSS</name><scheduler>s-rest</scheduler></forwarding-class>
      <forwarding-class><name>BEST-EFFORT</name><scheduler>s-be</scheduler></forwarding-class></scheduler-maps>
    <schedulers><name>s-first</name><transmit-rate><percent>50</percent></transmit-rate>
      <drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>
        <drop-profile>dp-first</drop-profile></drop-profile-map>
      <explicit-congestion-notification/></schedulers>
    <schedulers><name>s-rest</name><transmit-rate><percent>50</percent></transmit-rate>
      <drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>
        <drop-profile>dp-shared</drop-profile></drop-profile-map>
      <explicit-congestion-notification/></schedulers>
    <schedulers><name>s-be</name>
      <drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>
        <drop-profile>dp-shared</drop-profile></drop-profile-map></schedulers>
  </class-of-service>
</configuration>
"""

_LAB = """
<drop-profiles><name>dp-early</name><interpolate>
  <fill-level>10</fill-level><fill-level>50</fill-level>
  <drop-probability>5</drop-probability><drop-probability>20</drop-probability></interpolate></drop-profiles>
<schedulers><name>s-lab</name><drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>
  <drop-profile>{}</drop-profile></drop-profile-map><explicit-congestion-notification/></schedulers>
<scheduler-maps><name>sm-lab</name>
  <forwarding-class><name>NO-LOSS</name><scheduler>s-lab</scheduler></forwarding-class></scheduler-maps>
"""


class JunosRig(NetconfServerRig):
    kind = "junos"
    narrow: ClassVar[dict[str, Any]] = {"ports": ("et-*",)}
    server: JunosSwitch

    def __init__(self, folder: Path) -> None:
        server = JunosSwitch(CONFIGURATION, Account("ecntwin", "right-password"))
        passwords = {"JUNOS_RIGHT": "right-password", "JUNOS_WRONG": "wrong-password"}
        super().__init__(folder, server, JUNOS_USER="ecntwin", **passwords)
        self.reset()

    def reset(self) -> None:
        self.configure(CONFIGURATION)

    def configure(self, configuration: str) -> None:
        """It runs that, as after a start."""
        running = Element("data")
        running.append(ElementTree.fromstring(configuration))
        self.begin(running)
        self.server.history.clear()

    def profiles(self) -> set[str | None]:
        """The names of its drop profiles."""
        return {one.findtext("name") for one in _cos(self.server.store.running).findall("drop-profiles")}

    def adapter(self, **device: Any) -> SwitchAdapter:
        fields: dict[str, Any] = {
            "name": "leaf1",
            "platform": "junos",
            "address": LOOPBACK,
            "port": self.server.ssh.port,
            "username": Secret(env="JUNOS_USER"),
            "password": Secret(env="JUNOS_RIGHT"),
            "units": UnitProfile(buffer_bytes=BUFFER_BYTES),
            "options": {"known_hosts": str(self.known_hosts)},
            **PATIENT,
            **device,
        }
        return JunosAdapter(Device(**fields), clock_ns=lambda: 7)

    def refused(self) -> SwitchAdapter:
        return self.adapter(password=Secret(env="JUNOS_WRONG"))

    def running(self, configuration: Element) -> Hardware:
        there = _mapped(_cos(configuration))
        return _running(configuration, {port: name for port, name in PORTS.items() if port in there})

    def bystanders(self) -> object:
        others = deepcopy(self.server.store.running)
        cos = _cos(others)
        for entry in cos.findall("drop-profiles"):
            if (entry.findtext("name") or "").startswith("ecntwin-"):
                cos.remove(entry)
        for entry in cos.findall("schedulers"):
            if entry.findtext("name") in PORTS.values():
                for part in (
                    *entry.findall("drop-profile-map"),
                    *entry.findall("explicit-congestion-notification"),
                ):
                    entry.remove(part)
        for sorted_by_name in (cos, *cos):
            sorted_by_name[:] = sorted(sorted_by_name, key=lambda one: (one.tag, one.findtext("name") or ""))
        return ElementTree.canonicalize(ElementTree.tostring(others), strip_text=True)

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        self.set_by_hand(watermark, ["s-first"] if only_first else ["s-first", "s-rest"])

    def elsewhere(self) -> Elsewhere:
        mapped = "<interface><name>{}</name><scheduler-map>{}</scheduler-map></interface>"

        def added(profile: str) -> None:
            with self._edited() as cos:
                cos.extend(ElementTree.fromstring(f"<of>{_LAB.format(profile)}</of>"))
                _interfaces(cos).append(ElementTree.fromstring(mapped.format("et-0/0/7", "sm-lab")))

        def shared() -> None:
            with self._edited() as cos:
                own = _mapped(cos)["et-0/0/1"]
                _interfaces(cos).append(ElementTree.fromstring(mapped.format("xe-0/0/9", own)))

        def removed() -> set[str]:
            with self._edited() as cos:
                interfaces = _interfaces(cos)
                interfaces.remove(next(one for one in interfaces if one.findtext("name") == "et-0/0/0"))
            return {"et-0/0/0"}

        return {
            UNREADABLE: lambda: added("dp-early"),
            NEW_PORT: lambda: added("dp-shared"),
            SHARED: shared,
            REMOVED: removed,
        }

    def somebody_sets_no_watermark(self) -> bool:
        with self._edited() as cos:
            cos.extend(ElementTree.fromstring(f"<of>{_LAB.format('dp-early')}</of>"))
            (scheduler,) = set(_schedulers(self.server.store.running, ["et-0/0/0"]).values())
            _bound(cos, scheduler).text = "dp-early"
        return True

    @contextmanager
    def _edited(self) -> Iterator[Element]:
        """The class of service, which runs as it is at the end of the block."""
        changed = deepcopy(self.server.store.running)
        yield _cos(changed)
        self.server.store.set_running(changed)

    def set_by_hand(self, watermark: Watermark, schedulers: Sequence[str]) -> None:
        changed = deepcopy(self.server.store.running)
        cos = _cos(changed)
        levels = (watermark.kmin_bytes // PERCENT, watermark.kmax_bytes // PERCENT)
        for number, scheduler in enumerate(schedulers):
            name = f"by-hand-{number}"
            for old in cos.findall("drop-profiles"):
                if old.findtext("name") == name:
                    cos.remove(old)
            cos.append(
                ElementTree.fromstring(
                    f"<drop-profiles><name>{name}</name><interpolate>"
                    f"<fill-level>{levels[0]}</fill-level><fill-level>{levels[1]}</fill-level>"
                    f"<drop-probability>0</drop-probability>"
                    f"<drop-probability>{round(watermark.pmax * 100)}</drop-probability>"
                    "</interpolate></drop-profiles>"
                )
            )
            _bound(cos, scheduler).text = name
        self.server.store.set_running(changed)


def _running(configuration: Element, schedulers: dict[str, str]) -> Hardware:
    """What the ports run by their schedulers."""
    cos = _cos(configuration)
    found: Hardware = {}
    for port, scheduler in schedulers.items():
        (entry,) = [one for one in cos.findall("schedulers") if one.findtext("name") == scheduler]
        named = entry.findtext("drop-profile-map/drop-profile")
        if named is None or entry.find("explicit-congestion-notification") is None:
            found[port, 3] = None
            continue
        (profile,) = [one for one in cos.findall("drop-profiles") if one.findtext("name") == named]
        kmin, kmax = (int(level.text or "") * PERCENT for level in profile.iter("fill-level"))
        _, pmax = (int(chance.text or "") / 100 for chance in profile.iter("drop-probability"))
        found[port, 3] = Watermark(kmin, kmax, pmax)
    return found


def _interfaces(cos: Element) -> Element:
    (interfaces,) = cos.findall("interfaces")
    return interfaces


def _mapped(cos: Element) -> dict[str | None, str | None]:
    """The scheduler map of each port."""
    return {one.findtext("name"): one.findtext("scheduler-map") for one in cos.iter("interface")}


def _cos(configuration: Element) -> Element:
    cos = configuration.find("configuration/class-of-service")
    assert cos is not None
    return cos


def _bound(cos: Element, scheduler: str) -> Element:
    (entry,) = [one for one in cos.findall("schedulers") if one.findtext("name") == scheduler]
    bound = entry.find("drop-profile-map/drop-profile")
    assert bound is not None
    return bound


class RoleJunosRig(JunosRig):
    """A port that has a scheduler alone, and one that shares its own with a port of another role."""

    kind = "junos-role"
    narrow: ClassVar[dict[str, Any]] = {}
    ports = ("et-0/0/0", "et-0/0/1")

    def adapter(self, **device: Any) -> SwitchAdapter:
        return super().adapter(**({"role": "leaf-host-12.5G", "ports": self.ports} | device))

    def running(self, configuration: Element) -> Hardware:
        return _running(configuration, _schedulers(configuration, self.ports))

    def bystanders(self) -> object:
        """All but what is ours, and what the ports of the role run but for the marking."""
        others = deepcopy(self.server.store.running)
        cos = _cos(others)
        found = []
        for port, name in _schedulers(others, self.ports).items():
            (scheduler,) = [one for one in cos.findall("schedulers") if one.findtext("name") == name]
            parts = [part for part in scheduler if part.tag == "transmit-rate"]
            found.append((port, [ElementTree.tostring(part, encoding="unicode").strip() for part in parts]))
        for entry in list(cos):
            if (entry.findtext("name") or "").startswith(("ecntwin-", "by-hand-")):
                cos.remove(entry)
        for interface in cos.iter("interface"):
            if interface.findtext("name") in self.ports:
                interface.clear()
        cos[:] = sorted(cos, key=lambda one: (one.tag, one.findtext("name") or ""))
        return found, ElementTree.canonicalize(ElementTree.tostring(others), strip_text=True)

    def somebody_sets(self, watermark: Watermark, *, only_first: bool = False) -> None:
        ports = self.ports[:1] if only_first else self.ports
        names = _schedulers(self.server.store.running, ports).values()
        self.set_by_hand(watermark, list(names))


def _schedulers(configuration: Element, ports: Iterable[str]) -> dict[str, str]:
    """The scheduler of queue 3 of each port."""
    cos = _cos(configuration)
    maps = {one.findtext("name"): one for one in cos.findall("scheduler-maps")}
    mapped = _mapped(cos)
    return {
        port: str(one.findtext("scheduler"))
        for port in ports
        if port in mapped
        for one in maps[mapped[port]].findall("forwarding-class")
        if one.findtext("name") == "NO-LOSS"
    }


RIGS = (JunosRig, RoleJunosRig)

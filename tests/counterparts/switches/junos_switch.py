"""A Junos switch's NETCONF: base 1.0, its own commit, one confirmed commit for everybody."""

from __future__ import annotations

from copy import deepcopy
from xml.etree import ElementTree

from tests.counterparts.switches.netconf_server import (
    BASE,
    Datastore,
    Element,
    NetconfServer,
    Pending,
    RpcError,
    selected,
)
from tests.counterparts.switches.ssh_server import Account

XNM = "http://xml.juniper.net/xnm/1.1/xnm"
KEYS = {
    **dict.fromkeys(
        ("drop-profiles", "schedulers", "scheduler-maps", "class", "forwarding-class"), ("name",)
    ),
    **dict.fromkeys(("interface", "traffic-control-profiles"), ("name",)),
    "drop-profile-map": ("loss-priority", "protocol"),
}
_WAITS = "commit confirmed, rollback in 10mins"


class JunosSwitch(NetconfServer):
    """Its commits are ``history``, newest first, with their logs."""

    base_1_1 = False

    def __init__(self, configuration: str, account: Account) -> None:
        running = Element("data")
        running.append(ElementTree.fromstring(configuration))
        self.history: list[tuple[str, bool]] = []
        super().__init__(
            Datastore(running, KEYS, _check, leaf_lists=("fill-level", "drop-probability")),
            account,
            capabilities=("candidate:1.0", "validate:1.0", "confirmed-commit:1.0"),
        )

    def received(self, config: Element) -> Element:
        return _renamed(config, "")

    def sent(self, config: Element) -> Element:
        return _renamed(config, f"{{{XNM}}}")

    def ended(self, session: int) -> None:
        if self.store.holder == session:
            self.store.holder = None
            self.store.candidate, self.store.dirty = deepcopy(self.store.running), False

    def _data(self, operation: Element, config: Element) -> Element:
        data = Element(f"{{{BASE}}}data")
        wanted = operation.find(f"{{{BASE}}}filter")
        assert wanted is not None
        found = Element("data")
        found.extend(selected(config, _renamed(wanted, "")))
        data.extend(self.sent(found))
        return data

    def _on_commit_configuration(self, session: int, operation: Element) -> None:
        self._mine(session)
        self.store.check(self.store.candidate)
        pending, waits = self.store.pending, operation.find(f"{{{BASE}}}confirmed") is not None
        before = pending.before if pending is not None else self.store.running
        self.store.pending = Pending(before, None, session) if waits else None
        if not self.store.faults.ignoring:  # as a commit script may: the commit succeeds without it
            self.store.set_running(self.store.candidate)
        self.history.insert(0, (operation.findtext(f"{{{BASE}}}log") or "", waits))

    def _on_commit(self, session: int, operation: Element) -> None:
        self._on_commit_configuration(session, operation)

    def _on_get_commit_information(self, session: int, operation: Element) -> Element:
        answer = Element(f"{{{BASE}}}commit-information")
        for number, (log, waited) in enumerate(self.history):
            entry = ElementTree.SubElement(answer, f"{{{BASE}}}commit-history")
            ElementTree.SubElement(entry, f"{{{BASE}}}sequence-number").text = str(number)
            if waited:
                ElementTree.SubElement(entry, f"{{{BASE}}}comment").text = _WAITS
            if log:
                ElementTree.SubElement(entry, f"{{{BASE}}}log").text = log
            if waited and number == 0 and self.store.pending is not None:
                ElementTree.SubElement(entry, f"{{{BASE}}}commit-confirmed").text = "rollback pending"
        return answer

    def _revert(self) -> None:
        if self.store.pending is not None:
            self.history.insert(0, ("", False))
        super()._revert()

    def _waits_for_others(self, session: int) -> bool:
        return False


def _check(configuration: Element) -> None:
    """What a commit of Junos checks of these statements."""
    cos = configuration.find("configuration/class-of-service")
    if cos is None:
        return
    for kind, reference in (("scheduler-maps", "scheduler-map"), ("schedulers", "scheduler")):
        names = {entry.findtext("name") for entry in cos.findall(kind)}
        for name in cos.iter(reference):
            if name.text not in names:
                raise RpcError("operation-failed", f"{reference} {name.text} is not defined")
    profiles = {entry.findtext("name") for entry in cos.iter("drop-profiles")}
    for name in cos.iter("drop-profile"):
        if name.text not in profiles:
            raise RpcError("operation-failed", f"drop-profile {name.text} is not defined")
    for curve in cos.iter("interpolate"):
        levels = [int(level.text or "") for level in curve.iter("fill-level")]
        chances = [int(chance.text or "") for chance in curve.iter("drop-probability")]
        if len(levels) != len(chances) or levels != sorted(set(levels)) or not 0 <= min(levels) <= 100:
            raise RpcError("operation-failed", "fill levels go up, and each has a probability")


def _renamed(element: Element, prefix: str) -> Element:
    copy = Element(prefix + element.tag.rpartition("}")[2], element.attrib)
    copy.text = element.text
    copy.extend(_renamed(child, prefix) for child in element)
    return copy

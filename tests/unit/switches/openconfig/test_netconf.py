"""OpenConfig over NETCONF: the exact edits, confirmed commits with and without a name, percent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from switches.adapter import Waiting
from switches.by_role import ByRoleAdapter
from switches.device import Device, Secret, UnitProfile
from switches.errors import BusyError, CapabilityError, ConcurrentEditError, InventoryError, ReadBackError
from switches.openconfig.netconf import NetconfAdapter
from tests.counterparts.switches.netconf_server import Element
from tests.counterparts.switches.openconfig_documents import PORTS, factory
from tests.counterparts.switches.openconfig_netconf import OpenConfigNetconf, running_of
from tests.counterparts.switches.ssh_server import LOOPBACK, Account
from twin.watermark import Watermark

OLD = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)


class Switch:
    """One server with these capabilities, and adapters to it."""

    def __init__(self, folder: Path, **server: Any) -> None:
        self.server = OpenConfigNetconf(factory(OLD), Account("ecn", "right-password"), **server)
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(self.server.ssh.known_hosts(), "utf-8")

    def reset(self, **leaves: Any) -> None:
        self.server.store.reset(running_of(factory(OLD, **leaves)))
        self.server.asked.clear()

    def adapter(
        self, *, options: dict[str, Any] | None = None, waiting: Waiting | None = None, **device: Any
    ) -> NetconfAdapter:
        given: dict[str, Any] = {
            "name": "leaf1",
            "platform": "netconf",
            "address": LOOPBACK,
            "port": self.server.ssh.port,
            "ports": ("Ethernet*",),
            "username": Secret(env="NETCONF_USER"),
            "password": Secret(env="NETCONF_PASSWORD"),
            "settle_s": 0.0,
            "timeout_s": 60.0,
            "options": {"known_hosts": str(self.known_hosts)} | (options or {}),
        }
        return NetconfAdapter(Device(**given | device), clock_ns=lambda: 7, waiting=waiting)

    def asked(self, operation: str) -> list[str]:
        """The insides of the calls of one operation."""
        found = []
        for text in self.server.asked:
            match = re.search(rf"<rpc [^>]*>(<{operation}[ />].*)</rpc>", text.replace("nc:", ""))
            if match:
                found.append(match[1])
        return found


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Switch]]:
    found = {
        name: Switch(tmp_path_factory.mktemp("netconf"), capabilities=("candidate:1.0", *more))
        for name, more in (
            ("named", ("confirmed-commit:1.1",)),
            ("bound", ("confirmed-commit:1.0",)),
            ("none", ()),
        )
    }
    try:
        yield found
    finally:
        for switch in found.values():
            switch.server.close()


@pytest.fixture
def switches(servers: dict[str, Switch], monkeypatch: pytest.MonkeyPatch) -> dict[str, Switch]:
    monkeypatch.setenv("NETCONF_USER", "ecn")
    monkeypatch.setenv("NETCONF_PASSWORD", "right-password")
    for switch in servers.values():
        switch.reset()
    return servers


@pytest.fixture
def switch(switches: dict[str, Switch]) -> Switch:
    return switches["named"]


def test_by_role_the_part_that_waits_is_confirmed_before_all_others(switches: dict[str, Switch]) -> None:
    """Without names for commits, a switch refuses all others while one waits."""
    switch, ports = switches["bound"], {"host": (PORTS[0],), "up": (PORTS[1],)}
    marks = {"host": NEW, "up": Watermark(90_000, 300_000, 0.1)}
    with closing(
        ByRoleAdapter(
            switch.adapter(role="by-role", ports=PORTS[:2]),
            {role: switch.adapter(role=role, ports=own) for role, own in ports.items()},
            ports,
        )
    ) as here:
        change = here.stage_by_role(marks, NEW, "r1")
        here.apply(change)
        here.verify(change)
        here.confirm(change)
        switch.server.expire()
        runs = {queue.port: queue.watermark for queue in here.read().queues}
    assert runs == {ports[role][0]: mark for role, mark in marks.items()}


def test_a_change_is_one_edit_and_a_commit_named_after_it(switch: Switch) -> None:
    adapter = switch.adapter(ports=(PORTS[0],))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    (own,) = change.undo["profiles"]
    assert switch.asked("edit-config") == [
        "<edit-config><target><candidate/></target><default-operation>merge</default-operation><config>"
        '<qos xmlns="http://openconfig.net/yang/qos"><queue-management-profiles>'
        f"<queue-management-profile><name>{own}</name><config><name>{own}</name></config>"
        "<wred><uniform><config><weight>0</weight><drop>false</drop>"
        "<min-threshold>50000</min-threshold><max-threshold>200000</max-threshold>"
        "<max-drop-probability-percent>5</max-drop-probability-percent><enable-ecn>true</enable-ecn>"
        "</config></uniform></wred></queue-management-profile></queue-management-profiles>"
        f"<interfaces><interface><interface-id>{PORTS[0]}</interface-id><output><queues>"
        f"<queue><name>3</name><config><queue-management-profile>{own}</queue-management-profile></config>"
        "</queue></queues></output></interface></interfaces></qos></config></edit-config>"
    ]
    assert switch.asked("commit") == [
        "<commit><confirmed/><confirm-timeout>600</confirm-timeout><persist>ecntwin-r1-a</persist></commit>",
        "<commit><persist-id>ecntwin-r1-a</persist-id></commit>",
    ]
    adapter.rollback(change)
    undo = switch.asked("edit-config")[1]
    assert (
        f'<queue-management-profile operation="delete"><name>{own}</name></queue-management-profile>' in undo
    )
    assert "<queue-management-profile>ROCE</queue-management-profile>" in undo
    assert switch.asked("cancel-commit") == [
        "<cancel-commit><persist-id>ecntwin-r1-a</persist-id></cancel-commit>"
    ]


def test_queues_of_no_profile_get_one_and_lose_it_again(switch: Switch) -> None:
    adapter = switch.adapter(queues=(0,))
    assert {queue.watermark for queue in adapter.read().queues} == {None}
    before = deepcopy(switch.server.store.running)
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    assert adapter.verify(change).watermark == NEW
    adapter.confirm(change)
    adapter.rollback(change)
    assert '<queue-management-profile operation="delete"/>' in switch.asked("edit-config")[1]
    assert _texts(switch.server.store.running) == _texts(before)


def test_a_profile_of_an_earlier_change_goes_with_the_next_and_comes_back(switch: Switch) -> None:
    adapter = switch.adapter()
    first = adapter.stage(NEW, "r1-a")
    adapter.apply(first)
    adapter.confirm(first)
    between = _texts(switch.server.store.running)
    second = adapter.stage(Watermark(60_000, 300_000, 0.1), "r2-a")
    adapter.apply(second)
    adapter.confirm(second)
    assert not set(first.undo["profiles"]) & set(_texts(switch.server.store.running))
    adapter.rollback(second)
    assert sorted(_texts(switch.server.store.running)) == sorted(between)


def test_a_switch_that_knows_no_names_takes_a_change_back_with_the_session(
    switches: dict[str, Switch],
) -> None:
    bound = switches["bound"]
    adapter = bound.adapter()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    assert "<persist>" not in bound.asked("commit")[0]
    assert adapter.read().watermark == NEW
    adapter.close()  # as when the process dies
    bound.server.await_sessions(0)
    assert bound.adapter().read().watermark == OLD
    adapter.apply(change)
    with pytest.raises(BusyError):
        bound.adapter().confirm(change)
    adapter.confirm(change)
    bound.adapter().confirm(change)  # nothing waits
    adapter.close()
    assert bound.adapter().read().watermark == NEW
    adapter.rollback(change)
    assert bound.adapter().read().watermark == OLD


@pytest.mark.parametrize("theirs", [{"holder": 99}, {"dirty": True}], ids=["locked", "uncommitted edits"])
def test_while_somebody_configures_the_switch_an_undo_is_tried_again(
    switch: Switch, theirs: dict[str, Any]
) -> None:
    """Nobody has set these queues since: giving up would leave them with the change."""
    adapter, store = switch.adapter(), switch.server.store
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    vars(store).update(theirs)
    with pytest.raises(BusyError):
        adapter.rollback(change)
    assert adapter.read().watermark == NEW
    store.holder, store.dirty = None, False
    adapter.rollback(change)
    assert adapter.read().watermark == OLD


def test_a_confirmation_that_fails_is_not_taken_for_one_that_was_not_needed(switch: Switch) -> None:
    """It commits the candidate as it is, with what others have left in it; the switch's timer goes on."""
    adapter = switch.adapter()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    store = switch.server.store
    bound = store.candidate.find(".//{*}queue/{*}config/{*}queue-management-profile")
    assert bound is not None
    bound.text, store.dirty = "NOWHERE", True
    with pytest.raises(BusyError, match=r"NOWHERE.* to commit"):
        adapter.confirm(change)
    assert store.pending is not None
    store.candidate, store.dirty = deepcopy(store.running), False
    adapter.confirm(change)
    switch.server.expire()
    assert adapter.read().watermark == NEW
    adapter.confirm(change)  # nothing waits


def test_a_switch_without_confirmed_commits_is_not_written_to(switches: dict[str, Switch]) -> None:
    adapter = switches["none"].adapter()
    assert adapter.read().watermark == OLD
    with pytest.raises(CapabilityError, match=":confirmed-commit"):
        adapter.stage(NEW, "r1-a")


def test_thresholds_in_percent_of_the_queues_buffer(switch: Switch) -> None:
    switch.reset(
        **{
            "min-threshold": None,
            "max-threshold": None,
            "min-threshold-percent": 20,
            "max-threshold-percent": 80,
        }
    )
    with pytest.raises(CapabilityError, match="thresholds in percent"):
        switch.adapter().read()
    adapter = switch.adapter(units=UnitProfile(thresholds="percent", buffer_bytes=2_000_000))
    assert adapter.read().watermark == OLD
    change = adapter.stage(Watermark(50_000, 215_000, 0.05), "r1-a")
    assert change.after == Watermark(40_000, 200_000, 0.05)
    adapter.apply(change)
    assert adapter.verify(change).watermark == change.after
    assert "<min-threshold-percent>2</min-threshold-percent>" in switch.asked("edit-config")[0]


def test_hardware_that_lags_behind_is_not_staged_upon_and_its_change_is_undone(switch: Switch) -> None:
    adapter, pauses = switch.adapter(), list[float]()
    change = adapter.stage(NEW, "r1-a")
    switch.server.store.faults.ignoring = True
    try:
        adapter.apply(change)
        adapter.apply(change)
        adapter.confirm(change)
        with pytest.raises(ReadBackError, match="every queue must run"):
            adapter.verify(change)
        with pytest.raises(ReadBackError, match="Ethernet1/1 queue 3 bound to ecntwin-"):
            switch.adapter(waiting=Waiting(lambda: sum(pauses), pauses.append)).stage(OLD, "r2-a")
    finally:
        switch.server.store.faults.ignoring = False
    adapter.rollback(change)
    assert adapter.read().watermark == OLD


def test_what_a_vendor_adds_to_a_profile_is_taken_over(switch: Switch) -> None:
    running = deepcopy(switch.server.store.running)
    uniform = running.find(".//{*}uniform/{*}config")
    assert uniform is not None
    added = Element("{urn:vendor}slope")
    added.text = "steep"
    uniform.append(added)
    switch.server.store.check = lambda configuration: None
    switch.server.store.reset(running)
    adapter = switch.adapter()
    adapter.apply(adapter.stage(NEW, "r1-a"))
    assert '<slope xmlns="urn:vendor">steep</slope>' in switch.asked("edit-config")[0]


def test_a_profile_that_somebody_edits_between_is_not_overwritten(switch: Switch) -> None:
    adapter = switch.adapter()
    change = adapter.stage(NEW, "r1-a")
    running = deepcopy(switch.server.store.running)
    bound = running.find(".//{*}interface/{*}output/{*}queues/{*}queue[{*}name='3']/{*}config")
    assert bound is not None
    for name in bound.findall("{*}queue-management-profile"):
        name.text = "STORAGE"
    switch.server.store.set_running(running)
    with pytest.raises((ConcurrentEditError, CapabilityError)):
        adapter.apply(change)
    assert switch.asked("edit-config") == []


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ({"options": {"queue_names": {4: "RDMA"}}}, "it names queues of the inventory: 3"),
        ({"options": {"read_back": "asic"}}, "read_back"),
        ({"units": UnitProfile(thresholds="percent")}, "give buffer_bytes"),
        ({"password": None}, "asks for a password or key_file"),
    ],
)
def test_an_inventory_that_cannot_be_meant_is_refused_before_any_call(
    switch: Switch, device: dict[str, Any], says: str
) -> None:
    with pytest.raises(InventoryError, match=says):
        switch.adapter(**device)
    assert switch.server.asked == []


def test_queues_that_are_not_there_are_the_inventorys_mistake(switch: Switch) -> None:
    with pytest.raises(InventoryError, match="no configured output queue 7"):
        switch.adapter(queues=(7,)).read()


def _texts(configuration: Element) -> list[str]:
    return [element.text.strip() for element in configuration.iter() if element.text and element.text.strip()]

"""A switch by the roles of its ports: a part for each, one after the other, and what is left if one fails."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from switches.base import StagedChange
from switches.by_role import ByRoleAdapter
from switches.cli.eos import EosAdapter
from switches.device import Device
from switches.errors import (
    BusyError,
    CapabilityError,
    ConcurrentEditError,
    GoneError,
    InventoryError,
    RefusedError,
)
from tests.counterparts.switches.eos_switch import PROFILE, EosSwitch, line_of
from tests.unit.switches.labs import NEW, OLD, Lab
from twin.watermark import Watermark

FIRST = Watermark(400_000, 1_600_000, 0.2)
UP, HOST = Watermark(900_000, 3_000_000, 0.1), Watermark(50_000, 200_000, 0.05)
PORTS = {"leaf-host-100G": ("Ethernet1/1", "Ethernet2/1"), "leaf-up-400G": ("Ethernet3/1",)}
MARKS = {"leaf-host-100G": HOST, "leaf-up-400G": UP}


@pytest.fixture
def switch() -> Iterator[EosSwitch]:
    server = EosSwitch(FIRST)
    server.running["interface Ethernet3/1"] = {f"service-profile {PROFILE}": {}}
    yield server
    server.close()
    assert server.unexpected == []


@pytest.fixture
def adapter(switch: EosSwitch, credentials: dict[str, Any]) -> Iterator[ByRoleAdapter]:
    device = Device(name="leaf1", platform="eos", address=switch.url, timeout_s=60.0, **credentials)

    def made(role: str, ports: tuple[str, ...]) -> EosAdapter:
        return EosAdapter(device.at_role(role, ports), clock_ns=lambda: 7)

    every = tuple(port for ports in PORTS.values() for port in ports)
    found = ByRoleAdapter(
        made("by-role", every), {role: made(role, ports) for role, ports in PORTS.items()}, PORTS
    )
    yield found
    found.close()


def staged(adapter: ByRoleAdapter) -> StagedChange:
    """The change, as another process reads it."""
    change = adapter.stage_by_role(MARKS, HOST, "r1")
    return msgspec.json.decode(msgspec.json.encode(change), type=StagedChange)


def test_parts_are_confirmed_one_by_one_and_the_last_waits(switch: EosSwitch, adapter: ByRoleAdapter) -> None:
    before = deepcopy(switch.running)
    change = staged(adapter)
    assert (change.after, len(change.parts), len(change.before)) == (HOST, 2, 3)
    adapter.apply(change)
    assert switch.waiting == "ecntwin-r1-leaf-up-400G"
    assert {one.port: one.watermark for one in adapter.verify(change).queues} == {
        "Ethernet1/1": HOST,
        "Ethernet2/1": HOST,
        "Ethernet3/1": UP,
    }
    adapter.apply(change)  # again, after a crash
    adapter.confirm(change)
    assert switch.waiting is None
    assert change.made_in(adapter.read())
    adapter.rollback(change)
    assert switch.running == before
    adapter.rollback(change)
    assert switch.running == before


def test_a_part_that_is_refused_leaves_those_before_to_the_undo(
    switch: EosSwitch, adapter: ByRoleAdapter
) -> None:
    before = deepcopy(switch.running)
    change = staged(adapter)
    switch.refuses = "qos profile ecntwin-leaf-up"
    with pytest.raises(RefusedError):
        adapter.apply(change)
    assert len(switch.running) == len(before) + 1
    assert not change.made_in(adapter.read())
    adapter.rollback(change)
    assert switch.running == before


def made_and_partly_set_by_hand(switch: EosSwitch, adapter: ByRoleAdapter) -> tuple[StagedChange, str]:
    """A confirmed change, and the line that somebody has set since for the ports of one role."""
    change = staged(adapter)
    adapter.apply(change)
    adapter.confirm(change)
    foreign = line_of(Watermark(700_000, 900_000, 0.9))
    switch.set_by_hand(3, foreign, switch.effective("Ethernet3/1"))
    return change, foreign


def test_a_part_that_somebody_else_has_set_stays_and_the_others_go_back(
    switch: EosSwitch, adapter: ByRoleAdapter
) -> None:
    change, foreign = made_and_partly_set_by_hand(switch, adapter)
    with pytest.raises(ConcurrentEditError, match="leaf-up-400G"):
        adapter.rollback(change)
    assert switch.line(3, switch.effective("Ethernet3/1")) == foreign
    assert switch.effective("Ethernet1/1") == f"qos profile {PROFILE}"


def test_a_part_that_others_keep_from_being_undone_is_tried_again_beside_one_they_have_set(
    switch: EosSwitch, adapter: ByRoleAdapter
) -> None:
    change, foreign = made_and_partly_set_by_hand(switch, adapter)
    switch.waiting, switch.checkpoint = "ops", deepcopy(switch.running)
    with pytest.raises(BusyError, match="session ops waits"):
        adapter.rollback(change)
    switch.waiting = None
    with pytest.raises(ConcurrentEditError, match="leaf-up-400G"):
        adapter.rollback(change)
    assert switch.line(3, switch.effective("Ethernet3/1")) == foreign
    assert switch.effective("Ethernet1/1") == f"qos profile {PROFILE}"


def test_a_part_that_cannot_be_undone_now_keeps_no_other_from_it(
    switch: EosSwitch, adapter: ByRoleAdapter
) -> None:
    before = deepcopy(switch.running)
    change = staged(adapter)
    adapter.apply(change)
    adapter.confirm(change)
    switch.refuses = "interface Ethernet3/1"
    with pytest.raises(RefusedError):
        adapter.rollback(change)
    assert switch.effective("Ethernet1/1") == f"qos profile {PROFILE}"
    switch.refuses = None
    adapter.rollback(change)
    assert switch.running == before


def test_a_change_of_other_roles_is_not_made(adapter: ByRoleAdapter) -> None:
    change = staged(adapter)
    with pytest.raises(InventoryError, match="received parts r1-leaf-host-100G; a change by role"):
        adapter.apply(replace(change, parts=change.parts[:1]))


def test_a_change_of_as_many_but_other_roles_is_not_undone() -> None:
    """The inventory has other ports since the service restarted."""
    lab = Lab(leaf1=("p1", "p2", "p3"))

    def of_ports(**ports: str) -> ByRoleAdapter:
        of_roles = {role: lab.adapter(ports=(port,)) for role, port in ports.items()}
        return ByRoleAdapter(lab.adapter(), of_roles, {role: (port,) for role, port in ports.items()})

    adapter = of_ports(down="p1", up="p2")
    change = adapter.stage_by_role({"down": NEW, "up": UP}, NEW, "r1")
    adapter.apply(change)
    set_so = {"p1": NEW, "p2": UP, "p3": OLD}
    assert lab.ports["leaf1"] == set_so
    with pytest.raises(InventoryError, match="received parts r1-down, r1-up; a change by role"):
        of_ports(down="p1", zone="p3").rollback(change)
    assert lab.ports["leaf1"] == set_so
    adapter.rollback(change)
    assert set(lab.ports["leaf1"].values()) == {OLD}


def test_a_port_that_the_switch_does_not_have_is_told_before_anything_is_set() -> None:
    lab = Lab(leaf1=("a", "b"))
    plain = lab.adapter()
    adapter = ByRoleAdapter(plain, {"host": plain}, {"host": ("a", "b", "c")})
    with pytest.raises(CapabilityError, match="leaf1' host: received no queue of c"):
        adapter.stage_by_role({"host": NEW}, NEW, "r1")
    assert set(lab.ports["leaf1"].values()) == {OLD}


def test_a_part_whose_queues_are_gone_is_passed_over_beside_one_that_is_put_back() -> None:
    lab = Lab(leaf1=("p1", "p2"))
    of_roles = {"down": lab.adapter(ports=("p1",)), "up": lab.adapter(ports=("p2",))}
    adapter = ByRoleAdapter(lab.adapter(), of_roles, {"down": ("p1",), "up": ("p2",)})
    change = adapter.stage_by_role({"down": NEW, "up": UP}, NEW, "r1")
    adapter.apply(change)
    del lab.ports["leaf1"]["p2"]
    adapter.rollback(change)
    assert lab.ports["leaf1"] == {"p1": OLD}
    adapter.rollback(change)
    lab.ports["leaf1"].clear()
    with pytest.raises(GoneError):
        adapter.rollback(change)

"""Ports of a role on EOS and NX-OS: a policy of their own, and back, without a trace and without others."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import pytest

from switches.cli.eos import EosAdapter
from switches.cli.nxos import NxosAdapter
from switches.device import Secret
from switches.errors import CapabilityError, ConcurrentEditError, GoneError, RefusedError
from tests.counterparts.switches.eos_switch import EosSwitch
from tests.counterparts.switches.eos_switch import line_of as eos_line
from tests.counterparts.switches.nxos_switch import BINDING, POLICY, NxosSwitch, line_of
from tests.unit.switches.adapters import Adapters
from twin.watermark import Watermark

FIRST = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)
OTHER = Watermark(700_000, 900_000, 0.9)
HOST, UP = "leaf-host-100G", "leaf-up-400G"
OWN = "ecntwin-leaf-host-100G-8187"


@pytest.fixture
def eos() -> Iterator[EosSwitch]:
    server = EosSwitch(FIRST)
    yield server
    server.close()
    assert server.unexpected == []


@pytest.fixture
def nxos() -> Iterator[NxosSwitch]:
    server = NxosSwitch(FIRST)
    server.running["interface Ethernet1/1"] = {BINDING + POLICY: {}}
    yield server
    server.close()
    assert server.unexpected == []


@pytest.fixture
def arista(eos: EosSwitch, credentials: dict[str, Secret]) -> Iterator[Adapters[EosAdapter]]:
    switches = Adapters(
        lambda device: EosAdapter(device, clock_ns=lambda: 7), platform="eos", address=eos.url, **credentials
    )
    yield switches
    switches.close()


@pytest.fixture
def nexus(nxos: NxosSwitch, credentials: dict[str, Secret]) -> Iterator[Adapters[NxosAdapter]]:
    switches = Adapters(
        lambda device: NxosAdapter(device, clock_ns=lambda: 7),
        platform="nxos",
        address=nxos.url,
        **credentials,
    )
    yield switches
    switches.close()


def eos_commands(switch: EosSwitch) -> list[str]:
    runs = [asked.body["params"]["cmds"][1:] for asked in switch.asked]
    switch.asked.clear()
    return [command for run in runs if not run[0].startswith("show ") for command in run]


def test_on_eos_a_copy_its_lines_and_the_binding_are_one_session(
    eos: EosSwitch, arista: Adapters[EosAdapter]
) -> None:
    before = deepcopy(eos.running)
    adapter = arista(role=HOST, ports=("Ethernet1/1",))
    change = adapter.stage(NEW, "r1-a")
    assert change.diff.endswith(f"# Ethernet1/1: qos profile {OWN}, a copy of ROCE.")
    adapter.apply(change)
    commands = eos_commands(eos)
    assert commands[:4] == [
        "configure session ecntwin-r1-a",
        f"qos profile {OWN}",
        "qos trust dscp",
        "exit",
    ]
    assert commands[-9:] == [
        f"qos profile {OWN}",
        "uc-tx-queue 3",
        eos_line(NEW),
        "exit",
        "exit",
        "interface Ethernet1/1",
        f"service-profile {OWN}",
        "exit",
        "commit timer 00:05:00",
    ]
    assert eos.running["interface Ethernet2/1"] == before["interface Ethernet2/1"]
    assert eos.running["qos profile ROCE"] == before["qos profile ROCE"]
    adapter.confirm(change)
    eos_commands(eos)
    adapter.rollback(change)
    assert eos_commands(eos) == [
        "configure session ecntwin-r1-a.2",
        "interface Ethernet1/1",
        "service-profile ROCE",
        "exit",
        f"no qos profile {OWN}",
        "commit",
    ]
    assert eos.running == before


def test_a_profile_that_is_the_roles_own_is_edited_from_then_on(
    eos: EosSwitch, arista: Adapters[EosAdapter]
) -> None:
    adapter = arista(role=HOST, ports=("Ethernet1/1",))
    first = adapter.stage(NEW, "r1-a")
    adapter.apply(first)
    adapter.confirm(first)
    then = deepcopy(eos.running)
    second = adapter.stage(OTHER, "r2-a")
    assert second.ran == NEW
    eos_commands(eos)
    adapter.apply(second)
    assert eos_commands(eos)[1:-1] == [f"qos profile {OWN}", "uc-tx-queue 3", eos_line(OTHER), "exit", "exit"]
    adapter.confirm(second)
    adapter.rollback(second)
    assert eos.running == then


@pytest.mark.parametrize("undone", [(0, 1), (1, 0)])
def test_two_roles_of_one_profile_are_undone_in_either_order(
    eos: EosSwitch, arista: Adapters[EosAdapter], undone: tuple[int, int]
) -> None:
    """Staged before either is made; the second leaves alone the profile that its ports alone have by then."""
    before = deepcopy(eos.running)
    adapters = [arista(role=HOST, ports=("Ethernet1/1",)), arista(role=UP, ports=("Ethernet2/1",))]
    changes = [adapter.stage(NEW, f"r1-{number}") for number, adapter in enumerate(adapters)]
    for adapter, change in zip(adapters, changes, strict=True):
        adapter.apply(change)
        adapter.verify(change)
        adapter.confirm(change)
    assert eos.running["qos profile ROCE"] == before["qos profile ROCE"]
    for number in undone:
        adapters[number].rollback(changes[number])
    assert eos.running == before


def test_a_port_that_joins_its_role_later_gets_the_profile_that_is_there(
    eos: EosSwitch, arista: Adapters[EosAdapter]
) -> None:
    alone = arista(role=HOST, ports=("Ethernet1/1",))
    first = alone.stage(NEW, "r1-a")
    alone.apply(first)
    alone.confirm(first)
    then = deepcopy(eos.running)
    both = arista(role=HOST, ports=("Ethernet1/1", "Ethernet2/1"))
    second = both.stage(OTHER, "r2-a")
    both.apply(second)
    assert both.verify(second).watermark == OTHER
    both.confirm(second)
    assert [line for line in eos.running if line.startswith("qos profile ecntwin-")] == [f"qos profile {OWN}"]
    both.rollback(second)
    assert eos.running == then


def test_a_role_on_eos_is_refused_where_it_has_no_place_or_two(
    eos: EosSwitch, arista: Adapters[EosAdapter]
) -> None:
    with pytest.raises(CapabilityError, match=r"Ethernet7/1 queue 3.*no place for a watermark"):
        arista(role=HOST, ports=("Ethernet7/1",)).stage(NEW, "r1-a")
    eos.running["interface Ethernet3/1"] = {"uc-tx-queue 3": {eos_line(OTHER): {}}}
    adapter = arista(role=HOST, ports=("Ethernet3/1",))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    assert eos.running["interface Ethernet3/1"] == {"uc-tx-queue 3": {eos_line(NEW): {}}}
    adapter.rollback(change)
    assert eos.running["interface Ethernet3/1"] == {"uc-tx-queue 3": {eos_line(OTHER): {}}}
    eos.running["interface Ethernet1/1"]["uc-tx-queue 3"] = {eos_line(OTHER): {}}
    with pytest.raises(CapabilityError, match="a line on the interface and one in qos profile ROCE"):
        arista(role=HOST, ports=("Ethernet1/1",)).read()


def test_a_profile_that_others_gave_a_port_with_its_own_line_stays(
    eos: EosSwitch, arista: Adapters[EosAdapter]
) -> None:
    """The line is on the interface, where the change set it; the profile is of other queues."""
    port = eos.running["interface Ethernet3/1"] = {"uc-tx-queue 3": {eos_line(OTHER): {}}}
    adapter = arista(role=HOST, ports=("Ethernet3/1",))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    eos.running["qos profile LAB"] = {"uc-tx-queue 5": {eos_line(FIRST): {}}}
    eos.running["interface Ethernet3/1"]["service-profile LAB"] = {}
    adapter.rollback(change)
    assert eos.running["interface Ethernet3/1"] == {**port, "service-profile LAB": {}}


def test_on_nxos_the_policy_that_was_there_makes_room_for_the_copy(
    nxos: NxosSwitch, nexus: Adapters[NxosAdapter]
) -> None:
    before = deepcopy(nxos.running)
    adapter = nexus(role=HOST, ports=("Ethernet1/1", "Ethernet1/2"))
    change = adapter.stage(NEW, "r1-a")
    own = change.diff.rpartition(": policy-map type queuing ")[2].split(",")[0]
    assert own.startswith("ecntwin-leaf-host-100G-")
    nxos.asked.clear()
    adapter.apply(change)
    (made,) = [asked.body["ins_api"] for asked in nxos.asked if asked.body["ins_api"]["type"] == "cli_conf"]
    commands = made["input"].split(" ;")
    assert commands[0] == f"policy-map type queuing {own}"
    assert commands[-9:] == [
        f"policy-map type queuing {own}",
        "class type queuing c-out-8q-q3",
        line_of(NEW),
        "interface Ethernet1/1",
        f"no {BINDING}{POLICY}",
        "interface Ethernet1/1",
        f"{BINDING}{own}",
        "interface Ethernet1/2",
        f"{BINDING}{own}",
    ]
    for label, lines in before[f"policy-map type queuing {POLICY}"].items():
        rest = [line for line in lines if not line.startswith("random-detect")]
        assert [
            line for line in nxos.running[f"policy-map type queuing {own}"][label] if line in rest
        ] == rest
    adapter.confirm(change)
    adapter.rollback(change)
    nxos.running.pop("interface Ethernet1/2")  # the section that was entered
    assert nxos.running == before


def test_on_nxos_a_port_left_without_a_policy_is_bound_again(
    nxos: NxosSwitch, nexus: Adapters[NxosAdapter]
) -> None:
    """Its old policy is taken off, and the switch refuses the copy: the port marks nothing for now."""
    del nxos.running["system qos"]
    before = deepcopy(nxos.running)
    adapter = nexus(role=HOST, ports=("Ethernet1/1",))
    change = adapter.stage(NEW, "r1-a")
    nxos.refuses = f"{BINDING}ecntwin-"
    with pytest.raises(RefusedError):
        adapter.apply(change)
    assert nxos.running["interface Ethernet1/1"] == {}
    assert adapter.read().queues[0].watermark is None
    nxos.refuses = None
    again = nexus(role=HOST, ports=("Ethernet1/1",))
    again.apply(change)
    assert again.verify(change).watermark == NEW
    nxos.running["interface Ethernet1/1"].clear()
    adapter.rollback(change)
    assert nxos.running == before


def test_a_copy_that_others_have_given_to_their_port_runs_the_old_watermark_again(
    eos: EosSwitch, arista: Adapters[EosAdapter], nxos: NxosSwitch, nexus: Adapters[NxosAdapter]
) -> None:
    for adapter, switch, binding in (
        (arista(role=HOST, ports=("Ethernet1/1",)), eos, "service-profile "),
        (nexus(role=HOST, ports=("Ethernet1/1",)), nxos, BINDING),
    ):
        change = adapter.stage(NEW, "r1-a")
        adapter.apply(change)
        adapter.confirm(change)
        (own,) = [line for line in switch.running["interface Ethernet1/1"] if line.startswith(binding)]
        switch.running["interface Ethernet1/9"] = {own: {}}
        adapter.rollback(change)
        assert own not in switch.running["interface Ethernet1/1"]
        assert own in switch.running["interface Ethernet1/9"]
    assert eos.line(3, eos.effective("Ethernet1/9")) == eos_line(FIRST)
    assert nxos.line(3, nxos.effective("Ethernet1/9")) == line_of(FIRST)


def test_on_eos_ports_whose_profile_somebody_has_taken_off_are_left(
    eos: EosSwitch, arista: Adapters[EosAdapter]
) -> None:
    adapter = arista(role=HOST, ports=("Ethernet1/1",))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    eos.running["interface Ethernet1/1"] = {}
    with pytest.raises(ConcurrentEditError):
        adapter.rollback(change)
    assert eos.running["interface Ethernet1/1"] == {}


def test_on_nxos_an_undo_passes_over_a_port_that_is_gone(
    nxos: NxosSwitch, nexus: Adapters[NxosAdapter]
) -> None:
    for port in (1, 2):
        nxos.running[f"interface Ethernet1/{port}"] = {BINDING + POLICY: {}}
    before = deepcopy(nxos.running)
    adapter = nexus(role=HOST, ports=("Ethernet1/1", "Ethernet1/2"))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    for running in (before, nxos.running):
        del running["interface Ethernet1/1"]
    nxos.gone = {"Ethernet1/1"}
    for _ in range(2):
        adapter.rollback(change)
        assert nxos.running == before


def test_on_nxos_an_undo_whose_ports_are_all_gone_is_tried_again(
    nxos: NxosSwitch, nexus: Adapters[NxosAdapter]
) -> None:
    nxos.running["interface Ethernet1/1"] = {BINDING + POLICY: {}}
    before = deepcopy(nxos.running)
    adapter = nexus(role=HOST, ports=("Ethernet1/1",))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    card = nxos.running.pop("interface Ethernet1/1")
    nxos.gone = {"Ethernet1/1"}
    with pytest.raises(GoneError):
        adapter.rollback(change)
    nxos.running["interface Ethernet1/1"], nxos.gone = card, set()
    adapter.rollback(change)
    assert nxos.running == before


def test_on_nxos_a_copy_that_was_never_bound_goes_with_the_undo(
    nxos: NxosSwitch, nexus: Adapters[NxosAdapter]
) -> None:
    before = deepcopy(nxos.running)
    adapter = nexus(role=HOST, ports=("Ethernet1/1",))
    change = adapter.stage(NEW, "r1-a")
    nxos.refuses = f"no {BINDING}"
    with pytest.raises(RefusedError):
        adapter.apply(change)
    nxos.refuses = None
    assert len(nxos.running) == len(before) + 1
    adapter.rollback(change)
    assert nxos.running == before


def test_on_nxos_a_port_of_a_role_is_an_interface(nexus: Adapters[NxosAdapter]) -> None:
    with pytest.raises(CapabilityError, match=r"'swp1'.*such as Ethernet1/1"):
        nexus(role=HOST, ports=("swp1",)).read()

"""Nexus over NX-API: the exact requests, checkpoints that end with their change, and whose lines are set."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import httpx
import pytest

from switches.cli.nxos import NxosAdapter
from switches.device import Device, Secret
from switches.errors import AccessError, CapabilityError, ConcurrentEditError, InventoryError, RefusedError
from tests.counterparts.switches.nxos_switch import POLICY, NxosSwitch, line_of
from tests.unit.switches.adapters import Adapters
from twin.watermark import Watermark

FIRST = Watermark(400_000, 1_600_000, 0.2)
NEW = Watermark(50_000, 200_000, 0.05)


@pytest.fixture
def switch() -> Iterator[NxosSwitch]:
    server = NxosSwitch(FIRST)
    yield server
    server.close()
    assert server.unexpected == []


Switches = Adapters[NxosAdapter]


@pytest.fixture
def adapter(switch: NxosSwitch, credentials: dict[str, Secret]) -> Iterator[Switches]:
    switches = Switches(
        lambda device: NxosAdapter(device, clock_ns=lambda: 7),
        platform="nxos",
        address=switch.url,
        **credentials,
    )
    yield switches
    switches.close()


def commands(switch: NxosSwitch) -> list[tuple[str, str]]:
    """What was run since the last time, the reading aside."""
    found = [(asked.body["ins_api"]["type"], asked.body["ins_api"]["input"]) for asked in switch.asked]
    switch.asked.clear()
    return [run for run in found if not run[1].startswith("show ")]


def test_a_change_is_one_call_after_a_checkpoint(switch: NxosSwitch, adapter: Switches) -> None:
    here = adapter(queues=(3, 4))
    change = here.stage(NEW, "r1-a")
    assert commands(switch) == []
    here.apply(change)
    line = (
        "random-detect minimum-threshold 50000 bytes maximum-threshold 200000 bytes drop-probability 5"
        " weight 0 ecn"
    )
    policy = "policy-map type queuing QOS_EGRESS_PORT"
    assert commands(switch) == [
        ("cli_show_ascii", "checkpoint ecntwin-r1-a"),
        (
            "cli_conf",
            f"{policy} ;class type queuing c-out-8q-q3 ;{line}"
            f" ;{policy} ;class type queuing c-out-8q-q4 ;{line}",
        ),
    ]
    here.confirm(change)
    assert commands(switch) == [("cli_show_ascii", "no checkpoint ecntwin-r1-a")]
    here.rollback(change)
    assert [run for run in commands(switch) if "checkpoint" in run[1]] == []
    assert switch.line(3) == line_of(FIRST)


def test_an_undo_goes_after_a_change_that_does_not_show_yet(switch: NxosSwitch, adapter: Switches) -> None:
    switch.set_by_hand(4, None)  # it has no old line, so nothing can go after the new one
    here = adapter(queues=(3, 4))
    change = here.stage(NEW, "r1-a")
    switch.waiting = []
    here.apply(change)
    for _ in range(2):
        here.rollback(change)
    old = f"policy-map type queuing {POLICY} ;class type queuing c-out-8q-q3 ;{line_of(FIRST)}"
    assert switch.waiting[1:] == [old, old]
    switch.catch_up()
    assert (switch.line(3), switch.line(4)) == (line_of(FIRST), line_of(NEW))
    here.rollback(change)
    assert (switch.line(3), switch.line(4)) == (line_of(FIRST), None)


def test_a_request_is_nx_apis_json(switch: NxosSwitch, adapter: Switches) -> None:
    adapter().read()
    (asked,) = switch.asked
    assert (asked.method, asked.path) == ("POST", "/ins")
    assert asked.headers["content-type"] == "application/json"
    assert asked.body == {
        "ins_api": {
            "version": "1.0",
            "type": "cli_show_ascii",
            "chunk": "0",
            "sid": "1",
            "input": "show running-config ipqos",
            "output_format": "json",
        }
    }


def test_an_undo_writes_lines_and_never_rolls_the_configuration_back(
    switch: NxosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    switch.running["hostname spine9"] = {}  # somebody's, since the checkpoint
    commands(switch)
    here.rollback(change)
    assert commands(switch) == [
        (
            "cli_conf",
            "policy-map type queuing QOS_EGRESS_PORT ;class type queuing c-out-8q-q3 ;" + line_of(FIRST),
        ),
        ("cli_show_ascii", "no checkpoint ecntwin-r1-a"),
    ]
    assert "hostname spine9" in switch.running
    assert switch.checkpoints == {}


@pytest.mark.parametrize(
    "old",
    [
        "random-detect minimum-threshold 3 kbytes maximum-threshold 3 kbytes drop-probability 9 weight 3 ecn",
        "random-detect minimum-threshold 9 kbytes maximum-threshold 10 kbytes drop-probability 7 weight 0",
        None,
    ],
    ids=["a step", "drops only", "no line"],
)
def test_whatever_was_there_is_put_back_as_it_was(
    old: str | None, switch: NxosSwitch, adapter: Switches
) -> None:
    switch.set_by_hand(3, old)
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    assert switch.line(3) == line_of(NEW, weight=3 if old and "weight 3" in old else 0)
    here.verify(change)
    here.confirm(change)
    here.rollback(change)
    assert switch.line(3) == old


def test_a_checkpoint_is_made_once_and_only_where_it_is_wanted(switch: NxosSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    switch.ignoring = True
    here.apply(change)
    here.apply(change)
    assert list(switch.checkpoints) == ["ecntwin-r1-a"]
    here.confirm(change)
    without = adapter(options={"checkpoint": False})
    without.apply(without.stage(NEW, "r1-b"))
    assert switch.checkpoints == {}


def test_a_change_that_others_have_overwritten_leaves_no_checkpoint(
    switch: NxosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    theirs = (
        "random-detect minimum-threshold 9 kbytes maximum-threshold 10 kbytes drop-probability 7 weight 0"
    )
    switch.set_by_hand(3, theirs)
    with pytest.raises(ConcurrentEditError):
        here.rollback(change)
    assert (switch.checkpoints, switch.line(3)) == ({}, theirs)


def test_a_policy_that_others_have_put_another_in_the_place_of_ends_the_undo(
    switch: NxosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    switch.running["policy-map type queuing MINE"] = switch.running.pop(f"policy-map type queuing {POLICY}")
    switch.running["system qos"] = {"service-policy type queuing output MINE": {}}
    theirs = deepcopy(switch.running)
    with pytest.raises(ConcurrentEditError, match=f"and no policy-map type queuing {POLICY};"):
        here.rollback(change)
    assert (switch.checkpoints, switch.running) == ({}, theirs)


def test_another_changes_checkpoint_is_left(switch: NxosSwitch, adapter: Switches) -> None:
    switch.checkpoints["ecntwin-r1-a2"] = ""
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    here.confirm(change)
    assert list(switch.checkpoints) == ["ecntwin-r1-a2"]


def test_a_refused_command_is_said_in_its_own_words(switch: NxosSwitch, adapter: Switches) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    switch.refuses = "random-detect"
    with pytest.raises(RefusedError, match=r"random-detect .*: CLI execution error: % Invalid command"):
        here.apply(change)
    switch.refuses = "checkpoint"
    change = here.stage(NEW, "r1-b")
    with pytest.raises(AccessError, match="Permission denied for the role"):
        here.apply(change)
    assert switch.line(3) == line_of(FIRST)


def test_policies_are_found_from_the_ports(switch: NxosSwitch, adapter: Switches) -> None:
    assert {queue.port for queue in adapter().read().queues} == {POLICY}
    switch.running["interface Ethernet1/49"] = {"service-policy type queuing output UPLINK": {}}
    assert {queue.port for queue in adapter().read().queues} == {POLICY, "UPLINK"}
    assert {queue.port for queue in adapter(ports=("Ethernet1/4?",)).read().queues} == {"UPLINK"}
    assert {queue.port for queue in adapter(options={"policy": "UPLINK"}).read().queues} == {"UPLINK"}
    with pytest.raises(CapabilityError, match="no queuing policy"):
        adapter(ports=("Ethernet1/1",)).read()
    with pytest.raises(CapabilityError, match="no class of queue 6"):
        adapter(queues=(6,)).read()
    switch.running["interface Ethernet1/1"] = {f"service-policy type queuing output {POLICY}": {}}
    with pytest.raises(CapabilityError, match="applied to system qos too"):
        adapter(ports=("Ethernet1/1",)).read()


def test_classes_are_the_systems_or_named(switch: NxosSwitch, adapter: Switches) -> None:
    policy = switch.running[f"policy-map type queuing {POLICY}"]
    policy["class type queuing RDMA-OUT"] = {line_of(NEW): {}}
    assert [queue.queue for queue in adapter(queues=(0, 3, 4)).read().queues] == [3, 4, 0]
    named = adapter(queues=(5,), options={"classes": {"RDMA-OUT": 5}}).read()
    assert named.watermark == NEW


def test_somebody_elses_line_in_an_unreadable_form_stops_the_undo(
    switch: NxosSwitch, adapter: Switches
) -> None:
    here = adapter()
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    switch.set_by_hand(3, "random-detect threshold burst-optimized ecn")
    with pytest.raises(ConcurrentEditError, match="burst-optimized"):
        here.rollback(change)
    switch.set_by_hand(3, None)
    with pytest.raises(ConcurrentEditError):
        here.rollback(change)


def test_saving_is_the_operators_choice(switch: NxosSwitch, adapter: Switches) -> None:
    here = adapter(options={"save": True})
    change = here.stage(NEW, "r1-a")
    here.apply(change)
    assert switch.saved == 0
    here.confirm(change)
    assert switch.saved == 1


@pytest.mark.parametrize(
    "options", [{"classes": {"A": "3"}}, {"profile": "A"}, {"checkpoint": 1}, {"kilo_bytes": -1}]
)
def test_options_that_cannot_be_are_refused_at_once(options: dict[str, Any], adapter: Switches) -> None:
    with pytest.raises(InventoryError):
        adapter(options=options)


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"ins_api": 3}', b'{"ins_api": {"outputs": {}}}']
)
def test_something_else_that_listens_there_is_found_out(body: bytes, credentials: dict[str, Secret]) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    device = Device(name="leaf1", platform="nxos", address="leaf1", **credentials)
    with pytest.raises(RefusedError, match="feature nxapi"):
        NxosAdapter(device, clock_ns=lambda: 7, transport=transport).read()

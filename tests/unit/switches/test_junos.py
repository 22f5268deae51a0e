"""Junos: the exact edits and commits, what it reads and what it refuses to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from switches.adapter import own_name
from switches.base import SwitchAdapter
from switches.device import UnitProfile
from switches.errors import (
    BusyError,
    CapabilityError,
    ConcurrentEditError,
    InventoryError,
    ReadBackError,
    RefusedError,
)
from tests.contract.rigs.junos import BUFFER_BYTES, CONFIGURATION, JunosRig
from tests.counterparts.switches.netconf_server import Pending, RpcError
from twin.watermark import Watermark

NEW = Watermark(500_000, 2_000_000, 0.05)
OTHER = Watermark(700_000, 900_000, 0.9)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JunosRig]:
    with closing(JunosRig(tmp_path_factory.mktemp("junos"))) as rig:
        yield rig


@pytest.fixture
def rig(server: JunosRig) -> JunosRig:
    server.reset()
    server.server.asked.clear()
    return server


def configured(rig: JunosRig, *changes: tuple[str, str]) -> SwitchAdapter:
    """The adapter to a switch whose configuration is another in these places."""
    text = re.sub(r">\s+<", "><", CONFIGURATION)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    rig.configure(text)
    return rig.adapter()


def asked(rig: JunosRig, operation: str) -> list[str]:
    """The insides of the calls of one operation, as they came."""
    found = []
    for text in rig.server.asked:
        match = re.search(rf"<rpc [^>]*>(<{operation}.*)</rpc>", text.replace("nc:", ""))
        if match:
            found.append(match[1])
    return found


def test_a_change_is_one_edit_and_one_commit_confirmed(rig: JunosRig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    entry = "<drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>"
    entry += "<drop-profile>ecntwin-5-20-5</drop-profile></drop-profile-map>"
    assert asked(rig, "edit-config") == [
        "<edit-config><target><candidate/></target><default-operation>merge</default-operation><config>"
        "<configuration><class-of-service>"
        "<drop-profiles><name>ecntwin-5-20-5</name><interpolate>"
        "<fill-level>5</fill-level><fill-level>20</fill-level>"
        "<drop-probability>0</drop-probability><drop-probability>5</drop-probability>"
        "</interpolate></drop-profiles>"
        f"<schedulers><name>s-first</name>{entry}</schedulers><schedulers><name>s-rest</name>{entry}</schedulers>"
        "</class-of-service></configuration></config></edit-config>"
    ]
    assert asked(rig, "commit-configuration") == [
        "<commit-configuration><confirmed/><confirm-timeout>10</confirm-timeout><log>ecntwin r1-a</log>"
        "</commit-configuration>",
        "<commit-configuration><log>ecntwin r1-a confirmed</log></commit-configuration>",
    ]


def test_an_undo_names_the_old_profiles_and_removes_the_new(rig: JunosRig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.rollback(change)
    undo = asked(rig, "edit-config")[1]
    assert '<drop-profiles operation="delete"><name>ecntwin-5-20-5</name></drop-profiles>' in undo
    assert "<drop-profile>dp-first</drop-profile>" in undo
    assert "<drop-profile>dp-shared</drop-profile>" in undo
    assert rig.server.history[0] == ("ecntwin r1-a undone", False)


def test_a_profile_of_an_earlier_change_goes_with_the_next_and_comes_back(rig: JunosRig) -> None:
    adapter = rig.adapter()
    first = adapter.stage(NEW, "r1-a")
    adapter.apply(first)
    adapter.confirm(first)
    second = adapter.stage(Watermark(600_000, 3_000_000, 0.1), "r2-a")
    adapter.apply(second)
    adapter.confirm(second)
    assert rig.profiles() == {"dp-first", "dp-shared", "ecntwin-6-30-10"}
    adapter.rollback(second)
    assert rig.profiles() == {"dp-first", "dp-shared", "ecntwin-5-20-5"}
    assert adapter.read().watermark == NEW


def test_marking_is_switched_on_with_the_change_and_off_with_its_undo(rig: JunosRig) -> None:
    adapter = configured(rig, ("<explicit-congestion-notification/>", ""))
    assert adapter.read().queues[0].watermark is None
    change = adapter.stage(NEW, "r1-a")
    assert "-ecn: off" in change.diff
    adapter.apply(change)
    assert adapter.verify(change).watermark == NEW
    adapter.rollback(change)
    assert '<explicit-congestion-notification operation="delete"/>' in asked(rig, "edit-config")[1]
    assert {queue.watermark for queue in adapter.read().queues} == {None}


def test_a_scheduler_without_a_map_gets_an_entry_and_loses_it_again(rig: JunosRig) -> None:
    entry = "<drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>"
    entry += "<drop-profile>dp-first</drop-profile></drop-profile-map>"
    adapter = configured(rig, (entry, ""))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    assert adapter.verify(change).watermark == NEW
    adapter.rollback(change)
    assert (
        '<drop-profile-map operation="delete"><loss-priority>any</loss-priority>'
        in asked(rig, "edit-config")[1]
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "<fill-level>16</fill-level>",
            "<fill-level>10</fill-level><fill-level>16</fill-level>",
            "cannot be read",
        ),
        (
            "<fill-level>16</fill-level><drop-probability>0</drop-probability>",
            "<fill-level>10</fill-level><fill-level>16</fill-level>"
            "<drop-probability>0</drop-probability><drop-probability>5</drop-probability>",
            "3 interpolated points 4%: 0%, 10%: 5%, 16%: 20%",
        ),
        (
            "<drop-probability>0</drop-probability>",
            "<drop-probability>1</drop-probability>",
            "first with probability 0",
        ),
        (
            "<drop-profile>dp-first</drop-profile></drop-profile-map>",
            "<drop-profile>dp-first</drop-profile></drop-profile-map><drop-profile-map><loss-priority>low"
            "</loss-priority><protocol>any</protocol><drop-profile>dp-shared</drop-profile></drop-profile-map>",
            "et-0/0/0 queue 3: received drop profiles dp-first and dp-shared",
        ),
    ],
    ids=["odd", "three points", "starts above 0", "two profiles"],
)
def test_what_is_no_watermark_is_said_and_not_guessed(rig: JunosRig, old: str, new: str, says: str) -> None:
    with pytest.raises((CapabilityError, RefusedError), match=re.escape(says)):
        configured(rig, (old, new)).read()


def test_a_probability_of_nothing_marks_nothing(rig: JunosRig) -> None:
    adapter = configured(
        rig, ("<drop-probability>20</drop-probability>", "<drop-probability>0</drop-probability>")
    )
    assert {queue.watermark for queue in adapter.read().queues} == {None}


def test_a_scheduler_that_serves_others_too_is_left_alone(rig: JunosRig) -> None:
    with pytest.raises(CapabilityError, match="scheduler s-rest, which serves et-0/0/2 queue 3 too"):
        rig.adapter(ports=("et-0/0/[01]",)).stage(NEW, "r1-a")


def test_a_commit_of_somebody_else_that_waits_is_not_confirmed(rig: JunosRig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    with pytest.raises(BusyError, match=r"waits to be confirmed \(ecntwin r1-a\)"):
        adapter.stage(Watermark(600_000, 3_000_000, 0.1), "r2-a")
    rig.server.history[0] = ("by hand", True)
    adapter.confirm(change)
    assert rig.server.store.pending is not None


def test_while_a_commit_of_somebody_else_waits_an_undo_is_tried_again(rig: JunosRig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    store = rig.server.store
    rig.server.history.insert(0, ("by hand", True))
    store.pending = Pending(deepcopy(store.running), None, 0)
    with pytest.raises(BusyError, match=r"waits to be confirmed \(by hand\)"):
        adapter.rollback(change)
    assert adapter.read().watermark == NEW
    rig.server.expire()
    adapter.rollback(change)
    assert adapter.read().watermark == rig.first


def test_a_lock_that_is_refused_in_words_alone_is_somebody_elses(rig: JunosRig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(NEW, "r1-a")
    said = "configuration database locked by: ops terminal pts/0"
    rig.server.store.faults.refusing["lock"] = RpcError("operation-failed", said)
    try:
        with pytest.raises(BusyError, match=said):
            adapter.apply(change)
    finally:
        rig.server.store.faults.refusing.clear()


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ({"units": UnitProfile()}, "give buffer_bytes"),
        (
            {"units": UnitProfile(thresholds="bytes", buffer_bytes=BUFFER_BYTES)},
            "thresholds of this platform are in percent",
        ),
        ({"options": {"profile": "mine"}}, "options of junos are"),
        ({"options": {"confirm_timeout_s": 0}}, "waits for a second at least"),
        ({"options": {"known_hosts": "/nowhere"}}, "it is a file"),
        ({"password": None}, "asks for a password or key_file"),
        ({"username": None}, "no username"),
        ({"address": ""}, "no address"),
    ],
)
def test_an_inventory_that_cannot_be_meant_is_refused_before_any_call(
    rig: JunosRig, device: dict[str, Any], says: str
) -> None:
    with pytest.raises(InventoryError, match=says):
        rig.adapter(**device)
    assert rig.server.asked == []


def test_queues_that_no_port_schedules_are_the_inventorys_mistake(rig: JunosRig, tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="no port that schedules queue 7"):
        rig.adapter(queues=(7,)).read()


OWN_WITH_OTHER_POINTS = (
    "<drop-profiles><name>ecntwin-5-20-5</name><interpolate>"
    "<fill-level>1</fill-level><fill-level>2</fill-level>"
    "<drop-probability>0</drop-probability><drop-probability>3</drop-probability></interpolate></drop-profiles>"
)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "<drop-profile>dp-first</drop-profile>",
            "<drop-profile>dp-shared</drop-profile>",
            "scheduler s-first with another drop-profile map",
        ),
        (
            "<interfaces>",
            f"{OWN_WITH_OTHER_POINTS}<interfaces>",
            "drop profile ecntwin-5-20-5 with other points",
        ),
        (
            "<scheduler>s-first</scheduler>",
            "<scheduler>s-rest</scheduler>",
            "other schedulers for the queues",
        ),
    ],
)
def test_what_somebody_else_configured_to_the_same_effect_is_not_overwritten(
    rig: JunosRig, old: str, new: str, says: str
) -> None:
    """Every queue runs what it did: only the configuration tells that it is another one."""
    change = rig.adapter().stage(NEW, "r1-a")
    with pytest.raises(ConcurrentEditError, match=says):
        configured(rig, (old, new)).apply(change)
    assert asked(rig, "edit-config") == []


def running(rig: JunosRig) -> str:
    """The configuration, its entries in one order."""
    whole = deepcopy(rig.server.store.running)
    for parent in whole.iter():
        parent[:] = sorted(parent, key=lambda one: (one.tag, one.findtext("name") or ""))
    return ElementTree.canonicalize(ElementTree.tostring(whole), strip_text=True)


HOST = "leaf-host-100G"


def test_a_role_gets_a_scheduler_and_a_map_of_its_own_in_one_commit(rig: JunosRig) -> None:
    before = running(rig)
    adapter = rig.adapter(role=HOST, ports=("et-0/0/1",))
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    (edit,) = asked(rig, "edit-config")
    scheduler, scheduler_map = own_name(HOST, "s-rest", bool), own_name(HOST, "sm-rest", bool)
    assert edit.partition("</drop-profiles>")[2] == (
        f"<schedulers><name>{scheduler}</name><transmit-rate><percent>50</percent></transmit-rate>"
        "<drop-profile-map><loss-priority>any</loss-priority><protocol>any</protocol>"
        "<drop-profile>ecntwin-5-20-5</drop-profile></drop-profile-map>"
        "<explicit-congestion-notification/></schedulers>"
        f"<scheduler-maps><name>{scheduler_map}</name>"
        f"<forwarding-class><name>NO-LOSS</name><scheduler>{scheduler}</scheduler></forwarding-class>"
        "<forwarding-class><name>BEST-EFFORT</name><scheduler>s-be</scheduler></forwarding-class></scheduler-maps>"
        f"<interfaces><interface><name>et-0/0/1</name><scheduler-map>{scheduler_map}</scheduler-map></interface>"
        "</interfaces></class-of-service></configuration></config></edit-config>"
    )
    adapter.confirm(change)
    then = running(rig)
    second = adapter.stage(Watermark(600_000, 3_000_000, 0.1), "r2-a")
    assert list(second.undo["schedulers"]) == [scheduler]
    adapter.apply(second)
    adapter.confirm(second)
    adapter.rollback(second)
    assert running(rig) == then
    adapter.rollback(change)
    assert running(rig) == before


@pytest.mark.parametrize("undone", [(0, 1), (1, 0)])
def test_roles_that_share_a_scheduler_are_undone_in_either_order(
    rig: JunosRig, undone: tuple[int, int]
) -> None:
    before = running(rig)
    adapters = [
        rig.adapter(role=HOST, ports=("et-0/0/0", "et-0/0/1")),
        rig.adapter(role="leaf-up-400G", ports=("et-0/0/2",)),
    ]
    marks = (NEW, Watermark(600_000, 3_000_000, 0.1))
    changes = [
        one.stage(mark, f"r1-{number}")
        for number, (one, mark) in enumerate(zip(adapters, marks, strict=True))
    ]
    for adapter, change in zip(adapters, changes, strict=True):
        adapter.apply(change)
        adapter.verify(change)
        adapter.confirm(change)
    assert [adapter.read().watermark for adapter in adapters] == list(marks)
    for number in undone:
        adapters[number].rollback(changes[number])
    assert running(rig) == before


def test_a_port_that_joins_its_role_gets_the_map_that_is_there(rig: JunosRig) -> None:
    first = rig.adapter(role=HOST, ports=("et-0/0/1",))
    change = first.stage(NEW, "r1-a")
    first.apply(change)
    first.confirm(change)
    then = running(rig)
    both = rig.adapter(role=HOST, ports=("et-0/0/1", "et-0/0/2"))
    second = both.stage(Watermark(600_000, 3_000_000, 0.1), "r2-a")
    both.apply(second)
    assert both.verify(second).watermark == second.after
    both.confirm(second)
    assert list(second.undo["apart"]) == ["moves"]
    both.rollback(second)
    assert running(rig) == then


def test_a_role_whose_ports_take_another_way_is_told_so(rig: JunosRig) -> None:
    profile = (
        "<forwarding-class-set><name>fcs</name><output-traffic-control-profile><profile-name>tcp"
        "</profile-name></output-traffic-control-profile></forwarding-class-set>"
    )
    adapter = configured(
        rig,
        (
            "<name>et-0/0/1</name><scheduler-map>sm-rest</scheduler-map>",
            f"<name>et-0/0/1</name>{profile}",
        ),
        (
            "<scheduler-maps><name>sm-first</name>",
            "<traffic-control-profiles><name>tcp</name><scheduler-map>sm-rest</scheduler-map>"
            "</traffic-control-profiles><scheduler-maps><name>sm-first</name>",
        ),
    )
    assert len(adapter.read().queues) == 3
    with pytest.raises(CapabilityError, match=r"et-0/0/1, whose scheduler map is that of a traffic control"):
        rig.adapter(role=HOST, ports=("et-0/0/1",)).stage(NEW, "r1-a")


def test_a_map_that_somebody_else_gave_the_port_stays(rig: JunosRig) -> None:
    adapter = rig.adapter(role=HOST, ports=("et-0/0/1",))
    change = adapter.stage(NEW, "r1-a")
    other = ("<name>et-0/0/1</name><scheduler-map>sm-rest<", "<name>et-0/0/1</name><scheduler-map>sm-first<")
    configured(rig, other)
    with pytest.raises(ConcurrentEditError, match="et-0/0/1 with scheduler map sm-first"):
        adapter.apply(change)


def test_a_drop_profile_that_somebody_has_spoilt_meanwhile_ends_the_undo(rig: JunosRig) -> None:
    """The undo names it again; what it holds is theirs."""
    change = rig.adapter().stage(NEW, "r1-a")
    adapter = rig.adapter(settle_s=0.0)
    adapter.apply(change)
    adapter.confirm(change)
    running = deepcopy(rig.server.store.running)
    (level, *_) = [one for one in running.iter("drop-profiles") if one.findtext("name") == "dp-first"]
    next(level.iter("drop-probability")).text = "7"
    rig.server.store.set_running(running)
    with pytest.raises(ReadBackError):
        adapter.rollback(change)
    with pytest.raises(ConcurrentEditError, match="leaves what others have set"):
        adapter.rollback(change)


def test_a_scheduler_whose_port_is_gone_is_theirs_who_have_set_it_since(rig: JunosRig) -> None:
    adapter = rig.adapter()
    change = adapter.stage(NEW, "r1-a")
    adapter.apply(change)
    adapter.confirm(change)
    running = deepcopy(rig.server.store.running)
    (name,) = [one for one in running.iter("name") if one.text == "et-0/0/0"]
    name.text = "et-0/0/7"
    rig.server.store.set_running(running)
    rig.set_by_hand(OTHER, ["s-first"])
    for _ in range(2):
        adapter.rollback(change)
    assert set(rig.hardware().values()) == {rig.first}
    named = [one.text for one in rig.server.store.running.iter("drop-profile")]
    assert named == ["by-hand-0", "dp-shared", "dp-shared"]

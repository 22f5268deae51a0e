"""The fleet: an adapter a switch, what most of them run is the one to beat, and what each should run."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import httpx
import pytest

from service.switches.fleet import MOST_SWITCHES, Fleet
from settings.twin import IncumbentSettings, WatermarkSettings
from switches.base import Reading, SwitchAdapter
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.errors import UnknownSwitchError, UnreachableError
from tests.unit.service.making import making
from tests.unit.switches.labs import NEW, OLD, Lab
from twin.watermark import Watermark

pytestmark = pytest.mark.anyio

OTHER = WatermarkSettings(kmin_bytes=10, kmax_bytes=20, pmax=0.5)
DEFAULT = IncumbentSettings().default.watermark()
PATIENCE_S = 60.0


def dry(switch: str, running: Watermark) -> DryRunAdapter:
    return DryRunAdapter(Device(name=switch, platform="dry-run", running=running), clock_ns=lambda: 1)


def fleet(**switches: WatermarkSettings) -> Fleet:
    return Fleet(IncumbentSettings(switches=switches), making(dry), patience_s=PATIENCE_S)


def of(lab: Lab) -> Fleet:
    return Fleet(
        IncumbentSettings(), making(lambda switch, _: lab.adapter(switch), lab.ports), patience_s=PATIENCE_S
    )


def test_switches_are_known_from_settings_from_an_inventory_and_from_the_topology() -> None:
    made: list[str] = []

    def make(switch: str, running: Watermark) -> SwitchAdapter:
        made.append(switch)
        return dry(switch, running)

    one = Fleet(IncumbentSettings(switches={"leaf2": OTHER}), making(make, ["spine1"]))
    one.saw(["leaf1", "leaf1", "leaf2"])
    assert one.names == ("leaf1", "leaf2", "spine1")
    assert sorted(made) == ["leaf1", "leaf2", "spine1"]
    assert one.running() == {"leaf1": DEFAULT, "leaf2": OTHER.watermark(), "spine1": DEFAULT}


def test_switches_of_another_fabric_are_gone_once_one_is_declared() -> None:
    one = Fleet(IncumbentSettings(switches={"leaf2": OTHER}), making(dry, ["spine1"]))
    one.saw(["leaf1"])
    one.declared(["other1"])
    assert one.names == ("leaf2", "other1", "spine1")
    assert one.away("leaf1") is None  # what a rollout set on it can be undone
    one.declared(["leaf1"])
    assert one.names == ("leaf1", "leaf2", "spine1")


def test_names_without_end_make_no_adapters_without_end() -> None:
    one = fleet()
    one.saw(f"invented{number}" for number in range(MOST_SWITCHES + 10))
    assert len(one.names) == MOST_SWITCHES
    one.saw(["invented3"])
    assert len(one.names) == MOST_SWITCHES


def test_the_one_to_beat_is_what_most_run() -> None:
    one = fleet(a=OTHER, b=OTHER)
    one.saw("c")
    assert one.incumbent(["a", "b", "c"]) == OTHER.watermark()
    assert one.incumbent(["a", "c"]) == DEFAULT
    assert one.incumbent([]) == DEFAULT


def test_documents_tell_whether_queues_differ_and_without_reading_what_was_last_read() -> None:
    lab = Lab(leaf1=("a", "b"), leaf2=("a", "b"))
    lab.ports["leaf1"]["a"] = NEW
    one = of(lab)

    async def told(*, read: bool) -> dict[str, tuple[bool, int, bool]]:
        found = await one.documents(one.names, read=read)
        return {each.name: (each.differs, len(each.queues), each.read_at is not None) for each in found}

    assert asyncio.run(told(read=False)) == dict.fromkeys(("leaf1", "leaf2"), (False, 0, False))
    assert asyncio.run(told(read=True)) == {"leaf1": (True, 2, True), "leaf2": (False, 0, True)}


def test_a_step_reaches_the_switch_named_and_no_other() -> None:
    lab = Lab(leaf1=("a",), leaf2=("a",))
    one = of(lab)

    async def scene() -> None:
        change = await one.step("leaf1", lambda adapter: adapter.stage(NEW, "r"))
        await one.step("leaf1", lambda adapter: adapter.apply(change))

    asyncio.run(scene())
    assert lab.ports == {"leaf1": {"a": NEW}, "leaf2": {"a": OLD}}
    assert one.writes("leaf1")
    assert (one.kind("leaf1"), one.kind("leaf9")) == ("lab", "none")


def test_a_step_raises_what_it_raises() -> None:
    lab = Lab()
    lab.away = httpx.ConnectError("refused")
    with pytest.raises(UnreachableError):
        asyncio.run(of(lab).step("leaf1", lambda adapter: adapter.read()))


def test_nobody_reads_a_switch_in_the_middle_of_a_step() -> None:
    begun, may_end = threading.Event(), threading.Event()
    lab = Lab()
    one = of(lab)

    def step(adapter: SwitchAdapter) -> Reading:
        begun.set()
        assert may_end.wait(60)
        return adapter.read()

    async def scene() -> None:
        under_way = asyncio.create_task(one.step("leaf1", step))
        await asyncio.to_thread(begun.wait, 60)
        reading = asyncio.create_task(one.refresh(["leaf1"]))
        await asyncio.sleep(0)
        assert lab.calls == []
        may_end.set()
        await under_way
        await reading
        assert lab.calls == ["GET /switches/leaf1"] * 2

    asyncio.run(asyncio.wait_for(scene(), 60))


async def test_what_was_set_and_does_not_run_is_drift_until_it_is_adopted() -> None:
    lab = Lab()
    one = of(lab)
    await one.refresh()
    assert not one.drifted("leaf1")  # nothing was set here
    one.set_watermarks.put("leaf1", NEW)
    assert one.drifted("leaf1")
    one.set_watermarks.put("leaf1", await one.read_now("leaf1"))
    assert (one.drifted("leaf1"), one.set_to("leaf1")) == (False, OLD)
    one.set_watermarks.put("leaf1", replace(OLD, pmax=OLD.pmax + 3e-10))  # as a platform may round it
    assert not one.drifted("leaf1")
    lab.ports["leaf1"]["Ethernet0"] = NEW  # its queues differ
    await one.refresh()
    assert one.drifted("leaf1")
    one.set_watermarks.put("leaf1", await one.read_now("leaf1"))
    assert (one.drifted("leaf1"), one.set_to("leaf1")) == (False, None)


async def test_queues_are_told_one_by_one_once_they_were_read_and_so_is_why_not() -> None:
    lab = Lab()
    one = of(lab)
    assert one.queues_of("leaf1") == {}
    assert one.failure("leaf1") is None
    lab.ports["leaf1"]["Ethernet0"] = NEW
    await one.refresh()
    assert one.queues_of("leaf1") == {("Ethernet0", 3): NEW, ("Ethernet1", 3): OLD}
    lab.away = httpx.ConnectError("gone")
    await one.refresh()
    assert isinstance(one.failure("leaf1"), UnreachableError)
    assert one.queues_of("leaf1")


def test_a_document_tells_what_the_platform_can_do() -> None:
    document = asyncio.run(fleet(a=OTHER).document("a"))
    assert (document.adapter, document.writes) == ("dry-run", False)
    assert document.capabilities.unit == "bytes"
    assert document.capabilities.read_back == "the settings"
    assert not document.capabilities.dead_man


def test_an_unknown_switch_names_the_known_ones() -> None:
    with pytest.raises(UnknownSwitchError, match="known switches are a"):
        asyncio.run(fleet(a=OTHER).document("z"))
    with pytest.raises(UnknownSwitchError, match="none yet"):
        fleet().writes("z")
    for asked in (fleet().read_now("z"), fleet().step("z", lambda adapter: adapter.read())):
        with pytest.raises(UnknownSwitchError):
            asyncio.run(asked)


def test_ports_of_a_role_that_agree_are_told_by_role() -> None:
    lab = Lab(leaf1=("a", "b"), leaf2=("a", "b"))
    for name in lab.ports:
        lab.ports[name]["b"] = NEW
    one = of(lab)
    ports = [(name, port, {"a": "host", "b": "up"}[port]) for name in lab.ports for port in ("a", "b")]
    assert one.by_role(ports) == {"host": DEFAULT, "up": DEFAULT}
    asyncio.run(one.refresh())
    assert one.by_role(ports) == {"host": OLD, "up": NEW}
    lab.ports["leaf2"]["b"] = OLD
    asyncio.run(one.refresh())
    assert one.by_role(ports) == {}


def test_a_switch_whose_queues_have_no_port_names_tells_nothing_where_they_differ() -> None:
    lab = Lab(leaf1=("profile one", "profile two"))
    one, ports = of(lab), [("leaf1", "a", "host"), ("leaf1", "b", "up")]
    asyncio.run(one.refresh())
    assert one.by_role(ports) == {"host": OLD, "up": OLD}
    lab.ports["leaf1"]["profile two"] = NEW
    asyncio.run(one.refresh())
    assert one.by_role(ports) == {}

"""What switches run is what they were last read to run, whether or not they answer now."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from service.switches.adapter_check import Answer
from service.switches.fleet import Fleet
from settings.twin import IncumbentSettings
from switches.base import Reading, SwitchAdapter
from switches.device import Device
from switches.dryrun import DryRunAdapter
from switches.errors import UnreachableError
from tests.unit.service.making import making
from tests.unit.switches.labs import NEW, OLD, Lab
from twin.watermark import Watermark

pytestmark = pytest.mark.anyio

CONFIGURED = IncumbentSettings().default.watermark()
THIRD = Watermark(1, 2, 0.5)
PATIENCE_S = 60.0


def lab_of_two() -> Lab:
    return Lab(leaf1=("a", "b"), leaf2=("a", "b"))


def fleet_of(lab: Lab) -> Fleet:
    return Fleet(
        IncumbentSettings(), making(lambda switch, _: lab.adapter(switch), lab.ports), patience_s=PATIENCE_S
    )


async def sets(fleet: Fleet, switch: str, watermark: Watermark) -> None:
    """As a rollout does."""
    change = await fleet.step(switch, lambda adapter: adapter.stage(watermark, "r"))
    await fleet.step(switch, lambda adapter: adapter.apply(change))
    reading = await fleet.step(switch, lambda adapter: adapter.verify(change))
    if fleet.writes(switch):
        fleet.note(reading)
        fleet.set_watermarks.put(switch, change.after)


def dry(switch: str, running: Watermark) -> DryRunAdapter:
    return DryRunAdapter(Device(name=switch, platform="dry-run", running=running), clock_ns=lambda: 7)


def test_before_any_reading_the_settings_stand_in() -> None:
    lab = lab_of_two()
    lab.ports["leaf1"] = dict.fromkeys("ab", NEW)
    fleet = fleet_of(lab)
    assert fleet.runs("leaf1") == CONFIGURED
    asyncio.run(fleet.refresh())
    assert fleet.runs("leaf1") == NEW
    assert fleet.runs("leaf2") == OLD


def test_the_one_to_beat_is_what_most_switches_were_read_to_run() -> None:
    lab = Lab(a=("p",), b=("p",), c=("p",))
    fleet = fleet_of(lab)
    lab.ports["a"]["p"] = lab.ports["b"]["p"] = NEW
    asyncio.run(fleet.refresh(["a", "b", "c"]))
    assert fleet.incumbent(["a", "b", "c"]) == NEW
    assert fleet.running() == {"a": NEW, "b": NEW, "c": OLD}


def test_a_switch_whose_queues_differ_counts_with_what_most_of_them_run() -> None:
    lab = Lab(leaf1=("a", "b", "c"))
    lab.ports["leaf1"] |= {"a": NEW, "b": NEW}
    fleet = fleet_of(lab)
    document = asyncio.run(fleet.document("leaf1"))
    assert document.running is None
    assert [(one.port, one.kmin_bytes) for one in document.queues] == [
        ("a", 50_000),
        ("b", 50_000),
        ("c", 400_000),
    ]
    assert fleet.runs("leaf1") == NEW


async def test_a_switch_that_goes_away_keeps_its_last_reading_and_says_why() -> None:
    lab = lab_of_two()
    fleet = fleet_of(lab)
    lab.ports["leaf1"] = dict.fromkeys("ab", NEW)
    before = await fleet.document("leaf1")
    assert before.reachable
    lab.away = httpx.ConnectError("Connection refused")
    gone = await fleet.document("leaf1")
    assert not gone.reachable
    assert gone.detail is not None
    assert "refused" in gone.detail
    assert (gone.running, gone.read_at) == (before.running, before.read_at)
    assert fleet.runs("leaf1") == NEW
    lab.away = None
    lab.ports["leaf1"] = dict.fromkeys("ab", THIRD)
    back = await fleet.document("leaf1")
    assert (back.reachable, back.detail) == (True, None)
    assert fleet.runs("leaf1") == THIRD


def test_a_switch_never_read_shows_nothing_it_might_run() -> None:
    lab = lab_of_two()
    lab.away = httpx.ConnectError("Connection refused")
    (first, _) = asyncio.run((fleet := fleet_of(lab)).documents(fleet.names))
    assert (first.running, first.read_at, first.reachable) == (None, None, False)


async def test_what_is_set_is_what_runs_from_then_on_and_a_new_lab_is_drift() -> None:
    lab = lab_of_two()
    fleet = fleet_of(lab)
    await sets(fleet, "leaf1", NEW)
    assert fleet.runs("leaf1") == NEW
    assert not fleet.drifted("leaf1")
    lab.ports["leaf1"] = dict.fromkeys("ab", OLD)  # a new lab, with its own defaults
    document = await fleet.document("leaf1")
    assert document.drifted
    assert document.running is not None
    assert document.set_to is not None
    assert (document.running.kmin_bytes, document.set_to.kmin_bytes) == (400_000, 50_000)
    assert set(lab.ports["leaf1"].values()) == {OLD}
    assert not (await fleet.document("leaf2")).drifted


async def test_a_step_that_fails_changes_nothing_of_what_is_known() -> None:
    lab = lab_of_two()
    fleet = fleet_of(lab)
    await fleet.refresh()
    lab.away = httpx.ConnectError("refused")
    with pytest.raises(UnreachableError):
        await sets(fleet, "leaf1", NEW)
    lab.away = None
    assert fleet.runs("leaf1") == fleet.runs("leaf2") == OLD
    assert {mark for ports in lab.ports.values() for mark in ports.values()} == {OLD}
    assert not fleet.drifted("leaf1")


async def test_a_dry_run_never_changes_what_runs() -> None:
    fleet = Fleet(IncumbentSettings(), making(dry, ["leaf1"]), patience_s=PATIENCE_S)
    await sets(fleet, "leaf1", NEW)
    document = await fleet.document("leaf1")
    assert (fleet.runs("leaf1"), document.set_to, document.drifted) == (CONFIGURED, None, False)


class Slow(DryRunAdapter):
    """Answers once ``free`` is set; counts how often it is asked at one time, and in all.

    ``several`` is set once two are.
    """

    free, several = threading.Event(), threading.Event()
    lock = threading.Lock()
    now = most = asked = 0

    def read(self) -> Reading:
        with Slow.lock:
            Slow.now, Slow.asked = Slow.now + 1, Slow.asked + 1
            Slow.most = max(Slow.most, Slow.now)
            if Slow.now > 1:
                Slow.several.set()
        assert Slow.free.wait(PATIENCE_S)
        with Slow.lock:
            Slow.now -= 1
        return super().read()


def test_a_slow_switch_is_waited_for_a_while_and_noted_when_it_comes() -> None:
    heard: list[str] = []
    names = [f"leaf{number}" for number in range(40)]
    all_heard = asyncio.Event()

    def told(switch: str, before: Answer[Reading], after: Answer[Reading]) -> None:
        heard.append(switch)
        if len(heard) == len(names):
            all_heard.set()

    def make(switch: str, running: Watermark) -> Slow:
        return Slow(Device(name=switch, platform="dry-run", running=running), clock_ns=lambda: 7)

    fleet = Fleet(IncumbentSettings(), making(make, names), on_reading=told, patience_s=0.01)

    async def scene() -> None:
        documents = await fleet.documents(fleet.names)
        assert [one.running for one in documents] == [None] * 40
        await fleet.documents(fleet.names)  # asks nobody twice while an answer is awaited
        assert await asyncio.to_thread(Slow.several.wait, PATIENCE_S)
        Slow.free.set()
        await all_heard.wait()

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert sorted(heard) == sorted(names)
    assert Slow.asked == len(names)
    assert 1 < Slow.most <= 8
    assert fleet.running() == dict.fromkeys(names, CONFIGURED)


class Hurried(asyncio.SelectorEventLoop):
    """An event loop whose clock is ``ahead_s`` ahead."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


class Network:
    """A fleet, of which ``away`` switches, named so, answer once ``free`` is set; ``hung`` tells that all of
    them are being read. Only then do the others answer, after a third of the patience by the loop's clock.
    """

    def __init__(self, *names: str, away: int = 0) -> None:
        self.loop = Hurried()
        self.free, self.hung, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._away = away
        self.fleet = Fleet(IncumbentSettings(), making(self._adapter, names), patience_s=PATIENCE_S)

    def run(self, scene: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            try:
                runner.run(scene)
            finally:
                self.free.set()
                self.fleet.close()

    def _adapter(self, switch: str, running: Watermark) -> DryRunAdapter:
        adapter = dry(switch, running)
        answer = adapter.read

        def read() -> Reading:
            if switch.startswith("away"):
                with self._lock:
                    self._away -= 1
                    if self._away == 0:
                        self.hung.set()
                assert self.free.wait(PATIENCE_S)
            else:
                assert self._away == 0 or self.hung.wait(PATIENCE_S)
                with self._lock:
                    self.loop.ahead_s += PATIENCE_S / 3
            return answer()

        adapter.read = read  # type: ignore[method-assign]
        return adapter


LEAVES = [f"leaf{number:02}" for number in range(40)]


def test_many_switches_are_read_to_the_last_but_one_that_hangs_is_not_waited_for() -> None:
    here = Network("away", *LEAVES, away=1)

    async def scene() -> None:
        unread = await here.fleet.refresh(here.fleet.names, from_now=True)
        assert [name for name in LEAVES if not here.fleet.was_tried(name)] == []
        assert unread == ["away"]

    here.run(scene())


def test_no_switch_is_waited_for_that_cannot_be_read_as_others_hang() -> None:
    away = [f"away{number}" for number in range(8)]
    here = Network(*away, *LEAVES, away=len(away))

    async def scene() -> None:
        reading = asyncio.create_task(here.fleet.refresh([*away, *LEAVES], from_now=True))
        assert await asyncio.to_thread(here.hung.wait, PATIENCE_S)
        here.loop.ahead_s += PATIENCE_S
        assert await reading == [*away, *LEAVES]

    here.run(scene())


def test_a_switch_that_a_step_uses_is_waited_for_no_longer_however_many_others_are_read() -> None:
    here = Network(*LEAVES)
    begun = threading.Event()

    def step(_: SwitchAdapter) -> None:
        begun.set()
        assert here.free.wait(PATIENCE_S)

    async def scene() -> None:
        stepping = asyncio.create_task(here.fleet.step("leaf00", step))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        assert await here.fleet.refresh(LEAVES, from_now=True) == ["leaf00"]
        here.free.set()
        await stepping

    here.run(scene())


class Broken(DryRunAdapter):
    """Breaks the rule that adapters raise ``SwitchError`` only."""

    def read(self) -> Reading:
        raise ZeroDivisionError


def test_an_adapter_that_breaks_is_a_sentence_too() -> None:
    device = Device(name="leaf1", platform="dry-run", running=OLD)
    fleet = Fleet(
        IncumbentSettings(),
        making(lambda *_: Broken(device, clock_ns=lambda: 7), ["leaf1"]),
        patience_s=PATIENCE_S,
    )
    document = asyncio.run(fleet.document("leaf1"))
    assert document.detail is not None
    assert "ZeroDivisionError" in document.detail


async def test_what_is_read_from_now_on_was_not_read_before() -> None:
    """A reading that began before somebody set the switch tells what ran then."""
    lab = lab_of_two()
    adapter = lab.adapter("leaf1")
    begun, gate, read = threading.Event(), threading.Event(), adapter.read

    def slow() -> Reading:
        found = read()
        begun.set()
        assert gate.wait(PATIENCE_S)
        return found

    adapter.read = slow  # type: ignore[method-assign]
    fleet = Fleet(IncumbentSettings(), making(lambda *_: adapter, ["leaf1"]), patience_s=PATIENCE_S)
    earlier = asyncio.create_task(fleet.refresh())
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    lab.ports["leaf1"] = dict.fromkeys("ab", NEW)
    asked = [asyncio.create_task(fleet.read_now("leaf1")) for _ in range(3)]
    gate.set()
    assert await asyncio.gather(*asked) == [NEW] * 3
    await earlier
    fleet.close()

"""Switches in memory, a journal that can be broken, and the shell that drives rollouts over both."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import CollectorRegistry

from rollout.plan import Figures, RolloutPlan
from rollout.state import Event, RolloutState, decode
from service.metrics import Metrics
from service.rollouts.manager import Rollouts
from service.rollouts.notify import RolloutNotifier
from service.rollouts.rollout import Rollout
from service.rollouts.runner import Runner, SteadyClock
from service.rollouts.watch import Mark, Watcher
from service.switches.fleet import Fleet
from settings.errors import UnavailableError
from settings.twin import IncumbentSettings
from store.database import Database
from store.journal import Journal
from switches.base import Capabilities, QueueWatermark, Reading, StagedChange
from switches.errors import ConcurrentEditError, ReadBackError, SwitchError, UnreachableError
from tests.unit.rollout.rollouts import GOOD, NEW, OLD, plan
from tests.unit.service.making import making
from tests.unit.service.nics.making import Hosts
from twin.watermark import Watermark

PATIENCE_S = 300.0
T0 = 1_000_000.0
FOREIGN = Watermark(7, 9, 0.9)
ALL_NEW = dict.fromkeys("abc", NEW)
ALL_OLD = dict.fromkeys("abc", OLD)
QUICK = plan(soak_s=0.0, patience_s=3_000.0)  # the clock goes on a second a look, and looks are many


class Switch:
    """A switch of one queue. ``meets`` is what a call of a step meets, in turn; ``gate`` holds its sets, and
    ``reading`` its read-backs.
    """

    def __init__(self, name: str, running: Watermark = OLD) -> None:
        self.switch = name
        self.running = running
        self.writes = True
        self.calls: list[str] = []
        self.meets: dict[str, list[Exception]] = {}
        self.gate, self.reading = threading.Event(), threading.Event()
        self.gate.set()
        self.reading.set()

    def capabilities(self) -> Capabilities:
        return Capabilities(kind="memory", writes=self.writes)

    def read(self) -> Reading:
        self._step("read")
        return Reading.of(self.switch, [QueueWatermark("e0", 3, self.running)], 7)

    def stage(self, watermark: Watermark, change_id: str) -> StagedChange:
        self._step("stage")
        before = (QueueWatermark("e0", 3, self.running),)
        return StagedChange(
            id=change_id, switch=self.switch, asked=watermark, after=watermark, before=before, diff="-a\n+b"
        )

    def apply(self, change: StagedChange) -> None:
        self._step("apply")
        assert self.gate.wait(PATIENCE_S)
        if self.running not in (change.ran, change.after):
            raise ConcurrentEditError(self.switch, str(self.running), "it is ours", "look")
        self.running = change.after

    def verify(self, change: StagedChange) -> Reading:
        self._step("verify")
        assert self.reading.wait(PATIENCE_S)
        if self.running != change.after:
            raise ReadBackError(self.switch, str(self.running), f"it runs {change.after}", "look")
        return Reading.of(self.switch, [QueueWatermark("e0", 3, self.running)], 7)

    def confirm(self, change: StagedChange) -> None:
        self._step("confirm")

    def rollback(self, change: StagedChange) -> None:
        self._step("undo")
        if self.running not in (change.ran, change.after):
            raise ConcurrentEditError(self.switch, str(self.running), "somebody set it", "leave it")
        assert change.ran is not None
        self.running = change.ran

    def close(self) -> None:
        self.calls.append("close")

    def _step(self, step: str) -> None:
        self.calls.append(step)
        if self.meets.get(step):
            raise self.meets[step].pop(0)


def away(name: str) -> SwitchError:
    return UnreachableError(name, "no answer", "it answers", "look")


class Notes(Journal):
    """The real journal, in memory or on disk, which ``broken`` refuses as a full disk does."""

    def __init__(self, url: str | None = None) -> None:
        self.database = Database(url)
        self.database.open()
        super().__init__(self.database)
        self.known = True  # it is new
        self.broken = False
        self.refuse_from: str | None = None
        self.refusals = 0

    async def append(self, subject: str, at_s: float, document: bytes) -> None:
        if self.refuse_from is not None and f'"type":"{self.refuse_from}"'.encode() in document:
            self.broken = True
        if self.broken:
            self.refusals += 1
            raise UnavailableError("journal", "disk full", "it is written down first", "make room")
        await super().append(subject, at_s, document)

    def events(self, rollout_id: str = "r") -> list[Event]:
        return [decode(entry.document) for entry in self.read() if entry.subject == rollout_id]


class Eyes:
    """What telemetry says: a script of figures, the last of them again and again."""

    def __init__(self, *figures: Figures) -> None:
        self.figures = list(figures or (GOOD,))
        self.silence: str | None = None

    async def mark(self, switches: Iterable[str]) -> Mark:
        return Mark(at_s=0.0)

    async def since(self, mark: Mark, switches: Iterable[str]) -> Figures:
        return self.figures.pop(0) if len(self.figures) > 1 else self.figures[0]

    def silent(self, mark: Mark) -> str | None:
        return self.silence


@dataclass
class World:
    """Rollouts over some switches, and what their notifier hears; steps are timed by the service's own. A
    second passes at each look at a clock.
    """

    switches: dict[str, Switch]
    journal: Notes
    eyes: Eyes
    heard: list[Event] = field(default_factory=list)
    before_its_entry: list[Event] = field(default_factory=list)
    timed: list[tuple[str, str]] = field(default_factory=list)
    wall_ahead_s: float = 0.0
    at_once: int = 4
    nics: Hosts = field(default_factory=Hosts)

    def __post_init__(self) -> None:
        self.nics.on_reading = lambda reading: self.rollouts.was_read(reading)
        ticks = itertools.count(int(T0))
        self.fleet = Fleet(
            IncumbentSettings(),
            making(lambda name, _: self.switches[name], self.switches),
            on_reading=lambda switch, before, after: after.reading and self.rollouts.was_read(after.reading),
            patience_s=PATIENCE_S,
        )
        unused: Any = None
        self.notifier = RolloutNotifier(
            fleet=self.fleet,
            nics=self.nics.polling,
            metrics=Metrics(CollectorRegistry(), version="test"),
            store=unused,
            gate=unused,
            events=unused,
            audit=unused,
            gains=unused,
            window=unused,
        )
        runner = Runner(
            self.fleet,
            self.nics.polling,
            self.journal,
            cast("Watcher", self.eyes),
            cast("RolloutNotifier", self),
            SteadyClock(lambda: next(ticks) + self.wall_ahead_s, lambda: float(next(ticks))),
            at_once=self.at_once,
            nic_at_once=4,
            measure_every_s=0.001,
        )
        self.rollouts = Rollouts(runner, keep=10)

    @property
    def runs(self) -> dict[str, Watermark]:
        return {name: one.running for name, one in self.switches.items()}

    async def ended(self, rollout: Rollout) -> RolloutState:
        await self.rollouts.ended(rollout, within_s=PATIENCE_S)
        assert rollout.state.phase.ended, rollout.state
        return rollout.state

    async def rolled_out(self, of: RolloutPlan | None = None) -> RolloutState:
        return await self.ended(await self.rollouts.start(of or plan(), "ada"))

    async def rests(self, rollout: Rollout) -> None:
        """Until it has looked at all that happened, and neither runs a step nor begins one."""
        await until(lambda: rollout.driver is not None)
        looks = 0
        while looks < 5 and rollout.driver is not None and not rollout.driver.done():
            looks = 0 if rollout.under_way or rollout.changed.is_set() else looks + 1
            await asyncio.sleep(0)

    async def stop(self) -> None:
        await self.rollouts.stop(PATIENCE_S)
        await self.nics.polling.stop()
        self.fleet.close()
        self.journal.database.close()

    def event(self, rollout: Rollout, before: RolloutState | None, event: Event) -> None:
        self.heard.append(event)
        if event not in self.journal.events(rollout.id):
            self.before_its_entry.append(event)

    def step_timed(self, state: RolloutState, member: str, step: str, seconds: float) -> None:
        self.timed.append((member, step))
        self.notifier.step_timed(state, member, step, seconds)


def world(*names: str, url: str | None = None, **running: Watermark) -> World:
    marks = dict.fromkeys(names or ("a", "b", "c"), OLD) | running
    return World({name: Switch(name, mark) for name, mark in marks.items()}, Notes(url), Eyes())


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 # nothing tells of a step that has begun
            await asyncio.sleep(0.001)

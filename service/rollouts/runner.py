"""What is known of switches from rollouts: what each was last set to, and when one was; must not set any.

Wall-clock time that no setting of the clock moves while somebody counts with it.

Takes a rollout from step to step: does what the machine wants, and journals what happened before anything
follows from it. Must not decide whether one may begin, or is taken back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from service.fleet import Fleet
from service.rollouts.freeze import Freeze
from service.rollouts.steps import differing, event_of, step_of
from service.rollouts.watch import Mark, Watcher
from settings.errors import UnavailableError
from store.journal import Journal
from switches.base import Reading, StagedChange
from switches.rollout.events import (
    Applying,
    Checked,
    Event,
    Failed,
    Frozen,
    Measured,
    Step,
    Thawed,
    ToSwitch,
    Undone,
    Verified,
    WentSilent,
    encode,
)
from switches.rollout.machine import advance, next_due_s, wanted
from switches.rollout.state import (
    Action,
    Apply,
    Check,
    Phase,
    Progress,
    RolloutState,
    SwitchAction,
    Undo,
    Verify,
    Watch,
)
from twin.watermark import Watermark


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is still to be known of rollouts whose entries are removed from the journal."""

    set_to: dict[str, Watermark]
    last_set_s: float | None


class Known:
    """``fleet`` is told what each switch should run. ``last_set_s`` is seconds since 1970; None for never."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.last_set_s: float | None = None

    def to_keep(self) -> bytes:
        """All of it, as JSON for the journal."""
        return msgspec.json.encode(_Kept(set_to=dict(self._fleet.all_set_to), last_set_s=self.last_set_s))

    def take_up(self, document: str) -> None:
        """What ``to_keep`` gave; raises ``msgspec.ValidationError``."""
        kept = msgspec.json.decode(document, type=_Kept)
        self._fleet.all_were_set(kept.set_to)
        self.last_set_s = _later(self.last_set_s, kept.last_set_s)

    def note(self, state: RolloutState, event: Event) -> None:
        """What a switch should run by now, and when one was last set."""
        if not isinstance(event, ToSwitch) or event.switch not in state.plan.written:
            return
        name = event.switch
        if isinstance(event, Applying | Undone):
            self.last_set_s = _later(self.last_set_s, event.at_s)
        one = state.switches[name]
        if one.change is None:
            return
        if one.progress is Progress.SET and state.phase is not Phase.ROLLING_BACK:
            self._fleet.was_set(name, one.change.after)
        elif one.progress is Progress.RESTORED:
            self._fleet.was_set(name, one.change.ran)
        elif one.progress is Progress.LEFT_ALONE:
            self._fleet.was_set(name, one.change.ran or one.change.after)  # which it does not run: drift
        elif one.progress.touched:
            self._fleet.was_set(name, None)  # until it is done: half of a change is no drift


def _later(one_s: float | None, other_s: float | None) -> float | None:
    return max((at_s for at_s in (one_s, other_s) if at_s is not None), default=None)


class SteadyClock:
    """Wall-clock seconds since 1970 that go on as ``clock_s``, monotonic seconds, does.

    Waits of a rollout are differences of times in its journal: a wall clock set by a day in the middle must
    not end a soak, nor keep an undo from being tried again. ``set`` takes the wall clock's time anew.
    """

    def __init__(self, wall_s: Callable[[], float], clock_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        self._clock_s = clock_s
        self._ahead_s = 0.0
        self.set()

    def set(self) -> None:
        """From now on the time is the wall clock's as it is now."""
        self._ahead_s = self._wall_s() - self._clock_s()

    def now_s(self) -> float:
        """Seconds since 1970."""
        return self._clock_s() + self._ahead_s


STALLED_S = 5.0

_log = logging.getLogger("ecntwin.rollouts")

T = TypeVar("T")


@dataclass(slots=True)
class Rollout:
    """One rollout, its events so far and what is under way for it, by switch or by kind of action.

    ``events`` are those of the journal: of tries in a row that fail and of looks that show nothing new only
    what they lead to, for there may be thousands. ``differing`` are the last readings of switches that do not
    run what it has set on them.
    """

    state: RolloutState
    events: list[Event]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    under_way: dict[str | type[Action], asyncio.Task[None]] = field(default_factory=dict)
    differing: dict[str, Reading] = field(default_factory=dict)
    driver: asyncio.Task[None] | None = None
    stalled: str | None = None
    mark: tuple[float, Mark] | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.state.plan.id


Told = Callable[[Rollout, RolloutState | None, Event], None]


class Driver:
    """``told(rollout, state before, event)`` hears of everything, ``timed(switch, step, seconds)`` of steps.

    ``freeze`` says whether switches are frozen, whatever a rollout's journal says of it yet; ``clock_s`` is
    monotonic seconds. At most ``at_once`` steps run at a time. Use from one event loop only.
    """

    def __init__(
        self,
        fleet: Fleet,
        journal: Journal,
        watcher: Watcher,
        known: Known,
        clock: SteadyClock,
        *,
        at_once: int,
        measure_every_s: float,
        freeze: Callable[[], Freeze],
        clock_s: Callable[[], float],
        told: Told,
        timed: Callable[[str, str, float], None],
    ) -> None:
        self._fleet = fleet
        self._journal = journal
        self._watcher = watcher
        self._known = known
        self._clock = clock
        self._room = asyncio.Semaphore(at_once)
        self._measure_every_s = measure_every_s
        self._freeze = freeze
        self._clock_s = clock_s
        self._told = told
        self._timed = timed
        self._stopping = False

    async def tell(self, rollout: Rollout, event: Event, still: Callable[[], bool] = lambda: True) -> None:
        """Journals an event, then lets it have its effect; neither where it is not ``still`` wanted.

        What is journaled has its effect even where whoever caused it waits no more.
        """
        await to_its_end(self._write_and_take(rollout, event, still))

    async def _write_and_take(self, rollout: Rollout, event: Event, still: Callable[[], bool]) -> None:
        async with rollout.telling:
            if not still():
                return
            if _repeats(rollout.state, event):
                self.take(rollout, event, keep=False)
                return
            await self._journal.append(rollout.id, event.at_s, encode(event))
            self.take(rollout, event)

    def take(self, rollout: Rollout, event: Event, *, keep: bool = True) -> None:
        before, rollout.state = rollout.state, advance(rollout.state, event)
        if keep:
            rollout.events.append(event)
        rollout.stalled = None
        rollout.changed.set()
        self._known.note(rollout.state, event)
        self.tell_others(rollout, before, event)

    def tell_others(self, rollout: Rollout, before: RolloutState | None, event: Event) -> None:
        try:
            self._told(rollout, before, event)
        except Exception:
            _log.exception("who hears of rollout %s failed in a way it should not", rollout.id)

    def _wanted(self, rollout: Rollout) -> tuple[Action, ...]:
        state = rollout.state
        if self._freeze().frozen:  # whether or not that is in its journal yet
            state = replace(state, frozen=True)
        return wanted(state, self._clock.now_s())

    async def tell_freeze(self, rollout: Rollout) -> None:
        """Journals a freeze or a thaw that the rollout has not heard of."""
        freeze = self._freeze()
        kind = Frozen if freeze.frozen else Thawed
        await self.tell(
            rollout,
            kind(at_s=self._clock.now_s(), by=freeze.by or ""),
            lambda: not rollout.state.phase.ended and rollout.state.frozen != freeze.frozen,
        )

    def was_read(self, rollout: Rollout, reading: Reading) -> None:
        """One of its switches was read, by whomever: what differs from what it has set takes it back."""
        if self._differs(rollout, reading) is None:
            rollout.differing.pop(reading.switch, None)
        else:
            rollout.differing[reading.switch] = reading
            rollout.changed.set()

    def _differs(self, rollout: Rollout, reading: Reading) -> StagedChange | None:
        state, name = rollout.state, reading.switch
        change = state.switches[name].change
        stays = state.phase.forward and name in state.plan.written
        if change is None or not stays or state.switches[name].progress is not Progress.SET:
            return None
        return None if change.made_in(reading) else change

    async def _tell_what_came(self, rollout: Rollout) -> None:
        """What others have done meanwhile, before anything more is."""
        if rollout.state.frozen != self._freeze().frozen:
            await self.tell_freeze(rollout)
        for reading in list(rollout.differing.values()):
            if (change := self._differs(rollout, reading)) is not None:
                await self.tell(rollout, differing(change, reading, self._clock.now_s()))
            rollout.differing.pop(reading.switch, None)

    def drive_on(self, rollout: Rollout) -> None:
        if not self._stopping and (rollout.driver is None or rollout.driver.done()):
            rollout.driver = asyncio.create_task(self._drive(rollout), name=f"rollout-{rollout.id}")

    async def _drive(self, rollout: Rollout) -> None:
        while not self._stopping and (not rollout.state.phase.ended or rollout.under_way):
            rollout.changed.clear()
            if rollout.stalled is None:
                await self._unless_stalled(rollout, self._tell_what_came(rollout))
            for action in self._wanted(rollout) if rollout.stalled is None else ():
                key = action.switch if isinstance(action, SwitchAction) else type(action)
                if key not in rollout.under_way:
                    task = asyncio.create_task(self._act(rollout, key, action))
                    rollout.under_way[key] = task
            now_s = self._clock.now_s()
            due_s = next_due_s(rollout.state, now_s)
            wait_s = None if due_s is None else due_s - now_s + 0.001
            if rollout.stalled is not None:
                wait_s = STALLED_S
            try:
                await asyncio.wait_for(rollout.changed.wait(), wait_s)
            except TimeoutError:
                rollout.stalled = None

    async def _act(self, rollout: Rollout, key: str | type[Action], action: Action) -> None:
        try:
            match action:
                case Watch():
                    doing = self._watch(rollout, action)
                case Check():
                    doing = self._check(rollout, action)
                case _:
                    doing = self._step(rollout, action)
            await self._unless_stalled(rollout, doing)
        finally:
            del rollout.under_way[key]
            rollout.changed.set()

    async def _unless_stalled(self, rollout: Rollout, doing: Coroutine[object, object, None]) -> None:
        try:
            await doing
        except UnavailableError as error:
            rollout.stalled = str(error)
            _log.error("rollout %s stands still: %s", rollout.id, error)
        except Exception:
            rollout.stalled = "a mistake of the service, which its log tells"
            _log.exception("a step of rollout %s failed in a way it should not", rollout.id)

    async def _step(self, rollout: Rollout, action: SwitchAction) -> None:
        def still() -> bool:
            return not self._stopping and action in self._wanted(rollout)

        async with self._room:
            if isinstance(action, Apply):
                await self.tell(rollout, Applying(at_s=self._clock.now_s(), switch=action.switch), still)
            if not still():
                return  # it waited for its turn, and something else has happened
            if action.switch in rollout.state.plan.written and isinstance(action, Undo):
                self._fleet.was_set(action.switch, None)  # until it is done: half of a change is no drift
            event = await self._done(rollout, action, step_of(action), still)
            if event is not None:
                await self.tell(rollout, event)

    async def _check(self, rollout: Rollout, action: Check) -> None:
        def still() -> bool:
            return not self._stopping and any(isinstance(one, Check) for one in self._wanted(rollout))

        async def runs(change: StagedChange) -> bool:
            async with self._room:
                event = await self._done(rollout, Verify(change.switch, change), "check", still)
                if isinstance(event, Failed):  # at once: others may take long to answer
                    await self.tell(rollout, msgspec.structs.replace(event, step="check"), still)
                return isinstance(event, Verified)

        found = await asyncio.gather(*(runs(change) for change in action.changes))
        if all(found):  # else all are read again: what some ran is from before others answered
            names = tuple(change.switch for change in action.changes)
            await self.tell(rollout, Checked(at_s=self._clock.now_s(), switches=names), still)

    async def _done(
        self, rollout: Rollout, action: SwitchAction, step: Step, still: Callable[[], bool]
    ) -> Event | None:
        began_s, plan = self._clock_s(), rollout.state.plan
        event = await event_of(action, self._fleet, plan, still=still, wall_s=self._clock.now_s)
        if event is not None:
            self._timed(action.switch, step, self._clock_s() - began_s)
        return event

    async def _watch(self, rollout: Rollout, action: Watch) -> None:
        def still() -> bool:
            return any(isinstance(one, Watch) for one in self._wanted(rollout))

        try:
            if rollout.mark is None or rollout.mark[0] != action.since_s:
                rollout.mark = (action.since_s, await self._watcher.mark(action.switches))
            await asyncio.sleep(self._measure_every_s)
            if not still():
                return
            silent = self._watcher.silent(rollout.mark[1])
            figures = await self._watcher.since(rollout.mark[1], action.switches)
        except Exception as error:
            _log.exception("telemetry of rollout %s cannot be looked at", rollout.id)
            silent = f"telemetry cannot be looked at ({type(error).__name__}); see the service's log"
        if silent is not None:
            await self.tell(rollout, WentSilent(at_s=self._clock.now_s(), sentence=silent), still)
        else:
            await self.tell(rollout, Measured(at_s=self._clock.now_s(), figures=figures), still)

    def stop_soon(self, rollouts: Iterable[Rollout]) -> list[asyncio.Task[None]]:
        """Begins nothing more; what is still to be waited for."""
        self._stopping = True
        tasks: list[asyncio.Task[None]] = []
        for rollout in rollouts:
            rollout.changed.set()
            if Watch in rollout.under_way:
                rollout.under_way[Watch].cancel()
            tasks += rollout.under_way.values()
            if rollout.driver is not None:
                tasks.append(rollout.driver)
        return tasks


def _repeats(state: RolloutState, event: Event) -> bool:
    """Whether it leads to nothing but another try, which a service that starts anew begins with anyway."""
    if isinstance(event, Measured):
        return replace(advance(state, event), measured=state.measured) == state
    if isinstance(event, Failed) and event.switch in state.switches:
        return state.switches[event.switch].attempts > 0 and advance(state, event).phase is state.phase
    return False


async def to_its_end(doing: Coroutine[object, object, T]) -> T:
    """Waits for it; it goes on to its end where whoever waits goes away."""
    return await asyncio.shield(asyncio.create_task(doing))

"""Runs rollouts: carries out the state machine's actions, and journals each event before it takes effect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import compress
from typing import Any, ParamSpec, TypeVar

import msgspec

from rollout.machine import advance, next_due_s, reads_again, wanted, wanted_of, watched
from rollout.plan import RolloutPlan
from rollout.state import (
    Action,
    Applied,
    Apply,
    Applying,
    Change,
    Check,
    Checked,
    Confirm,
    Confirmed,
    Event,
    Failed,
    Frozen,
    HashStaged,
    LeftAlone,
    Measured,
    MemberAction,
    Progress,
    RolloutState,
    Stage,
    Staged,
    StagedNics,
    Step,
    Thawed,
    Undo,
    Undone,
    Verified,
    Verify,
    Watch,
    WentSilent,
    encode,
    member_of,
)
from service.nics.polling import NicPolling
from service.rollouts.devices import (
    Devices,
    HashDevices,
    HostDevices,
    MemberReading,
    SwitchDevices,
    differing,
)
from service.rollouts.notify import RolloutNotifier
from service.rollouts.rollout import Freeze, Rollout
from service.rollouts.watch import Watcher
from service.switches.fleet import Fleet, OvertakenError, StillWanted
from settings.errors import UnavailableError
from store.journal import Journal
from switches.base import StagedChange
from switches.errors import BusyError, ConcurrentEditError, ReadBackError, SwitchError, UnreachableError
from switches.hashing.values import StagedHash

STALLED_S = 5.0
UNREAD = (
    "the journal of rollouts could not be read since the service started: no switch is set, as while frozen; "
    "bring the database back, or look at what the service's log says of it"
)

_log = logging.getLogger("ecntwin.rollouts")

P = ParamSpec("P")
T = TypeVar("T")

_STEPS: dict[type[MemberAction], Step] = {
    Stage: "stage",
    Apply: "apply",
    Verify: "verify",
    Confirm: "confirm",
    Undo: "undo",
}


def uncancelled(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A decorator: the method runs to its end even if its caller is cancelled."""

    @wraps(method)
    async def shielded(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.shield(asyncio.create_task(method(*args, **kwargs)))

    return shielded


class SteadyClock:
    """Wall-clock seconds since 1970 that advance with ``clock_s``, monotonic seconds.

    Waits of a rollout are differences of times in its journal: a wall clock that jumps must not end a soak,
    nor delay the retry of an undo.
    """

    def __init__(self, wall_s: Callable[[], float], clock_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        self._clock_s = clock_s
        self._ahead_s = 0.0
        self.set()

    def set(self) -> None:
        """Sets the clock to the wall clock's time now."""
        self._ahead_s = self._wall_s() - self._clock_s()

    def now_s(self) -> float:
        return self._clock_s() + self._ahead_s


@dataclass
class Runner:
    """Carries out rollouts; at most ``at_once`` steps on switches and ``nic_at_once`` on ``nics`` run at a
    time, telemetry is measured every ``measure_every_s``.

    Use from one event loop only.
    """

    fleet: Fleet
    nics: NicPolling
    journal: Journal
    watcher: Watcher
    notifier: RolloutNotifier
    clock: SteadyClock
    at_once: int
    nic_at_once: int
    measure_every_s: float
    last_freeze: Freeze = field(default_factory=Freeze)
    _stopping: bool = False

    def __post_init__(self) -> None:
        self._switches = SwitchDevices(self.fleet, self.at_once)
        self._hosts = HostDevices(self.nics, self.nic_at_once)
        self._hashes = HashDevices(self.fleet, self.at_once)

    @property
    def freeze(self) -> Freeze:
        """Whether switches may be set; they may not until the journal is read, as it may hold a freeze."""
        if self.journal.known:
            return self.last_freeze
        return replace(self.last_freeze, frozen=True, unknown=UNREAD)

    @uncancelled
    async def record(self, rollout: Rollout, event: Event, still: StillWanted = lambda: True) -> None:
        """Journals an event, then applies it; does neither if it is no longer wanted (``still``)."""
        async with rollout.recording:
            if not still():
                return
            if _repeats(rollout.state, event):
                self.apply(rollout, event, keep=False)
                return
            await self.journal.append(rollout.id, event.at_s, encode(event))
            self.apply(rollout, event)

    def apply(self, rollout: Rollout, event: Event, *, keep: bool = True) -> None:
        """Advances the rollout by an event, and notifies."""
        before, rollout.state = rollout.state, advance(rollout.state, event)
        if keep:
            rollout.events.append(event)
        rollout.stalled = None
        rollout.changed.set()
        self.fleet.set_watermarks.follow(rollout.state, event)
        self.notify(rollout, before, event)

    def notify(self, rollout: Rollout, before: RolloutState | None, event: Event) -> None:
        """Notifies; an exception of a notifier does not stop the rollout."""
        try:
            self.notifier.event(rollout, before, event)
        except Exception:
            _log.exception("an event of rollout %s could not be published", rollout.id)

    def _state(self, rollout: Rollout) -> RolloutState:
        """Its state, frozen whether or not the freeze is in its journal yet."""
        return replace(rollout.state, frozen=True) if self.freeze.frozen else rollout.state

    async def record_freeze(self, rollout: Rollout) -> None:
        """Journals a freeze or a thaw that the rollout has not seen."""
        freeze, at_s = self.freeze, self.clock.now_s()
        by = freeze.by or ""
        await self.record(
            rollout,
            Frozen(at_s=at_s, by=by) if freeze.frozen else Thawed(at_s=at_s, by=by, anew=True),
            lambda: not rollout.state.phase.ended and rollout.state.frozen != freeze.frozen,
        )

    def _devices(self, plan: RolloutPlan, member: str) -> Devices:
        if member in plan.hashes:
            return self._hashes
        return self._hosts if member in plan.nics else self._switches

    def was_read(self, rollout: Rollout, member: str, reading: MemberReading) -> None:
        """Handles a reading of one of its members: a difference from what was set rolls the rollout back."""
        if self._differs(rollout, member, reading) is None:
            rollout.differing.pop(member, None)
        else:
            rollout.differing[member] = reading
            rollout.changed.set()

    def _differs(self, rollout: Rollout, member: str, reading: MemberReading) -> ReadBackError | None:
        state, one = rollout.state, rollout.state.members[member]
        stays = state.phase.forward and member in state.plan.written
        if one.change is None or not stays or one.progress is not Progress.SET:
            return None
        return differing(one.change, reading)

    async def _record_outside_events(self, rollout: Rollout) -> None:
        """Handles a freeze and changes by others, before any further step."""
        if rollout.state.frozen != self.freeze.frozen:
            await self.record_freeze(rollout)
        for member, reading in list(rollout.differing.items()):
            if (error := self._differs(rollout, member, reading)) is not None:
                await self.record(
                    rollout,
                    Failed(
                        at_s=self.clock.now_s(),
                        switch=member,
                        step="check",
                        reason=error.reason,
                        sentence=str(error),
                        passing=False,
                    ),
                )
            rollout.differing.pop(member, None)

    def run(self, rollout: Rollout) -> None:
        """Runs the rollout in a task of its own, unless one runs already."""
        if not self._stopping and (rollout.driver is None or rollout.driver.done()):
            rollout.driver = asyncio.create_task(self._run(rollout), name=f"rollout-{rollout.id}")

    async def _run(self, rollout: Rollout) -> None:
        while not self._stopping and (not rollout.state.phase.ended or rollout.under_way):
            rollout.changed.clear()
            if rollout.stalled is None:
                await self._unless_stalled(rollout, self._record_outside_events(rollout))
            if rollout.stalled is None:
                for action in wanted(self._state(rollout), self.clock.now_s(), rollout.under_way):
                    key = action.switch if isinstance(action, MemberAction) else type(action)
                    rollout.under_way[key] = asyncio.create_task(self._act(rollout, key, action))
            now_s = self.clock.now_s()
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
            _log.error("rollout %s is stalled: %s", rollout.id, error)
        except Exception:
            rollout.stalled = "a bug in the service; see its log"
            _log.exception("a step of rollout %s failed unexpectedly", rollout.id)

    async def _step(self, rollout: Rollout, action: MemberAction) -> None:
        def still() -> bool:
            due = wanted_of(self._state(rollout), action.switch, self.clock.now_s())
            return not self._stopping and action == due

        async with self._devices(rollout.state.plan, action.switch).room.of(action):
            if isinstance(action, Apply):
                await self.record(rollout, Applying(at_s=self.clock.now_s(), switch=action.switch), still)
            if not still():
                return  # it waited for its turn, and something else happened meanwhile
            event = await self._timed(rollout, action, _STEPS[type(action)], still)
            if event is not None:
                await self.record(rollout, event)

    async def _check(self, rollout: Rollout, action: Check) -> None:
        def still() -> bool:
            return not self._stopping and reads_again(rollout.state)

        async def runs(change: Change) -> bool:
            name = member_of(change)
            action = Verify(name, change)
            async with self._devices(rollout.state.plan, name).room.of(action):
                event = await self._timed(rollout, action, "check", still)
                if isinstance(event, Failed):  # undone at once: others may take long to answer
                    await self.record(rollout, msgspec.structs.replace(event, step="check"), still)
                return isinstance(event, Verified)

        found = await asyncio.gather(*(runs(change) for change in action.changes))
        names = tuple(map(member_of, compress(action.changes, found)))
        # Unless it is all of them, all are read again: some readings are older than the others' answers.
        if all(found) or any(rollout.state.members[name].attempts for name in names):
            await self.record(rollout, Checked(at_s=self.clock.now_s(), switches=names), still)

    async def _timed(
        self, rollout: Rollout, action: MemberAction, step: Step, still: StillWanted
    ) -> Event | None:
        began_s = self.clock.now_s()
        event = await self._event_of(action, rollout.state.plan, still)
        if event is not None:
            self.notifier.step_timed(rollout.state, action.switch, step, self.clock.now_s() - began_s)
        return event

    async def _event_of(self, action: MemberAction, plan: RolloutPlan, still: StillWanted) -> Event | None:
        """Runs a step; a ``SwitchError`` becomes an event.

        None if the step was no longer wanted (``still``) once the member was free: nothing was done. Where
        pushing was turned off after the plan was made, it fails without touching a device.
        """
        name, step = action.switch, _STEPS[type(action)]
        devices = self._devices(plan, name)

        def failed(reason: str, sentence: str, *, passing: bool) -> Failed:
            return Failed(
                at_s=self.clock.now_s(),
                switch=name,
                step=step,
                reason=reason,
                sentence=sentence,
                passing=passing,
            )

        try:
            if name in plan.written and not devices.writes(name):
                said = (
                    f"{devices.noun} {name!r} is no longer written from here; a rollout ends under the "
                    f"settings that it began under; set {devices.allowed_by} again, or put it back into "
                    "push.inventory"
                )
                return failed("disabled", said, passing=True)
            return await self._done(devices, action, plan, still)
        except OvertakenError:
            return None
        except ConcurrentEditError as error:
            if isinstance(action, Undo) and not isinstance(error, BusyError):
                return LeftAlone(at_s=self.clock.now_s(), switch=name, sentence=str(error))
            return failed(error.reason, str(error), passing=isinstance(error, BusyError))
        except SwitchError as error:
            return failed(error.reason, str(error), passing=isinstance(error, UnreachableError))
        except Exception as error:
            what = f"the adapter of {devices.noun}"
            _log.exception("%s %s failed unexpectedly", what, name)
            sentence = f"{what} {name!r} failed ({type(error).__name__}); see the service's log"
            return failed("mistake", sentence, passing=False)

    async def _done(
        self, devices: Devices, action: MemberAction, plan: RolloutPlan, still: StillWanted
    ) -> Event:
        name = action.switch
        match action:
            case Stage(target=target):
                change = await devices.stage(name, target, plan, still)
                if isinstance(change, StagedChange):
                    return Staged(at_s=self.clock.now_s(), switch=name, change=change)
                if isinstance(change, StagedHash):
                    return HashStaged(at_s=self.clock.now_s(), switch=name, change=change)
                return StagedNics(at_s=self.clock.now_s(), switch=name, change=change)
            case Apply(change=change):
                await devices.apply(change, plan, still)
                return Applied(at_s=self.clock.now_s(), switch=name)
            case Verify(change=change):
                runs = await devices.verify(change, plan, still)
                return Verified(at_s=self.clock.now_s(), switch=name, runs=runs)
            case Confirm(change=change):
                await devices.confirm(change, plan, still)
                return Confirmed(at_s=self.clock.now_s(), switch=name)
            case Undo(change=change):
                await devices.undo(change, plan, still)
                return Undone(at_s=self.clock.now_s(), switch=name)

    async def _watch(self, rollout: Rollout, action: Watch) -> None:
        def still() -> bool:
            return watched(rollout.state)

        try:
            if rollout.mark is None or rollout.mark[0] != action.since_s:
                rollout.mark = (action.since_s, await self.watcher.mark(action.switches))
            await asyncio.sleep(self.measure_every_s)
            if not still():
                return
            silent = self.watcher.silent(rollout.mark[1])
            figures = await self.watcher.since(rollout.mark[1], action.switches)
        except Exception as error:
            _log.exception("telemetry of rollout %s cannot be read", rollout.id)
            silent = f"telemetry cannot be read ({type(error).__name__}); see the service's log"
        if silent is not None:
            await self.record(rollout, WentSilent(at_s=self.clock.now_s(), sentence=silent), still)
        else:
            await self.record(rollout, Measured(at_s=self.clock.now_s(), figures=figures), still)

    def end_steps(self) -> None:
        """Waits for running steps and starts no more; blocking."""
        self.fleet.end_steps()
        self.nics.end_steps()

    def stop_soon(self, rollouts: Iterable[Rollout]) -> list[asyncio.Task[None]]:
        """Starts nothing more; returns the tasks to wait for."""
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
    """Whether the event only leads to another try, with which a restarted service begins anyway."""
    if isinstance(event, Measured):
        return replace(advance(state, event), measured=state.measured) == state
    if isinstance(event, Failed) and event.switch in state.members:
        one, then = state.members[event.switch], advance(state, event)
        stays = then.phase is state.phase and then.members[event.switch].progress is one.progress
        return one.attempts > 0 and stays
    return False

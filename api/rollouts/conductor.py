"""Drives rollouts: does what the machine wants, journals what happened before anything follows from it.

The machine and the journal know where a rollout is; this shell holds nothing that a crash may not lose.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from api.errors import ConflictError, NotFoundError, SettingsError, UnavailableError
from api.fleet import Fleet
from api.rollouts.freeze import Freeze
from api.rollouts.journal import ADOPTED, FREEZE, KNOWN, Journal, JournalEntry
from api.rollouts.steady import SteadyClock
from api.rollouts.steps import event_of, step_of
from api.rollouts.watch import Mark, Watcher
from switches.rollout.events import (
    Applying,
    Approved,
    Event,
    Failed,
    Frozen,
    Measured,
    Proposed,
    Resumed,
    RollbackAsked,
    Thawed,
    Undone,
    WentSilent,
    decode,
    encode,
)
from switches.rollout.machine import (
    Action,
    Apply,
    SwitchAction,
    Undo,
    Watch,
    advance,
    begin,
    next_due_s,
    wanted,
)
from switches.rollout.plan import RolloutPlan
from switches.rollout.state import Phase, Progress, RolloutState
from twin.watermark import Watermark

STALLED_S = 5.0
TOO_LATE_S = 3_600.0  # a service away for longer goes on with no change: it was for the network of then
_WATCH = ""

_log = logging.getLogger("ecntwin.rollouts")

T = TypeVar("T")


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is still to be known of rollouts whose entries are removed."""

    set_to: dict[str, Watermark]
    last_set_s: float | None


@dataclass(slots=True)
class Rollout:
    """One rollout, its events so far and what is under way for it, by switch.

    ``events`` are those of the journal: of tries in a row that fail and of looks that show nothing new only
    what they lead to, for there may be thousands.
    """

    state: RolloutState
    events: list[Event]
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    under_way: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    driver: asyncio.Task[None] | None = None
    stalled: str | None = None
    mark: tuple[float, Mark] | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.state.plan.id


Told = Callable[[Rollout, RolloutState | None, Event], None]


class Rollouts:
    """``told(rollout, state before, event)`` hears of everything, ``timed(switch, step, seconds)`` of steps.

    ``wall_s`` is wall-clock seconds since 1970, ``clock_s`` monotonic ones: while a rollout is under way its
    times go on with the second.

    At most ``at_once`` steps run at a time, telemetry is looked at every ``measure_every_s``, and the newest
    ``keep`` rollouts are remembered. Use from one event loop only.
    """

    def __init__(
        self,
        fleet: Fleet,
        journal: Journal,
        watcher: Watcher,
        *,
        at_once: int,
        measure_every_s: float,
        keep: int,
        wall_s: Callable[[], float],
        clock_s: Callable[[], float],
        told: Told,
        timed: Callable[[str, str, float], None],
    ) -> None:
        self._fleet = fleet
        self._journal = journal
        self._watcher = watcher
        self._room = asyncio.Semaphore(at_once)
        self._measure_every_s = measure_every_s
        self._keep = keep
        self._clock = SteadyClock(wall_s, clock_s)
        self._clock_s = clock_s
        self._told = told
        self._timed = timed
        self._rollouts: dict[str, Rollout] = {}
        self._stopping = False
        self._deciding = asyncio.Lock()
        self._forgotten: list[str] = []
        self._last_set_s: float | None = None
        self.freeze = Freeze()

    def newest(self, limit: int) -> list[Rollout]:
        """The newest rollouts, newest first."""
        return list(reversed(self._rollouts.values()))[:limit]

    def __len__(self) -> int:
        return len(self._rollouts)

    def get(self, rollout_id: str) -> Rollout:
        """The rollout of that id; raises ``NotFoundError``."""
        try:
            return self._rollouts[rollout_id]
        except KeyError:
            raise NotFoundError(
                f"rollout {rollout_id!r}",
                "its id",
                f"the newest {self._keep} rollouts are remembered",
                "list them at /v1/rollouts",
            ) from None

    def knows(self, rollout_id: str) -> bool:
        """Whether that id is taken."""
        return rollout_id in self._rollouts

    @property
    def active(self) -> int:
        """How many are under way."""
        return sum(not one.state.phase.ended for one in self._rollouts.values())

    def active_on(self, switches: Iterable[str]) -> Rollout | None:
        """A rollout under way that is about one of these switches."""
        named = set(switches)
        for rollout in self._rollouts.values():
            if not rollout.state.phase.ended and named.intersection(rollout.state.plan.switches):
                return rollout
        return None

    def now_s(self) -> float:
        """Seconds since 1970, as rollouts count them."""
        if not self.active:
            self._clock.set()
        return self._clock.now_s()

    async def start(self, plan: RolloutPlan, by: str) -> Rollout:
        """Begins a rollout; raises ``ConflictError`` while frozen, or while another is about its switches,
        and ``UnavailableError``, with nothing begun, where the journal cannot be written.
        """
        return await _to_its_end(self._start(plan, by))

    async def _start(self, plan: RolloutPlan, by: str) -> Rollout:
        async with self._deciding:
            if self.freeze.frozen:
                raise ConflictError(
                    "rollout", "an approval", f"switches are frozen by {self.freeze.by}", "thaw them first"
                )
            other = self.active_on(plan.switches)
            if other is not None:
                raise ConflictError(
                    "rollout",
                    "an approval",
                    f"rollout {other.id} is under way on the same switches",
                    "wait until it has ended, or roll it back",
                )
            at_s = self.now_s()
            first, approved = Proposed(at_s=at_s, plan=plan), Approved(at_s=at_s, by=by)
            rollout = Rollout(begin(first), [first])
            # Before anything is awaited: nobody else may begin on these switches.
            self._rollouts[plan.id] = rollout
            async with rollout.telling:
                try:
                    for event in (first, approved):
                        await self._journal.append(plan.id, event.at_s, encode(event))
                except BaseException:
                    del self._rollouts[plan.id]
                    raise
                self._tell_others(rollout, None, first)
                self._take(rollout, approved)
            self._drive_on(rollout)
            await self._forget()
            return rollout

    async def roll_back(self, rollout_id: str, by: str) -> Rollout:
        """Takes a rollout back; raises ``NotFoundError``, ``ConflictError`` where a later one has set the
        same, and ``UnavailableError`` where the journal cannot be written.
        """
        return await _to_its_end(self._roll_back(rollout_id, by))

    async def _roll_back(self, rollout_id: str, by: str) -> Rollout:
        async with self._deciding:
            rollout = self.get(rollout_id)
            if rollout.state.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK):
                return rollout
            later = False
            for other in self._rollouts.values():
                if later and other.state.phase is not Phase.ROLLED_BACK:
                    # A dry run that has ended has set nothing; one under way has staged what runs now.
                    about = other.state.plan.written if other.state.phase.ended else other.state.plan.switches
                    shared = set(about).intersection(rollout.state.plan.switches)
                    if shared:
                        raise ConflictError(
                            f"rollout {rollout.id}",
                            "a request to take it back",
                            f"rollout {other.id} has set {', '.join(sorted(shared)[:3])} since",
                            f"roll back {other.id} first",
                        )
                later = later or other is rollout
            await self._tell(rollout, RollbackAsked(at_s=self.now_s(), by=by))
            self._drive_on(rollout)
            return rollout

    async def set_freeze(self, frozen: bool, by: str) -> Freeze:
        """Lets no switch be set until thawed, or thaws. Undoing goes on either way.

        Raises ``UnavailableError`` where the journal cannot be written: a freeze holds all the same, until
        the service ends, and nothing is thawed.
        """
        return await _to_its_end(self._set_freeze(frozen, by))

    async def _set_freeze(self, frozen: bool, by: str) -> Freeze:
        at_s = self.now_s()
        if frozen:
            self.freeze = Freeze(frozen, by, at_s)  # at once: whatever has not begun does not begin
        document = json.dumps({"frozen": frozen, "by": by}).encode()
        await self._journal.append(FREEZE, at_s, document)
        self.freeze = Freeze(frozen, by, at_s)
        _log.warning("switches are %s by %s", "frozen" if frozen else "thawed", by)
        for rollout in list(self._rollouts.values()):
            rollout.changed.set()
        for rollout in list(self._rollouts.values()):
            await self._tell_freeze(rollout)
        return self.freeze

    async def _tell_freeze(self, rollout: Rollout) -> None:
        """What counts is ``freeze`` itself: this is for whoever reads the rollout's events."""
        if rollout.state.phase.ended or rollout.state.frozen == self.freeze.frozen:
            return
        by = self.freeze.by or ""
        kind = Frozen if self.freeze.frozen else Thawed
        await self._tell(rollout, kind(at_s=self._clock.now_s(), by=by))

    async def adopt(self, switch: str, by: str) -> Watermark | None:
        """Takes what a switch runs as wanted, whoever set it; None where its queues differ, and then nothing
        is known to be wanted of it. Raises ``UnknownSwitchError``, and ``UnavailableError`` where the switch
        does not answer or the journal cannot be written.
        """
        return await _to_its_end(self._adopt(switch, by))

    async def _adopt(self, switch: str, by: str) -> Watermark | None:
        async with self._deciding:
            running = await self._fleet.read_now(switch)
            document = msgspec.json.encode({"switch": switch, "by": by, "watermark": running})
            await self._journal.append(ADOPTED, self.now_s(), document)
            self._fleet.was_set(switch, running)
            return running

    async def resume(self) -> None:
        """Takes up what the journal holds: what was set stays known, and rollouts under way go on.

        Raises ``SettingsError`` where the journal cannot be read.
        """
        for entry in await asyncio.to_thread(self._journal.read):
            try:
                self._take_up(entry)
            except (ValueError, KeyError, TypeError) as error:  # msgspec's own are ValueErrors
                raise SettingsError(
                    "settings storage.url",
                    f"entry {entry.number} of the journal, about {entry.subject} ({error})",
                    "a journal is read by the version that wrote it, or a later one",
                    "run that version until its rollouts have ended, or move the journal away to begin anew",
                ) from error
        for rollout in [one for one in self._rollouts.values() if one.state.phase is Phase.PROPOSED]:
            del self._rollouts[rollout.id]  # nobody had approved it yet, and nothing was touched
            self._forgotten.append(rollout.id)
        self._clock.set()
        for rollout in [one for one in self._rollouts.values() if not one.state.phase.ended]:
            _log.warning("rollout %s goes on where it was left: %s", rollout.id, rollout.state.phase.value)
            self._fleet.saw(rollout.state.plan.switches)
            now_s = self._clock.now_s()
            silent_s = now_s - rollout.events[-1].at_s - _longest_wait_s(rollout.state)
            await self._tell(rollout, Resumed(at_s=now_s))
            if silent_s > TOO_LATE_S:
                by = f"the service, which was away for {silent_s / 3_600:.1f} h or more,"
                await self._tell(rollout, RollbackAsked(at_s=now_s, by=by))
            await self._tell_freeze(rollout)
            self._drive_on(rollout)
        await self._forget()

    @property
    def last_set_s(self) -> float | None:
        """When a switch was last set or undone, by the journal; None for never."""
        return self._last_set_s

    async def ended(self, rollout: Rollout, *, within_s: float) -> None:
        """Waits until a rollout has ended, or so long."""
        if rollout.driver is not None:
            await asyncio.wait({rollout.driver}, timeout=within_s)

    async def stop(self, grace_s: float) -> None:
        """Leaves rollouts where they are: what is under way may end, and the journal takes them up again."""
        self._stopping = True
        tasks: list[asyncio.Task[None]] = []
        for rollout in self._rollouts.values():
            rollout.changed.set()
            for switch, task in rollout.under_way.items():
                if switch == _WATCH:
                    task.cancel()
                tasks.append(task)
            if rollout.driver is not None:
                tasks.append(rollout.driver)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # Who opens the journal next goes on with these switches: until then none may be on its way.
        await asyncio.to_thread(self._fleet.end_steps)
        await asyncio.to_thread(self._journal.close)

    def _take_up(self, entry: JournalEntry) -> None:
        if entry.subject == FREEZE:
            self.freeze = Freeze.of(entry.document, entry.at_s)
        elif entry.subject == KNOWN:
            known = msgspec.json.decode(entry.document, type=_Known)
            self._fleet.all_were_set(known.set_to)
            self._last_set_s = _later(self._last_set_s, known.last_set_s)
        elif entry.subject == ADOPTED:
            adopted = json.loads(entry.document)
            mark = adopted["watermark"]
            self._fleet.was_set(adopted["switch"], None if mark is None else Watermark(**mark))
        else:
            self._replay(entry.subject, decode(entry.document))

    def _replay(self, rollout_id: str, event: Event) -> None:
        rollout = self._rollouts.get(rollout_id)
        if isinstance(event, Proposed) and (rollout is None or rollout.state.phase is Phase.PROPOSED):
            self._rollouts[rollout_id] = Rollout(begin(event), [event])
        elif rollout is not None:
            rollout.state = advance(rollout.state, event)
            rollout.events.append(event)
            self._note(rollout.state, event)

    def _note(self, state: RolloutState, event: Event) -> None:
        """What a switch should run by now, and when one was last set."""
        name = getattr(event, "switch", None)
        if name is None or name not in state.switches or name not in state.plan.written:
            return
        if isinstance(event, Applying | Undone):
            self._last_set_s = _later(self._last_set_s, event.at_s)
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

    async def _tell(self, rollout: Rollout, event: Event, still: Callable[[], bool] = lambda: True) -> None:
        """Journals an event, then lets it have its effect; neither where it is not ``still`` wanted.

        What is journaled has its effect even where whoever caused it waits no more.
        """
        await _to_its_end(self._write_and_take(rollout, event, still))

    async def _write_and_take(self, rollout: Rollout, event: Event, still: Callable[[], bool]) -> None:
        async with rollout.telling:
            if not still():
                return
            if _repeats(rollout.state, event):
                self._take(rollout, event, keep=False)
                return
            await self._journal.append(rollout.id, event.at_s, encode(event))
            self._take(rollout, event)

    def _take(self, rollout: Rollout, event: Event, *, keep: bool = True) -> None:
        before, rollout.state = rollout.state, advance(rollout.state, event)
        if keep:
            rollout.events.append(event)
        rollout.stalled = None
        rollout.changed.set()
        self._note(rollout.state, event)
        self._tell_others(rollout, before, event)

    def _tell_others(self, rollout: Rollout, before: RolloutState | None, event: Event) -> None:
        try:
            self._told(rollout, before, event)
        except Exception:
            _log.exception("who hears of rollout %s failed in a way it should not", rollout.id)

    def _wanted(self, rollout: Rollout) -> tuple[Action, ...]:
        state = rollout.state
        if state.frozen != self.freeze.frozen:  # which is not yet in its journal
            state = replace(state, frozen=self.freeze.frozen)
        return wanted(state, self._clock.now_s())

    def _drive_on(self, rollout: Rollout) -> None:
        if not self._stopping and (rollout.driver is None or rollout.driver.done()):
            rollout.driver = asyncio.create_task(self._drive(rollout), name=f"rollout-{rollout.id}")

    async def _drive(self, rollout: Rollout) -> None:
        while not self._stopping and (not rollout.state.phase.ended or rollout.under_way):
            rollout.changed.clear()
            for action in self._wanted(rollout) if rollout.stalled is None else ():
                key = _WATCH if isinstance(action, Watch) else action.switch
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

    async def _act(self, rollout: Rollout, key: str, action: Action) -> None:
        try:
            if isinstance(action, Watch):
                await self._watch(rollout, action)
            else:
                async with self._room:
                    await self._step(rollout, action)
        except UnavailableError as error:
            rollout.stalled = str(error)
            _log.error("rollout %s stands still: %s", rollout.id, error)
        except Exception:
            rollout.stalled = "a mistake of the service, which its log tells"
            _log.exception("a step of rollout %s failed in a way it should not", rollout.id)
        finally:
            del rollout.under_way[key]
            rollout.changed.set()

    async def _step(self, rollout: Rollout, action: SwitchAction) -> None:
        def still() -> bool:
            return not self._stopping and action in self._wanted(rollout)

        if isinstance(action, Apply):
            await self._tell(rollout, Applying(at_s=self._clock.now_s(), switch=action.switch), still)
        if not still():
            return  # it waited for its turn, and something else has happened
        plan = rollout.state.plan
        if action.switch in plan.written and isinstance(action, Undo):
            self._fleet.was_set(action.switch, None)  # until it is done: half of a change is no drift
        began_s = self._clock_s()
        event = await event_of(action, self._fleet, plan, still=still, wall_s=self._clock.now_s)
        if event is None:
            return
        self._timed(action.switch, step_of(action), self._clock_s() - began_s)
        await self._tell(rollout, event)

    async def _watch(self, rollout: Rollout, action: Watch) -> None:
        def still() -> bool:
            return any(isinstance(one, Watch) for one in self._wanted(rollout))

        try:
            if rollout.mark is None or rollout.mark[0] != action.since_s:
                rollout.mark = (action.since_s, await self._watcher.mark(action.switches))
            await asyncio.sleep(self._measure_every_s)
            if not still():
                return
            silent = self._watcher.silent()
            figures = await self._watcher.since(rollout.mark[1], action.switches)
        except Exception as error:
            _log.exception("telemetry of rollout %s cannot be looked at", rollout.id)
            silent = f"telemetry cannot be looked at ({type(error).__name__}); see the service's log"
        if silent is not None:
            await self._tell(rollout, WentSilent(at_s=self._clock.now_s(), sentence=silent), still)
        else:
            await self._tell(rollout, Measured(at_s=self._clock.now_s(), figures=figures), still)

    async def _forget(self) -> None:
        """Lets go of the oldest rollouts that have ended, here and in the journal."""
        for rollout_id in [one.id for one in self._rollouts.values() if one.state.phase.ended]:
            if len(self._rollouts) <= self._keep:
                break
            del self._rollouts[rollout_id]
            self._forgotten.append(rollout_id)
        if not self._forgotten:
            return
        async with AsyncExitStack() as nothing_on_its_way:  # to the journal, which is not yet known here
            for rollout in self._rollouts.values():
                if not rollout.state.phase.ended:
                    await nothing_on_its_way.enter_async_context(rollout.telling)
            known = _Known(set_to=dict(self._fleet.all_set_to), last_set_s=self._last_set_s)
            try:
                await self._journal.forget(self._forgotten, self._clock.now_s(), msgspec.json.encode(known))
            except UnavailableError as error:
                _log.warning("the journal keeps what is forgotten, for now: %s", error)
            else:
                self._forgotten.clear()


def _repeats(state: RolloutState, event: Event) -> bool:
    """Whether it leads to nothing but another try, which a service that starts anew begins with anyway."""
    if isinstance(event, Measured):
        return advance(state, event).phase is state.phase
    if isinstance(event, Failed) and event.switch in state.switches:
        return state.switches[event.switch].attempts > 0 and advance(state, event).phase is state.phase
    return False


def _longest_wait_s(state: RolloutState) -> float:
    """How long nothing may have been written down of it though its service ran."""
    limits = state.plan.limits
    waits_s = limits.patience_s + limits.unseen_s + state.plan.soak_s(state.stage)
    return math.inf if state.frozen else waits_s  # nobody thawed it: nor is it for the service to decide


def _later(one_s: float | None, other_s: float | None) -> float | None:
    return max((at_s for at_s in (one_s, other_s) if at_s is not None), default=None)


async def _to_its_end(doing: Coroutine[object, object, T]) -> T:
    """Waits for it; it goes on to its end where whoever waits goes away."""
    return await asyncio.shield(asyncio.create_task(doing))

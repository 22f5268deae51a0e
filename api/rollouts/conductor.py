"""Drives rollouts: does what the machine wants, journals what happened before anything follows from it.

The machine and the journal know where a rollout is; this shell holds nothing that a crash may not lose.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from api.errors import ConflictError, NotFoundError, SettingsError, UnavailableError
from api.fleet import Fleet
from api.rollouts.freeze import Freeze
from api.rollouts.journal import ADOPTED, FREEZE, Journal, JournalEntry
from api.rollouts.steps import event_of, step_of
from api.rollouts.watch import Mark, Watcher
from switches.rollout.events import (
    Applying,
    Approved,
    Event,
    Frozen,
    Measured,
    Proposed,
    Resumed,
    RollbackAsked,
    Thawed,
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
_WATCH = ""

_log = logging.getLogger("ecntwin.rollouts")


@dataclass(slots=True)
class Rollout:
    """One rollout, its events so far and what is under way for it, by switch."""

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

    ``wall_s`` is wall-clock seconds since 1970, ``clock_s`` monotonic ones.

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
        self._wall_s = wall_s
        self._clock_s = clock_s
        self._told = told
        self._timed = timed
        self._rollouts: dict[str, Rollout] = {}
        self._stopping = False
        self._deciding = asyncio.Lock()
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

    async def start(self, plan: RolloutPlan, by: str) -> Rollout:
        """Begins a rollout; raises ``ConflictError`` while frozen, or while another is about its switches,
        and ``UnavailableError``, with nothing begun, where the journal cannot be written.
        """
        async with self._deciding:
            return await self._start(plan, by)

    async def _start(self, plan: RolloutPlan, by: str) -> Rollout:
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
        first = Proposed(at_s=self._wall_s(), plan=plan)
        approved = Approved(at_s=self._wall_s(), by=by)
        rollout = Rollout(begin(first), [first])
        # Before anything is awaited: nobody else may begin on these switches.
        self._rollouts[plan.id] = rollout
        async with rollout.telling:
            try:
                for event in (first, approved):
                    await self._journal.append(plan.id, event.at_s, encode(event))
            except UnavailableError:
                del self._rollouts[plan.id]
                raise
            self._told(rollout, None, first)
            self._take(rollout, approved)
        self._drive_on(rollout)
        self._forget()
        return rollout

    async def roll_back(self, rollout_id: str, by: str) -> Rollout:
        """Takes a rollout back; raises ``NotFoundError``, or ``ConflictError`` where a later one has set
        the same.
        """
        async with self._deciding:
            return await self._roll_back(self.get(rollout_id), by)

    async def _roll_back(self, rollout: Rollout, by: str) -> Rollout:
        later = False
        for other in self._rollouts.values():
            if later and other.state.phase is not Phase.ROLLED_BACK:
                shared = set(other.state.plan.switches).intersection(rollout.state.plan.switches)
                if shared:
                    raise ConflictError(
                        f"rollout {rollout.id}",
                        "a request to take it back",
                        f"rollout {other.id} has set {', '.join(sorted(shared)[:3])} since",
                        f"roll back {other.id} first",
                    )
            later = later or other is rollout
        await self._tell(rollout, RollbackAsked(at_s=self._wall_s(), by=by))
        self._drive_on(rollout)
        return rollout

    async def set_freeze(self, frozen: bool, by: str) -> Freeze:
        """Lets no switch be set until thawed, or thaws. Undoing goes on either way."""
        at_s = self._wall_s()
        document = json.dumps({"frozen": frozen, "by": by}).encode()
        await self._journal.append(FREEZE, at_s, document)
        self.freeze = Freeze(frozen, by, at_s)
        for rollout in list(self._rollouts.values()):
            if not rollout.state.phase.ended:
                event = Frozen(at_s=at_s, by=by) if frozen else Thawed(at_s=at_s, by=by)
                await self._tell(rollout, event)
        _log.warning("switches are %s by %s", "frozen" if frozen else "thawed", by)
        return self.freeze

    async def adopt(self, switch: str, by: str) -> Watermark | None:
        """Takes what a switch runs as wanted, whoever set it."""
        running = await self._fleet.adopt(switch)
        document = msgspec.json.encode({"switch": switch, "by": by, "watermark": running})
        await self._journal.append(ADOPTED, self._wall_s(), document)
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
        for rollout in [one for one in self._rollouts.values() if not one.state.phase.ended]:
            _log.warning("rollout %s goes on where it was left: %s", rollout.id, rollout.state.phase.value)
            self._fleet.saw(rollout.state.plan.switches)
            await self._tell(rollout, Resumed(at_s=self._wall_s()))
            self._drive_on(rollout)
        self._forget()

    @property
    def last_set_s(self) -> float | None:
        """When a switch was last set, by the journal; None for never."""
        times = [
            event.at_s
            for rollout in self._rollouts.values()
            for event in rollout.events
            if isinstance(event, Applying) and event.switch in rollout.state.plan.written
        ]
        return max(times, default=None)

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
        await asyncio.to_thread(self._journal.close)

    def _take_up(self, entry: JournalEntry) -> None:
        if entry.subject == FREEZE:
            self.freeze = Freeze.of(entry.document, entry.at_s)
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
        name = getattr(event, "switch", None)
        if name is None or name not in state.plan.written or name not in state.switches:
            return
        one = state.switches[name]
        if one.change is None:
            return
        if one.progress is Progress.SET:
            self._fleet.was_set(name, one.change.after)
        elif one.progress is Progress.RESTORED:
            self._fleet.was_set(name, one.change.ran)
        elif one.progress is Progress.LEFT_ALONE:
            self._fleet.was_set(name, one.change.ran or one.change.after)  # which it does not run: drift

    async def _tell(self, rollout: Rollout, event: Event) -> None:
        """Journals an event, then lets it have its effect."""
        async with rollout.telling:
            await self._journal.append(rollout.id, event.at_s, encode(event))
            self._take(rollout, event)

    def _take(self, rollout: Rollout, event: Event) -> None:
        before, rollout.state = rollout.state, advance(rollout.state, event)
        rollout.events.append(event)
        rollout.stalled = None
        rollout.changed.set()
        self._note(rollout.state, event)
        self._told(rollout, before, event)

    def _drive_on(self, rollout: Rollout) -> None:
        if not self._stopping and (rollout.driver is None or rollout.driver.done()):
            rollout.driver = asyncio.create_task(self._drive(rollout), name=f"rollout-{rollout.id}")

    async def _drive(self, rollout: Rollout) -> None:
        while not self._stopping and (not rollout.state.phase.ended or rollout.under_way):
            rollout.changed.clear()
            now_s = self._wall_s()
            for action in wanted(rollout.state, now_s) if rollout.stalled is None else ():
                key = _WATCH if isinstance(action, Watch) else action.switch
                if key not in rollout.under_way:
                    task = asyncio.create_task(self._act(rollout, key, action))
                    rollout.under_way[key] = task
            due_s = next_due_s(rollout.state)
            wait_s = None if due_s is None else max(due_s - now_s, 0.05)
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
        if self._stopping or action not in wanted(rollout.state, self._wall_s()):
            return  # it waited for its turn, and something else has happened
        if isinstance(action, Apply):
            await self._tell(rollout, Applying(at_s=self._wall_s(), switch=action.switch))
        must_write = action.switch in rollout.state.plan.written
        if must_write and isinstance(action, Apply | Undo):
            self._fleet.was_set(action.switch, None)  # until it is done: half of a change is no drift
        began_s = self._clock_s()
        event = await event_of(action, self._fleet, rollout.id, must_write=must_write, wall_s=self._wall_s)
        self._timed(action.switch, step_of(action), self._clock_s() - began_s)
        await self._tell(rollout, event)

    async def _watch(self, rollout: Rollout, action: Watch) -> None:
        if rollout.mark is None or rollout.mark[0] != action.since_s:
            rollout.mark = (action.since_s, await self._watcher.mark(action.switches))
        await asyncio.sleep(self._measure_every_s)
        if not any(isinstance(one, Watch) for one in wanted(rollout.state, self._wall_s())):
            return
        silent = self._watcher.silent()
        if silent is not None:
            await self._tell(rollout, WentSilent(at_s=self._wall_s(), sentence=silent))
            return
        figures = await self._watcher.since(rollout.mark[1], action.switches)
        await self._tell(rollout, Measured(at_s=self._wall_s(), figures=figures))

    def _forget(self) -> None:
        for rollout_id in [one.id for one in self._rollouts.values() if one.state.phase.ended]:
            if len(self._rollouts) <= self._keep:
                return
            del self._rollouts[rollout_id]

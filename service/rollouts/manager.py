"""All rollouts of the service: which may begin, be taken back, be frozen, go on after a crash, be forgotten.

The machine and the journal know where a rollout is; this shell holds nothing that a crash may not lose.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace

import msgspec

from service.fleet import Fleet
from service.rollouts.freeze import Freeze
from service.rollouts.runner import Driver, Known, Rollout, SteadyClock, Told, to_its_end
from service.rollouts.watch import Watcher
from settings.errors import ConflictError, NotFoundError, SettingsError, UnavailableError
from store.journal import ADOPTED, FREEZE, KNOWN, Journal, JournalEntry
from switches.base import Reading
from switches.rollout.events import Approved, Event, Proposed, Resumed, RollbackAsked, decode, encode
from switches.rollout.machine import advance, begin
from switches.rollout.plan import RolloutPlan
from switches.rollout.state import Phase, RolloutState
from twin.watermark import Watermark

UNREAD = (
    "the journal of rollouts could not be read since the service started: no switch is set, as while frozen; "
    "bring the database back, or look at what the service's log says of it"
)
TOO_LATE_S = 3_600.0  # a service away for longer goes on with no change: it was for the network of then

_log = logging.getLogger("ecntwin.rollouts")


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
        self._keep = keep
        self._clock = SteadyClock(wall_s, clock_s)
        self._known = Known(fleet)
        self._driver = Driver(
            fleet,
            journal,
            watcher,
            self._known,
            self._clock,
            at_once=at_once,
            measure_every_s=measure_every_s,
            freeze=lambda: self.freeze,
            clock_s=clock_s,
            told=told,
            timed=timed,
        )
        self._rollouts: dict[str, Rollout] = {}
        self._deciding = asyncio.Lock()
        self._forgotten: list[str] = []
        self._left: dict[str, float] | None = None  # by id, for how long nobody drove it; None: not read yet
        self._freeze = Freeze()

    @property
    def freeze(self) -> Freeze:
        """Whether switches may be set: not before the journal could be read, which may forbid it."""
        return self._freeze if self._journal.known else replace(self._freeze, frozen=True, unknown=UNREAD)

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
                None,
                f"not found; the newest {self._keep} rollouts are kept",
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
        return await to_its_end(self._start(plan, by))

    async def _start(self, plan: RolloutPlan, by: str) -> Rollout:
        async with self._deciding:
            self._must_know_what_was()
            if self.freeze.frozen:
                raise ConflictError(
                    "rollout", None, f"switches are frozen by {self.freeze.by}", "thaw them first"
                )
            other = self.active_on(plan.switches)
            if other is not None:
                raise ConflictError(
                    "rollout",
                    None,
                    f"rollout {other.id} is under way on the same switches",
                    "wait until it has ended, or roll it back",
                )
            at_s = self.now_s()
            first, approved = Proposed(at_s=at_s, plan=plan), Approved(at_s=at_s, by=by, checks=True)
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
                self._driver.tell_others(rollout, None, first)
                self._driver.take(rollout, approved)
            self._driver.drive_on(rollout)
            await self._forget()
            return rollout

    async def roll_back(self, rollout_id: str, by: str) -> Rollout:
        """Takes a rollout back; raises ``NotFoundError``, ``ConflictError`` where a later one has set the
        same, and ``UnavailableError`` where the journal cannot be written.
        """
        return await to_its_end(self._roll_back(rollout_id, by))

    async def _roll_back(self, rollout_id: str, by: str) -> Rollout:
        async with self._deciding:
            self._must_know_what_was()
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
                            None,
                            f"rollout {other.id} has set {', '.join(sorted(shared)[:3])} since",
                            f"roll back {other.id} first",
                        )
                later = later or other is rollout
            await self._driver.tell(rollout, RollbackAsked(at_s=self.now_s(), by=by))
            self._driver.drive_on(rollout)
            return rollout

    async def set_freeze(self, frozen: bool, by: str) -> Freeze:
        """Lets no switch be set until thawed, or thaws. Undoing goes on either way.

        Raises ``UnavailableError`` where the journal cannot be written: a freeze holds all the same, until
        the service ends, and nothing is thawed.
        """
        return await to_its_end(self._set_freeze(frozen, by))

    async def _set_freeze(self, frozen: bool, by: str) -> Freeze:
        at_s = self.now_s()
        if frozen:
            self._freeze = Freeze(frozen, by, at_s)  # at once: whatever has not begun does not begin
        document = json.dumps({"frozen": frozen, "by": by}).encode()
        try:
            await self._journal.append(FREEZE, at_s, document)
        except UnavailableError as error:
            if not frozen:
                raise
            raise UnavailableError(
                error.where,
                error.received,
                "the freeze holds all the same, but is not written down and ends with the service",
                "freeze once more when the database is back",
            ) from error
        self._freeze = Freeze(frozen, by, at_s)
        _log.warning("switches are %s by %s", "frozen" if frozen else "thawed", by)
        for rollout in list(self._rollouts.values()):
            rollout.changed.set()
        for rollout in list(self._rollouts.values()):
            await self._driver.tell_freeze(rollout)
        return self.freeze

    def was_read(self, reading: Reading) -> None:
        """A switch was read, by whomever: one that does not run what a rollout under way has set on it takes
        that rollout back.
        """
        if (rollout := self.active_on([reading.switch])) is not None:
            self._driver.was_read(rollout, reading)

    async def adopt(self, switch: str, by: str) -> Watermark | None:
        """Takes what a switch runs as wanted, whoever set it; None where its queues differ, and then nothing
        is known to be wanted of it. Raises ``UnknownSwitchError``, and ``UnavailableError`` where the switch
        does not answer or the journal cannot be written.
        """
        return await to_its_end(self._adopt(switch, by))

    async def _adopt(self, switch: str, by: str) -> Watermark | None:
        async with self._deciding:
            self._must_know_what_was()
            running = await self._fleet.read_now(switch)
            document = msgspec.json.encode({"switch": switch, "by": by, "watermark": running})
            await self._journal.append(ADOPTED, self.now_s(), document)
            self._fleet.was_set(switch, running)
            return running

    async def resume(self) -> None:
        """Takes up what the journal holds: what was set stays known, and rollouts under way go on.

        Until then nothing is begun. Raises ``UnavailableError`` where the journal cannot be read or written
        now, and may be called again then; and ``SettingsError`` where this version cannot read what it says.
        """
        if self._left is None:
            self._left = self._replayed(await asyncio.to_thread(self._journal.read))
        for rollout_id, silent_s in list(self._left.items()):
            rollout = self._rollouts.get(rollout_id)
            if rollout is not None and rollout.driver is None:  # nobody has taken it back since the last try
                await self._go_on(rollout, silent_s)
            del self._left[rollout_id]
        await self._forget()

    def _replayed(self, entries: Iterable[JournalEntry]) -> dict[str, float]:
        """Takes up what they say, once; which rollouts are under way, and for how long nobody drove them."""
        decided = self._freeze  # while the journal could not be read: later than anything it says
        for entry in entries:
            try:
                self._take_up(entry)
            except (ValueError, KeyError, TypeError) as error:  # msgspec's own are ValueErrors
                raise SettingsError(
                    "settings storage.url",
                    f"entry {entry.number} of the journal, about {entry.subject} ({error})",
                    "a journal is read by the version that wrote it, or a later one",
                    "run that version until its rollouts have ended, or move the journal away to begin anew",
                ) from error
        if decided.at_s is not None:
            self._freeze = decided
        self._journal.known = True
        for rollout in [one for one in self._rollouts.values() if one.state.phase is Phase.PROPOSED]:
            del self._rollouts[rollout.id]  # nobody had approved it yet, and nothing was touched
            self._forgotten.append(rollout.id)
        self._clock.set()
        now_s = self._clock.now_s()
        return {
            one.id: now_s - one.events[-1].at_s - _longest_wait_s(one.state)
            for one in self._rollouts.values()
            if not one.state.phase.ended
        }

    async def _go_on(self, rollout: Rollout, silent_s: float) -> None:
        _log.warning("rollout %s goes on where it was left: %s", rollout.id, rollout.state.phase.value)
        self._fleet.saw(rollout.state.plan.switches)
        now_s = self._clock.now_s()
        await self._driver.tell(rollout, Resumed(at_s=now_s, checks=True))
        if silent_s > TOO_LATE_S:
            by = f"the service, which was away for {silent_s / 3_600:.1f} h or more,"
            await self._driver.tell(rollout, RollbackAsked(at_s=now_s, by=by))
        await self._driver.tell_freeze(rollout)
        self._driver.drive_on(rollout)

    def _must_know_what_was(self) -> None:
        if not self._journal.known:
            raise UnavailableError(
                "rollout",
                None,
                "the journal could not be read yet, and may hold a rollout to finish",
                "bring the database back, or see the service's log",
            )

    @property
    def last_set_s(self) -> float | None:
        """When a switch was last set or undone, by the journal; None for never."""
        return self._known.last_set_s

    async def ended(self, rollout: Rollout, *, within_s: float) -> None:
        """Waits until a rollout has ended, or so long."""
        if rollout.driver is not None:
            await asyncio.wait({rollout.driver}, timeout=within_s)

    async def stop(self, grace_s: float) -> None:
        """Leaves rollouts where they are: what is under way may end, and the journal takes them up again."""
        async with AsyncExitStack() as ending:  # the last one first, whichever of them fail
            ending.callback(self._journal.close)
            # Who opens the journal next goes on with these switches: until then none may be on its way.
            ending.push_async_callback(asyncio.to_thread, self._fleet.end_steps)
            tasks = self._driver.stop_soon(self._rollouts.values())
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=grace_s)
                for task in late:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _take_up(self, entry: JournalEntry) -> None:
        if entry.subject == FREEZE:
            self._freeze = Freeze.of(entry.document, entry.at_s)
        elif entry.subject == KNOWN:
            self._known.take_up(entry.document)
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
            self._known.note(rollout.state, event)

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
            try:
                await self._journal.forget(self._forgotten, self._clock.now_s(), self._known.to_keep())
            except UnavailableError as error:
                _log.warning("the journal keeps what is forgotten, for now: %s", error)
            else:
                self._forgotten.clear()


def _longest_wait_s(state: RolloutState) -> float:
    """How long nothing may have been written down of it though its service ran."""
    limits = state.plan.limits
    waits_s = limits.patience_s + limits.unseen_s + state.plan.soak_s(state.stage)
    return math.inf if state.frozen else waits_s  # nobody thawed it: nor is it for the service to decide

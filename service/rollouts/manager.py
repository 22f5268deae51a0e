"""All rollouts of the service: starts, rolls back, freezes, resumes after a crash, and forgets them."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import msgspec

from rollout.machine import advance, begin, not_undone
from rollout.plan import RolloutPlan
from rollout.state import (
    Approved,
    Event,
    GivenUp,
    MemberProgress,
    Phase,
    Progress,
    Proposed,
    Resumed,
    RollbackAsked,
    RolloutState,
    decode,
    encode,
)
from service.rollouts.devices import MemberReading, left_on
from service.rollouts.rollout import Freeze, Rollout
from service.rollouts.runner import Runner, uncancelled
from settings.errors import ConflictError, NotFoundError, SettingsError, UnavailableError
from store.database import PAUSE_S
from store.journal import ADOPTED, FREEZE, KNOWN, JournalEntry
from switches.base import Reading
from twin.watermark import Watermark

TOO_LATE_S = 3_600.0  # after a longer outage a change is rolled back: traffic has changed since

_log = logging.getLogger("ecntwin.rollouts")


class Rollouts:
    """Remembers the newest ``keep`` rollouts. Use from one event loop only."""

    def __init__(self, runner: Runner, *, keep: int) -> None:
        self._runner = runner
        self._fleet, self._journal, self._clock = runner.fleet, runner.journal, runner.clock
        self._keep = keep
        self._rollouts: dict[str, Rollout] = {}
        self._deciding = asyncio.Lock()
        self._thawing = asyncio.Lock()
        self._saving: asyncio.Task[None] | None = None
        self._forgotten: list[str] = []
        self._unresumed: dict[str, float] | None = None  # id → seconds not run; None: journal not read yet

    @property
    def freeze(self) -> Freeze:
        return self._runner.freeze

    def newest(self, limit: int, *, before: str | None = None) -> list[Rollout]:
        """All rollouts, newest first, or those older than the one with id ``before``; raises
        ``NotFoundError`` for an unknown id.
        """
        found = list(reversed(self._rollouts.values()))
        begin = 0 if before is None else found.index(self.get(before)) + 1
        return found[begin : begin + limit]

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
                "ecntwin rollouts, or GET /v1/rollouts, lists them",
            ) from None

    def knows(self, rollout_id: str) -> bool:
        return rollout_id in self._rollouts

    @property
    def active(self) -> int:
        return sum(not one.state.phase.ended for one in self._rollouts.values())

    def past(self) -> frozenset[str]:
        """Ids of the rollouts that have ended."""
        return frozenset(one.id for one in self._rollouts.values() if one.state.phase.ended)

    def active_on(self, members: Iterable[str]) -> Rollout | None:
        named = list(members)
        for rollout in self._rollouts.values():
            if not rollout.state.phase.ended and any(name in rollout.state.members for name in named):
                return rollout
        return None

    def held(self, members: Iterable[str]) -> tuple[str, str] | None:
        """Why no rollout may start on these members now, and the remedy; None: one may."""
        if self.freeze.frozen:
            return (
                self.freeze.unknown or f"switches are frozen by {self.freeze.by}",
                "thaw them first (ecntwin thaw)",
            )
        if (other := self.active_on(members)) is not None:
            what = "switches" if set(members).intersection(other.state.plan.switches) else "hosts"
            rule = f"rollout {other.id} is under way on the same {what}"
            remedy = "wait until it has ended, or roll it back"
            if stuck := not_undone(other.state, self.now_s()):
                remedy = f"bring back {stuck[0]}, which could not be undone, or give it up (ecntwin give-up)"
            return rule, remedy
        return None

    def now_s(self) -> float:
        """Seconds since 1970 by the rollouts' clock."""
        if not self.active:
            self._clock.set()
        return self._clock.now_s()

    @uncancelled
    async def start(self, plan: RolloutPlan, by: str) -> Rollout:
        """Starts a rollout; raises ``ConflictError`` while frozen, while another is active on its members
        and where one has its id, and ``UnavailableError``, with nothing started, where the journal cannot be
        written.
        """
        async with self._deciding:
            self.check_journal_read()
            if (held := self.held(plan.members)) is not None:
                raise ConflictError("rollout", None, *held)
            if self.knows(plan.id):
                raise ConflictError(f"rollout {plan.id}", None, "one of that id has begun", "ask again")
            at_s = self.now_s()
            first, approved = Proposed(at_s=at_s, plan=plan), Approved(at_s=at_s, by=by, checks=True)
            rollout = Rollout(begin(first), [first])
            # Checked before anything is awaited: no other rollout may start on these switches.
            self._rollouts[plan.id] = rollout
            async with rollout.recording:
                try:
                    for event in (first, approved):
                        await self._journal.append(plan.id, event.at_s, encode(event))
                except BaseException:
                    del self._rollouts[plan.id]
                    raise
                self._runner.notify(rollout, None, first)
                self._runner.apply(rollout, approved)
            self._runner.run(rollout)
            await self._forget()
            return rollout

    @uncancelled
    async def roll_back(self, rollout_id: str, by: str) -> Rollout:
        """Rolls back; raises ``NotFoundError``, ``ConflictError`` where a later rollout has set the same
        members, and ``UnavailableError`` where the journal cannot be written.
        """
        async with self._deciding:
            self.check_journal_read()
            rollout = self.get(rollout_id)
            if rollout.state.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK):
                return rollout
            later = False
            for other in self._rollouts.values():
                # What a switch hashes by is undone apart from its watermark.
                alike = bool(other.state.plan.hashes) == bool(rollout.state.plan.hashes)
                if later and alike and other.state.phase is not Phase.ROLLED_BACK:
                    # A dry run that has ended set nothing; an active one has staged what runs now.
                    about = other.state.plan.written if other.state.phase.ended else other.state.plan.members
                    shared = set(about).intersection(rollout.state.plan.members)
                    if shared:
                        raise ConflictError(
                            f"rollout {rollout.id}",
                            None,
                            f"rollout {other.id} has set {', '.join(sorted(shared)[:3])} since",
                            f"roll back {other.id} first",
                        )
                later = later or other is rollout
            await self._runner.record(rollout, RollbackAsked(at_s=self.now_s(), by=by))
            self._runner.run(rollout)
            return rollout

    @uncancelled
    async def give_up(self, rollout_id: str, member: str, by: str, why: str) -> Rollout:
        """Ends the undo of a member that keeps failing; the others' go on.

        Raises ``NotFoundError``, ``ConflictError`` where its undo has not failed for longer than the
        patience, and ``UnavailableError`` where the journal cannot be written.
        """
        async with self._deciding:
            self.check_journal_read()
            rollout, now_s = self.get(rollout_id), self.now_s()
            where = f"rollout {rollout.id}, {member!r}"
            if (one := rollout.state.members.get(member)) is None:
                rule = "a switch or host of the rollout is given up"
                raise NotFoundError(where, None, rule, f"ecntwin rollouts {rollout.id} lists them")
            if one.progress is Progress.GIVEN_UP:
                return rollout
            if member not in not_undone(rollout.state, now_s):
                raise ConflictError(where, *_not_stuck(rollout.state, one, now_s))
            said = f"{by} has given it up ({why}): {left_on(one)}"
            await self._runner.record(
                rollout,
                GivenUp(at_s=now_s, switch=member, by=by, sentence=said),
                lambda: rollout.state.members[member].progress.touched,
            )
            return rollout

    @uncancelled
    async def set_freeze(self, frozen: bool, by: str) -> Freeze:
        """Freezes (no switch is set until thawed; undoing continues) or thaws.

        Raises ``UnavailableError`` where the journal cannot be written: then a freeze holds, and is saved as
        soon as it can be, and a thaw has no effect.
        """
        asked, before = Freeze(frozen, by, self.now_s(), saved=not frozen), self._runner.last_freeze
        if frozen:
            self._runner.last_freeze = asked  # at once: no further step starts
            try:
                await self._save(asked)
            except UnavailableError as error:
                if self._saving is None or self._saving.done():
                    self._saving = asyncio.create_task(self._save_later(), name="save-freeze")
                raise UnavailableError(
                    error.where,
                    error.received,
                    "the freeze holds, but is not saved yet: it ends with the service if that ends before",
                    "bring the database back, then it is saved by itself",
                ) from error
        else:
            async with self._thawing:
                await self._save(asked)
                if self._runner.last_freeze != before:
                    return self.freeze  # somebody has frozen them while the thaw was written
                self._runner.last_freeze = asked
        _log.warning("switches are %s by %s", "frozen" if frozen else "thawed", by)
        for rollout in list(self._rollouts.values()):
            rollout.changed.set()
        for rollout in list(self._rollouts.values()):
            with suppress(UnavailableError):  # its driver tells it once the journal can be written
                await self._runner.record_freeze(rollout)
        return self.freeze

    async def _save(self, asked: Freeze) -> None:
        """Raises ``UnavailableError``."""
        assert asked.at_s is not None  # only what nobody asked for has no time
        await self._journal.append(FREEZE, asked.at_s, asked.document())
        if self._runner.last_freeze is asked:
            self._runner.last_freeze = replace(asked, saved=True)

    async def _save_again(self) -> None:
        """Saves the freeze in force unless it is saved. Raises ``UnavailableError``."""
        async with self._thawing:  # behind a thaw in the journal it would hold after the next start
            if not (freeze := self._runner.last_freeze).saved:
                await self._save(freeze)
                _log.warning("the freeze by %s is saved now", freeze.by)

    async def _save_later(self) -> None:
        """Tries to save the freeze in force until it is saved, or thawed.

        A ``Recorder`` would not do: it may drop what waits, and writes past what the journal takes for lost.
        """
        while not self._runner.last_freeze.saved:
            await asyncio.sleep(PAUSE_S)
            try:
                await self._save_again()
            except UnavailableError:
                continue
            except Exception:
                _log.exception("the freeze could not be saved; it is tried again")

    async def _save_last(self, within_s: float) -> None:
        """Tries once more, for at most ``within_s``, if the freeze in force is not saved."""
        if self._saving is None:
            return
        self._saving.cancel()
        await asyncio.gather(self._saving, return_exceptions=True)
        try:
            async with asyncio.timeout(within_s):
                await self._save_again()
        except Exception:
            by = self._runner.last_freeze.by
            _log.error("the freeze by %s ends here: the database could not be written", by)

    def was_read(self, reading: MemberReading) -> None:
        """Handles a reading: a member that does not run what an active rollout set on it has that rollout
        rolled back.
        """
        member = reading.switch if isinstance(reading, Reading) else reading.host
        if (rollout := self.active_on([member])) is not None:
            self._runner.was_read(rollout, member, reading)

    @uncancelled
    async def adopt(self, switch: str, by: str) -> Watermark | None:
        """Accepts what a switch runs, wherever it was set; returns it.

        None where its queues differ: then nothing is expected of it. Raises ``UnknownSwitchError``, and
        ``UnavailableError`` where the switch does not answer or the journal cannot be written.
        """
        async with self._deciding:
            self.check_journal_read()
            running = await self._fleet.read_now(switch)
            document = msgspec.json.encode({"switch": switch, "by": by, "watermark": running})
            await self._journal.append(ADOPTED, self.now_s(), document)
            self._fleet.set_watermarks.put(switch, running)
            return running

    async def resume(self) -> None:
        """Restores the journal: what was set stays known, and active rollouts continue.

        Until then nothing starts. Raises ``UnavailableError`` where the journal cannot be read or written now
        (call it again later), and ``SettingsError`` where this version cannot read an entry.
        """
        if self._unresumed is None:
            self._unresumed = self._replayed(await asyncio.to_thread(self._journal.read))
        for rollout_id, silent_s in list(self._unresumed.items()):
            rollout = self._rollouts.get(rollout_id)
            if rollout is not None and rollout.driver is None:  # not rolled back since the last try
                await self._continue(rollout, silent_s)
            del self._unresumed[rollout_id]
        await self._forget()

    def _replayed(self, entries: Iterable[JournalEntry]) -> dict[str, float]:
        """Applies all entries; returns the active rollouts, and for how many seconds each was not run."""
        decided = self._runner.last_freeze  # set before the journal could be read, so newer than any entry
        for entry in entries:
            try:
                self._restore(entry)
            except (ValueError, KeyError, TypeError) as error:  # msgspec's own are ValueErrors
                raise SettingsError(
                    "settings storage.url",
                    f"entry {entry.number} of the journal, about {entry.subject} ({error})",
                    "a journal is read by the version that wrote it, or a later one",
                    "run that version until its rollouts have ended, or move the journal away to begin anew",
                ) from error
        if decided.at_s is not None:
            self._runner.last_freeze = decided
        self._journal.known = True
        for rollout in [one for one in self._rollouts.values() if one.state.phase is Phase.PROPOSED]:
            del self._rollouts[rollout.id]  # not approved yet, so no switch was touched
            self._forgotten.append(rollout.id)
        self._clock.set()
        now_s = self._clock.now_s()
        return {
            one.id: now_s - one.events[-1].at_s - _longest_wait_s(one.state)
            for one in self._rollouts.values()
            if not one.state.phase.ended
        }

    async def _continue(self, rollout: Rollout, silent_s: float) -> None:
        _log.warning("rollout %s continues in phase %s", rollout.id, rollout.state.phase.value)
        self._fleet.saw(rollout.state.plan.switches)
        now_s = self._clock.now_s()
        await self._runner.record(rollout, Resumed(at_s=now_s, checks=True))
        if silent_s > TOO_LATE_S:
            by = f"the service, which was away for {silent_s / 3_600:.1f} h or more,"
            await self._runner.record(rollout, RollbackAsked(at_s=now_s, by=by))
        await self._runner.record_freeze(rollout)
        self._runner.run(rollout)

    def check_journal_read(self) -> None:
        """Raises ``UnavailableError`` while the journal is unread: an earlier service may have left a rollout
        to finish.
        """
        if not self._journal.known:
            raise UnavailableError(
                "rollout",
                None,
                "the journal could not be read yet, and may hold a rollout to finish",
                "bring the database back, or see the service's log",
            )

    @property
    def last_set_s(self) -> float | None:
        """When a switch was last set or undone (seconds since 1970); None for never."""
        return self._fleet.set_watermarks.last_set_s

    async def ended(self, rollout: Rollout, *, within_s: float) -> None:
        """Waits until a rollout has ended, for at most ``within_s``."""
        if rollout.driver is not None:
            await asyncio.wait({rollout.driver}, timeout=within_s)

    async def stop(self, grace_s: float) -> None:
        """Lets running steps end; the next start resumes the rollouts from the journal."""
        async with AsyncExitStack() as ending:  # in reverse order, even if some fail
            ending.callback(self._journal.close)
            ending.push_async_callback(self._save_last, grace_s)
            # The next service resumes these switches from the journal: no step may run after that.
            ending.push_async_callback(asyncio.to_thread, self._runner.end_steps)
            tasks = self._runner.stop_soon(self._rollouts.values())
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=grace_s)
                for task in late:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _restore(self, entry: JournalEntry) -> None:
        if entry.subject == FREEZE:
            self._runner.last_freeze = Freeze.of(entry.document, entry.at_s)
        elif entry.subject == KNOWN:
            self._fleet.set_watermarks.restore(entry.document)
        elif entry.subject == ADOPTED:
            adopted = json.loads(entry.document)
            mark = adopted["watermark"]
            self._fleet.set_watermarks.put(adopted["switch"], None if mark is None else Watermark(**mark))
        else:
            self._replay(entry.subject, decode(entry.document))

    def _replay(self, rollout_id: str, event: Event) -> None:
        rollout = self._rollouts.get(rollout_id)
        if isinstance(event, Proposed) and (rollout is None or rollout.state.phase is Phase.PROPOSED):
            self._rollouts[rollout_id] = Rollout(begin(event), [event])
        elif rollout is not None:
            rollout.state = advance(rollout.state, event)
            rollout.events.append(event)
            self._fleet.set_watermarks.follow(rollout.state, event)

    async def _forget(self) -> None:
        """Removes the oldest ended rollouts from memory and from the journal."""
        for rollout_id in [one.id for one in self._rollouts.values() if one.state.phase.ended]:
            if len(self._rollouts) <= self._keep:
                break
            del self._rollouts[rollout_id]
            self._forgotten.append(rollout_id)
        if not self._forgotten:
            return
        async with AsyncExitStack() as locks:  # no event of it may still be on its way to the journal
            for rollout in self._rollouts.values():
                if not rollout.state.phase.ended:
                    await locks.enter_async_context(rollout.recording)
            try:
                await self._journal.forget(
                    self._forgotten, self._clock.now_s(), self._fleet.set_watermarks.to_json()
                )
            except UnavailableError as error:
                _log.warning("dropped rollouts stay in the journal for now: %s", error)
            else:
                self._forgotten.clear()


def _not_stuck(state: RolloutState, one: MemberProgress, now_s: float) -> tuple[str, str, str]:
    """What is received, the rule and the remedy, where the undo of a member is not to be given up."""
    patience_s = state.plan.limits.patience_s
    rule = f"what is given up is an undo that has failed for {patience_s:g} s (rollout.patience_s)"
    if state.phase is not Phase.ROLLING_BACK:
        remedy = (
            "roll it back first, which tries to undo it" if not state.phase.ended else "leave it as it is"
        )
        return f"a rollout in phase {state.phase.value.replace('_', ' ')}", rule, remedy
    if not one.progress.touched:
        return (
            f"a member that is {one.progress.value.replace('_', ' ')}",
            rule,
            "nothing is to be undone there",
        )
    failing_s = 0.0 if one.failing_since_s is None else now_s - one.failing_since_s
    return f"an undo that has failed for {failing_s:.0f} s", rule, "wait: it is tried again by itself"


def _longest_wait_s(state: RolloutState) -> float:
    """How long an active rollout may go without a journal entry."""
    limits = state.plan.limits
    waits_s = limits.patience_s + limits.unseen_s + state.plan.soak_s(state.stage)
    return math.inf if state.frozen else waits_s  # frozen: the service waits for an operator

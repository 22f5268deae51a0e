"""Decisions on recommendations, by operators and by policy, and the checks before a rollout starts."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from rollout.plan import RolloutPlan
from rollout.state import Phase, RolloutState
from service.alarms.service import Alarms
from service.auth.audit import Audit
from service.documents.base import list_text
from service.events import Broadcaster
from service.rollouts.manager import Rollouts
from service.rollouts.rollout import plan_of
from service.rollouts.watch import Watcher
from service.switches.fleet import Fleet
from service.tuning.entry import Entry
from service.tuning.recommendations import RecommendationStore, SavedRounds
from service.tuning.together import NOTHING, Beside, Part
from service.tuning.validity import ANYTHING, Expected, Validity
from settings.errors import ConflictError, RequestError
from settings.model import Settings
from settings.security import Caller
from switches.errors import SwitchError
from twin.units import duration_text

LONGEST_HOLD_S = 86_400.0
ANSWER_WITHIN_S = 1.0
POLICY = "policy (rollout.auto)"
POLICY_CALLER = Caller(POLICY, frozenset(), "local")

_log = logging.getLogger("ecntwin.rollouts")


def hold_left_s(
    newest_first: Iterable[RolloutState], switches: Collection[str], *, now_s: float, hold_s: float
) -> float:
    """Seconds until policy may change these switches; 0 or less: it may now.

    ``hold_s`` after a rollout on any of them was rolled back, doubled for each further rollback in a row, up
    to a day: the twin would recommend the same again, and the switches would flap. Rollouts of hashes do not
    count.
    """
    rolled_back: list[float] = []
    for state in newest_first:
        if state.plan.hashes or not set(switches).intersection(state.plan.switches):
            continue
        if state.phase is Phase.DONE:
            break
        rolled_back += [at_s for at_s, phase in state.phases if phase is Phase.ROLLING_BACK][-1:]
    if not rolled_back:
        return 0.0
    hold_s = min(hold_s * 2.0 ** min(len(rolled_back) - 1, 30), LONGEST_HOLD_S)
    return min(rolled_back[0] + hold_s - now_s, hold_s)  # a clock that was set back must not prolong the hold


@dataclass(kw_only=True)
class Approvals:
    """Approves and rejects. Use from one event loop only."""

    settings: Settings
    fleet: Fleet
    store: RecommendationStore
    saved: SavedRounds
    rollouts: Rollouts
    watcher: Watcher
    validity: Validity
    alarms: Alarms
    audit: Audit
    events: Broadcaster

    async def approve(
        self, recommendation_id: str, by: str, expected: Expected = ANYTHING, *, beside: Beside = NOTHING
    ) -> Entry:
        """Starts the rollout of a pending recommendation; returns once it has ended, or after a second.

        With something ``beside`` the watermark its joint change is set. Its switches are read first. Raises
        what ``Validity.check`` does, in a dry run too. A critical alarm on its switches becomes a
        ``caution``, but stops no person.
        """
        entry = await self._undecided(recommendation_id)
        self.rollouts.check_journal_read()
        alarm = self.alarms.holding(entry.switches)
        self.validity.deciding.add(entry.id)
        try:
            unread = await self.fleet.refresh(entry.switches, from_now=True)
            entry = self.store.pending(recommendation_id)  # it may be superseded by now
            part = self._checked(entry, expected, beside)
            if unread:
                raise ConflictError(
                    f"recommendation {entry.id!r}",
                    f"no answer in time from {list_text(unread)}",
                    "every switch that it sets must be read first",
                    "look at /v1/switches, and ask again",
                )
            plan = await self._plan(entry, part)
            entry = self.store.pending(recommendation_id)
            now = self._checked(entry, expected, beside)  # its state may have changed meanwhile
            if (now and now.change) != (part and part.change):
                raise ConflictError(
                    f"recommendation {entry.id!r} with more than its watermark",
                    None,
                    "a round that has just ended found other values",
                    "read it again, and decide on what it says now",
                )
            if part is not None:
                entry = replace(entry, staged=part.change.watermark)
            rollout = await self.rollouts.start(plan, by)
            if alarm is not None:
                entry = replace(entry, caution=f"Approved by {by} although {alarm}.")
                _log.warning("recommendation %s: %s", entry.id, entry.caution)
            self.store.decide(entry, "approved", by)
            self.store.follow(entry.id, rollout.state)
        finally:
            self.validity.deciding.discard(entry.id)
        await self.rollouts.ended(rollout, within_s=ANSWER_WITHIN_S)
        return self._published(self.store.get(entry.id))

    def _checked(self, entry: Entry, expected: Expected, beside: Beside) -> Part | None:
        """Raises what ``approve`` does; returns what it sets beside one watermark for all ports."""
        self.validity.check(entry, expected)
        if beside:
            return self.validity.check_beside(entry, beside, expected)
        if not entry.changes:
            raise ConflictError(
                f"recommendation {entry.id!r}",
                None,
                "it leaves the watermark as it is, unless NICs or roles are set with it",
                "approve it with these (parts, --with-nics, --with-roles), or reject it",
            )
        return None

    async def reject(self, recommendation_id: str, by: str) -> Entry:
        """Rejects a pending recommendation; raises ``ConflictError`` where it is not pending, and
        ``UnavailableError`` where the decision cannot be saved.
        """
        entry = await self._undecided(recommendation_id)
        self.validity.deciding.add(entry.id)
        try:
            rejected = self.store.decided(entry, "rejected", by)
            await self.saved.save_now(rejected)
            self.store.update(rejected)
        finally:
            self.validity.deciding.discard(entry.id)
        return self._published(rejected)

    async def by_policy(self, entry: Entry) -> None:
        """Approves a new round by policy, if the settings allow that and nothing holds it back.

        A critical alarm on its switches holds it back; for a while so does the start of the service, when no
        alarm is known yet, and a rollout that was rolled back (``hold_left_s``).
        """
        if not self.settings.rollout.auto or entry.status != "pending" or not entry.changes:
            return  # NICs are set by a person's approval alone
        if blocks := self.validity.blocks(entry):
            _log.info("recommendation %s is not approved by policy: %s", entry.id, blocks[0].reason)
            return
        left_s = hold_left_s(
            (rollout.state for rollout in self.rollouts.newest(len(self.rollouts))),
            entry.switches,
            now_s=self.rollouts.now_s(),
            hold_s=self.settings.rollout.auto_hold_s,
        )
        if left_s > 0:
            self._hold(entry, "a rollout on its switches was rolled back", duration_text(left_s))
            return
        alarm = self.alarms.holding(entry.switches)
        if alarm is not None:
            self._hold(entry, alarm, "the first round after it is cleared")
            return
        settling_s = self.alarms.settling_s()
        if settling_s > 0:
            self._hold(
                entry, "alarms from before the service started may be raised again", duration_text(settling_s)
            )
            return
        try:
            async with self.audit.change(POLICY_CALLER, "approve", entry.id) as change:
                approved = await self.approve(entry.id, POLICY)
                change.before, change.after = approved.before_and_after()
        except (RequestError, SwitchError) as error:
            _log.info("recommendation %s is not approved by policy: %s", entry.id, error)
        except Exception:
            _log.exception("recommendation %s could not be approved by policy", entry.id)

    def _published(self, entry: Entry) -> Entry:
        _log.info("recommendation %s %s by %s", entry.id, entry.status, entry.decided_by)
        self.events.publish("decision", {"id": entry.id, "status": entry.status, "by": entry.decided_by})
        return entry

    def _hold(self, entry: Entry, why: str, until: str) -> None:
        sentence = f"Not approved by policy: {why}. A person may approve it, or wait for {until}."
        _log.info("recommendation %s: %s", entry.id, sentence)
        self.store.caution(entry, sentence)

    async def _undecided(self, recommendation_id: str) -> Entry:
        """The pending one of that id; raises ``ConflictError`` with the status of one that is only in the
        database, as ``RecommendationStore.fetch`` finds it.
        """
        entry = (await self.store.fetch(recommendation_id)).undecided()
        if self.store.find(entry.id) is None:
            keep = self.settings.tuning.keep
            rule = f"only one of the newest {keep} rounds (tuning.keep) can be approved or rejected"
        elif entry.id in self.validity.deciding:
            rule = "it is being decided"
        else:
            return entry
        raise ConflictError(f"recommendation {entry.id!r}", None, rule, "look at /v1/recommendations/current")

    async def _plan(self, entry: Entry, part: Part | None) -> RolloutPlan:
        rollout_id, number = entry.id, 1
        while self.rollouts.knows(rollout_id):
            number += 1
            rollout_id = f"{entry.id}-{number}"
        return await plan_of(
            rollout_id,
            entry,
            self.settings.rollout,
            self.watcher,
            runs={name: self.fleet.runs(name) for name in entry.switches},
            written=[name for name in entry.switches if self.fleet.writes(name)],
            max_step=self.settings.tuning.max_step or math.inf,
            part=part,
        )

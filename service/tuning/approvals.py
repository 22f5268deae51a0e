"""How long the policy leaves switches alone on which a rollout was taken back; must not approve anything.

From a recommendation to a rollout: who decides, what stands in the way; must not set a switch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace

from service.auth.audit import Audit, before_and_after
from service.fleet import Fleet
from service.rollouts.manager import Rollouts
from service.rollouts.plan import plan_of
from service.rollouts.watch import Watcher
from service.tuning.gate import PushGate
from service.tuning.recommendations import Entry, RecommendationStore
from settings.errors import ConflictError, RequestError
from settings.model import Settings
from settings.security import Caller
from switches.errors import SwitchError
from switches.rollout.plan import RolloutPlan
from switches.rollout.state import Phase, RolloutState
from twin.units import duration_text

LONGEST_HOLD_S = 86_400.0


def hold_left_s(
    newest_first: Iterable[RolloutState], switches: Collection[str], *, now_s: float, hold_s: float
) -> float:
    """Seconds until the policy may approve a change of these switches; 0 or less: it may now.

    ``hold_s`` after a rollout about any of them was taken back, by whomever, twice that after a second in a
    row, and so on up to a day: the twin would recommend the same again, and the switches go back and forth.
    """
    taken_back: list[float] = []
    for state in newest_first:
        if not set(switches).intersection(state.plan.switches):
            continue
        if state.phase is Phase.DONE:
            break
        taken_back += [at_s for at_s, phase in state.phases if phase is Phase.ROLLING_BACK][-1:]
    if not taken_back:
        return 0.0
    hold_s = min(hold_s * 2.0 ** min(len(taken_back) - 1, 30), LONGEST_HOLD_S)
    return min(taken_back[0] + hold_s - now_s, hold_s)  # a clock that was set back holds no longer


ANSWER_WITHIN_S = 1.0
POLICY = "policy (rollout.auto)"
POLICY_CALLER = Caller(POLICY, frozenset(), "local")

_log = logging.getLogger("ecntwin.rollouts")


class Approvals:
    """Decisions, by operators and by policy. Use from one event loop only.

    ``written(entry)`` has a decision on disk when it returns. ``alarmed(switches)`` is a phrase where policy
    must leave them alone for an alarm, ``settling_s()`` the seconds until that can be told.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        fleet: Fleet,
        store: RecommendationStore,
        rollouts: Rollouts,
        watcher: Watcher,
        gate: PushGate,
        audit: Audit,
        written: Callable[[Entry], Awaitable[None]],
        alarmed: Callable[[Collection[str]], str | None] = lambda switches: None,
        settling_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._store = store
        self._rollouts = rollouts
        self._watcher = watcher
        self._gate = gate
        self._alarmed = alarmed
        self._settling_s = settling_s
        self._audit = audit
        self._written = written
        self._deciding: set[str] = set()

    async def approve(self, recommendation_id: str, by: str) -> Entry:
        """Begins the rollout of a pending recommendation; answers once it has ended, or after a second.

        Raises ``ConflictError`` where it is held back and devices would be written, where one of them has
        drifted, while switches are frozen or cool down, and while another rollout is about them. A critical
        alarm on them is told, in ``caution``, and keeps no person from it.
        """
        entry = self._undecided(recommendation_id)
        alarm = self._alarmed(entry.kept.switches)
        self._deciding.add(entry.id)
        try:
            plan = await self._plan(entry)
            if plan.written:
                self._check_holds(entry)
                self._check_drift(entry, plan)
            entry = self._store.pending(recommendation_id)  # a newer one may have superseded it meanwhile
            rollout = await self._rollouts.start(plan, by)
            if alarm is not None:
                entry = replace(entry, caution=f"Approved by {by} although {alarm}.")
                _log.warning("recommendation %s: %s", entry.id, entry.caution)
            self._store.decide(entry, "approved", by)
            self._store.follow(entry.id, rollout.state)
        finally:
            self._deciding.discard(entry.id)
        await self._rollouts.ended(rollout, within_s=ANSWER_WITHIN_S)
        return self._store.get(entry.id)

    async def reject(self, recommendation_id: str, by: str) -> Entry:
        """Turns a pending recommendation down; raises ``ConflictError`` where it is not, or no more, and
        ``UnavailableError`` where that cannot be written down.
        """
        entry = self._undecided(recommendation_id)
        self._deciding.add(entry.id)
        try:
            rejected = self._store.decided(entry, "rejected", by)
            await self._written(rejected)
            self._store.stands(rejected)
        finally:
            self._deciding.discard(entry.id)
        return rejected

    async def by_policy(self, entry: Entry) -> Entry | None:
        """Approves what a round has just found, where the settings want that and nothing holds it back.

        None where it does not. A critical alarm on one of its switches holds it back, and so do for a while
        the start of the service, which knows of no alarm yet, and a rollout that was taken back: see
        ``policy.hold_left_s``.
        """
        if not self._settings.rollout.auto or entry.status != "pending" or entry.holds:
            return None
        newest_first = [rollout.state for rollout in self._rollouts.newest(len(self._rollouts))]
        left_s = hold_left_s(
            newest_first,
            entry.kept.switches,
            now_s=self._rollouts.now_s(),
            hold_s=self._settings.rollout.auto_hold_s,
        )
        if left_s > 0:
            self._leave(entry, "a rollout on its switches was taken back", duration_text(left_s))
            return None
        alarm = self._alarmed(entry.kept.switches)
        if alarm is not None:
            self._leave(entry, alarm, "the first round after it is cleared")
            return None
        settling_s = self._settling_s()
        if settling_s > 0:
            self._leave(
                entry, "alarms of before the service started may come again", duration_text(settling_s)
            )
            return None
        try:
            async with self._audit.change(POLICY_CALLER, "approve", entry.id) as change:
                approved = await self.approve(entry.id, POLICY)
                change.before, change.after = before_and_after(approved.document(candidates=False))
            return approved
        except (RequestError, SwitchError) as error:
            _log.info("recommendation %s is not approved by policy: %s", entry.id, error)
        except Exception:
            _log.exception("recommendation %s could not be approved by policy", entry.id)
        return None

    def _leave(self, entry: Entry, why: str, until: str) -> None:
        sentence = f"Not approved by policy: {why}. A person may approve it, or wait for {until}."
        _log.info("recommendation %s: %s", entry.id, sentence)
        self._store.caution(entry, sentence)

    def _undecided(self, recommendation_id: str) -> Entry:
        entry = self._store.pending(recommendation_id)
        if entry.id in self._deciding:
            raise ConflictError(
                f"recommendation {entry.id!r}",
                None,
                "it is being decided",
                "look at /v1/recommendations/current",
            )
        return entry

    async def _plan(self, entry: Entry) -> RolloutPlan:
        switches = entry.kept.switches
        await self._fleet.refresh(switches, from_now=True)
        rollout_id, number = entry.id, 1
        while self._rollouts.knows(rollout_id):
            number += 1
            rollout_id = f"{entry.id}-{number}"
        return await plan_of(
            rollout_id,
            entry.id,
            entry.kept,
            entry.staged or entry.kept.watermark,
            self._settings.rollout,
            self._watcher,
            runs={name: self._fleet.runs(name) for name in switches},
            written=[name for name in switches if self._fleet.writes(name)],
            max_step=self._settings.tuning.max_step or math.inf,
        )

    def _check_holds(self, entry: Entry) -> None:
        cooling = self._gate.cooling()  # a change may have ended since the round
        holds = entry.holds or ((cooling,) if cooling else ())
        if holds:
            raise ConflictError(
                f"recommendation {entry.id!r}",
                None,
                "held back: " + " ".join(holds).removesuffix("."),
                "wait for a round without holds",
            )

    def _check_drift(self, entry: Entry, plan: RolloutPlan) -> None:
        drifted = [name for name in plan.written if self._fleet.drifted(name)]
        if drifted:
            raise ConflictError(
                f"recommendation {entry.id!r}",
                None,
                f"{', '.join(drifted[:5])} run what was not set here, and that is not overwritten",
                f"look at /v1/switches/{drifted[0]}, and POST its /adopt if that is as it should be",
            )

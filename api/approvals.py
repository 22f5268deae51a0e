"""From a recommendation to a rollout: who decides, what stands in the way; must not set a switch."""

from __future__ import annotations

import logging
import math

from api.errors import ConflictError
from api.fleet import Fleet
from api.rollouts.conductor import Rollouts
from api.rollouts.plans import plan_of
from api.rollouts.watch import Watcher
from api.settings import Settings
from api.store import Entry, RecommendationStore
from switches.rollout.plan import RolloutPlan

ANSWER_WITHIN_S = 1.0
POLICY = "policy (rollout.auto)"

_log = logging.getLogger("ecntwin.rollouts")


class Approvals:
    """Decisions, by operators and by policy. Use from one event loop only."""

    def __init__(
        self,
        settings: Settings,
        *,
        fleet: Fleet,
        store: RecommendationStore,
        rollouts: Rollouts,
        watcher: Watcher,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._store = store
        self._rollouts = rollouts
        self._watcher = watcher

    async def approve(self, recommendation_id: str, by: str) -> Entry:
        """Begins the rollout of a pending recommendation; answers once it has ended, or after a second.

        Raises ``ConflictError`` where it is held back and devices would be written, where one of them has
        drifted, while switches are frozen, and while another rollout is about them.
        """
        entry = self._store.pending(recommendation_id)
        plan = await self._plan(entry)
        if plan.written:
            self._check_holds(entry)
            self._check_drift(entry, plan)
        entry = self._store.pending(recommendation_id)  # somebody may have decided meanwhile
        rollout = await self._rollouts.start(plan, by)
        self._store.decide(entry, "approved", by)
        self._store.follow(entry.id, rollout.state)
        await self._rollouts.ended(rollout, within_s=ANSWER_WITHIN_S)
        return self._store.get(entry.id)

    def reject(self, recommendation_id: str, by: str) -> Entry:
        """Turns a pending recommendation down."""
        return self._store.decide(self._store.pending(recommendation_id), "rejected", by)

    async def by_policy(self, entry: Entry) -> None:
        """Approves what a round has just found, where the settings want that and nothing holds it back."""
        if not self._settings.rollout.auto or entry.status != "pending" or entry.holds:
            return
        try:
            await self.approve(entry.id, POLICY)
        except ConflictError as error:
            _log.info("recommendation %s is not approved by policy: %s", entry.id, error)

    async def _plan(self, entry: Entry) -> RolloutPlan:
        switches = entry.result.switches
        await self._fleet.refresh(switches)
        rollout_id, number = entry.id, 1
        while self._rollouts.knows(rollout_id):
            number += 1
            rollout_id = f"{entry.id}-{number}"
        return await plan_of(
            rollout_id,
            entry.id,
            entry.result,
            entry.staged or entry.result.recommendation.watermark,
            self._settings.rollout,
            self._watcher,
            runs={name: self._fleet.runs(name) for name in switches},
            written=[name for name in switches if self._fleet.writes(name)],
            max_step=self._settings.tuning.max_step or math.inf,
        )

    def _check_holds(self, entry: Entry) -> None:
        if entry.holds:
            raise ConflictError(
                f"recommendation {entry.id!r}",
                "an approval of one that is held back",
                " ".join(entry.holds).removesuffix("."),
                "wait for a round without holds",
            )

    def _check_drift(self, entry: Entry, plan: RolloutPlan) -> None:
        drifted = [name for name in plan.written if self._fleet.drifted(name)]
        if drifted:
            raise ConflictError(
                f"recommendation {entry.id!r}",
                f"an approval while {', '.join(drifted[:5])} run what nobody here set",
                "somebody else's setting is never overwritten unseen",
                f"look at /v1/switches/{drifted[0]}, and POST its /adopt if that is as it should be",
            )

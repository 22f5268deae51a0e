"""What outlives the service, wired together: one database, and what is written to it and read from it; must
not know telemetry, the twin or switches.

A service that starts takes up what the one before it knew: at once, or when its database is back; must not
decide anything new.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from service.auth.access import Access
from service.auth.audit import Audit
from service.auth.tokens import TokenSync
from service.events import Clocks
from service.history.service import History
from service.revisions import FROM_SETTINGS, Revisions
from service.rollouts.manager import Rollouts
from service.tuning.gate import PushGate
from service.tuning.persistence import KeptRounds, Recall
from service.tuning.recommendations import RecommendationStore
from settings.errors import SettingsError, UnavailableError
from settings.model import Settings
from store.database import Database
from store.journal import Journal
from store.recorder import Recorder
from switches.rollout.events import Approved
from telemetry.errors import TopologyError
from telemetry.topology import Topology, topology_from_json


class Remembering:
    """Nothing of it is opened before ``TakingUp`` does."""

    def __init__(self, settings: Settings, access: Access, clocks: Clocks) -> None:
        storage = settings.storage
        self.database = Database(storage.database, clock_ns=clocks.wall_ns)
        self.recorder = Recorder(self.database)
        self.journal = Journal(self.database)
        self.tokens = TokenSync(access.tokens, self.database, self.recorder, wall_ns=clocks.wall_ns)
        self.audit = Audit(self.database, self.recorder, keep_days=storage.keep_audit_days, clocks=clocks)
        access.audit = self.audit
        self.kept = KeptRounds(
            self.database,
            self.recorder,
            keep=storage.keep_recommendations,
            keep_days=storage.keep_days,
            waiting=settings.tuning.keep,  # those are in memory anyway
        )
        self.store = RecommendationStore(settings.tuning.keep, clock_ns=clocks.wall_ns, keeper=self.kept)
        self.recall = Recall(self.store, self.kept)
        self.revisions = Revisions(self.database, wall_ns=clocks.wall_ns)


EVERY_S = 2.0

_log = logging.getLogger("ecntwin.storage")


class TakingUp:
    """``declared`` is the settings' topology, ``declare`` replaces it; ``inventory`` is its file's text."""

    def __init__(
        self,
        remembering: Remembering,
        *,
        rollouts: Rollouts,
        history: History,
        gate: PushGate,
        declared: Topology | None,
        declare: Callable[[Topology], Awaitable[None]],
        inventory: str | None,
        keep: int,
        clocks: Clocks,
    ) -> None:
        self._remembering = remembering
        self._rollouts = rollouts
        self._history = history
        self._gate = gate
        self._declared = declared
        self._declare = declare
        self._inventory = inventory
        self._keep = keep
        self._clocks = clocks

    async def at_start(self) -> bool:
        """Whether it could; raises ``SettingsError`` for what no waiting mends."""
        try:
            await self._take_up()
        except UnavailableError as error:
            _log.error("nothing is set anywhere until the database can be read: %s", error)
            return False
        return True

    async def later(self) -> None:
        """Tries until it can."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self._take_up()
            except UnavailableError:
                continue
            except SettingsError as error:
                _log.error("nothing is set anywhere until the service is started anew: %s", error)
                return
            except Exception:
                _log.exception("what the database holds cannot be taken up; it is tried again")
                continue
            _log.warning("the database is back: what it holds is taken up")
            return

    async def _take_up(self) -> None:
        """Rollouts last: what comes before may be tried again, and from then on switches may be set."""
        remembering = self._remembering
        await asyncio.to_thread(remembering.database.open)
        await remembering.tokens.read()
        remembering.store.take_up(await remembering.kept.newest(self._keep))
        await self._take_up_topology()
        await self._history.alarms.restore()
        await self._rollouts.resume()
        for rollout in reversed(self._rollouts.newest(len(self._rollouts))):
            for event in rollout.events:
                if isinstance(event, Approved):
                    remembering.store.was_approved(
                        rollout.state.plan.recommendation, event.by, round(event.at_s * 1e9)
                    )
            remembering.store.follow(rollout.state.plan.recommendation, rollout.state)
        if (set_s := self._rollouts.last_set_s) is not None:
            age_s = self._clocks.wall_ns() / 1e9 - set_s
            self._gate.watermark_changed(age_s=max(age_s, 0.0))  # the clock may have been set back

    async def _take_up_topology(self) -> None:
        """Of the settings' file and what was declared since it was last read, whichever is newer."""
        revisions = self._remembering.revisions
        if self._inventory is not None:
            await revisions.loaded("inventory", self._inventory, FROM_SETTINGS)
        document = None if self._declared is None else self._declared.to_json()
        kept = await revisions.taken_up("topology", document, FROM_SETTINGS)
        if kept is None or kept == document:
            return
        try:
            topology = topology_from_json(kept, where="the topology that was declared last")
        except TopologyError as error:  # of a version that took more for a topology
            _log.error("%s: it is left aside, declare it anew", error)
            return
        await self._declare(topology)

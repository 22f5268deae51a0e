"""Everything the service persists, and its restore at start-up or once the database is available."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection

from rollout.state import Approved
from service.alarms.service import Alarms
from service.auth.access import Access
from service.auth.audit import Audit
from service.auth.tokens import TokenSync
from service.events import Clocks
from service.ingest.pipeline import IngestPipeline
from service.metrics import Metrics
from service.rollouts.manager import Rollouts
from service.switches.fleet import Fleet
from service.tuning.gate import PushGate
from service.tuning.recommendations import RecommendationStore, SavedRounds
from settings.errors import NotFoundError, SettingsError, UnavailableError
from settings.model import Settings
from settings.security import FROM_SETTINGS
from store import revisions
from store.database import Database, Recorder
from store.journal import Journal
from store.revisions import Revision
from telemetry.errors import TopologyError
from telemetry.topology import Topology, topology_from_json

Kind = Literal["topology", "inventory"]
RETRY_EVERY_S = 2.0

_log = logging.getLogger("ecntwin.storage")


class Revisions:
    """Revisions of the declared topology and the inventory. ``wall_ns`` is nanoseconds since 1970.

    Raises ``UnavailableError`` wherever the database is away.
    """

    def __init__(self, database: Database, *, wall_ns: Callable[[], int]) -> None:
        self._database = database
        self._wall_ns = wall_ns

    async def declared(self, kind: Kind, document: dict[str, Any], by: str) -> None:
        """Saves a document, where it differs from the newest of its kind."""
        await self.loaded(kind, _text(document), by)

    async def loaded(self, kind: Kind, text: str, by: str) -> None:
        """Saves a text, where it differs from the newest of its kind."""

        def add(connection: Connection) -> None:
            newest = revisions.newest(connection, kind)
            if newest is None or newest.sha256 != _sha256(text):
                self._add(connection, kind=kind, text=text, by=by)

        await self._database.write(add)

    async def restored(self, kind: Kind, document: dict[str, Any] | None, by: str) -> dict[str, Any] | None:
        """The document in force at start-up: ``document`` from the settings, or the newest of its kind.

        The settings win where they have changed since the last start.
        """

        def take(connection: Connection) -> dict[str, Any] | None:
            if document is not None:
                of_settings = revisions.newest(connection, kind, by)
                if of_settings is None or of_settings.sha256 != _sha256(_text(document)):
                    self._add(connection, kind=kind, text=_text(document), by=by)
                    return document
            newest = revisions.newest(connection, kind)
            return document if newest is None else json.loads(newest.document)

        return await self._database.write(take)

    async def listed(self, kind: Kind | None, limit: int, before: int | None = None) -> list[Revision]:
        """The newest first; ``before``: only those with a lower number."""
        return await self._database.read(lambda connection: revisions.listed(connection, kind, limit, before))

    async def one(self, number: int) -> Revision:
        """Raises ``NotFoundError``."""
        found = await self._database.read(lambda connection: revisions.one(connection, number))
        if found is None:
            raise NotFoundError(f"revision {number}", None, "not found", "list them at /v1/revisions")
        return found

    def _add(self, connection: Connection, *, kind: Kind, text: str, by: str) -> None:
        revisions.add(
            connection, kind=kind, at_ns=self._wall_ns(), by=by, sha256=_sha256(text), document=text
        )


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Persistence:
    """One database and what is stored in it; ``Restore`` opens it."""

    def __init__(self, settings: Settings, access: Access, clocks: Clocks) -> None:
        storage = settings.storage
        self.database = Database(storage.database, clock_ns=clocks.wall_ns)
        self.recorder = Recorder(self.database)
        self.journal = Journal(self.database)
        self.tokens = TokenSync(access.tokens, self.database, self.recorder, wall_ns=clocks.wall_ns)
        self.audit = Audit(self.database, self.recorder, keep_days=storage.keep_audit_days, clocks=clocks)
        access.audit = self.audit
        self.rounds = SavedRounds(
            self.database,
            self.recorder,
            keep=storage.keep_recommendations,
            keep_days=storage.keep_days,
            waiting=settings.tuning.keep,  # in memory anyway
            monotonic_s=clocks.monotonic_s,
        )
        self.store = RecommendationStore(settings.tuning.keep, self.rounds, clock_ns=clocks.wall_ns)
        self.revisions = Revisions(self.database, wall_ns=clocks.wall_ns)


@dataclass(kw_only=True)
class DeclaredTopology:
    """The declared topology; ``from_settings`` is the one in the settings' file."""

    from_settings: Topology | None
    revisions: Revisions
    pipeline: IngestPipeline
    fleet: Fleet
    metrics: Metrics

    async def declare(self, topology: Topology, by: str) -> None:
        """Replaces the declared topology and makes adapters for its switches.

        Raises ``UnavailableError``, with nothing replaced, where it cannot be saved.
        """
        await self.revisions.declared("topology", topology.to_json(), by)
        await self._replace(topology)

    async def restore(self) -> None:
        """The topology in the settings' file or the one last declared, whichever is newer."""
        document = None if self.from_settings is None else self.from_settings.to_json()
        saved = await self.revisions.restored("topology", document, FROM_SETTINGS)
        if saved is None or saved == document:
            return
        try:
            topology = topology_from_json(saved, where="the topology that was declared last")
        except TopologyError as error:  # saved by a version that accepted more
            _log.error("%s: it is ignored, declare it again", error)
            return
        await self._replace(topology)

    async def _replace(self, topology: Topology) -> None:
        await self.pipeline.declare(topology)
        self.fleet.declared(topology.switches)
        self.metrics.keep_switches(set(self.fleet.names))


@dataclass(kw_only=True)
class Restore:
    """Restores the state of earlier services; ``inventory`` is the text of the inventory."""

    persistence: Persistence
    rollouts: Rollouts
    alarms: Alarms
    gate: PushGate
    topology: DeclaredTopology
    inventory: str | None
    keep: int
    clocks: Clocks

    async def at_start(self) -> bool:
        """False where the database is unavailable; raises ``SettingsError`` for what no retry solves."""
        try:
            await self._restore()
        except UnavailableError as error:
            _log.error("no switch is set until the database can be read: %s", error)
            self.persistence.store.begin_unread()
            return False
        return True

    async def retry(self) -> None:
        while True:
            await asyncio.sleep(RETRY_EVERY_S)
            try:
                await self._restore()
            except UnavailableError:
                continue
            except SettingsError as error:
                _log.error("no switch is set until the service is restarted: %s", error)
                return
            except Exception:
                _log.exception("the state could not be restored; it is tried again")
                continue
            _log.warning("the database is back: its state is restored")
            return

    async def _restore(self) -> None:
        """Restores rollouts last: the steps before may be repeated, and from then on switches may be set."""
        persistence, store = self.persistence, self.persistence.store
        await asyncio.to_thread(persistence.database.open)
        await persistence.tokens.read()
        # Before the recommendations, which expire where the topology lacks their switches.
        await self.topology.restore()
        store.restore(await persistence.rounds.newest(self.keep))
        if self.inventory is not None:
            await persistence.revisions.loaded("inventory", self.inventory, FROM_SETTINGS)
        await self.alarms.restore()
        await self.rollouts.resume()
        for rollout in reversed(self.rollouts.newest(len(self.rollouts))):
            recommendation = rollout.state.plan.recommendation
            for event in rollout.events:
                if isinstance(event, Approved):
                    store.was_approved(recommendation, event.by, round(event.at_s * 1e9))
            store.follow(recommendation, rollout.state)
        if (set_s := self.rollouts.last_set_s) is not None:
            age_s = self.clocks.wall_ns() / 1e9 - set_s
            self.gate.watermark_changed(age_s=max(age_s, 0.0))  # the clock may have been set back since

"""What outlives the service, wired together: one database, and what is written to it and read from it; must
not know telemetry, the twin or switches.
"""

from __future__ import annotations

from service.auth.access import Access
from service.auth.audit import Audit
from service.auth.stored_tokens import StoredTokens
from service.clocks import Clocks
from service.revisions import Revisions
from service.tuning.persistence import KeptRounds
from service.tuning.recall import Recall
from service.tuning.recommendations import RecommendationStore
from settings.model import Settings
from store.database import Database
from store.journal import Journal
from store.recorder import Recorder


class Remembering:
    """Nothing of it is opened before ``TakingUp`` does."""

    def __init__(self, settings: Settings, access: Access, clocks: Clocks) -> None:
        storage = settings.storage
        self.database = Database(storage.database, clock_ns=clocks.wall_ns)
        self.recorder = Recorder(self.database)
        self.journal = Journal(self.database)
        self.tokens = StoredTokens(access.tokens, self.database, self.recorder, wall_ns=clocks.wall_ns)
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

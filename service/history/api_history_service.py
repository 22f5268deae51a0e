"""All that is written down of what was: queues, alarms, residuals; must not be asked for any of it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from service.clocks import Clocks
from service.documents.recommendation import RecommendationDocument
from service.history.recording import QueueHistory
from service.history.service import AlarmHistory
from service.ingest.port_figures import PortFigures
from service.ingest.window_owner import Sensing
from settings.model import Settings
from settings.steps import DAY_S
from store import residual_rows, rows
from store.database import Database
from store.queues import NS_PER_S
from store.recorder import Recorder
from store.residual_rows import ResidualRow

TIDIED_EVERY_S = 60.0
PRUNED_AT_ONCE = 5_000
MOST_ALARMS = 1_000_000
MOST_ALARMS_IN_MEMORY = 10_000

_log = logging.getLogger("ecntwin.history")


class History:
    """``queues`` and ``alarms`` as they are written down. Use from one event loop only."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        recorder: Recorder,
        *,
        sensing: Sensing,
        ports: PortFigures,
        clocks: Clocks,
    ) -> None:
        self._recorder = recorder
        self._clocks = clocks
        self._keep_ns = round(settings.storage.keep_days * DAY_S * NS_PER_S)
        self._most_alarms = MOST_ALARMS if database.durable else MOST_ALARMS_IN_MEMORY
        self.queues = QueueHistory(
            settings.storage.steps(),
            recorder=recorder,
            durable=database.durable,
            sensing=sensing,
            ports=ports,
            clock_s=clocks.monotonic_s,
            wall_ns=clocks.wall_ns,
        )
        self.alarms = AlarmHistory(
            database,
            recorder,
            take_over_s=settings.alarms.forget_s,
            clock_s=clocks.monotonic_s,
            wall_ns=clocks.wall_ns,
        )

    @property
    def lost(self) -> int:
        """Entries that the database did not take in time, or refused, since the service began."""
        return self._recorder.dropped + self.queues.lost

    async def run_forever(self) -> None:
        """Writes queues down, and removes what is too old."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self.queues.run_forever(), name="queue-history")
            both.create_task(self._tidy_forever(), name="history-tidied")

    def round_ended(self, found: RecommendationDocument) -> None:
        """Puts down how far the twin was from what was measured in a round's window."""
        row = ResidualRow(
            self._clocks.wall_ns(),
            found.id,
            found.incumbent.queue_mean_bytes,
            found.measured.queue_mean_bytes,
        )
        self._recorder.put(partial(residual_rows.put, row=row))

    def tidy(self) -> None:
        """Removes some of what is too old, and ends alarms that ended with a service before this one."""
        self.alarms.settle()
        before_ns = self._clocks.wall_ns() - self._keep_ns
        self._recorder.put(
            partial(rows.prune, ended_before_ns=before_ns, keep=self._most_alarms, most=PRUNED_AT_ONCE),
            key="prune alarms",
        )
        self._recorder.put(
            partial(residual_rows.prune, before_ns=before_ns, most=PRUNED_AT_ONCE), key="prune residuals"
        )

    async def _tidy_forever(self) -> None:
        while True:
            await asyncio.sleep(TIDIED_EVERY_S)
            try:
                self.tidy()
            except Exception:
                _log.exception("the history could not be tidied; it is tried again")

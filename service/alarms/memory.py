"""What alarms ask of the database: whether it takes what is written, and what it did not; must not write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from service.metrics_storage import StorageMetrics
from store.database import Database
from telemetry.alarms.board import Finding, Subject


class Memory:
    """``knows`` is whether what was begun before the service started is taken up; ``lost`` counts entries of
    the history that were never written.
    """

    def __init__(
        self,
        database: Database,
        *,
        knows: Callable[[], bool],
        waiting: Callable[[], int],
        lost: Callable[[], int],
        metrics: StorageMetrics,
    ) -> None:
        self._database = database
        self._knows = knows
        self._lost = lost
        self._metrics = metrics
        self._lost_before = 0
        metrics.follow(failing=lambda: self.failing is not None, waiting=waiting)

    @property
    def failing(self) -> str | None:
        """Why nothing can be decided, None where it can: the database cannot be written, or was not read."""
        if self._database.failing is not None:
            return f"the database cannot be written ({self._database.failing})"
        return None if self._knows() else "the database could not be read, and what was begun is not known"

    def findings(self) -> Iterator[Finding]:
        """Of storage and of the history, since the last time."""
        failing = self.failing
        yield Finding(
            Subject("storage", "the database"),
            float(failing is not None),
            "What is decided can be written down"
            if failing is None
            else f"No switch is set: {failing}. Reports are taken and advice is given as before",
        )
        lost, before = self._lost(), self._lost_before
        self._lost_before = lost
        self._metrics.lost(lost - before)
        yield Finding(
            Subject("history_lost", "the history"),
            float(lost > before),
            f"{lost - before} entries of the history could not wait for the database any longer: in its "
            "figures there is a gap",
        )

"""Metrics of what is written down; must not know where."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class StorageMetrics:
    """Whether the database takes what is written, what waits for it, and what did for too long."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.failing = Gauge(
            "ecntwin_storage_failing",
            "1 while the database cannot be written, or was not read yet: no switch is set meanwhile.",
            registry=registry,
        )
        self.waiting = Gauge(
            "ecntwin_storage_waiting",
            "Entries of the history that wait to be written.",
            registry=registry,
        )
        self.dropped = Counter(
            "ecntwin_storage_dropped",
            "Entries of the history that waited for too long, or were refused, and are lost.",
            registry=registry,
        )

    def follow(self, *, failing: Callable[[], bool], waiting: Callable[[], int]) -> None:
        """Asks these whenever it is read."""
        self.failing.set_function(lambda: float(failing()))
        self.waiting.set_function(waiting)

    def lost(self, number: int) -> None:
        """So many more entries are lost."""
        self.dropped.inc(number)

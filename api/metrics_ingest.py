"""Metrics of bodies on their way to the window, for the service and for an ingest process alike."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class IngestMetrics:
    """What waits, and what was refused because too much did."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.refused = Counter(
            "ecntwin_ingest_refused",
            "Posted bodies that were not taken because too many bytes were waiting already.",
            registry=registry,
        )
        self.pending_bytes = Gauge(
            "ecntwin_ingest_pending_bytes",
            "Bytes of posted bodies being received or waiting.",
            registry=registry,
        )

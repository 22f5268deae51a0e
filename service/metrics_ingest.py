"""Metrics of bodies and datagrams on their way to the window, for the service and for an ingest process
alike.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

UDP_DROPS = ("queue", "kernel", "refused", "truncated")


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


class UdpMetrics:
    """Datagrams received, lost and waiting."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received = Counter(
            "ecntwin_udp_datagrams_received",
            "Datagrams of telemetry reports received by UDP, dropped ones too.",
            registry=registry,
        )
        self.dropped = Counter(
            "ecntwin_udp_datagrams_dropped",
            "Datagrams lost, by where: queue (full), kernel (its buffer full, not received), refused (the "
            "sender may not send), truncated (too long).",
            ["where"],
            registry=registry,
        )
        for where in UDP_DROPS:
            self.dropped.labels(where)
        self.queue = Gauge(
            "ecntwin_udp_queue_datagrams", "Datagrams that wait to be decoded.", registry=registry
        )

"""Every metric of an ingest process; must not declare one that a service has with another meaning."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Info
from prometheus_client.exposition import choose_encoder

from service.binary_metrics import BinaryMetrics
from service.metrics_access import AccessMetrics
from service.metrics_ingest import IngestMetrics, UdpMetrics


class ForwardMetrics:
    """What was decoded here, and what became of it there."""

    def __init__(self, registry: CollectorRegistry, *, version: str) -> None:
        self._registry = registry
        self.ingest = IngestMetrics(registry)
        self.udp = UdpMetrics(registry)
        self.binary = BinaryMetrics(registry)
        self.access = AccessMetrics(registry)
        self.decoded = Counter(
            "ecntwin_ingest_reports_decoded", "INT reports decoded here.", registry=registry
        )
        self.malformed = Counter(
            "ecntwin_ingest_reports_malformed",
            "INT reports left out here because they cannot be used.",
            registry=registry,
        )
        self.bodies = Counter(
            "ecntwin_ingest_bodies_malformed", "Posted bodies that held no reports at all.", registry=registry
        )
        self.forwarded = Counter(
            "ecntwin_ingest_reports_forwarded",
            "INT reports that the service was given, those it left out too.",
            registry=registry,
        )
        self.left_out = Counter(
            "ecntwin_ingest_reports_left_out",
            "INT reports that the service was given and left out.",
            registry=registry,
        )
        self.retries = Counter(
            "ecntwin_ingest_forward_retries",
            "Times the service did not take what it was given, and it was tried again.",
            registry=registry,
        )
        Info("ecntwin_build", "What is running.", registry=registry).info({"version": version})

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics as text, and its media type, as the ``Accept`` header asks."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type
